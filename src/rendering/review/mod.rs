//! The review of rendered objects of both sides of a change: the objects that differ, the environments with the same
//! change, proof for the unaffected ones, and the risks. [`crate::rendering::compare`] renders them.
//!
//! The review is pure: no I/O, no clock, no async. The same input in any order gives the same [`Report`]. Values of
//! secrets are masked first. A model may explain a report but does not contribute to it.

mod asked_for;
mod canonical;
mod risk_summary;
mod classes;
mod counts;
mod diff;
mod fields;
mod input;
mod key;
mod environment_review;
mod mask;
mod neutral;
mod number;
mod overview;
mod pair;
mod patch;
mod path;
mod proof;
mod report;
mod risk;
mod settings;
mod short_names;
mod summary;
mod visible;

pub use asked_for::AskedFor;
pub use classes::{ChangeClass, ClassDifference, Transition};
pub use diff::{ObjectChange, ObjectChangeKind, WriteYaml};
pub use fields::FieldChange;
pub use input::{
    ChangedFile, EnvironmentRendering, FailureKind, RenderFailure, ReviewInput, ReviewedEnvironment,
    SideResult,
};
pub use key::ObjectKey;
pub use mask::{Masker, SecretValue};
pub use proof::{Impact, NotProven, Proof};
pub use report::{Counts, EnvironmentReport, FileLine, Presence, Report, Risk, RiskFinding};
pub use risk::{RiskSeverity, Rule, documentation, rules};
pub use settings::{SettingChange, SettingsChange, SettingsChangeKind};

use crate::base::parallel;
use asked_for::RequestWords;
use environment_review::EnvironmentReview;
use std::collections::BTreeMap;

/// Reviews a change. `mask_key` is the key of this process for the marks of secret values. `yaml` formats an object
/// for display.
pub fn review(input: ReviewInput, mask_key: &[u8], yaml: WriteYaml<'_>) -> Report {
    let ReviewInput {
        mut environments,
        mut settings,
        mut files,
        request,
    } = input;
    environments.sort_by(|one, other| one.name.cmp(&other.name));
    files.sort_by(|one, other| one.path.cmp(&other.path));
    settings.sort_by(|one, other| one.environment.cmp(&other.environment));
    parallel::map(
        environments.iter_mut().collect(),
        environment_review::bound_nesting,
    );
    environment_review::mask(&mut environments, mask_key);
    let looks: Vec<EnvironmentReview> = parallel::map(environments.iter_mut().collect(), |environment| {
        environment_review::review_environment(environment.rendering.take(), yaml)
    });
    let request = RequestWords::new(&request);
    let classes = classes::classes(&affected(&environments, &looks));
    let risks = risk_summary::summarize_risks(environments.iter().zip(&looks), &settings);
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
    environments: &'a [ReviewedEnvironment],
    looks: &'a [EnvironmentReview],
) -> Vec<(&'a ReviewedEnvironment, &'a [ObjectChange])> {
    let all = environments.iter().zip(looks);
    let affected = all.filter(|(_, look)| look.impact.is_none());
    affected
        .map(|(environment, look)| (environment, look.changes.as_slice()))
        .collect()
}

fn file_lines(files: Vec<ChangedFile>, request: &RequestWords) -> Vec<FileLine> {
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
    environments: Vec<ReviewedEnvironment>,
    looks: Vec<EnvironmentReview>,
    classes: &[ChangeClass],
    request: &RequestWords,
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
        // The objects may be large and are not needed after the report is built.
        look.changes.iter_mut().for_each(ObjectChange::drop_full_object);
        EnvironmentReport {
            presence: look.presence,
            impact: look.impact.unwrap_or(Impact::Affected { class }),
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
