//! The risks of the workspace's changes, found by rules.

use super::{AnswerDocument, InspectAnswer, InspectError, Inspector};
use crate::base::model::{by_number, pluralize};
use crate::rendering::compare::{BrokenEnvironment, CompareRequest, NO_ENVIRONMENTS};
use crate::rendering::review::{Counts, Report};

/// Maximum length of the risk card in characters.
const RISKS_CHARS_MAX: usize = 200_000;

impl Inspector<'_> {
    pub(super) async fn risks(&self) -> Result<InspectAnswer, InspectError> {
        let sides = self.sides().await?;
        if sides.changes.is_empty() {
            return Ok(InspectAnswer::only(
                "Nothing is prepared here, so there are no risks to show.",
            ));
        }
        let compared = self.comparer.compare(CompareRequest::all(sides, ""), self.cancel);
        Ok(answer(&compared.await?.report))
    }
}

fn answer(report: &Report) -> InspectAnswer {
    if report.environments.is_empty() {
        return InspectAnswer::only(format!("There are {NO_ENVIRONMENTS}, so no rule applies."));
    }
    let Counts {
        environments,
        affected,
        not_proven,
        risks,
        ..
    } = report.counts;
    let looked = format!(
        "{affected} of {} {}",
        pluralize(environments, "environment", "environments"),
        by_number(affected, "changes", "change")
    );
    let found = match risks {
        0 => "no rule matched".to_owned(),
        risks => format!(
            "{} matched, with {}",
            pluralize(report.risks.len(), "rule", "rules"),
            pluralize(risks, "finding", "findings")
        ),
    };
    let mut summary = format!("{looked}; {found}.");
    if not_proven > 0 {
        summary.push_str(&format!(
            " ⚠ {} could not be rendered or compared, so no rule was applied there.",
            pluralize(not_proven, "environment", "environments")
        ));
    }
    let text = report.risk_text(RISKS_CHARS_MAX);
    InspectAnswer {
        summary,
        document: (!text.is_empty()).then(|| AnswerDocument {
            file_name: "risks.txt".to_owned(),
            language: "",
            text,
        }),
        broken: BrokenEnvironment::from_report(report),
    }
}
