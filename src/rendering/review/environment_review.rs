//! The review of one environment: whether its objects change, the proof, and the risks in them.

use super::canonical;
use super::diff::{self, ObjectChange, WriteYaml};
use super::input::{EnvironmentRendering, ReviewedEnvironment, SideResult};
use super::mask::{Masker, may_hold_secrets};
use super::number;
use super::pair;
use super::proof::{Impact, NotProven, Proof};
use super::report::Presence;
use super::risk::{self, Rule, RuleFinding};
use crate::base::parallel;
use serde_json::Value;

/// The results for one environment.
pub(super) struct EnvironmentReview {
    pub(super) presence: Presence,
    /// The proof that the objects do not change, or the reason why there is none; `None` if they change.
    pub(super) impact: Option<Impact>,
    pub(super) changes: Vec<ObjectChange>,
    pub(super) findings: Vec<(&'static Rule, RuleFinding)>,
}

/// Converts a side with a too deeply nested object to a failed one.
pub(super) fn bound_nesting(environment: &mut ReviewedEnvironment) {
    let EnvironmentRendering::Rendered {
        base,
        workspace,
        same,
    } = &mut environment.rendering
    else {
        return;
    };
    let of_both = same.iter_mut().try_for_each(number::unify);
    for side in [base, workspace] {
        let SideResult::Objects(objects) = side else {
            continue;
        };
        let own = objects.iter_mut().try_for_each(number::unify);
        if let Err(failure) = of_both.clone().and(own) {
            *side = SideResult::Failed(failure);
        }
    }
}

pub(super) fn mask(environments: &mut [ReviewedEnvironment], key: &[u8]) {
    let secret = parallel::map(environments.iter_mut().collect(), secrets);
    let secret: Vec<&mut Value> = secret.into_iter().flatten().collect();
    let masker = Masker::with_distinct_marks(key, secret.iter().map(|object| &**object));
    parallel::map(secret, |object| masker.mask(object));
}

fn secrets(environment: &mut ReviewedEnvironment) -> Vec<&mut Value> {
    let all = objects_mut(&mut environment.rendering);
    all.filter(|object| may_hold_secrets(object)).collect()
}

/// Returns every object of an environment on both sides.
fn objects_mut(rendering: &mut EnvironmentRendering) -> impl Iterator<Item = &mut Value> {
    let (sides, same) = match rendering {
        EnvironmentRendering::ClosureUnchanged { .. } | EnvironmentRendering::NotLookedAt { .. } => {
            (None, None)
        }
        EnvironmentRendering::Rendered {
            base,
            workspace,
            same,
        } => (Some([base, workspace]), Some(same)),
    };
    let of_sides = sides.into_iter().flatten().flat_map(|side| match side {
        SideResult::Objects(objects) => objects.as_mut_slice(),
        SideResult::Absent | SideResult::Failed(_) => &mut [],
    });
    of_sides.chain(same.into_iter().flatten())
}

fn objects(side: &SideResult) -> &[Value] {
    match side {
        SideResult::Objects(objects) => objects,
        SideResult::Absent | SideResult::Failed(_) => &[],
    }
}

/// Reviews the rendered objects of an environment, and then drops them.
pub(super) fn review_environment(rendering: EnvironmentRendering, yaml: WriteYaml<'_>) -> EnvironmentReview {
    let (base, workspace, same) = match rendering {
        EnvironmentRendering::ClosureUnchanged { closure } => {
            return EnvironmentReview::without_changes(
                Presence::Kept,
                unaffected(Proof::ClosureUnchanged { closure }),
            );
        }
        EnvironmentRendering::NotLookedAt { why } => {
            let reason = NotProven::NotLookedAt { why };
            return EnvironmentReview::without_changes(Presence::Kept, Impact::NotProven { reason });
        }
        EnvironmentRendering::Rendered {
            base,
            workspace,
            same,
        } => (base, workspace, same),
    };
    let presence = presence(&base, &workspace);
    if let Some(reason) = not_proven(&base, &workspace) {
        return EnvironmentReview::without_changes(presence, Impact::NotProven { reason });
    }
    let (before, after) = (objects(&base), objects(&workspace));
    let pairs = pair::pairs(before, after, &same);
    if !pairs.iter().any(|pair| pair.is_changed) {
        let proof = Proof::SameObjects {
            sha256: rendered_hash(after.iter().chain(&same)),
            objects: after.len() + same.len(),
        };
        return EnvironmentReview::without_changes(presence, unaffected(proof));
    }
    EnvironmentReview {
        presence,
        impact: None,
        changes: diff::changes(&pairs, yaml),
        findings: risk::findings(&pairs),
    }
}

impl EnvironmentReview {
    fn without_changes(presence: Presence, standing: Impact) -> Self {
        Self {
            presence,
            impact: Some(standing),
            changes: Vec::new(),
            findings: Vec::new(),
        }
    }
}

fn unaffected(proof: Proof) -> Impact {
    Impact::Unaffected { proof }
}

fn presence(base: &SideResult, workspace: &SideResult) -> Presence {
    match (base == &SideResult::Absent, workspace == &SideResult::Absent) {
        (true, false) => Presence::Created,
        (false, true) => Presence::Deleted,
        (true, true) | (false, false) => Presence::Kept,
    }
}

fn not_proven(base: &SideResult, workspace: &SideResult) -> Option<NotProven> {
    let failure = |side: &SideResult| match side {
        SideResult::Failed(failure) => Some(failure.clone()),
        SideResult::Absent | SideResult::Objects(_) => None,
    };
    match (failure(base), failure(workspace)) {
        (Some(base), Some(workspace)) => Some(NotProven::FailsOnBoth { base, workspace }),
        (Some(base), None) => Some(NotProven::FailsOnBase { base }),
        (None, Some(workspace)) => Some(NotProven::FailsInWorkspace { workspace }),
        (None, None) => None,
    }
}

/// Returns the hash of masked objects in a fixed order.
fn rendered_hash<'a>(objects: impl Iterator<Item = &'a Value>) -> String {
    let mut texts: Vec<String> = objects.map(canonical::text).collect();
    texts.sort();
    canonical::hash(texts.iter().map(String::as_str))
}
