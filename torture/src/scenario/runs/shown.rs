//! The messages of runs and their replies, as people see them.

use super::definitions::REPLY_CHANNEL;
use crate::slack_thread::{operation, shown};
use crate::testbed::{BOT, HOOK_CHANNEL};
use drydock::simulation::emulator::slack::{SlackMessage, SlackState};
use std::collections::BTreeMap;

/// The words of the heading of a question, while it is open and when it is closed.
const QUESTION: [&str; 2] = ["needs a decision", "asked for a decision"];

/// The message of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ShownRun {
    pub(super) pipeline: String,
    /// The state; empty while the message only says that the run begins.
    pub(super) status: String,
}

impl ShownRun {
    /// Reads a message such as `Run 7 of plain on infra: running`, with the number of its run.
    pub(super) fn read(text: &str) -> Option<(i64, Self)> {
        // A heading is bold.
        let text = text.trim_start_matches('*');
        let (id, rest) = text.strip_prefix("Run ")?.split_once(" of ")?;
        let (pipeline, rest) = rest.split_once(" on infra")?;
        let status = rest.strip_prefix(": ").unwrap_or_default();
        let status = status.chars().take_while(char::is_ascii_lowercase).collect();
        let run = Self {
            pipeline: pipeline.to_owned(),
            status,
        };
        Some((id.parse().ok()?, run))
    }

    pub(super) fn has_ended(&self) -> bool {
        matches!(self.status.as_str(), "succeeded" | "failed" | "cancelled")
    }
}

/// The message of a question of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ShownQuestion {
    pub(super) pipeline: String,
    pub(super) text: String,
    pub(super) has_buttons: bool,
}

impl ShownQuestion {
    /// Reads a message such as `Run 7 of late needs a decision.`, with the number of its run.
    fn read(message: &SlackMessage) -> Option<(i64, Self)> {
        let text = shown(message);
        let (id, pipeline) = question_of(&text)?;
        let question = Self {
            pipeline,
            has_buttons: !message.buttons().is_empty(),
            text,
        };
        Some((id, question))
    }
}

/// Returns the run and the pipeline that a question names first.
fn question_of(text: &str) -> Option<(i64, String)> {
    // A heading is bold.
    let text = text.trim_start_matches('*');
    let (id, rest) = text.strip_prefix("Run ")?.split_once(" of ")?;
    let (pipeline, rest) = rest.split_once(' ')?;
    let is_question = QUESTION.iter().any(|words| rest.starts_with(words));
    is_question.then_some((id.parse().ok()?, pipeline.to_owned()))
}

/// All messages of the bot in the two channels of the scenario.
#[derive(Clone, Debug, Default)]
pub(super) struct ShownRuns {
    /// The messages of the runs, by their numbers.
    pub(super) runs: BTreeMap<i64, Vec<ShownRun>>,
    /// The messages of the questions, by the numbers of their runs.
    pub(super) questions: BTreeMap<i64, Vec<ShownQuestion>>,
    /// The texts of replies, by their operations.
    pub(super) replies: BTreeMap<String, Vec<String>>,
    /// The messages that are neither.
    pub(super) others: Vec<String>,
}

impl ShownRuns {
    pub(super) fn of(state: &SlackState) -> Self {
        let mut all = Self::default();
        for message in state.messages.iter().filter(|message| message.user == BOT) {
            let text = shown(message);
            match message.channel.as_str() {
                HOOK_CHANNEL => match (ShownQuestion::read(message), ShownRun::read(&text)) {
                    (Some((id, question)), _) => all.questions.entry(id).or_default().push(question),
                    (None, Some((id, run))) => all.runs.entry(id).or_default().push(run),
                    (None, None) => all.others.push(text),
                },
                REPLY_CHANNEL => match operation(message) {
                    Some(operation) => all.replies.entry(operation.to_owned()).or_default().push(text),
                    None => all.others.push(text),
                },
                _ => all.others.push(text),
            }
        }
        all
    }

    /// Returns the runs of a pipeline whose questions can be answered.
    pub(super) fn open_questions(&self, pipeline: &str) -> Vec<i64> {
        let is_open = |question: &ShownQuestion| question.has_buttons && question.pipeline == pipeline;
        let asked = self.questions.iter();
        let open = asked.filter(|(_, questions)| questions.iter().any(is_open));
        open.map(|(run, _)| *run).collect()
    }

    /// Returns the number of runs of a pipeline whose messages show an end.
    pub(super) fn ended(&self, is_counted: impl Fn(&str) -> bool) -> usize {
        let newest = self.runs.values().filter_map(|shown| shown.last());
        let counted = newest.filter(|run| run.has_ended() && is_counted(&run.pipeline));
        counted.count()
    }
}

#[cfg(test)]
mod tests {
    use super::{ShownRun, question_of};

    #[test]
    fn a_message_names_its_run_and_the_state() {
        let run = |pipeline: &str, status: &str| ShownRun {
            pipeline: pipeline.to_owned(),
            status: status.to_owned(),
        };
        for (text, expected) in [
            ("Run 7 of plain on infra begins.", (7, run("plain", ""))),
            (
                "*Run 12 of tick-3 on infra: running*\nwork running",
                (12, run("tick-3", "running")),
            ),
            (
                "*Run 8 of pair on infra: failed: the step* `first` *failed*",
                (8, run("pair", "failed")),
            ),
        ] {
            assert_eq!(ShownRun::read(text), Some(expected), "{text}");
        }
        assert_eq!(ShownRun::read("`plain` was not started."), None);
        for text in [
            "Run 7 of late needs a decision.",
            "*Run 7 of late asked for a decision.*\nTell the team?",
        ] {
            assert_eq!(question_of(text), Some((7, "late".to_owned())), "{text}");
        }
        assert_eq!(question_of("*Run 7 of late on infra: running*"), None);
        assert!(run("plain", "cancelled").has_ended() && !run("plain", "queued").has_ended());
    }
}
