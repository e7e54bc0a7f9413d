//! The display of a turn on a terminal that can move its cursor. The text of the model and a status row are drawn again
//! as they change, below what is final.
//!
//! The text may still become an answer, words before a call, or be discarded, so it stays in the rows that can be
//! removed. Only if it is longer than these rows, its beginning moves up and stays. If such a text is discarded, a line
//! says so. Every redraw redacts the whole text and shows its stable beginning, so no part of a secret is shown while
//! the rest of it is on its way. The line that a person types meanwhile is the last row.

use super::display::{CallFormat, format_fallback, format_progress};
use super::entered_lines::{EnteredLines, LineUse};
use super::line_editor::INDICATOR;
use super::live_area::{LiveArea, ScreenLine, last_that_fit, screen_size};
use super::markdown;
use super::question::question_menu;
use super::status_line::TurnStatus;
use crate::base::model::{Money, Usage};
use crate::base::redact::Redactor;
use crate::cli::output::{Output, OutputStyle, visible};
use crate::engine::agent::{TurnEvent, TurnOutcome};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use unicode_width::UnicodeWidthStr;

/// The time between two redraws that text causes.
const REDRAW_INTERVAL: Duration = Duration::from_millis(50);
/// The maximum length of a text that is shown while it arrives, in bytes. A longer one is shown when it is complete.
const TEXT_BYTES_MAX: usize = 200_000;
/// The number of rows that stay free of the text.
const ROWS_FREE: usize = 2;

/// The display of one turn.
pub(super) struct LiveTurn {
    output: Output,
    calls: CallFormat,
    redactor: Arc<Redactor>,
    area: LiveArea,
    status: TurnStatus,
    began: Instant,
    drawn: Instant,
    // The text of the current answer, as the model wrote it.
    text: String,
    // The rows of the text that are above the area.
    final_rows: Vec<ScreenLine>,
    // True once nothing more is drawn: what follows on the screen belongs to others.
    is_finished: bool,
    // True while a question is on the screen, below which the person writes.
    is_asking: bool,
    // The lines of the person, if they are read during the turn.
    entered: Option<Arc<EnteredLines>>,
}

impl LiveTurn {
    pub(super) fn new(
        output: Output,
        calls: CallFormat,
        redactor: Arc<Redactor>,
        entered: Option<Arc<EnteredLines>>,
    ) -> Self {
        let now = Instant::now();
        let mut turn = Self {
            output,
            calls,
            redactor,
            area: LiveArea::default(),
            status: TurnStatus::default(),
            began: now,
            drawn: now,
            text: String::new(),
            final_rows: Vec::new(),
            is_finished: false,
            is_asking: false,
            entered,
        };
        turn.redraw();
        turn
    }

    /// Shows the next sign of the status row.
    pub(super) fn tick(&mut self) {
        self.status.shown += 1;
        self.redraw();
    }

    /// Reads what the person typed, and shows it. While a question is open, the answer is read elsewhere.
    pub(super) fn read_input(&mut self) {
        if self.is_finished || self.is_asking {
            return;
        }
        let Some(uses) = self.entered.as_ref().and_then(|entered| entered.read()) else {
            return;
        };
        for entered in uses {
            let line = match entered {
                LineUse::Message(text) => {
                    let text = self.calls.one_line(&text);
                    format!("[message] {text} (the model reads it at its next step)")
                }
                LineUse::Later(text) => {
                    let text = self.calls.one_line(&text);
                    format!("[queued] {text} (for the end of this turn)")
                }
                LineUse::NoRequest => "[not queued] write your request after `queue:`".to_owned(),
                LineUse::TooMany(lines) => {
                    format!("[not sent] {lines} lines wait already; press Enter again later")
                }
                LineUse::TooLong(chars) => {
                    format!(
                        "[not sent] a line may have {chars} characters; put long text into a file and name it"
                    )
                }
            };
            self.print(OutputStyle::Dim, &line);
        }
        self.redraw();
    }

    /// Counts the tokens of an answer, and their cost if it is known.
    pub(super) fn add_usage(&mut self, usage: Usage, cost: Option<Money>) {
        self.status.usage += usage;
        if let Some(cost) = cost {
            *self.status.cost.get_or_insert_default() += cost;
        }
    }

    /// Shows one event.
    pub(super) fn show(&mut self, event: &TurnEvent) {
        match event {
            TurnEvent::StepStarted { step } => {
                self.status.step = *step;
                self.status.activity.clear();
                self.discard();
            }
            TurnEvent::Text(text) => {
                self.text.push_str(text);
                if self.drawn.elapsed() < REDRAW_INTERVAL {
                    return;
                }
            }
            TurnEvent::ToolStarted {
                name,
                arguments,
                subject,
                ..
            } => {
                self.words_before_a_call();
                let (style, call) = self.calls.started(name, arguments.text());
                self.print(style, &call);
                let subject = subject.as_deref().unwrap_or_default();
                self.status.activity = format!("{name} {subject}").trim_end().to_owned();
            }
            TurnEvent::ToolProgress { name, text, .. } => {
                self.status.activity = format_progress(name, text);
            }
            TurnEvent::ToolFinished {
                name,
                content,
                is_error,
                ..
            } => {
                self.status.activity.clear();
                self.area.erase();
                match is_error {
                    true => self
                        .output
                        .styled_message(OutputStyle::Dim, &self.calls.failed(name, content)),
                    false => self.calls.show_answer(&self.output, name, content),
                }
            }
            TurnEvent::FallingBack { from, to, why } => {
                self.discard();
                self.print(OutputStyle::Dim, &format_fallback(from, to, why));
            }
            TurnEvent::Waiting { why, wait } => {
                self.discard();
                self.print(
                    OutputStyle::Dim,
                    &format!("{why}, retrying in {} s", wait.as_secs().max(1)),
                );
            }
            TurnEvent::Summarising => {
                "summarising the earlier conversation".clone_into(&mut self.status.activity);
            }
            TurnEvent::Checking(progress) => {
                self.status.activity = format!("checks, {} of {} renderings", progress.done, progress.total);
            }
            TurnEvent::SentBack { failing } => {
                self.words_before_a_call();
                for line in failing {
                    self.print(OutputStyle::Dim, &format!("[checks] {line}"));
                }
                self.print(OutputStyle::Dim, "[checks] the model fixes what fails");
            }
            TurnEvent::Asked(question) => {
                self.words_before_a_call();
                self.area.erase();
                self.output.message(&question_menu(question));
                self.is_asking = true;
            }
            TurnEvent::Answered(answer) => {
                self.is_asking = false;
                self.print(OutputStyle::Dim, &answer.line());
            }
            TurnEvent::MessageTaken { text } => {
                // The model answers again, but the person has read these words.
                self.words_before_a_call();
                let text = self.calls.one_line(text);
                self.print(OutputStyle::Dim, &format!("[message read] {text}"));
            }
        }
        self.redraw();
    }

    /// Removes the area, and prints the answer or the part of it that is not on the screen yet.
    pub(super) fn finish(&mut self, outcome: &TurnOutcome) {
        self.is_finished = true;
        self.area.erase();
        if outcome.answer.is_empty() {
            let words = self.stable_text();
            if !words.trim().is_empty() && self.final_rows.is_empty() {
                self.output
                    .styled_message(OutputStyle::Dim, &format!("{}…", words.trim()));
            }
            return;
        }
        let (columns, _) = screen_size();
        let rows = markdown::render(&outcome.answer, columns, &self.output);
        let rest = match rows.strip_prefix(self.final_rows.as_slice()) {
            Some(rest) => rest,
            None => {
                self.output.styled_message(OutputStyle::Dim, "[the whole answer]");
                &rows
            }
        };
        rest.iter().for_each(|row| self.output.line(&row.text));
    }

    /// Removes the area after an error.
    pub(super) fn abandon(&mut self) {
        self.is_finished = true;
        self.area.erase();
    }

    fn print(&mut self, style: OutputStyle, text: &str) {
        self.area.erase();
        self.output.styled_message(style, text);
    }

    /// Discards the text of an answer that is not used.
    fn discard(&mut self) {
        self.text.clear();
        if !std::mem::take(&mut self.final_rows).is_empty() {
            self.print(
                OutputStyle::Dim,
                "[the answer above broke off and does not count; it starts again]",
            );
        }
    }

    /// Prints the text before a call.
    fn words_before_a_call(&mut self) {
        let text = std::mem::take(&mut self.text);
        let shown = std::mem::take(&mut self.final_rows);
        let words = self.redactor.redact(text.trim()).into_owned();
        if words.is_empty() {
            return;
        }
        self.area.erase();
        let (columns, _) = screen_size();
        let rows = markdown::render(&words, columns, &self.output);
        match rows.strip_prefix(shown.as_slice()) {
            Some(rest) if !shown.is_empty() => rest.iter().for_each(|row| self.output.line(&row.text)),
            _ => self.output.styled_message(OutputStyle::Aside, &words),
        }
    }

    fn stable_text(&self) -> String {
        if self.text.len() > TEXT_BYTES_MAX {
            return String::new();
        }
        let stable = self.redactor.stable_bytes(&self.text);
        let stable = self.text.get(..stable).unwrap_or_default();
        self.redactor.redact(stable).into_owned()
    }

    /// Draws the text and the status row again, unless the turn is over.
    fn redraw(&mut self) {
        if self.is_finished || self.is_asking {
            return;
        }
        self.drawn = Instant::now();
        let (columns, rows) = screen_size();
        let text = self.stable_text();
        let lines = markdown::render(&text, columns, &self.output);
        let mut shown = lines
            .strip_prefix(self.final_rows.as_slice())
            .unwrap_or_default()
            .to_vec();
        let fitting = last_that_fit(&shown, rows.saturating_sub(ROWS_FREE) / 2, columns).len();
        let above = shown.len() - fitting;
        if above > 0 {
            self.area.erase();
            for row in shown.drain(..above) {
                self.output.line(&row.text);
                self.final_rows.push(row);
            }
        }
        let status = self.status.line(self.began.elapsed(), columns - 1);
        shown.push(ScreenLine {
            columns: ScreenLine::plain(&status).columns,
            text: self.output.dim(&status),
        });
        // The cursor stays behind the line.
        let room = columns.saturating_sub(INDICATOR.width() + 1);
        let typed = self.entered.as_ref().and_then(|entered| entered.typed(room));
        shown.extend(typed.map(|typed| ScreenLine::plain(&format!("{INDICATOR}{typed}"))));
        for line in &mut shown {
            line.text = visible(&line.text).into_owned();
        }
        self.area.draw(&shown, columns);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::LiveTurn;
    use crate::base::model::{ContextState, OutputNumber, Usage, Verdict, VerdictSource};
    use crate::base::redact::Redactor;
    use crate::cli::output::Output;
    use crate::cli::terminal::display::{CallFormat, Detail};
    use crate::engine::agent::{TurnEvent, TurnOutcome, WriteCounts};
    use std::sync::Arc;
    use std::time::Duration;

    fn turn() -> LiveTurn {
        let calls = CallFormat {
            detail: Detail::Usual,
            chars_max: 120,
        };
        LiveTurn::new(Output::plain(), calls, Arc::new(Redactor::new([])), None)
    }

    #[test]
    fn nothing_is_drawn_below_a_turn_that_is_over() {
        let outcome = TurnOutcome {
            verdict: Verdict::Cancelled,
            source: VerdictSource::Harness,
            answer: String::new(),
            notice: None,
            model: "anthropic/demo".to_owned(),
            fallback: None,
            steps: 1,
            tool_calls: 0,
            writes: WriteCounts::default(),
            usage: Usage::default(),
            took: Duration::ZERO,
            last_output: OutputNumber(0),
            context: ContextState::default(),
            is_waiting: false,
        };
        let ends: [fn(&mut LiveTurn, &TurnOutcome); 2] =
            [|turn, outcome| turn.finish(outcome), |turn, _| turn.abandon()];
        for end in ends {
            let mut turn = turn();
            turn.tick();
            assert!(turn.area.rows() > 0);
            end(&mut turn, &outcome);
            assert_eq!(turn.area.rows(), 0);
            // The task that draws may have been about to do so.
            turn.tick();
            turn.show(&TurnEvent::StepStarted { step: 2 });
            assert_eq!(turn.area.rows(), 0);
        }
    }
}
