//! The message about a run in its chat, which is edited as the run goes on, and the texts of lists. They contain what is
//! stored; nothing is rendered within a write.

use crate::base::model::{
    ChangeNumber, Reply, ReplyPart, RunId, RunStatus, StepEnd, StepStatus, Verdict, VerdictSource, cut_to,
    one_line, quoted,
};
use crate::state::store::{RunHead, RunRow, StepRow};

/// The most characters of the reason why a step or a run ended.
const WHY_CHARS_MAX: usize = 200;
/// The numbers of characters of an output that are tried until the report is one message.
const OUTPUT_CHARS: [usize; 5] = [6_000, 2_800, 1_500, 600, 0];

/// A step as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::engine::gateway) struct ShownStep {
    name: String,
    kind: String,
    status: StepStatus,
    end: Option<StepEnd>,
    change: Option<ChangeNumber>,
}

/// A run as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::engine::gateway) struct RunReport {
    title: String,
    status: RunStatus,
    why: Option<String>,
    steps: Vec<ShownStep>,
}

impl ShownStep {
    fn of(row: &StepRow) -> Self {
        Self {
            name: row.name.clone(),
            kind: row.kind.clone(),
            status: row.status,
            end: row.end.clone(),
            change: row.change,
        }
    }

    /// True if the step has asked a question or prepared a change, or if its reply was not delivered.
    fn has_news(&self) -> bool {
        let has_asked =
            self.kind == "ask" && !matches!(self.status, StepStatus::Waiting | StepStatus::Skipped);
        let is_lost = self.kind == "reply"
            && self.status == StepStatus::Succeeded
            && self.end.as_ref().is_some_and(|end| end.why.is_some());
        has_asked || is_lost || self.change.is_some()
    }

    /// Returns the status, the answer to a question, the verdict with its source, the change, and the reason why it did not
    /// succeed.
    fn line(&self) -> String {
        let end = self.end.as_ref();
        let verdict = end.and_then(|end| Some(verdict_words(end.verdict?, end.verdict_source)));
        let change = self.change.map(|number| format!("CHG-{number}"));
        let why = end.and_then(|end| end.why.as_deref()).map(shown_why);
        let status = match (self.kind.as_str(), self.status) {
            ("ask", StepStatus::Running) => "waits for an answer",
            (_, status) => status.word(),
        };
        let answer = end
            .filter(|_| self.kind == "ask")
            .map(|end| one_line(&end.output));
        let answer = answer.filter(|answer| !answer.is_empty());
        let parts = [Some(status.to_owned()), answer, verdict, change, why];
        parts.into_iter().flatten().collect::<Vec<_>>().join(" · ")
    }
}

impl RunReport {
    pub(in crate::engine::gateway) fn of(row: &RunRow) -> Self {
        let head = &row.head;
        Self {
            title: format!("Run {} of {} on {}", head.id, head.pipeline, head.repository),
            status: head.status,
            why: head.why.clone(),
            steps: row.steps.iter().map(ShownStep::of).collect(),
        }
    }

    /// Creates the report of a run of which no more than its end is shown.
    pub(super) fn of_end(
        id: RunId,
        (pipeline, repository): (&str, &str),
        status: RunStatus,
        why: Option<&str>,
    ) -> Self {
        Self {
            title: format!("Run {id} of {pipeline} on {repository}"),
            status,
            why: why.map(str::to_owned),
            steps: Vec::new(),
        }
    }

    /// Shows a step as it is after a move.
    pub(super) fn set(&mut self, step: usize, status: StepStatus, end: Option<StepEnd>) {
        if let Some(shown) = self.steps.get_mut(step) {
            (shown.status, shown.end) = (status, end);
        }
    }

    /// Shows the run as it is after a move.
    pub(super) fn finish(&mut self, status: RunStatus, why: Option<&str>) {
        self.status = status;
        self.why = why.map(str::to_owned);
    }

    /// Returns the report: a line, the steps, and the output of the last agent step or task that has one. The output is cut
    /// until `fits` is true.
    pub(in crate::engine::gateway) fn reply(&self, fits: impl Fn(&Reply) -> bool) -> Reply {
        let mut replies = OUTPUT_CHARS.into_iter().map(|chars| self.reply_with(chars));
        let fitting = replies.find(|reply| fits(reply));
        fitting.unwrap_or_else(|| Reply::text(self.headline()))
    }

    fn reply_with(&self, output_chars_max: usize) -> Reply {
        let mut parts = vec![ReplyPart::Heading {
            text: self.headline(),
        }];
        let rows = self.steps.iter().map(|step| (step.name.clone(), step.line()));
        parts.push(ReplyPart::Facts { rows: rows.collect() });
        if let Some((kind, output)) = self
            .output()
            .filter(|_| self.status.is_end() && output_chars_max > 0)
        {
            let cut = cut_to(output, output_chars_max);
            let is_cut = cut.len() != output.len();
            let text = cut.into_owned();
            parts.push(match kind {
                // A program does not write Markdown, in which its columns and indentation would be lost.
                "task" => ReplyPart::Code {
                    language: String::new(),
                    text,
                },
                _ => ReplyPart::Markdown { text },
            });
            if is_cut {
                let text = "The output is cut here.".to_owned();
                parts.push(ReplyPart::Footer { text });
            }
        }
        Reply { parts }
    }

    /// Returns true if there is something to say about the run: it failed or was cancelled, it has asked a question or prepared
    /// a change, or a reply of it was not delivered.
    pub(super) fn has_news(&self) -> bool {
        matches!(self.status, RunStatus::Failed | RunStatus::Cancelled)
            || self.steps.iter().any(ShownStep::has_news)
    }

    /// Returns true if the run has ended.
    pub(super) fn has_ended(&self) -> bool {
        self.status.is_end()
    }

    /// Returns the line of a run that begins, which is shown until its message is edited.
    pub(super) fn begun(&self) -> String {
        format!("{} begins.", self.title)
    }

    /// Returns the line of the run with its status.
    pub(super) fn headline(&self) -> String {
        let why = self.why.as_deref().map(|why| format!(": {}", shown_why(why)));
        format!(
            "{}: {}{}",
            self.title,
            self.status.word(),
            why.unwrap_or_default()
        )
    }

    /// Returns the output of the last agent step or task that has one, with the kind of the step.
    fn output(&self) -> Option<(&str, &str)> {
        let is_work = |step: &&ShownStep| step.kind == "agent" || step.kind == "task";
        let worked = self.steps.iter().rev().filter(is_work);
        let mut outputs =
            worked.filter_map(|step| Some((step.kind.as_str(), step.end.as_ref()?.output.trim())));
        outputs.find(|(_, output)| !output.is_empty())
    }
}

/// Returns a reason in one line, without a full stop, because other words may follow.
fn shown_why(why: &str) -> String {
    let line = one_line(why);
    cut_to(line.trim_end_matches('.'), WHY_CHARS_MAX).into_owned()
}

fn verdict_words(verdict: Verdict, source: Option<VerdictSource>) -> String {
    let verdict = match verdict {
        Verdict::Pass => "pass",
        Verdict::NoChange => "no change",
        Verdict::Fail => "fail",
        Verdict::Incomplete => "incomplete",
        Verdict::Limit => "limit",
        Verdict::Error => "error",
        Verdict::Cancelled => "cancelled",
        Verdict::Denied => "denied",
    };
    match source {
        Some(VerdictSource::Verified) => format!("{verdict} (checked by Drydock)"),
        Some(VerdictSource::Concluded) => format!("{verdict} (concluded by the model)"),
        Some(VerdictSource::Inferred) => format!("{verdict} (inferred from the text)"),
        Some(VerdictSource::Harness) | None => verdict.to_owned(),
    }
}

/// Returns a list of runs, the newest first.
pub(in crate::engine::gateway) fn list(runs: &[RunHead]) -> Reply {
    let rows = runs.iter().map(|head| {
        let owner = head.owner_name.as_deref().map(quoted).unwrap_or_default();
        let why = head.why.as_deref().map(|why| format!(" · {}", shown_why(why)));
        let text = format!(
            "{} · {} on {} · {:.0} · {owner}{}",
            head.status.word(),
            head.pipeline,
            head.repository,
            head.created_at,
            why.unwrap_or_default()
        );
        (head.id.to_string(), text)
    });
    Reply {
        parts: vec![ReplyPart::Facts { rows: rows.collect() }],
    }
}

#[cfg(test)]
mod tests {
    use super::{RunReport, ShownStep};
    use crate::base::model::{
        ChangeNumber, Reply, ReplyPart, RunStatus, StepEnd, StepStatus, Verdict, VerdictSource,
    };

    fn report(status: RunStatus) -> RunReport {
        let step = |name: &str, kind: &str, end: StepEnd, change| ShownStep {
            name: name.to_owned(),
            kind: kind.to_owned(),
            status: end.status,
            end: Some(end),
            change,
        };
        let reviewed = StepEnd {
            verdict: Some(Verdict::Pass),
            verdict_source: Some(VerdictSource::Concluded),
            ..StepEnd::succeeded(&"ä".repeat(9_000))
        };
        RunReport {
            title: "Run 12 of review on infra".to_owned(),
            status,
            why: None,
            steps: vec![
                step("review", "agent", reviewed, Some(ChangeNumber(3))),
                step("answer", "reply", StepEnd::failed("the channel is gone."), None),
            ],
        }
    }

    #[test]
    fn a_report_has_a_line_for_each_step_and_its_output_is_cut_to_one_message() {
        let text = |report: &RunReport, chars: usize| {
            let fits = |reply: &Reply| reply.plain().chars().count() <= chars;
            report.reply(fits).plain()
        };
        let done = text(&report(RunStatus::Failed), 2_000);
        for line in [
            "Run 12 of review on infra: failed",
            "succeeded · pass (concluded by the model) · CHG-3",
            "failed · the channel is gone",
            "The output is cut here.",
        ] {
            assert!(done.contains(line), "{line}: {done}");
        }
        assert!(done.chars().count() <= 2_000 && done.contains('ä'), "{done}");
        // An output is shown at the end only, and a report is never longer than a message.
        assert!(!text(&report(RunStatus::Running), 2_000).contains('ä'));
        assert!(!text(&report(RunStatus::Failed), 300).contains('ä'));
        assert_eq!(text(&report(RunStatus::Failed), 0).lines().count(), 1);
        let mut moved = report(RunStatus::Running);
        moved.set(1, StepStatus::Waiting, None);
        moved.finish(RunStatus::Cancelled, Some("alice cancelled it"));
        let moved = text(&moved, 9_999);
        assert!(
            moved.contains("cancelled: alice cancelled it") && moved.contains("waiting"),
            "{moved}"
        );
    }

    #[test]
    fn the_output_of_a_task_keeps_its_lines_as_they_are() {
        let mut ended = report(RunStatus::Succeeded);
        let end = StepEnd::succeeded("| a | b |\n    * c *");
        ended.steps.push(ShownStep {
            name: "measure".to_owned(),
            kind: "task".to_owned(),
            status: end.status,
            end: Some(end),
            change: None,
        });
        let code = ReplyPart::Code {
            language: String::new(),
            text: "| a | b |\n    * c *".to_owned(),
        };
        assert_eq!(ended.reply(|_| true).parts.last(), Some(&code));
        ended.steps.pop();
        let parts = ended.reply(|_| true).parts;
        assert!(
            parts
                .iter()
                .any(|part| matches!(part, ReplyPart::Markdown { .. }))
        );
    }

    #[test]
    fn a_run_has_news_once_it_failed_asked_changed_something_or_lost_a_reply() {
        let with = |status: RunStatus, step: ShownStep| {
            let steps = vec![step];
            RunReport {
                steps,
                ..report(status)
            }
        };
        let step = |kind: &str, status: StepStatus| ShownStep {
            name: "look".to_owned(),
            kind: kind.to_owned(),
            status,
            end: None,
            change: None,
        };
        let ended = |kind: &str, why: Option<&str>| {
            let end = StepEnd {
                why: why.map(str::to_owned),
                ..StepEnd::succeeded("done")
            };
            ShownStep {
                end: Some(end),
                ..step(kind, StepStatus::Succeeded)
            }
        };
        let changed = ShownStep {
            change: Some(ChangeNumber(3)),
            ..step("agent", StepStatus::Succeeded)
        };
        let (runs, succeeded) = (RunStatus::Running, RunStatus::Succeeded);
        for (status, step, has_news) in [
            (runs, step("agent", StepStatus::Running), false),
            (succeeded, ended("agent", None), false),
            (RunStatus::Failed, ended("agent", None), true),
            (RunStatus::Cancelled, step("agent", StepStatus::Cancelled), true),
            (runs, step("ask", StepStatus::Waiting), false),
            (runs, step("ask", StepStatus::Running), true),
            (succeeded, ended("ask", None), true),
            (succeeded, step("ask", StepStatus::Skipped), false),
            (runs, changed, true),
            (succeeded, ended("reply", None), false),
            (succeeded, ended("reply", Some("not delivered: no")), true),
            (succeeded, step("reply", StepStatus::Skipped), false),
        ] {
            let shown = format!("{status:?} {step:?}");
            assert_eq!(with(status, step).has_news(), has_news, "{shown}");
        }
    }
}
