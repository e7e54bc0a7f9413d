//! The look at one environment: whether its objects change, how that is known, and the findings in them.

use super::canonical;
use super::diff::{self, ObjectChange, WriteYaml};
use super::input::{Environment, Rendering, Side};
use super::mask::{Masker, may_hold_secrets};
use super::number;
use super::pair;
use super::proof::{NotProven, Proof, Standing};
use super::report::Presence;
use super::risk::{self, Finding, Rule};
use crate::parallel;
use serde_json::Value;

/// The findings in one environment.
pub(super) struct Look {
    pub(super) presence: Presence,
    /// The proof that the objects do not change, or the reason there is none; `None` when they change.
    pub(super) settled: Option<Standing>,
    pub(super) changes: Vec<ObjectChange>,
    pub(super) findings: Vec<(&'static Rule, Finding)>,
}

/// An object that nests without end counts as a side that did not render.
pub(super) fn bound(environment: &mut Environment) {
    let Rendering::Rendered {
        base,
        workspace,
        same,
    } = &mut environment.rendering
    else {
        return;
    };
    let of_both = same.iter_mut().try_for_each(number::unify);
    for side in [base, workspace] {
        let Side::Objects(objects) = side else { continue };
        let own = objects.iter_mut().try_for_each(number::unify);
        if let Err(failure) = of_both.clone().and(own) {
            *side = Side::Failed(failure);
        }
    }
}

pub(super) fn mask(environments: &mut [Environment], key: &[u8]) {
    let secret = parallel::map(environments.iter_mut().collect(), secrets);
    let secret: Vec<&mut Value> = secret.into_iter().flatten().collect();
    let masker = Masker::telling_apart(key, secret.iter().map(|object| &**object));
    parallel::map(secret, |object| masker.mask(object));
}

fn secrets(environment: &mut Environment) -> Vec<&mut Value> {
    let all = all(&mut environment.rendering);
    all.filter(|object| may_hold_secrets(object)).collect()
}

/// Returns every object of an environment, on whichever side it is.
fn all(rendering: &mut Rendering) -> impl Iterator<Item = &mut Value> {
    let (sides, same) = match rendering {
        Rendering::ClosureUnchanged { .. } | Rendering::NotLookedAt { .. } => (None, None),
        Rendering::Rendered {
            base,
            workspace,
            same,
        } => (Some([base, workspace]), Some(same)),
    };
    let of_sides = sides.into_iter().flatten().flat_map(|side| match side {
        Side::Objects(objects) => objects.as_mut_slice(),
        Side::Absent | Side::Failed(_) => &mut [],
    });
    of_sides.chain(same.into_iter().flatten())
}

fn objects(side: &Side) -> &[Value] {
    match side {
        Side::Objects(objects) => objects,
        Side::Absent | Side::Failed(_) => &[],
    }
}

/// Looks at what an environment rendered to, and lets go of it.
pub(super) fn look(rendering: Rendering, yaml: WriteYaml<'_>) -> Look {
    let (base, workspace, same) = match rendering {
        Rendering::ClosureUnchanged { closure } => {
            return Look::settled(Presence::Kept, unaffected(Proof::ClosureUnchanged { closure }));
        }
        Rendering::NotLookedAt { why } => {
            let reason = NotProven::NotLookedAt { why };
            return Look::settled(Presence::Kept, Standing::NotProven { reason });
        }
        Rendering::Rendered {
            base,
            workspace,
            same,
        } => (base, workspace, same),
    };
    let presence = presence(&base, &workspace);
    if let Some(reason) = not_proven(&base, &workspace) {
        return Look::settled(presence, Standing::NotProven { reason });
    }
    let (before, after) = (objects(&base), objects(&workspace));
    let pairs = pair::pairs(before, after, &same);
    if !pairs.iter().any(|pair| pair.is_changed) {
        let proof = Proof::SameObjects {
            sha256: rendered_hash(after.iter().chain(&same)),
            objects: after.len() + same.len(),
        };
        return Look::settled(presence, unaffected(proof));
    }
    Look {
        presence,
        settled: None,
        changes: diff::changes(&pairs, yaml),
        findings: risk::findings(&pairs),
    }
}

impl Look {
    fn settled(presence: Presence, standing: Standing) -> Self {
        Self {
            presence,
            settled: Some(standing),
            changes: Vec::new(),
            findings: Vec::new(),
        }
    }
}

fn unaffected(proof: Proof) -> Standing {
    Standing::Unaffected { proof }
}

fn presence(base: &Side, workspace: &Side) -> Presence {
    match (base == &Side::Absent, workspace == &Side::Absent) {
        (true, false) => Presence::Created,
        (false, true) => Presence::Deleted,
        (true, true) | (false, false) => Presence::Kept,
    }
}

fn not_proven(base: &Side, workspace: &Side) -> Option<NotProven> {
    let failure = |side: &Side| match side {
        Side::Failed(failure) => Some(failure.clone()),
        Side::Absent | Side::Objects(_) => None,
    };
    match (failure(base), failure(workspace)) {
        (Some(base), Some(workspace)) => Some(NotProven::FailsOnBoth { base, workspace }),
        (Some(base), None) => Some(NotProven::FailsOnBase { base }),
        (None, Some(workspace)) => Some(NotProven::FailsInWorkspace { workspace }),
        (None, None) => None,
    }
}

/// The hash of masked objects in a fixed order.
fn rendered_hash<'a>(objects: impl Iterator<Item = &'a Value>) -> String {
    let mut texts: Vec<String> = objects.map(canonical::text).collect();
    texts.sort();
    canonical::hash(texts.iter().map(String::as_str))
}
