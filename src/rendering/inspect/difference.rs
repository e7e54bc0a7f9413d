//! The differences between an environment's objects and those of the base.

use super::{AnswerDocument, InspectAnswer, InspectError, Inspector, environment_choice, file_name};
use crate::base::model::{Check, CheckState, one_line, quoted};
use crate::rendering::compare::{BrokenEnvironment, CompareRequest, EnvironmentSelection, Sides};
use crate::rendering::tanka::Target;

/// Maximum length of the report above a difference, in characters.
const REPORT_CHARS_MAX: usize = 1_500;

impl Inspector<'_> {
    pub(super) async fn difference(&self, environment: &str) -> Result<InspectAnswer, InspectError> {
        let sides = self.sides().await?;
        let Target { path, name, .. } = self.choose_on_either_side(&sides, environment).await?;
        let title = name.as_deref().unwrap_or(path.trim_end_matches('/')).to_owned();
        if sides.changes.is_empty() {
            return Ok(InspectAnswer::only(format!(
                "Nothing is changed here: {} equals the base.",
                quoted(&title)
            )));
        }
        let asked = CompareRequest {
            only: Some(EnvironmentSelection { path, name }),
            ..CompareRequest::all(sides, "")
        };
        let comparison = self.comparer.compare(asked, self.cancel).await?;
        let report = &comparison.report;
        let patches = report.environments.iter().map(|environment| environment.patch());
        let patch: String = patches.collect();
        let summary = format!(
            "{}\n{}",
            report.text(REPORT_CHARS_MAX),
            checks(&comparison.checks)
        );
        Ok(InspectAnswer {
            summary: summary.trim_end().to_owned(),
            document: (!patch.is_empty()).then(|| AnswerDocument {
                file_name: file_name(&title, "diff", &self.workspace.guard.redactor),
                language: "diff",
                text: patch,
            }),
            broken: BrokenEnvironment::from_report(report),
        })
    }

    pub(super) async fn all_differences(&self) -> Result<InspectAnswer, InspectError> {
        let sides = self.sides().await?;
        if sides.changes.is_empty() {
            return Ok(InspectAnswer::only("Nothing is changed here."));
        }
        let asked = CompareRequest::all(sides, "");
        let comparison = self.comparer.compare(asked, self.cancel).await?;
        let report = &comparison.report;
        let affected = report.environments.iter();
        let affected = affected.filter(|environment| environment.is_affected());
        let patches = affected
            .map(|environment| format!("### {}\n{}", one_line(&environment.name), environment.patch()));
        let patch: String = patches.collect();
        Ok(InspectAnswer {
            summary: report.text(REPORT_CHARS_MAX),
            document: (!patch.is_empty()).then(|| AnswerDocument {
                file_name: "rendered.diff".to_owned(),
                language: "diff",
                text: patch,
            }),
            broken: BrokenEnvironment::from_report(report),
        })
    }

    /// Chooses the environment in the workspace, or in the base if the change removes it.
    async fn choose_on_either_side(&self, sides: &Sides, environment: &str) -> Result<Target, InspectError> {
        let here = environment_choice::choose_environment(&self.renderer(), environment, self.cancel).await;
        let Err(InspectError::NoAnswer(why)) = here else {
            return here;
        };
        let base = self.comparer.renderer(&sides.base);
        match environment_choice::choose_environment(&base, environment, self.cancel).await {
            Ok(target) => Ok(target),
            Err(InspectError::Cancelled) => Err(InspectError::Cancelled),
            Err(InspectError::NoAnswer(_) | InspectError::Fails { .. }) => Err(InspectError::NoAnswer(why)),
        }
    }
}

/// Formats checks as lines.
pub fn checks(checks: &[Check]) -> String {
    let line = |check: &Check| {
        let sign = match check.state {
            CheckState::Pass => "✓",
            CheckState::Fail => "✗",
            CheckState::NotRun => "–",
        };
        match check.detail.as_str() {
            "" => format!("{sign} {}\n", check.name),
            detail => format!("{sign} {}: {detail}\n", check.name),
        }
    };
    checks.iter().map(line).collect()
}
