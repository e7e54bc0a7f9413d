//! The content of a running turn's status card: the current state in a few lines.

use super::written_text::{WrittenText, end_of};
use crate::base::model::{
    Button, ButtonStyle, ListedTask, Reply, ReplyPart, TaskList, TaskState, one_line, pluralize,
};
use crate::base::redact::Redactor;
use crate::engine::agent::TurnEvent;

/// Maximum number of work lines on the card. Older ones are only counted.
const LINES_SHOWN_MAX: usize = 6;
/// Longest description of a call in a line, in characters.
const LINE_CHARS_MAX: usize = 120;
/// Longest progress text in a line, in characters.
const PROGRESS_CHARS_MAX: usize = 60;
/// The content of a card.
#[derive(Clone, Debug, Default)]
pub(super) struct StatusCard {
    step: u32,
    lines: Vec<CardLine>,
    written: WrittenText,
    note: Option<String>,
    waiting: usize,
    is_resumed: bool,
    is_asking: bool,
    stop_token: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct CardLine {
    /// The id of the call in the line; empty if there is none.
    call: String,
    text: String,
    /// The progress of the call; empty until it is reported.
    progress: String,
    state: TaskState,
}

impl CardLine {
    fn task(&self) -> ListedTask {
        let colon = if self.progress.is_empty() { "" } else { ": " };
        ListedTask {
            text: format!("{}{colon}{}", self.text, self.progress),
            state: self.state,
        }
    }
}

impl StatusCard {
    /// Records the first model call.
    pub(super) fn set_started(&mut self) {
        self.step = 1;
    }

    pub(super) fn set_stop(&mut self, token: String) {
        self.stop_token = Some(token);
    }

    /// Records that a restart interrupted the message before.
    pub(super) fn set_resumed(&mut self) {
        self.is_resumed = true;
    }

    /// Records that the turn waits for an answer of the person.
    pub(super) fn set_asking(&mut self) {
        self.is_asking = true;
    }

    /// Applies a turn event.
    pub(super) fn observe(&mut self, event: &TurnEvent) {
        self.written.observe(event);
        match event {
            TurnEvent::StepStarted { step } => {
                self.step = *step;
                self.note = None;
            }
            TurnEvent::FallingBack { from, to, why } => {
                self.note = Some(format!("{from} does not answer ({why}); {to} goes on"));
            }
            TurnEvent::Waiting { why, wait } => {
                self.note = Some(format!("{why}, retrying in {} s", wait.as_secs().max(1)));
            }
            TurnEvent::Summarising => {
                self.note = Some("Summarising the earlier conversation".to_owned());
            }
            TurnEvent::Checking(progress) => {
                self.note = Some(match progress.total {
                    0 => "Checking the change".to_owned(),
                    total => format!("Checking the change: {} of {total} renderings", progress.done),
                });
            }
            TurnEvent::MessageTaken { text } => {
                self.lines.push(CardLine {
                    call: String::new(),
                    text: format!("your message: {}", on_one_line(text, LINE_CHARS_MAX)),
                    progress: String::new(),
                    state: TaskState::Done,
                });
            }
            TurnEvent::SentBack { .. } => {
                self.note = None;
                self.lines.push(CardLine {
                    call: String::new(),
                    text: "checks; the model fixes what fails".to_owned(),
                    progress: String::new(),
                    state: TaskState::Failed,
                });
            }
            TurnEvent::ToolStarted {
                call, name, subject, ..
            } => {
                self.lines.push(CardLine {
                    call: call.clone(),
                    text: summary(name, subject.as_deref()),
                    progress: String::new(),
                    state: TaskState::Running,
                });
            }
            TurnEvent::ToolProgress { call, text, .. } => {
                if let Some(line) = self.running(call) {
                    line.progress = on_one_line(text, PROGRESS_CHARS_MAX);
                }
            }
            TurnEvent::ToolFinished { call, is_error, .. } => {
                if let Some(line) = self.running(call) {
                    line.state = if *is_error {
                        TaskState::Failed
                    } else {
                        TaskState::Done
                    };
                    line.progress.clear();
                }
            }
            TurnEvent::Text(_) | TurnEvent::Asked(_) | TurnEvent::Answered(_) => {}
        }
    }

    fn running(&mut self, call: &str) -> Option<&mut CardLine> {
        let mut lines = self.lines.iter_mut();
        lines.find(|line| line.state == TaskState::Running && line.call == call)
    }

    /// Raises the number of waiting messages to at least this value when the turn is claimed.
    pub(super) fn add_waiting(&mut self, waiting: usize) {
        self.waiting = self.waiting.max(waiting);
    }

    /// Sets the number of this conversation's messages that wait behind the turn.
    pub(super) fn set_waiting(&mut self, waiting: usize) {
        self.waiting = waiting;
    }

    /// Returns the card as a draft, which has the stop button of the platform.
    pub(super) fn draft(&self, redactor: &Redactor) -> Reply {
        let mut reply = self.reply(redactor);
        reply
            .parts
            .retain(|part| !matches!(part, ReplyPart::Buttons { .. }));
        reply
    }

    /// Returns the message that shows the card.
    pub(super) fn reply(&self, redactor: &Redactor) -> Reply {
        self.shown(LINES_SHOWN_MAX, &end_of(&self.written.words(redactor)))
    }

    /// Returns the message that shows the card, and one that leaves nothing out for its length.
    pub(super) fn reply_and_whole(&self, redactor: &Redactor) -> (Reply, Reply) {
        let words = self.written.words(redactor);
        (
            self.shown(LINES_SHOWN_MAX, &end_of(&words)),
            self.shown(usize::MAX, &words),
        )
    }

    /// Returns a message with the newest lines and these words.
    fn shown(&self, lines_max: usize, words: &str) -> Reply {
        let heading = if self.is_asking {
            "Waiting for your answer".to_owned()
        } else if self.step == 0 {
            "Working".to_owned()
        } else {
            format!("Working, step {}", self.step)
        };
        let mut reply = Reply::default().with(self.work(heading, lines_max));
        let notes = self.notes();
        if !notes.is_empty() {
            reply.parts.push(ReplyPart::Text {
                text: notes.join("\n"),
            });
        }
        if !words.is_empty() {
            reply.parts.push(ReplyPart::Markdown {
                text: words.to_owned(),
            });
        }
        if let Some(token) = &self.stop_token {
            let stop = Button::new("Stop", token, ButtonStyle::Danger);
            reply.parts.push(ReplyPart::Buttons { buttons: vec![stop] });
        }
        reply
    }
}

impl StatusCard {
    /// Returns the heading with the newest calls, if there are any.
    fn work(&self, heading: String, lines_max: usize) -> ReplyPart {
        if self.lines.is_empty() {
            return ReplyPart::Heading { text: heading };
        }
        let earlier = self.lines.len().saturating_sub(lines_max);
        let list = TaskList {
            title: heading,
            earlier,
            tasks: self.lines.iter().skip(earlier).map(CardLine::task).collect(),
        };
        ReplyPart::Tasks { list }
    }

    /// Returns the lines below the calls.
    fn notes(&self) -> Vec<String> {
        let resumed = "I was restarted and continue with this message.";
        let resumed = self.is_resumed.then(|| resumed.to_owned());
        let waiting = (self.waiting > 0).then(|| {
            let messages = pluralize(self.waiting, "message", "messages");
            format!("{messages} waiting")
        });
        let notes = [resumed, self.note.clone(), waiting];
        notes.into_iter().flatten().collect()
    }
}

/// Summarizes a call by its name and subject: `file_read environments/dev/main.jsonnet`.
fn summary(name: &str, subject: Option<&str>) -> String {
    let text = subject.map_or_else(|| name.to_owned(), |subject| format!("{name} {subject}"));
    on_one_line(&text, LINE_CHARS_MAX)
}

/// Returns the beginning of a text on one line without code spans.
pub(super) fn on_one_line(text: &str, chars_max: usize) -> String {
    // Backticks would start a code span in the card's text.
    let plain = text.replace('`', "'").replace(['\n', '\t'], " ");
    one_line(&plain).chars().take(chars_max).collect()
}

#[cfg(test)]
mod tests {
    use super::StatusCard;
    use crate::base::model::ReplyPart;
    use crate::base::redact::Redactor;
    use crate::engine::agent::TurnEvent;

    fn text(card: &StatusCard) -> String {
        card.reply(&Redactor::new([]))
            .parts
            .iter()
            .map(|part| match part {
                ReplyPart::Heading { text } | ReplyPart::Text { text } => text.clone(),
                ReplyPart::Tasks { list } => format!("{}\n{}", list.title, list.lines()),
                ReplyPart::Markdown { text } => format!("markdown: {text}"),
                _ => String::new(),
            })
            .collect::<Vec<_>>()
            .join("\n")
    }

    #[test]
    fn a_card_shows_what_the_model_writes() {
        let mut card = StatusCard::default();
        card.observe(&TurnEvent::StepStarted { step: 1 });
        card.observe(&TurnEvent::Text("I read `main.jsonnet`. Then".to_owned()));
        assert_eq!(text(&card), "Working, step 1\nmarkdown: I read `main.jsonnet`.");
        card.observe(&TurnEvent::StepStarted { step: 2 });
        assert_eq!(text(&card), "Working, step 2");
    }

    /// A stream needs the calls and words that a message leaves out.
    #[test]
    fn the_whole_card_has_all_calls_and_all_words() {
        let mut card = StatusCard::default();
        card.observe(&TurnEvent::StepStarted { step: 1 });
        card.observe(&TurnEvent::Text("One more word. ".repeat(100)));
        for number in 0..8 {
            card.observe(&TurnEvent::ToolStarted {
                call: number.to_string(),
                name: "file_list".into(),
                arguments: "{}".into(),
                subject: None,
            });
        }
        let (reply, whole) = card.reply_and_whole(&Redactor::new([]));
        assert_eq!(reply, card.reply(&Redactor::new([])));
        let [ReplyPart::Tasks { list }, ReplyPart::Markdown { text }] = whole.parts.as_slice() else {
            panic!("{whole:?}");
        };
        assert_eq!((list.earlier, list.tasks.len()), (0, 8));
        assert_eq!(text, "One more word. ".repeat(100).trim());
    }

    #[test]
    fn a_card_shows_the_newest_work_and_who_waits() {
        let mut card = StatusCard::default();
        card.observe(&TurnEvent::StepStarted { step: 2 });
        for number in 0..8 {
            let subject = format!("f{number}");
            card.observe(&TurnEvent::ToolStarted {
                call: number.to_string(),
                name: "file_read".into(),
                arguments: format!("{{\"path\":\"{subject}\"}}").into(),
                subject: Some(subject),
            });
            let is_error = number == 6;
            card.observe(&TurnEvent::ToolFinished {
                call: number.to_string(),
                name: "file_read".into(),
                content: String::new(),
                is_error,
            });
        }
        card.set_waiting(1);
        let expected = "Working, step 2\n… 2 earlier\n✓ file_read f2\n✓ file_read f3\n✓ file_read f4\n\
                        ✓ file_read f5\n✗ file_read f6\n✓ file_read f7\n1 message waiting";
        assert_eq!(text(&card), expected);
    }

    #[test]
    fn a_call_is_shown_by_its_subject_on_one_line() {
        let mut card = StatusCard::default();
        card.observe(&TurnEvent::StepStarted { step: 1 });
        let long = format!("`a`\n{}", "x".repeat(200));
        for subject in [None, Some("environments/dev".to_owned()), Some(long)] {
            card.observe(&TurnEvent::ToolStarted {
                call: "1".to_owned(),
                name: "tanka_show".to_owned(),
                arguments: "{\"path\":\"not shown\"}".into(),
                subject,
            });
        }
        let expected = format!(
            "Working, step 1\n… tanka_show\n… tanka_show environments/dev\n… tanka_show 'a' {}",
            "x".repeat(105)
        );
        assert_eq!(text(&card), expected);
    }

    #[test]
    fn a_card_names_the_model_that_does_not_answer_and_the_one_that_goes_on() {
        let mut card = StatusCard::default();
        card.observe(&TurnEvent::StepStarted { step: 1 });
        card.observe(&TurnEvent::FallingBack {
            from: "anthropic/a".to_owned(),
            to: "openai/b".to_owned(),
            why: "the model provider is overloaded".to_owned(),
        });
        let expected = "Working, step 1\nanthropic/a does not answer (the model provider is overloaded); openai/b goes on";
        assert_eq!(text(&card), expected);
        card.observe(&TurnEvent::StepStarted { step: 2 });
        assert_eq!(text(&card), "Working, step 2");
    }

    #[test]
    fn a_card_shows_how_far_each_running_call_is_and_no_longer_than_it_runs() {
        let mut card = StatusCard::default();
        card.observe(&TurnEvent::StepStarted { step: 1 });
        let started = |call: &str, path: &str| TurnEvent::ToolStarted {
            call: call.to_owned(),
            name: "jb_plan".to_owned(),
            arguments: format!("{{\"path\":\"{path}\"}}").into(),
            subject: Some(path.to_owned()),
        };
        let is_at = |call: &str, text: &str| TurnEvent::ToolProgress {
            call: call.to_owned(),
            name: "jb_plan".to_owned(),
            text: text.to_owned(),
        };
        card.observe(&started("1", "a"));
        card.observe(&started("2", "b"));
        card.observe(&is_at("2", "archive 8 of 40 MiB"));
        card.observe(&is_at("1", "archive 4 MiB"));
        card.observe(&is_at("2", "archive 12 of 40 MiB"));
        let expected = "Working, step 1\n… jb_plan a: archive 4 MiB\n… jb_plan b: archive 12 of 40 MiB";
        assert_eq!(text(&card), expected);
        card.observe(&TurnEvent::ToolFinished {
            call: "2".to_owned(),
            name: "jb_plan".to_owned(),
            content: String::new(),
            is_error: false,
        });
        // Late progress and progress of unknown calls change nothing.
        card.observe(&is_at("2", "archive 16 of 40 MiB"));
        card.observe(&is_at("3", "archive 16 of 40 MiB"));
        card.observe(&is_at("1", &format!("`code`\n{}", "x".repeat(100))));
        let expected = format!(
            "Working, step 1\n… jb_plan a: 'code' {}\n✓ jb_plan b",
            "x".repeat(53)
        );
        assert_eq!(text(&card), expected);
    }
}
