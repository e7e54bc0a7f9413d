//! The texts about environments that move, and the grants they require. A move also needs grants for the
//! environments at the new destination, because it can write to their objects.

use super::{EnvironmentMove, EnvironmentMoves};
use crate::base::model::{RequiredGrant, one_line, quoted};
use crate::base::redact::Redactor;
use crate::rendering::compare::{CompareError, render_result};
use crate::rendering::review::{SettingChange, SettingsChange, SettingsChangeKind};
use crate::rendering::tanka::{Destination, DestinationIndex, Environment, ReachedOwners, settings};
use serde_json::Value;
use std::collections::BTreeMap;

/// Maximum length of a reason inside a sentence, in characters.
const WHY_CHARS_MAX: usize = 200;
/// Maximum number of individual grants. A change that needs more requires a grant for all environments.
const NEEDS_MAX: usize = 1_000;
/// The glob of a grant for all environments. It is used if the reached environments are unknown or too many.
const ANYONE: &str = "**";

/// The texts about moved environments, and the required grants.
#[derive(Clone, Debug, Default)]
pub(in crate::rendering::compare) struct MoveReport {
    pub(in crate::rendering::compare) changes: Vec<SettingsChange>,
    /// The required grants, at most one for each environment, sorted.
    pub(in crate::rendering::compare) needs: Vec<RequiredGrant>,
}

impl MoveReport {
    /// Returns the grant for all environments, for a change whose required grants could not be determined.
    pub(in crate::rendering::compare) fn unknown() -> Self {
        let unknown = EnvironmentMoves::unknown("the change was not compared");
        Self::or_all_grants(unknown.report(&Redactor::new(Vec::new()), &|| false))
    }

    /// Returns the report, or a grant for all environments on an error.
    fn or_all_grants(said: Result<Self, CompareError>) -> Self {
        said.unwrap_or_else(|error| Self {
            changes: Vec::new(),
            needs: vec![RequiredGrant {
                environment: None,
                because: format!("it is unknown which environments move ({error})"),
            }],
        })
    }
}

/// The required grants, each with the first reason for it.
#[derive(Default)]
struct Needs(BTreeMap<Option<String>, String>);

impl Needs {
    fn add(&mut self, environment: &Option<String>, because: impl FnOnce() -> String) {
        if !self.0.contains_key(environment) {
            self.0.insert(environment.clone(), because());
        }
    }

    fn into_list(mut self) -> Vec<RequiredGrant> {
        let count = self.0.len();
        if count > NEEDS_MAX {
            let because =
                format!("{count} environments get other settings or are at the destination of others");
            let because = self.0.remove(&None).unwrap_or(because);
            self.0 = BTreeMap::from([(None, because)]);
        }
        let need = |(environment, because)| RequiredGrant { environment, because };
        self.0.into_iter().map(need).collect()
    }
}

impl EnvironmentMoves {
    /// Returns the redacted texts, and the required grants without redaction.
    pub(in crate::rendering::compare) fn report(
        &self,
        redactor: &Redactor,
        stopped: &dyn Fn() -> bool,
    ) -> Result<MoveReport, CompareError> {
        let going: Vec<Option<Destination>> =
            self.moved.iter().map(EnvironmentMove::new_destination).collect();
        let index = DestinationIndex::new(&self.existing, going.iter().flatten(), stopped);
        let index = index.ok_or(CompareError::Cancelled)?;
        let (mut changes, mut needs) = (Vec::new(), Needs::default());
        for (moved, to) in self.moved.iter().zip(&going) {
            if stopped() {
                return Err(CompareError::Cancelled);
            }
            let reached = to.as_ref().map(|to| index.owners_reached(&moved.owner, to));
            moved.needs(reached.as_ref(), redactor, &mut needs);
            changes.push(moved.settings_change(names(reached), redactor));
        }
        changes.sort_by(|one, other| one.environment.cmp(&other.environment));
        Ok(MoveReport {
            changes,
            needs: needs.into_list(),
        })
    }
}

/// Returns the directories of the reached environments, sorted.
fn names(reached: Option<ReachedOwners<'_>>) -> Vec<String> {
    match reached {
        None => Vec::new(),
        Some(ReachedOwners::All) => vec![ANYONE.to_owned()],
        Some(ReachedOwners::Owners(owners)) => {
            let owners = owners.into_iter();
            let mut names: Vec<String> = owners
                .map(|owner| owner.clone().unwrap_or_else(|| ".".to_owned()))
                .collect();
            names.sort_unstable();
            names
        }
    }
}

impl EnvironmentMove {
    fn needs(&self, reached: Option<&ReachedOwners<'_>>, redactor: &Redactor, needs: &mut Needs) {
        let name = quoted(&redactor.redact(&self.name));
        needs.add(&self.owner, || format!("the settings of {name} change"));
        if let Err(why) = &self.after {
            needs.add(&None, || {
                let why: String = one_line(&redactor.redact(why))
                    .chars()
                    .take(WHY_CHARS_MAX)
                    .collect();
                format!("the destination of {name} is unknown ({why})")
            });
        }
        match reached {
            None => {}
            Some(ReachedOwners::All) => needs.add(&None, || {
                format!("{name} moves to a destination that any environment may have")
            }),
            Some(ReachedOwners::Owners(owners)) => owners.iter().for_each(|owner| {
                needs.add(owner, || {
                    let there = quoted(owner.as_deref().unwrap_or("."));
                    format!("{name} moves to the destination of {there}")
                });
            }),
        }
    }

    fn settings_change(&self, reaches: Vec<String>, redactor: &Redactor) -> SettingsChange {
        let settings = |after: Option<&Environment>| {
            let differing = settings::changed_settings(self.before.as_ref(), after).into_iter();
            let redacted = |value: Option<Value>| {
                value.map(|mut value| {
                    render_result::redact(&mut value, redactor);
                    value
                })
            };
            let settings = differing.map(|(path, before, after)| SettingChange {
                path: redactor.redact(&path).into_owned(),
                before: redacted(before),
                after: redacted(after),
            });
            settings.collect()
        };
        let happens = match (&self.before, &self.after) {
            (_, Err(why)) => SettingsChangeKind::NotCompared {
                why: redactor.redact(why).into_owned(),
            },
            (Some(_), Ok(Some(after))) => SettingsChangeKind::Changed {
                settings: settings(Some(after)),
            },
            (None, Ok(Some(after))) => SettingsChangeKind::Added {
                settings: settings(Some(after)),
            },
            (_, Ok(None)) => SettingsChangeKind::Removed {
                settings: settings(None),
            },
        };
        SettingsChange {
            environment: redactor.redact(&self.name).into_owned(),
            kind: happens,
            reaches,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::MoveReport;
    use crate::rendering::compare::CompareError;

    #[test]
    fn an_undetermined_move_requires_a_grant_for_all_environments() {
        let takes_all = |said: MoveReport| said.needs.len() == 1 && said.needs[0].environment.is_none();
        assert!(takes_all(MoveReport::unknown()));
        assert!(takes_all(MoveReport::or_all_grants(Err(CompareError::Cancelled))));
    }
}
