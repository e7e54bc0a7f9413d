//! The result of rendering an entry point: the objects of each environment without secrets, for the cache and for
//! the review.

use super::cross_check::verdict;
use super::failure::{failure, nesting_failure};
use super::render_cache::{CachedEnvironment, CachedRender};
use super::rendering::{RenderJob, RenderOutcome};
use super::secrets::{self, EntrypointSecrets};
use crate::base::model::RepoPath;
use crate::base::redact::{KnownSecret, Redactor};
use crate::base::spool::Spool;
use crate::rendering::jsonnet::Import;
use crate::rendering::review::RenderFailure;
use crate::rendering::tanka::importers::{Closure, ImportGraph};
use crate::rendering::tanka::{Object, RenderedEntrypoint, TankaError};
use crate::state::workspace::Tree;
use bytes::Bytes;
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::sync::Arc;

/// The redacted objects of each environment of an entry point. They are used once and not cached. The cache has
/// their texts.
pub(super) type RedactedObjects = Vec<Vec<Value>>;

/// The result of rendering one entry point.
pub(super) struct RenderResult {
    pub(super) entrypoint: RepoPath,
    pub(super) outcome: RenderOutcome,
    /// The cache key, if it may be cached.
    pub(super) key: Option<String>,
    pub(super) values: RedactedObjects,
    /// The secrets that the entry point knows.
    pub(super) secrets: Arc<[KnownSecret]>,
}

/// The inputs for finding secrets.
#[derive(Clone, Copy)]
pub(super) struct RedactionContext<'a> {
    pub(super) redactor: &'a Arc<Redactor>,
    /// The store for large texts.
    pub(super) spool: &'a Spool,
    pub(super) tree: &'a dyn Tree,
    pub(super) graph: &'a ImportGraph,
    /// The secrets of the entry points that others import.
    pub(super) inner_secrets: &'a EntrypointSecrets,
}

/// Builds the result for an entry point. Not cached are: failures, which may be temporary; values that depend on
/// more than the inputs in the key; values with unknown secrets.
pub(super) fn render_result(
    (job, answer): (RenderJob, Result<RenderedEntrypoint, TankaError>),
    context: RedactionContext<'_>,
) -> RenderResult {
    let mut known = secrets::secrets_of_files(&job.closure, context.tree, context.redactor);
    let mut are_all_known = true;
    for inner in secrets::inner_entrypoints(&job, context.graph) {
        match context.inner_secrets.get(inner) {
            Some(Some(held)) => known.extend_from_slice(held),
            Some(None) | None => are_all_known = false,
        }
    }
    if let Ok(whole) = &answer {
        known.extend(secrets::secrets_of_rendered(whole, context.redactor));
    }
    let known: Arc<[KnownSecret]> = known.into();
    let redactor = secrets::with_secrets(context.redactor, &known);
    let secrets = Arc::clone(&known);
    match answer {
        Ok(whole) => {
            let may_be_kept = are_all_known && covers_imports(&job.closure, &whole.imports);
            let (rendered, values) = cached_render(whole, &redactor, known, context.spool);
            RenderResult {
                entrypoint: job.entrypoint,
                outcome: Ok(Arc::new(rendered)),
                key: may_be_kept.then_some(job.key),
                values,
                secrets,
            }
        }
        Err(error) => RenderResult {
            entrypoint: job.entrypoint,
            outcome: Err(failure(&error, &redactor)),
            key: None,
            values: RedactedObjects::new(),
            secrets,
        },
    }
}

pub(super) fn covers_imports(closure: &Closure, imports: &[Import]) -> bool {
    imports.iter().all(|import| match import {
        Import::Read { path, .. } | Import::Absent { path } => closure.dependencies.contains_key(path),
    })
}

fn cached_render(
    whole: RenderedEntrypoint,
    redactor: &Redactor,
    secrets: Arc<[KnownSecret]>,
    spool: &Spool,
) -> (CachedRender, RedactedObjects) {
    let members = whole.members.into_iter().map(|member| {
        let written = match member.objects {
            Ok(objects) => write_objects(objects, redactor, spool),
            Err(error) => Err(failure(&error, redactor)),
        };
        let (objects, values) = match written {
            Ok((texts, values)) => (Ok(texts), values),
            Err(failure) => (Err(failure), Vec::new()),
        };
        let member = CachedEnvironment {
            name: member.name,
            namespace: member.namespace,
            settings: member.settings.map(Arc::new),
            objects,
        };
        (member, values)
    });
    let (members, values): (Vec<CachedEnvironment>, RedactedObjects) = members.unzip();
    let rendered = CachedRender {
        members: members.into(),
        value: whole.value,
        cross_check: verdict(whole.cross_check, redactor),
        secrets,
    };
    (rendered, values)
}

/// Writes each object without secrets, and returns its position in one joined text.
fn write_objects(
    objects: Vec<Object>,
    redactor: &Redactor,
    spool: &Spool,
) -> Result<(Vec<Bytes>, Vec<Value>), RenderFailure> {
    let mut values: Vec<Value> = objects.into_iter().map(|object| object.value).collect();
    let (mut text, mut ends) = (Vec::new(), Vec::with_capacity(values.len()));
    for value in &mut values {
        redact(value, redactor);
        serde_json::to_writer(&mut text, value).map_err(|error| nesting_failure(&error))?;
        ends.push(text.len());
    }
    let (text, mut start) = (spool.keep(text), 0);
    let place = |end| text.slice(std::mem::replace(&mut start, end)..end);
    Ok((ends.into_iter().map(place).collect(), values))
}

/// Removes secrets from every text in an object. Different secrets stay distinguishable. The parser has limited the
/// nesting depth.
pub(super) fn redact(value: &mut Value, redactor: &Redactor) {
    match value {
        Value::String(text) => {
            if let Cow::Owned(redacted) = redactor.redact(text) {
                *text = redacted;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| redact(item, redactor)),
        Value::Object(fields) => {
            // The values of a `Secret` are masked during the review, so that a change of them is visible.
            let is_secret = fields.get("kind").and_then(Value::as_str) == Some("Secret");
            for (name, field) in fields.iter_mut() {
                match field {
                    Value::Object(entries) if is_secret && is_data(name) => redact_names(entries, redactor),
                    _ if is_secret && is_data(name) => {}
                    _ => redact(field, redactor),
                }
            }
            redact_names(fields, redactor);
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// True for the fields of a `Secret` that hold its values.
fn is_data(name: &str) -> bool {
    ["data", "stringData"].contains(&name)
}

/// Removes learnt secrets from field names, which a program can compute from anything.
fn redact_names(fields: &mut Map<String, Value>, redactor: &Redactor) {
    const NAME_BYTES_MIN: usize = 8;
    let may_hide = fields.keys().any(|name| name.len() >= NAME_BYTES_MIN) && redactor.has_learned_secrets();
    if !may_hide
        || !fields
            .keys()
            .any(|name| matches!(redactor.redact(name), Cow::Owned(_)))
    {
        return;
    }
    let all = std::mem::take(fields);
    let all = all
        .into_iter()
        .map(|(name, field)| (redactor.redact(&name).into_owned(), field));
    fields.extend(all);
}

#[cfg(test)]
mod tests {
    use super::redact;
    use crate::base::redact::Redactor;
    use serde_json::json;

    /// The values of a `Secret` are masked during the review. Its field names are redacted as elsewhere.
    #[test]
    fn names_in_a_secret_show_no_other_secret() {
        let redactor = Redactor::new([]);
        redactor.learn(&redactor.secrets_in_entry("opens", "kept-to-ourselves-4711"));
        let mut object = json!({ "kind": "Secret", "data": { "kept-to-ourselves-4711": "eA==", "b": "kept-to-ourselves-4711" } });
        redact(&mut object, &redactor);
        let expected = json!({ "kind": "Secret", "data": { "\u{27e6}secret:1\u{27e7}": "eA==", "b": "kept-to-ourselves-4711" } });
        assert_eq!(object, expected);
    }
}
