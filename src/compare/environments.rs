//! What is reviewed: every environment under a name of its own, with what each side came to.

use super::CompareError;
use super::affected::Touched;
use super::kept::{Member, Opinion, Rendered};
use super::rendering::{Both, Outcome};
use crate::model::RepoPath;
use crate::parallel;
use crate::redact::Redactor;
use crate::review::{Environment, Failure, FailureKind, Rendering, Side};
use crate::tanka::TankaError;
use crate::tanka::importers::ImportGraph;
use bytes::Bytes;
use serde_json::Value;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The environments of one entry point by name; a name that is there again is counted.
type Members<'a> = BTreeMap<(&'a str, usize), &'a Member>;

/// Everything that is reviewed, in the order of entry points.
pub(super) fn environments(touched: &Touched, both: Both, redactor: &Redactor) -> Vec<Environment> {
    let mut found: Vec<(&RepoPath, Environment)> = Vec::new();
    for (entrypoint, closure) in &touched.untouched {
        let rendering = Rendering::ClosureUnchanged {
            closure: closure.clone(),
        };
        found.push((entrypoint, whole(touched, entrypoint, rendering)));
    }
    let (all, most) = (touched.affected.len(), touched.rendered_max);
    for entrypoint in touched.left_out() {
        let why = format!("the change touches {all} entry points, and at most {most} are rendered");
        found.push((
            entrypoint,
            whole(touched, entrypoint, Rendering::NotLookedAt { why }),
        ));
    }
    let rendered = parallel::map(touched.rendered().collect(), |entrypoint| {
        let sides = (both.base.get(entrypoint), both.workspace.get(entrypoint));
        (entrypoint, environments_of(touched, entrypoint, sides, redactor))
    });
    for (entrypoint, of) in rendered {
        found.extend(of.into_iter().map(|environment| (entrypoint, environment)));
    }
    with_names_of_their_own(found)
}

/// Only the environment of a name, or else the ones whose names contain it; all without a name. What
/// stands for a whole entry point stays.
pub(super) fn named(
    mut environments: Vec<Environment>,
    name: Option<&str>,
) -> Result<Vec<Environment>, CompareError> {
    let Some(name) = name else {
        return Ok(environments);
    };
    let is_whole = |environment: &Environment| !matches!(environment.rendering, Rendering::Rendered { .. });
    let is_there = environments.iter().any(|environment| environment.name == name);
    environments.retain(|environment| match is_there {
        true => environment.name == name,
        false => is_whole(environment) || environment.name.contains(name),
    });
    match environments.is_empty() {
        true => Err(TankaError::NoMatch {
            path: name.to_owned(),
        }
        .into()),
        false => Ok(environments),
    }
}

/// Every environment of what was rendered, and why it has no objects that can be relied on.
pub(super) fn failures(
    graph: &ImportGraph,
    outcomes: &BTreeMap<RepoPath, Outcome>,
    redactor: &Redactor,
) -> Vec<(String, Option<Failure>)> {
    let mut found = Vec::new();
    for (entrypoint, outcome) in outcomes {
        match outcome {
            Err(failure) => {
                let closure = graph.closures().get(entrypoint);
                let name = closure.map_or(entrypoint.as_str(), |closure| closure.layout.name());
                found.push((name.to_owned(), Some(redacted(failure, redactor))));
            }
            Ok(rendered) => found.extend(rendered.members.iter().map(|member| {
                let failure = dispute(rendered).or_else(|| member.objects.as_ref().err().cloned());
                let failure = failure.map(|failure| redacted(&failure, redactor));
                (member.name.clone(), failure)
            })),
        }
    }
    found
}

/// One line for all environments of an entry point: which they are is not known without rendering it.
fn whole(touched: &Touched, entrypoint: &RepoPath, rendering: Rendering) -> Environment {
    let name = touched
        .closure(entrypoint)
        .map_or(entrypoint.as_str(), |closure| closure.layout.name());
    Environment {
        name: name.to_owned(),
        namespace: String::new(),
        rendering,
    }
}

fn environments_of(
    touched: &Touched,
    entrypoint: &RepoPath,
    (base, workspace): (Option<&Outcome>, Option<&Outcome>),
    redactor: &Redactor,
) -> Vec<Environment> {
    let (before, after) = (members(base), members(workspace));
    let names: BTreeSet<(&str, usize)> = before.keys().chain(after.keys()).copied().collect();
    let failed = |side: Option<&Outcome>| side.is_some_and(Result::is_err);
    if names.is_empty() && (failed(base) || failed(workspace)) {
        let rendering = Rendering::Rendered {
            base: side(base, None, redactor),
            workspace: side(workspace, None, redactor),
        };
        return vec![whole(touched, entrypoint, rendering)];
    }
    let environment = |name: (&str, usize)| {
        let (was, is) = (before.get(&name).copied(), after.get(&name).copied());
        Environment {
            name: match name {
                (name, 1) => name.to_owned(),
                (name, place) => format!("{name} (no. {place})"),
            },
            namespace: is
                .or(was)
                .map(|member| member.namespace.clone())
                .unwrap_or_default(),
            rendering: Rendering::Rendered {
                base: side(base, was, redactor),
                workspace: side(workspace, is, redactor),
            },
        }
    };
    names.into_iter().map(environment).collect()
}

fn members(outcome: Option<&Outcome>) -> Members<'_> {
    let mut members = Members::new();
    let Some(Ok(rendered)) = outcome else {
        return members;
    };
    let mut seen: HashMap<&str, usize> = HashMap::new();
    for member in &rendered.members {
        let place = seen.entry(&member.name).or_default();
        *place += 1;
        members.insert((&member.name, *place), member);
    }
    members
}

fn side(outcome: Option<&Outcome>, member: Option<&Member>, redactor: &Redactor) -> Side {
    match (outcome, member) {
        (None, _) => Side::Absent,
        (Some(Err(failure)), _) => Side::Failed(redacted(failure, redactor)),
        (Some(Ok(_)), None) => Side::Absent,
        (Some(Ok(rendered)), Some(member)) => match dispute(rendered) {
            Some(failure) => Side::Failed(redacted(&failure, redactor)),
            None => match &member.objects {
                Ok(objects) => read(objects, redactor),
                Err(failure) => Side::Failed(redacted(failure, redactor)),
            },
        },
    }
}

fn dispute(rendered: &Rendered) -> Option<Failure> {
    let message = match &rendered.opinion {
        Opinion::Differs { path } => format!("the two engines disagree at `{path}`"),
        Opinion::Refuses { why } => format!("one engine has a value, and the other says: {why}"),
        Opinion::NotAsked | Opinion::Agrees | Opinion::Unfinished { .. } => return None,
    };
    let kind = FailureKind::Disputed;
    Some(Failure { kind, message })
}

fn redacted(failure: &Failure, redactor: &Redactor) -> Failure {
    Failure {
        kind: failure.kind,
        message: redactor.redact(&failure.message).into_owned(),
    }
}

fn read(objects: &Bytes, redactor: &Redactor) -> Side {
    match serde_json::from_slice::<Vec<Value>>(objects) {
        Ok(mut objects) => {
            objects.iter_mut().for_each(|object| redact(object, redactor));
            Side::Objects(objects)
        }
        Err(err) => Side::Failed(Failure {
            kind: FailureKind::Bound,
            message: err.to_string(),
        }),
    }
}

/// Takes secrets out of every text of an object. Different secrets stay different. Depth is that of a
/// value that was read, which the reader bounds.
fn redact(value: &mut Value, redactor: &Redactor) {
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

/// Two environments of one name are told apart by the file they start with.
fn with_names_of_their_own(found: Vec<(&RepoPath, Environment)>) -> Vec<Environment> {
    let mut count: HashMap<String, usize> = HashMap::new();
    for (_, environment) in &found {
        *count.entry(environment.name.clone()).or_default() += 1;
    }
    let own = |(entrypoint, environment): (&RepoPath, Environment)| Environment {
        name: match count.get(&environment.name) {
            Some(1) | None => environment.name,
            Some(_) => format!("{} ({entrypoint})", environment.name),
        },
        ..environment
    };
    found.into_iter().map(own).collect()
}
