//! The risks of the workspace's changes, found by rules.

use super::{Answer, Document, InspectError, Inspector};
use crate::compare::{Asked, Broken, NO_ENVIRONMENTS};
use crate::model::counted;
use crate::review::{Counts, Report};

/// Characters of the whole card.
const CARD_CHARS_MAX: usize = 200_000;

impl Inspector<'_> {
    pub(super) async fn risks(&self) -> Result<Answer, InspectError> {
        let sides = self.sides().await?;
        if sides.changes.is_empty() {
            return Ok(Answer::only(
                "Nothing is prepared here, so there is no risk to tell.",
            ));
        }
        let compared = self.comparer.compare(Asked::all(sides, ""), self.cancel);
        Ok(answer(&compared.await?.report))
    }
}

fn answer(report: &Report) -> Answer {
    if report.environments.is_empty() {
        return Answer::only(format!(
            "There are {NO_ENVIRONMENTS}, so no rule has anything to look at."
        ));
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
        counted(environments, "environment", "environments"),
        if affected == 1 { "changes" } else { "change" }
    );
    let found = match risks {
        0 => "no rule fired".to_owned(),
        risks => format!(
            "{} fired, with {}",
            counted(report.risks.len(), "rule", "rules"),
            counted(risks, "finding", "findings")
        ),
    };
    let mut summary = format!("{looked}; {found}.");
    if not_proven > 0 {
        summary.push_str(&format!(
            " ⚠ {} could not be rendered or compared: no rule knows what happens there.",
            counted(not_proven, "environment", "environments")
        ));
    }
    let text = report.card(CARD_CHARS_MAX);
    Answer {
        summary,
        document: (!text.is_empty()).then(|| Document {
            file_name: "risks.txt".to_owned(),
            language: "",
            text,
        }),
        broken: Broken::of(report),
    }
}
