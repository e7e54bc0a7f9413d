//! The reviewed environments with unique names, and the results on each side.

use super::CompareError;
use super::affected::TouchedEntrypoints;
use super::failure::{nesting_failure, redacted_trace};
use super::render_cache::{CachedEnvironment, CachedRender, CrossCheckVerdict};
use super::render_result::RedactedObjects;
use super::rendering::{RenderOutcome, RenderedSides};
use super::validate::DependentEnvironment;
use crate::base::model::{RepoPath, quoted};
use crate::base::parallel;
use crate::base::redact::Redactor;
use crate::rendering::review::{
    EnvironmentRendering, FailureKind, RenderFailure, ReviewedEnvironment, SideResult,
};
use crate::rendering::tanka::TankaError;
use crate::rendering::tanka::importers::ImportGraph;
use bytes::Bytes;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The environments of one entry point with their positions, by name. A counter distinguishes equal names.
type Members<'a> = BTreeMap<(&'a str, usize), (usize, &'a CachedEnvironment)>;

/// Returns the reviewed environments in the order of the entry points.
pub(super) fn environments(
    touched: &TouchedEntrypoints,
    mut both: RenderedSides,
    redactor: &Redactor,
) -> Vec<ReviewedEnvironment> {
    let mut found: Vec<(&RepoPath, ReviewedEnvironment)> = Vec::new();
    for (entrypoint, closure) in &touched.untouched {
        let rendering = EnvironmentRendering::ClosureUnchanged {
            closure: closure.clone(),
        };
        found.push((entrypoint, unrendered_entrypoint(touched, entrypoint, rendering)));
    }
    let (all, most) = (touched.affected.len(), touched.rendered_max);
    for entrypoint in touched.left_out() {
        let why = format!("the change touches {all} entry points, and at most {most} are rendered");
        found.push((
            entrypoint,
            unrendered_entrypoint(touched, entrypoint, EnvironmentRendering::NotLookedAt { why }),
        ));
    }
    let mut values = std::mem::take(&mut both.values);
    let rendered = touched.rendered();
    let rendered = rendered.map(|entrypoint| (entrypoint, values.remove(entrypoint).unwrap_or_default()));
    let rendered = parallel::map(rendered.collect(), |(entrypoint, values)| {
        let sides = (both.base.get(entrypoint), both.workspace.get(entrypoint));
        let environments = environments_of(touched, entrypoint, sides, values, redactor);
        (entrypoint, environments)
    });
    for (entrypoint, of) in rendered {
        found.extend(of.into_iter().map(|environment| (entrypoint, environment)));
    }
    with_unique_names(found)
}

/// Returns the environment with a name, or else those whose names contain it. Returns all without a name. An entry
/// for a whole entry point is always kept.
pub(super) fn find_by_name(
    mut environments: Vec<ReviewedEnvironment>,
    name: Option<&str>,
) -> Result<Vec<ReviewedEnvironment>, CompareError> {
    let Some(name) = name else {
        return Ok(environments);
    };
    let is_whole = |environment: &ReviewedEnvironment| {
        !matches!(environment.rendering, EnvironmentRendering::Rendered { .. })
    };
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

/// Returns every environment of an entry point with the reason why it has no reliable objects. Nothing is redacted
/// yet.
pub(super) fn failures(
    graph: &ImportGraph,
    entrypoint: &RepoPath,
    outcome: &RenderOutcome,
) -> Vec<DependentEnvironment> {
    match outcome {
        Err(failure) => {
            let closure = graph.closures().get(entrypoint);
            let name = closure.map_or(entrypoint.as_str(), |closure| closure.layout.name());
            vec![DependentEnvironment {
                name: name.to_owned(),
                failure: Some(failure.clone()),
            }]
        }
        Ok(rendered) => {
            let members = rendered.members.iter().map(|member| DependentEnvironment {
                name: member.name.clone(),
                failure: dispute(rendered).or_else(|| member.objects.as_ref().err().cloned()),
            });
            members.collect()
        }
    }
}

/// Returns one entry for all environments of an entry point. Without rendering, the single environments are
/// unknown.
fn unrendered_entrypoint(
    touched: &TouchedEntrypoints,
    entrypoint: &RepoPath,
    rendering: EnvironmentRendering,
) -> ReviewedEnvironment {
    let name = touched
        .closure(entrypoint)
        .map_or(entrypoint.as_str(), |closure| closure.layout.name());
    ReviewedEnvironment {
        name: name.to_owned(),
        namespace: String::new(),
        rendering,
    }
}

fn environments_of(
    touched: &TouchedEntrypoints,
    entrypoint: &RepoPath,
    (base, workspace): (Option<&RenderOutcome>, Option<&RenderOutcome>),
    mut values: RedactedObjects,
    redactor: &Redactor,
) -> Vec<ReviewedEnvironment> {
    let (before, after) = (members(base), members(workspace));
    let names: BTreeSet<(&str, usize)> = before.keys().chain(after.keys()).copied().collect();
    let failed = |side: Option<&RenderOutcome>| side.is_some_and(Result::is_err);
    if names.is_empty() && (failed(base) || failed(workspace)) {
        let rendering = rendering((base, None), (workspace, None), Vec::new(), redactor);
        return vec![unrendered_entrypoint(touched, entrypoint, rendering)];
    }
    let environment = |name: (&str, usize)| {
        let was = before.get(&name).map(|(_, member)| *member);
        let is = after.get(&name).map(|(_, member)| *member);
        let place = after.get(&name).map_or(usize::MAX, |(place, _)| *place);
        let values = values.get_mut(place).map(std::mem::take).unwrap_or_default();
        ReviewedEnvironment {
            name: match name {
                (name, 1) => name.to_owned(),
                (name, place) => format!("{name} (no. {place})"),
            },
            namespace: is
                .or(was)
                .map(|member| member.namespace.clone())
                .unwrap_or_default(),
            rendering: rendering((base, was), (workspace, is), values, redactor),
        }
    };
    names.into_iter().map(environment).collect()
}

fn members(outcome: Option<&RenderOutcome>) -> Members<'_> {
    let mut members = Members::new();
    let Some(Ok(rendered)) = outcome else {
        return members;
    };
    let mut seen: HashMap<&str, usize> = HashMap::new();
    for (place, member) in rendered.members.iter().enumerate() {
        let count = seen.entry(&member.name).or_default();
        *count += 1;
        members.insert((&member.name, *count), (place, member));
    }
    members
}

/// An entry point and one of its environments, on one side.
type OneSide<'a> = (Option<&'a RenderOutcome>, Option<&'a CachedEnvironment>);

/// Returns the rendering of an environment on both sides. Objects with equal texts on both sides are parsed once.
/// Objects in `values`, which are those of the workspace or none, are not parsed at all.
fn rendering(
    base: OneSide<'_>,
    workspace: OneSide<'_>,
    values: Vec<Value>,
    redactor: &Redactor,
) -> EnvironmentRendering {
    let (base, workspace) = (texts(base, redactor), texts(workspace, redactor));
    let both = match (&base, &workspace) {
        (Ok(base), Ok(workspace)) => in_both(base, workspace),
        (_, _) => TextCounts::new(),
    };
    let (own, mut same) = (both.clone(), Vec::new());
    let base = base.map(|texts| {
        let own = texts
            .iter()
            .scan(own, |both, text| Some((text, take_text(both, text))));
        let own = own.filter(|(_, is_same)| !is_same);
        own.map(|(text, _)| read(text)).collect()
    });
    let workspace = workspace.map(|texts| {
        let mut values = values.into_iter();
        let mut own = Vec::new();
        let mut left = both;
        for text in texts {
            let value = values.next().map_or_else(|| read(text), Ok)?;
            match take_text(&mut left, text) {
                true => same.push(value),
                false => own.push(value),
            }
        }
        Ok(own)
    });
    let side = |side: Result<Result<Vec<Value>, RenderFailure>, SideResult>| match side {
        Ok(objects) => objects.map_or_else(SideResult::Failed, SideResult::Objects),
        Err(side) => side,
    };
    EnvironmentRendering::Rendered {
        base: side(base),
        workspace: side(workspace),
        same,
    }
}

/// Returns the texts of the objects of a side, or the result of a side without objects.
fn texts<'a>((outcome, member): OneSide<'a>, redactor: &Redactor) -> Result<&'a [Bytes], SideResult> {
    match (outcome, member) {
        (None, _) => Err(SideResult::Absent),
        (Some(Err(failure)), _) => Err(SideResult::Failed(redacted(failure, redactor))),
        (Some(Ok(_)), None) => Err(SideResult::Absent),
        (Some(Ok(rendered)), Some(member)) => match (dispute(rendered), &member.objects) {
            (None, Ok(texts)) => Ok(texts),
            (Some(failure), _) => Err(SideResult::Failed(redacted(&failure, redactor))),
            (None, Err(failure)) => Err(SideResult::Failed(redacted(failure, redactor))),
        },
    }
}

/// Texts and their numbers of occurrences.
type TextCounts<'a> = HashMap<&'a Bytes, usize>;

/// Returns the texts that both sides contain.
fn in_both<'a>(base: &'a [Bytes], workspace: &[Bytes]) -> TextCounts<'a> {
    let mut left: HashMap<&Bytes, usize> = HashMap::new();
    for text in workspace {
        *left.entry(text).or_default() += 1;
    }
    let mut both = HashMap::new();
    for text in base {
        if let Some(count) = left.get_mut(text).filter(|count| **count > 0) {
            *count -= 1;
            *both.entry(text).or_default() += 1;
        }
    }
    both
}

/// Removes one occurrence of a text and returns true if there was one.
fn take_text(counted: &mut TextCounts<'_>, text: &Bytes) -> bool {
    match counted.get_mut(text) {
        Some(count) if *count > 0 => {
            *count -= 1;
            true
        }
        Some(_) | None => false,
    }
}

fn read(text: &Bytes) -> Result<Value, RenderFailure> {
    serde_json::from_slice(text).map_err(|error| nesting_failure(&error))
}

pub(super) fn dispute(rendered: &CachedRender) -> Option<RenderFailure> {
    let message = match &rendered.cross_check {
        CrossCheckVerdict::Differs { path } => format!("the two engines disagree at {}", quoted(path)),
        CrossCheckVerdict::Refuses { why } => format!("one engine has a value, and the other fails: {why}"),
        CrossCheckVerdict::NotAsked
        | CrossCheckVerdict::Agrees
        | CrossCheckVerdict::DiffersAsKnown { .. }
        | CrossCheckVerdict::Unfinished { .. } => {
            return None;
        }
    };
    let kind = FailureKind::Disputed;
    Some(RenderFailure {
        kind,
        message,
        trace: Vec::new(),
    })
}

/// Redacts a failure for display.
pub(super) fn redacted(failure: &RenderFailure, redactor: &Redactor) -> RenderFailure {
    RenderFailure {
        kind: failure.kind,
        message: redactor.redact(&failure.message).into_owned(),
        trace: redacted_trace(&failure.trace, redactor),
    }
}

/// Makes the names of environments unique by adding the entry point to equal names.
fn with_unique_names(found: Vec<(&RepoPath, ReviewedEnvironment)>) -> Vec<ReviewedEnvironment> {
    let mut count: HashMap<String, usize> = HashMap::new();
    for (_, environment) in &found {
        *count.entry(environment.name.clone()).or_default() += 1;
    }
    let own = |(entrypoint, environment): (&RepoPath, ReviewedEnvironment)| ReviewedEnvironment {
        name: match count.get(&environment.name) {
            Some(1) | None => environment.name,
            Some(_) => format!("{} ({entrypoint})", environment.name),
        },
        ..environment
    };
    found.into_iter().map(own).collect()
}
