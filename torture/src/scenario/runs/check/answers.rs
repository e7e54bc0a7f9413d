//! The checks of the programs and the questions of runs: each program has the result of its event, and each question was asked
//! once and closed by one answer.

use super::{StoredRun, StoredStep};
use crate::hook;
use crate::scenario::runs::definitions::{EventPipeline, task};
use crate::scenario::runs::shown::ShownRuns;

/// The answer to a question, and the end of its message.
type ClosedWords = (&'static str, &'static str);

/// Those of a question that the operator answers.
const ANSWERED: ClosedWords = ("yes", "answered: yes.");
/// Those of a question that nobody answers.
const DEFAULT: ClosedWords = ("no", "Nobody answered in time; the default counts: no.");

/// Checks that the program of each event has printed the task of the event.
pub(super) fn outputs(runs: &[StoredRun], events: u32) -> Vec<String> {
    let mut problems = Vec::new();
    for number in 1..=events {
        let (delivery, expected) = (hook::delivery(number), task(2 * number).word());
        let of_event = runs.iter().filter(|run| run.event.contains(&delivery));
        for step in of_event.flat_map(|run| steps_of(run, "task")) {
            if step.status != "succeeded" || step.output != expected {
                let (status, output) = (&step.status, &step.output);
                problems.push(format!(
                    "the program of event {number} has {status}, with the output {output:?}"
                ));
            }
        }
    }
    problems
}

/// Checks that each question of a run has one message, without buttons, and that it shows the answer that its step has.
pub(super) fn questions(runs: &[StoredRun], shown: &ShownRuns) -> Vec<String> {
    let mut problems = Vec::new();
    for run in runs {
        let (answer, words) = match run.pipeline == EventPipeline::Checked.name() {
            true => ANSWERED,
            false => DEFAULT,
        };
        let asked: Vec<&StoredStep> = steps_of(run, "ask").collect();
        let messages = shown
            .questions
            .get(&run.id)
            .map(Vec::as_slice)
            .unwrap_or_default();
        let is_closed = messages
            .iter()
            .all(|message| !message.has_buttons && message.text.contains(words));
        if messages.len() != asked.len() || !is_closed {
            problems.push(format!(
                "run {} asked {} questions, and shows {messages:?}",
                run.id,
                asked.len()
            ));
        }
        let others = asked.into_iter().filter(|step| step.output != answer);
        problems.extend(
            others.map(|step| format!("the question of run {} has the answer {:?}", run.id, step.output)),
        );
    }
    problems
}

fn steps_of<'a>(run: &'a StoredRun, kind: &'a str) -> impl Iterator<Item = &'a StoredStep> {
    run.steps.iter().filter(move |step| step.kind == kind)
}

#[cfg(test)]
mod tests {
    use super::{outputs, questions};
    use crate::hook;
    use crate::scenario::runs::check::{StoredRun, StoredStep};
    use crate::scenario::runs::definitions::task;
    use crate::scenario::runs::shown::{ShownQuestion, ShownRuns};

    fn step(place: i64, kind: &str, output: &str) -> StoredStep {
        StoredStep {
            place,
            kind: kind.to_owned(),
            status: "succeeded".to_owned(),
            inbox: None,
            conversation: None,
            change: None,
            output: output.to_owned(),
        }
    }

    fn checked(output: &str, answer: &str) -> StoredRun {
        StoredRun {
            id: 7,
            pipeline: "checked".to_owned(),
            status: "succeeded".to_owned(),
            event: format!("runs:{}/pipeline/checked", hook::delivery(2)),
            started_at: Some(10),
            ended_at: Some(20),
            is_due: false,
            steps: vec![step(0, "task", output), step(1, "ask", answer)],
        }
    }

    #[test]
    fn the_output_of_another_event_is_found() {
        let word = task(4).word();
        assert!(outputs(&[checked(&word, "yes")], 2).is_empty());
        assert_eq!(
            outputs(&[checked("task-1-1-2-end", "yes")], 2),
            ["the program of event 2 has succeeded, with the output \"task-1-1-2-end\""]
        );
    }

    #[test]
    fn a_question_that_is_open_asked_twice_or_answered_otherwise_is_found() {
        let closed = ShownQuestion {
            pipeline: "checked".to_owned(),
            text: "Run 7 of checked asked for a decision.\nTell the team?\n`the operator` answered: yes."
                .to_owned(),
            has_buttons: false,
        };
        let open = ShownQuestion {
            has_buttons: true,
            ..closed.clone()
        };
        let shown = |messages: &[&ShownQuestion]| ShownRuns {
            questions: [(7, messages.iter().map(|message| (*message).clone()).collect())].into(),
            ..ShownRuns::default()
        };
        let found = |answer: &str, messages: &[&ShownQuestion]| {
            questions(&[checked("x", answer)], &shown(messages)).len()
        };
        assert_eq!(found("yes", &[&closed]), 0);
        assert_eq!(found("no", &[&closed]), 1);
        let wrong: [&[&ShownQuestion]; 3] = [&[], &[&open], &[&closed, &closed]];
        for messages in wrong {
            assert_eq!(found("yes", messages), 1, "{messages:?}");
        }
    }
}
