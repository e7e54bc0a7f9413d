//! What becomes of the answer to a job: the objects of each environment without secrets, as they are kept
//! and as they are reviewed.

use super::failure::{bound, failure};
use super::kept::{Member, Rendered};
use super::opinion::opinion;
use super::rendering::{Job, Outcome};
use crate::jsonnet::Import;
use crate::model::RepoPath;
use crate::redact::Redactor;
use crate::review::Failure;
use crate::tanka::importers::Closure;
use crate::tanka::{Object, TankaError, Whole};
use bytes::Bytes;
use serde_json::Value;
use std::borrow::Cow;
use std::sync::Arc;

/// The objects of each environment of an entry point, redacted. They are at hand for once, and not kept:
/// their texts are.
pub(super) type Values = Vec<Vec<Value>>;

/// What became of a job.
pub(super) struct Settled {
    pub(super) entrypoint: RepoPath,
    pub(super) outcome: Outcome,
    /// The key to keep it by, if it may be kept.
    pub(super) key: Option<String>,
    pub(super) values: Values,
}

/// What came of an entry point. A failure is not kept: it may be chance. Neither is a value that depends on
/// more than its key was made from.
pub(super) fn settle((job, answer): (Job, Result<Whole, TankaError>), redactor: &Redactor) -> Settled {
    match answer {
        Ok(whole) => {
            let key = covers(&job.closure, &whole.imports).then_some(job.key);
            let (rendered, values) = rendered(whole, redactor);
            Settled {
                entrypoint: job.entrypoint,
                outcome: Ok(Arc::new(rendered)),
                key,
                values,
            }
        }
        Err(error) => Settled {
            entrypoint: job.entrypoint,
            outcome: Err(failure(&error)),
            key: None,
            values: Values::new(),
        },
    }
}

pub(super) fn covers(closure: &Closure, imports: &[Import]) -> bool {
    imports.iter().all(|import| match import {
        Import::Read { path, .. } | Import::Absent { path } => closure.dependencies.contains_key(path),
    })
}

fn rendered(whole: Whole, redactor: &Redactor) -> (Rendered, Values) {
    let members = whole.members.into_iter().map(|member| {
        let written = match member.objects {
            Ok(objects) => written(objects, redactor),
            Err(error) => Err(failure(&error)),
        };
        let (objects, values) = match written {
            Ok((texts, values)) => (Ok(texts), values),
            Err(failure) => (Err(failure), Vec::new()),
        };
        let member = Member {
            name: member.name,
            namespace: member.namespace,
            settings: member.settings.map(Arc::new),
            objects,
        };
        (member, values)
    });
    let (members, values): (Vec<Member>, Values) = members.unzip();
    let rendered = Rendered {
        members: members.into(),
        value: whole.value,
        opinion: opinion(whole.second_opinion),
    };
    (rendered, values)
}

/// Each object without secrets, and its place in one text of them all.
fn written(objects: Vec<Object>, redactor: &Redactor) -> Result<(Vec<Bytes>, Vec<Value>), Failure> {
    let mut values: Vec<Value> = objects.into_iter().map(|object| object.value).collect();
    let (mut text, mut ends) = (Vec::new(), Vec::with_capacity(values.len()));
    for value in &mut values {
        redact(value, redactor);
        serde_json::to_writer(&mut text, value).map_err(|error| bound(&error))?;
        ends.push(text.len());
    }
    let (text, mut start) = (Bytes::from(text), 0);
    let place = |end| text.slice(std::mem::replace(&mut start, end)..end);
    Ok((ends.into_iter().map(place).collect(), values))
}

/// Takes secrets out of every text of an object. Different secrets stay different. Depth is that of a
/// value that was read, which the reader bounds.
pub(super) fn redact(value: &mut Value, redactor: &Redactor) {
    match value {
        Value::String(text) => {
            if let Cow::Owned(redacted) = redactor.redact(text) {
                *text = redacted;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| redact(item, redactor)),
        Value::Object(fields) => fields.values_mut().for_each(|field| redact(field, redactor)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
