//! The words about environments that move, and the grants they take. Two sides count: who changes where an
//! environment lives writes to what lives there, too.

use super::{Moved, Moves};
use crate::compare::{CompareError, settled};
use crate::model::{Need, one_line, quoted};
use crate::redact::Redactor;
use crate::review::{SettingChange, SettingsChange, SettingsHappen};
use crate::tanka::{Environment, Neighbourhood, Place, Reached, settings};
use serde_json::Value;
use std::collections::BTreeMap;

/// Characters of a reason that stands among other words.
const WHY_CHARS_MAX: usize = 200;
/// Grants that a change takes one by one; one that takes more takes a grant for all.
const NEEDS_MAX: usize = 1_000;
/// The name of all environments, where it is not known which are reached or too many are: the glob of a grant for all.
const ANYONE: &str = "**";

/// The words about them, and the grants they take.
#[derive(Clone, Debug, Default)]
pub(in crate::compare) struct Said {
    pub(in crate::compare) changes: Vec<SettingsChange>,
    /// The grants that are needed: one for each environment at most, sorted.
    pub(in crate::compare) needs: Vec<Need>,
}

impl Said {
    /// Returns the grant for all, where it could not be found out which are needed.
    pub(in crate::compare) fn unknown() -> Self {
        let unknown = Moves::unknown("the change was not compared");
        Self::or_all(unknown.said(&Redactor::new(Vec::new()), &|| false))
    }

    /// Returns what was found out; a grant for all on an error.
    fn or_all(said: Result<Self, CompareError>) -> Self {
        said.unwrap_or_else(|error| Self {
            changes: Vec::new(),
            needs: vec![Need {
                environment: None,
                because: format!("nobody knows which environments move ({error})"),
            }],
        })
    }
}

/// The grants that were found to be needed, each with the first reason for it.
#[derive(Default)]
struct Needs(BTreeMap<Option<String>, String>);

impl Needs {
    fn add(&mut self, environment: &Option<String>, because: impl FnOnce() -> String) {
        if !self.0.contains_key(environment) {
            self.0.insert(environment.clone(), because());
        }
    }

    fn into_list(mut self) -> Vec<Need> {
        let count = self.0.len();
        if count > NEEDS_MAX {
            let because = format!("{count} environments get other settings or are where others go");
            let because = self.0.remove(&None).unwrap_or(because);
            self.0 = BTreeMap::from([(None, because)]);
        }
        let need = |(environment, because)| Need { environment, because };
        self.0.into_iter().map(need).collect()
    }
}

impl Moves {
    /// Returns the words about them, without secrets, and the grants they take, of which nothing is hidden.
    pub(in crate::compare) fn said(
        &self,
        redactor: &Redactor,
        stopped: &dyn Fn() -> bool,
    ) -> Result<Said, CompareError> {
        let going: Vec<Option<Place>> = self.moved.iter().map(Moved::goes_to).collect();
        let neighbourhood = Neighbourhood::new(&self.residents, going.iter().flatten(), stopped);
        let neighbourhood = neighbourhood.ok_or(CompareError::Cancelled)?;
        let (mut changes, mut needs) = (Vec::new(), Needs::default());
        for (moved, to) in self.moved.iter().zip(&going) {
            if stopped() {
                return Err(CompareError::Cancelled);
            }
            let reached = to.as_ref().map(|to| neighbourhood.reached(&moved.owner, to));
            moved.needs(reached.as_ref(), redactor, &mut needs);
            changes.push(moved.told(names(reached), redactor));
        }
        changes.sort_by(|one, other| one.environment.cmp(&other.environment));
        Ok(Said {
            changes,
            needs: needs.into_list(),
        })
    }
}

/// The directories of those that are reached, sorted.
fn names(reached: Option<Reached<'_>>) -> Vec<String> {
    match reached {
        None => Vec::new(),
        Some(Reached::Anyone) => vec![ANYONE.to_owned()],
        Some(Reached::These(owners)) => {
            let owners = owners.into_iter();
            let mut names: Vec<String> = owners
                .map(|owner| owner.clone().unwrap_or_else(|| ".".to_owned()))
                .collect();
            names.sort_unstable();
            names
        }
    }
}

impl Moved {
    fn needs(&self, reached: Option<&Reached<'_>>, redactor: &Redactor, needs: &mut Needs) {
        let name = quoted(&redactor.redact(&self.name));
        needs.add(&self.owner, || format!("the settings of {name} change"));
        if let Err(why) = &self.after {
            needs.add(&None, || {
                let why: String = one_line(&redactor.redact(why))
                    .chars()
                    .take(WHY_CHARS_MAX)
                    .collect();
                format!("nobody knows where {name} goes ({why})")
            });
        }
        match reached {
            None => {}
            Some(Reached::Anyone) => {
                needs.add(&None, || format!("{name} goes to where any environment may live"))
            }
            Some(Reached::These(owners)) => owners.iter().for_each(|owner| {
                needs.add(owner, || {
                    let there = quoted(owner.as_deref().unwrap_or("."));
                    format!("{name} goes to where {there} lives")
                });
            }),
        }
    }

    fn told(&self, reaches: Vec<String>, redactor: &Redactor) -> SettingsChange {
        let settings = |after: Option<&Environment>| {
            let differing = settings::differing(self.before.as_ref(), after).into_iter();
            let redacted = |value: Option<Value>| {
                value.map(|mut value| {
                    settled::redact(&mut value, redactor);
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
            (_, Err(why)) => SettingsHappen::NotCompared {
                why: redactor.redact(why).into_owned(),
            },
            (Some(_), Ok(Some(after))) => SettingsHappen::Changed {
                settings: settings(Some(after)),
            },
            (None, Ok(Some(after))) => SettingsHappen::Added {
                settings: settings(Some(after)),
            },
            (_, Ok(None)) => SettingsHappen::Removed {
                settings: settings(None),
            },
        };
        SettingsChange {
            environment: redactor.redact(&self.name).into_owned(),
            happens,
            reaches,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Said;
    use crate::compare::CompareError;

    #[test]
    fn what_nobody_found_out_takes_a_grant_for_all() {
        let takes_all = |said: Said| said.needs.len() == 1 && said.needs[0].environment.is_none();
        assert!(takes_all(Said::unknown()));
        assert!(takes_all(Said::or_all(Err(CompareError::Cancelled))));
    }
}
