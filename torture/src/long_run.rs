//! The request of a person that takes long: in each of many steps, the model writes words and calls a tool.

use drydock::simulation::emulator::model::{AnswerFault, ScriptedAnswer, says};
use std::time::Duration;

/// The shortest time of a step.
const STEP_MILLISECONDS_MIN: u64 = 700;
/// The spread of the times of steps, so that runs do not go in step. A step takes about a second.
const STEP_MILLISECONDS_SPREAD: u64 = 600;

/// A request that takes many steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LongRun {
    /// The id, unique among all runs of a testbed.
    pub(crate) id: u32,
    /// The place of the person who requests it.
    pub(crate) place: u32,
    /// The number of model calls, before the last one that only answers.
    pub(crate) steps: usize,
}

impl LongRun {
    /// Returns the word that names the run in a request.
    pub(crate) fn word(&self) -> String {
        format!("run-{}-{}-{}-end", self.id, self.place, self.steps)
    }

    /// Finds the run that a text names last.
    pub(crate) fn in_text(text: &str) -> Option<Self> {
        let (_, rest) = text.rsplit_once("run-")?;
        let mut words = rest.split('-');
        let run = Self {
            id: words.next()?.parse().ok()?,
            place: words.next()?.parse().ok()?,
            steps: words.next()?.parse().ok()?,
        };
        words.next()?.starts_with("end").then_some(run)
    }

    /// Returns the model's words when the run is done.
    pub(crate) fn done(&self) -> String {
        format!("Run {} is done.", self.id)
    }

    /// Returns the answer of the model at a step.
    pub(crate) fn answer(&self, step: usize) -> ScriptedAnswer {
        let answer = match step < self.steps {
            true => says(format!(
                "I look at part {} of {}. It has no surprise so far, and I note what I find before I go on.",
                step + 1,
                self.steps
            ))
            .with_call(
                "file_write",
                serde_json::json!({"path": format!("notes/{}.txt", self.id), "content": format!("part {step} is read\n")}),
            ),
            false => says(self.done()),
        };
        let mixed = u64::from(self.id) * 7_919 + step as u64 * 104_729;
        let milliseconds = STEP_MILLISECONDS_MIN + mixed % STEP_MILLISECONDS_SPREAD;
        answer.with_fault(AnswerFault::Delay(Duration::from_millis(milliseconds)))
    }
}

#[cfg(test)]
mod tests {
    use super::LongRun;

    #[test]
    fn a_request_names_its_run() {
        let run = LongRun {
            id: 7,
            place: 3,
            steps: 90,
        };
        let text = format!("not run-1-1-1-end but {}, please", run.word());
        assert_eq!(LongRun::in_text(&text), Some(run));
        assert_eq!(LongRun::in_text("run-1-2"), None);
    }
}
