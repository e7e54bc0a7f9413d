//! The review of a change, as far as it can be known without a cluster: the objects that differ, the environments that get the same change,
//! proof for those that get none, and the risks.
//!
//! Pure: no I/O, no clock, no async. The same input gives the same [`Report`], in whatever order it
//! comes. Values of secrets are masked before anything looks at them. A model may explain a report; it
//! has no part in it.

mod asked;
mod canonical;
mod card;
mod classes;
mod counts;
mod diff;
mod fields;
mod input;
mod key;
mod look;
mod mask;
mod neutral;
mod number;
mod pair;
mod patch;
mod path;
mod proof;
mod report;
mod risk;
mod settings;
mod summary;
mod visible;

pub use asked::AskedFor;
pub use classes::{Class, Difference, Transition};
pub use diff::{Happens, ObjectChange, WriteYaml};
pub use fields::FieldChange;
pub use input::{Environment, Failure, FailureKind, File, Input, Rendering, Side};
pub use key::ObjectKey;
pub use mask::{Held, Masker};
pub use proof::{NotProven, Proof, Standing};
pub use report::{Counts, EnvironmentReport, FileLine, Presence, Report, Risk, RiskFinding};
pub use risk::{Rule, Severity, documentation, rules};
pub use settings::{SettingChange, SettingsChange, SettingsHappen};

use crate::parallel;
use asked::Request;
use look::Look;
use std::collections::BTreeMap;

/// Reviews a change. `mask_key` is the key of this process for the marks of secret values; `yaml`
/// writes an object as it is shown.
pub fn review(input: Input, mask_key: &[u8], yaml: WriteYaml<'_>) -> Report {
    let Input {
        mut environments,
        mut settings,
        mut files,
        request,
    } = input;
    environments.sort_by(|one, other| one.name.cmp(&other.name));
    files.sort_by(|one, other| one.path.cmp(&other.path));
    settings.sort_by(|one, other| one.environment.cmp(&other.environment));
    parallel::map(environments.iter_mut().collect(), look::bound);
    look::mask(&mut environments, mask_key);
    let looks: Vec<Look> = parallel::map(environments.iter_mut().collect(), |environment| {
        look::look(environment.rendering.take(), yaml)
    });
    let request = Request::new(&request);
    let classes = classes::classes(&affected(&environments, &looks));
    let risks = card::card(environments.iter().zip(&looks), &settings);
    let mut report = Report {
        settings,
        counts: Counts::default(),
        files: file_lines(files, &request),
        environments: environment_reports(environments, looks, &classes, &request),
        classes,
        risks,
    };
    report.counts = counts::counts(&report);
    report
}

fn affected<'a>(
    environments: &'a [Environment],
    looks: &'a [Look],
) -> Vec<(&'a Environment, &'a [ObjectChange])> {
    let all = environments.iter().zip(looks);
    let affected = all.filter(|(_, look)| look.settled.is_none());
    affected
        .map(|(environment, look)| (environment, look.changes.as_slice()))
        .collect()
}

fn file_lines(files: Vec<File>, request: &Request) -> Vec<FileLine> {
    let asked = request.asked_for(files.iter().map(|file| file.path.as_str()));
    let lines = files.into_iter().zip(asked);
    lines
        .map(|(file, asked_for)| FileLine {
            path: file.path,
            added: file.added,
            removed: file.removed,
            asked_for,
        })
        .collect()
}

fn environment_reports(
    environments: Vec<Environment>,
    looks: Vec<Look>,
    classes: &[Class],
    request: &Request,
) -> Vec<EnvironmentReport> {
    let asked = request.asked_for(environments.iter().map(|environment| environment.name.as_str()));
    let class_of: BTreeMap<&str, usize> = classes
        .iter()
        .enumerate()
        .flat_map(|(class, members)| {
            members
                .environments
                .iter()
                .map(move |name| (name.as_str(), class))
        })
        .collect();
    let all = environments.into_iter().zip(looks).zip(asked);
    let reports = all.map(|((environment, mut look), asked_for)| {
        let class = class_of
            .get(environment.name.as_str())
            .copied()
            .unwrap_or_default();
        // A report lives longer than what it was made from, which may be very much.
        look.changes.iter_mut().for_each(ObjectChange::forget_whole);
        EnvironmentReport {
            presence: look.presence,
            standing: look.settled.unwrap_or(Standing::Affected { class }),
            asked_for,
            objects: look.changes,
            name: environment.name,
        }
    });
    reports.collect()
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
