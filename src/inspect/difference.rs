//! The differences of an environment's objects from the base.

use super::{Answer, Document, InspectError, Inspector, chosen, file_name};
use crate::compare::{Asked, Broken, Only, Sides};
use crate::model::{Check, CheckState, quoted};
use crate::tanka::Target;

/// Characters of the report above a difference.
const REPORT_CHARS_MAX: usize = 1_500;

impl Inspector<'_> {
    pub(super) async fn difference(&self, environment: &str) -> Result<Answer, InspectError> {
        let sides = self.sides().await?;
        let Target { path, name, .. } = self.chosen_on_either(&sides, environment).await?;
        let title = name.as_deref().unwrap_or(path.trim_end_matches('/')).to_owned();
        if sides.changes.is_empty() {
            return Ok(Answer::only(format!(
                "Nothing is changed here: {} is as the base.",
                quoted(&title)
            )));
        }
        let asked = Asked {
            only: Some(Only { path, name }),
            ..Asked::all(sides, "")
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
        Ok(Answer {
            summary: summary.trim_end().to_owned(),
            document: (!patch.is_empty()).then(|| Document {
                file_name: file_name(&title, "diff", &self.workspace.guard.redactor),
                language: "diff",
                text: patch,
            }),
            broken: Broken::of(report),
        })
    }

    /// An environment that the change takes away is found on the base.
    async fn chosen_on_either(&self, sides: &Sides, environment: &str) -> Result<Target, InspectError> {
        let here = chosen::chosen(&self.renderer(), environment, self.cancel).await;
        let Err(InspectError::Told(why)) = here else {
            return here;
        };
        let base = self.comparer.renderer(&sides.base);
        match chosen::chosen(&base, environment, self.cancel).await {
            Ok(target) => Ok(target),
            Err(InspectError::Cancelled) => Err(InspectError::Cancelled),
            Err(InspectError::Told(_) | InspectError::Fails { .. }) => Err(InspectError::Told(why)),
        }
    }
}

/// Checks as lines.
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
