//! The lines about a run on a server while it goes on, and the table at its end, as of a run at a terminal.

use super::super::summary::STEP_HEADER;
use super::document::{RemoteRun, RemoteRunFacts, RemoteStep, shown_line};
use crate::base::model::{RunStatus, StepStatus, group_thousands, pluralize};
use crate::cli::output::{Output, OutputStyle};
use std::collections::BTreeMap;

/// The kinds of steps whose output is shown as they end. That of the others is a choice or a fact of its line.
const KINDS_WITH_TEXT: [&str; 2] = ["agent", "task"];

/// The states of a run that were shown.
pub(super) struct RunProgress<'a> {
    output: &'a Output,
    status: Option<RunStatus>,
    /// The state of each step, by its place in the run.
    steps: BTreeMap<usize, StepStatus>,
}

impl<'a> RunProgress<'a> {
    /// Begins without any.
    pub(super) fn new(output: &'a Output) -> Self {
        Self {
            output,
            status: None,
            steps: BTreeMap::new(),
        }
    }

    /// Shows what is new in a state of the run.
    pub(super) fn show(&mut self, run: &RemoteRunFacts) {
        if self.status.replace(run.status) != Some(run.status) && run.status == RunStatus::Queued {
            let line = format!("Run {} waits until no other run of its group runs.", run.id);
            self.output.message(&line);
        }
        for (place, step) in run.steps.iter().enumerate() {
            let before = self.steps.insert(place, step.status);
            let before = before.unwrap_or(StepStatus::Waiting);
            if before == step.status {
                continue;
            }
            if before == StepStatus::Waiting && step.has_begun() && !step.is_group() {
                let line = begin_line(place, run.steps.len(), step);
                self.output.styled_message(OutputStyle::Bold, &line);
            }
            if step.has_ended() {
                self.show_end(step);
            }
        }
    }

    fn show_end(&self, step: &RemoteStep) {
        let has_text = KINDS_WITH_TEXT.contains(&step.kind.as_str()) && !step.text.is_empty();
        if has_text && !self.output.json() {
            self.output.line(&self.output.answer(step.text.trim_end()));
        }
        let choice = match step.kind.as_str() {
            "ask" if !step.text.is_empty() => format!(", {}", shown_line(&step.text)),
            _ => String::new(),
        };
        let line = format!("{}{choice}", step.summary().line());
        self.output.styled_message(OutputStyle::Dim, &line);
    }
}

fn begin_line(place: usize, count: usize, step: &RemoteStep) -> String {
    let waits = match step.kind.as_str() {
        "ask" => ", waits for an answer in a chat",
        _ => "",
    };
    format!(
        "Step {} of {count}: {} ({}){waits}",
        place + 1,
        step.name,
        step.kind
    )
}

/// Prints the table of the steps, or the run as JSON.
pub(super) fn print_end(run: &RemoteRun, output: &Output) {
    if output.json() {
        return output.value(&run.document);
    }
    let facts = &run.facts;
    let rows: Vec<Vec<String>> = facts.steps.iter().map(|step| step.summary().row()).collect();
    output.table(&STEP_HEADER, &rows);
    for change in facts.steps.iter().filter_map(|step| step.change) {
        output.message(&format!(
            "CHG-{change} is prepared; `drydock pull CHG-{change}` writes it into the files of your checkout."
        ));
    }
    let calls = facts.steps.iter().map(|step| step.model_calls as usize).sum();
    let line = format!(
        "{}, {} tokens, run {}",
        pluralize(calls, "model call", "model calls"),
        group_thousands(facts.tokens_used),
        facts.id
    );
    output.styled_message(OutputStyle::Dim, &line);
}
