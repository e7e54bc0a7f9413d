//! The numbers in a report, counted from its lists.

use super::asked_for::AskedFor;
use super::diff::ObjectChangeKind;
use super::proof::Impact;
use super::report::{Counts, EnvironmentReport, Report};

pub(super) fn counts(report: &Report) -> Counts {
    let mut counts = Counts {
        environments: report.environments.len(),
        files: report.files.len(),
        risks: report.risks.iter().map(|risk| risk.findings.len()).sum(),
        ..Counts::default()
    };
    for file in &report.files {
        counts.lines_added += file.added;
        counts.lines_removed += file.removed;
        counts.files_not_asked_for += usize::from(file.asked_for == AskedFor::No);
    }
    for environment in &report.environments {
        counts.count(environment);
    }
    counts
}

impl Counts {
    fn count(&mut self, environment: &EnvironmentReport) {
        let is_broken = environment.is_broken();
        match environment.impact {
            Impact::Affected { .. } => self.affected += 1,
            Impact::Unaffected { .. } => self.unaffected += 1,
            Impact::NotProven { .. } => self.not_proven += 1,
        }
        self.broken += usize::from(is_broken);
        let is_unasked = environment.asked_for == AskedFor::No && (environment.is_affected() || is_broken);
        self.environments_not_asked_for += usize::from(is_unasked);
        for change in &environment.objects {
            match change.happens {
                ObjectChangeKind::Added => self.objects_added += 1,
                ObjectChangeKind::Changed => self.objects_changed += 1,
                ObjectChangeKind::Removed => self.objects_removed += 1,
            }
        }
    }
}
