//! The content of a stream: the chunks that turn what it shows into a newer state of the work. Nothing can be taken out of
//! a stream, so words are appended once they are complete, and everything that changes is a task or the title. If the
//! model is asked again, what it repeats is not appended again, and other words follow a line that says so. Words are
//! rich text in `blocks` chunks: a `markdown_text` chunk has no option against mentions, links and previews. See
//! <https://docs.slack.dev/reference/methods/chat.appendStream>.

use super::plan;
use super::rich_text;
use super::written_piece::next_piece;
use crate::base::model::{Reply, ReplyPart, TaskList};
use crate::interfaces::channel::markdown::{backticks, parse};
use serde_json::{Value, json};

/// The maximum number of tasks. Slack documents 50 for a plan.
const TASKS_MAX: usize = 50;
/// The maximum number of pieces of words; Slack allows 50 blocks in the chunks of a stream.
const PIECES_MAX: usize = 45;
/// The maximum number of characters of all words, which is Slack's limit for a text in Markdown.
const WORDS_CHARS_MAX: usize = 12_000;
/// The maximum number of characters of one piece.
const PIECE_CHARS_MAX: usize = 3_000;
/// The maximum number of characters of a block; Slack refuses messages with blocks of about 13,200.
const BLOCK_CHARS_MAX: usize = 10_000;
/// The line before the words of an answer that replaces one of which words are shown.
const BEGINS_AGAIN: &str = "*The model was interrupted and begins again:*";

/// The content that a stream shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct StreamContent {
    title: String,
    /// The title and the status of each task, by its id.
    tasks: Vec<(usize, String, &'static str)>,
    /// The newest words, as far as they are known.
    words: String,
    /// The number of calls when the words were taken.
    calls: usize,
    /// The beginning of the newest answer that is shown. It is kept until the words of another answer differ.
    shown: String,
    /// The step of that answer: its heading, and the number of calls before it.
    step: (String, usize),
    /// True if other words of the same step are shown, and the line that says so is not.
    begins_again: bool,
    pieces: usize,
    chars: usize,
}

impl StreamContent {
    /// Returns the content after a newer state of the work, and the chunks that lead to it.
    pub(super) fn next(&self, work: &Reply) -> (Self, Vec<Value>) {
        let mut next = self.clone();
        let mut chunks = Vec::new();
        next.title = title(work);
        if next.title != self.title {
            chunks.push(json!({"type": "plan_update", "title": next.title}));
        }
        next.tasks = tasks(work);
        let changed = next.tasks.iter().filter(|task| !self.tasks.contains(task));
        chunks.extend(changed.map(|(id, title, status)| {
            json!({"type": "task_update", "id": format!("task-{id}"), "title": title, "status": status})
        }));
        let block = next.append(words(work), (heading(work), next.tasks.len()));
        chunks.extend(block.map(|block| json!({"type": "blocks", "blocks": [block]})));
        (next, chunks)
    }

    /// Returns this content with the words of another one, of which it is not known whether they arrived. Tasks and the
    /// title can be sent again, words cannot.
    pub(super) fn with_words_of(self, other: Self) -> Self {
        Self {
            title: self.title,
            tasks: self.tasks,
            ..other
        }
    }

    /// Appends the complete words that are not shown yet. An unfinished rest of older words is left out: it was redacted
    /// before the turn learnt its newest secrets.
    fn append(&mut self, newest: &str, step: (String, usize)) -> Option<Value> {
        // The words before a call are complete once it begins.
        let has_new_call = step.1 > std::mem::replace(&mut self.calls, step.1);
        // Between two answers there are no words.
        let before = std::mem::replace(&mut self.words, newest.to_owned());
        let was_known = !before.is_empty();
        if newest.is_empty() {
            return None;
        }
        let is_same_step = step == self.step;
        let goes_on = match self.shown.is_empty() {
            true => was_known && newest.starts_with(&before),
            false => newest.starts_with(&self.shown) && (was_known || is_same_step),
        };
        if !goes_on {
            if is_same_step && self.shown.starts_with(newest) {
                return None;
            }
            self.begins_again = is_same_step && (self.begins_again || !self.shown.is_empty());
            self.shown.clear();
            self.step = step;
        }
        // Words that are new together with a call may be those after it.
        let end = match has_new_call && goes_on && was_known {
            true => newest.len(),
            false => next_piece(newest, self.shown.len()),
        };
        let piece = newest.get(self.shown.len()..end).unwrap_or_default();
        newest.get(..end).unwrap_or_default().clone_into(&mut self.shown);
        self.piece(piece)
    }

    /// Returns the block of a piece of words, if there is room for it.
    fn piece(&mut self, words: &str) -> Option<Value> {
        let words = words.trim();
        if words.is_empty() || self.pieces >= PIECES_MAX {
            return None;
        }
        let mut words = beginning(words, PIECE_CHARS_MAX);
        if std::mem::take(&mut self.begins_again) {
            words = format!("{BEGINS_AGAIN}\n\n{words}");
        }
        self.pieces += 1;
        self.chars += words.chars().count();
        if self.pieces == PIECES_MAX || self.chars > WORDS_CHARS_MAX {
            self.pieces = PIECES_MAX;
            "…".clone_into(&mut words);
        }
        // No host may be linked, because a stream has no option against previews.
        let block = rich_text::block(rich_text::elements(&parse(&words, &[])))?;
        if block.to_string().chars().count() <= BLOCK_CHARS_MAX {
            return Some(block);
        }
        rich_text::line(rich_text::spans(&backticks(&words.replace('`', "'"))))
    }
}

/// Returns the heading of the work alone.
fn heading(work: &Reply) -> String {
    let heading = work.parts.iter().find_map(|part| match part {
        ReplyPart::Heading { text } => Some(text.clone()),
        ReplyPart::Tasks { list } => Some(list.title.clone()),
        _ => None,
    });
    heading.unwrap_or_default()
}

/// Returns the heading of the work, with the notes below it: only the title of a stream can change.
fn title(work: &Reply) -> String {
    let lines = work.parts.iter().filter_map(|part| match part {
        ReplyPart::Heading { text } | ReplyPart::Text { text } => Some(text.replace('\n', " · ")),
        ReplyPart::Tasks { list } => Some(list.title.clone()),
        _ => None,
    });
    plan::title(&lines.collect::<Vec<_>>().join(" · "))
}

/// Returns the tasks with their ids. Those that have no room share the last one, which shows the newest.
fn tasks(work: &Reply) -> Vec<(usize, String, &'static str)> {
    let list = work.parts.iter().find_map(|part| match part {
        ReplyPart::Tasks { list } => Some(list),
        _ => None,
    });
    let Some(TaskList { earlier, tasks, .. }) = list else {
        return Vec::new();
    };
    let numbered = tasks.iter().zip(earlier + 1..);
    let mut shown: Vec<_> = numbered
        .take_while(|(_, number)| *number < TASKS_MAX)
        .map(|(task, number)| (number, plan::title(&task.text), plan::status(task.state)))
        .collect();
    let count = (earlier + tasks.len()).saturating_sub(TASKS_MAX - 1);
    if let Some(newest) = tasks.last().filter(|_| count > 0) {
        let text = match count {
            1 => newest.text.clone(),
            _ => format!("{count} more, now {}", newest.text),
        };
        shown.push((TASKS_MAX, plan::title(&text), plan::status(newest.state)));
    }
    shown
}

fn words(work: &Reply) -> &str {
    let words = work.parts.iter().find_map(|part| match part {
        ReplyPart::Markdown { text } => Some(text.as_str()),
        _ => None,
    });
    words.unwrap_or_default()
}

/// Returns the beginning of a text, with a sign if it is not the whole.
fn beginning(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
#[allow(clippy::panic)]
mod tests {
    use super::{PIECES_MAX, StreamContent, TASKS_MAX, WORDS_CHARS_MAX};
    use crate::base::model::{Button, ButtonStyle, ListedTask, Reply, ReplyPart, TaskList, TaskState};
    use serde_json::{Value, json};

    fn work(calls: &[(&str, TaskState)], note: &str, words: &str) -> Reply {
        let tasks = calls.iter().map(|(text, state)| ListedTask {
            text: (*text).to_owned(),
            state: *state,
        });
        let list = TaskList {
            title: "Working, step 1".to_owned(),
            earlier: 0,
            tasks: tasks.collect(),
        };
        let mut work = Reply::default().with(match calls {
            [] => ReplyPart::Heading {
                text: "Working, step 1".to_owned(),
            },
            _ => ReplyPart::Tasks { list },
        });
        if !note.is_empty() {
            work = work.with(ReplyPart::Text {
                text: note.to_owned(),
            });
        }
        if !words.is_empty() {
            work = work.with(ReplyPart::Markdown {
                text: words.to_owned(),
            });
        }
        let stop = Button::new("Stop", "t", ButtonStyle::Danger);
        work.with(ReplyPart::Buttons { buttons: vec![stop] })
    }

    /// Returns the texts of all words in some chunks.
    fn words_in(chunks: &[Value]) -> Vec<String> {
        let blocks = chunks.iter().filter_map(|chunk| chunk["blocks"].as_array());
        blocks.flatten().map(text_of).collect()
    }

    fn text_of(node: &Value) -> String {
        let children = node["elements"].as_array().into_iter().flatten();
        let own = node["text"].as_str().unwrap_or_default();
        format!("{own}{}", children.map(text_of).collect::<String>())
    }

    #[test]
    fn only_what_changed_is_appended() {
        let (shown, chunks) = StreamContent::default().next(&work(&[], "", ""));
        assert_eq!(
            chunks,
            [json!({"type": "plan_update", "title": "Working, step 1"})]
        );
        let (shown, chunks) = shown.next(&work(&[("file_list *", TaskState::Running)], "", ""));
        let task = |id: &str, title: &str, status: &str| json!({"type": "task_update", "id": id, "title": title, "status": status});
        assert_eq!(chunks, [task("task-1", "file_list *", "in_progress")]);
        let two = [
            ("file_list *", TaskState::Done),
            ("file_read a", TaskState::Running),
        ];
        let (shown, chunks) = shown.next(&work(&two, "1 message waiting", ""));
        assert_eq!(
            chunks,
            [
                json!({"type": "plan_update", "title": "Working, step 1 · 1 message waiting"}),
                task("task-1", "file_list *", "complete"),
                task("task-2", "file_read a", "in_progress"),
            ]
        );
        let (_, chunks) = shown.next(&work(&two, "1 message waiting", ""));
        assert_eq!(chunks, Vec::<Value>::new());
    }

    #[test]
    fn words_are_appended_once_and_those_of_a_new_step_begin_a_paragraph() {
        let (one, two) = (
            [("file_list *", TaskState::Running)],
            [
                ("file_list *", TaskState::Done),
                ("file_read a", TaskState::Running),
            ],
        );
        let mut shown = StreamContent::default();
        let mut seen = Vec::new();
        for (calls, words) in [
            (&[][..], "I read the file."),
            (&[], "I read the file. Then I"),
            (&[], "I read the file. Then I edit it."),
            (&[], "I read the file. Then I edit it. At last"),
            (&one, "I read the file. Then I edit it. At last"),
            (&one, ""),
            (&one, "Now the second step."),
            (&one, "Now the second step. The"),
            (&two, "Now the second step. The end"),
        ] {
            let (next, chunks) = shown.next(&work(calls, "", words));
            seen.extend(words_in(&chunks));
            shown = next;
        }
        assert_eq!(
            seen,
            [
                "I read the file.",
                "Then I edit it.",
                "At last",
                "Now the second step.",
                "The end"
            ]
        );
    }

    /// Returns what a stream gets for these words of one step, with no words between two answers.
    fn words_of_step(states: &[&str]) -> Vec<String> {
        let mut shown = StreamContent::default();
        let mut seen = Vec::new();
        for words in states {
            let (next, chunks) = shown.next(&work(&[], "", words));
            seen.extend(words_in(&chunks));
            shown = next;
        }
        seen
    }

    #[test]
    fn what_a_model_repeats_after_a_failed_call_is_shown_once() {
        let seen = words_of_step(&[
            "I read it. Then I",
            "",
            "I read",
            "I read it.",
            "I read it. Then I stop. And",
            "",
            "I read it. Then I stop. And no more.",
        ]);
        assert_eq!(seen, ["I read it.", "Then I stop.", "And no more."]);
        // The pause between the calls may be too short to be seen.
        let seen = words_of_step(&["I read it. Then I", "I read", "I read it. Now I go."]);
        assert_eq!(seen, ["I read it.", "Now I go."]);
    }

    #[test]
    fn other_words_after_a_failed_call_follow_one_line_that_says_so() {
        let again = "The model was interrupted and begins again:";
        for states in [
            &[
                "I read it. Th",
                "",
                "I look",
                "I look at it. N",
                "I look at it. No more.",
            ][..],
            &["I read it. Th", "I look at it. N", "I look at it. No more."],
            // Another attempt failed before it had a whole sentence.
            &[
                "I read it. Th",
                "",
                "Well",
                "",
                "I look at it. N",
                "I look at it. No more.",
            ],
            &[
                "I read it. Th",
                "",
                "I read",
                "I look at it. N",
                "I look at it. No more.",
            ],
        ] {
            let seen = words_of_step(states);
            let [first, second, third] = seen.as_slice() else {
                panic!("{seen:?}");
            };
            assert_eq!((first.as_str(), third.as_str()), ("I read it.", "No more."));
            assert!(
                second.starts_with(again) && second.ends_with("I look at it."),
                "{second}"
            );
        }
        // Nothing of the failed call was shown.
        assert_eq!(
            words_of_step(&["I read", "", "I look at it. N"]),
            ["I look at it."]
        );
        // The next step replaces nothing.
        let step = |number: u32, words: &str| {
            let heading = format!("Working, step {number}");
            Reply::default()
                .with(ReplyPart::Heading { text: heading })
                .with(ReplyPart::Markdown {
                    text: words.to_owned(),
                })
        };
        let (shown, _) = StreamContent::default().next(&step(1, "I read it. Th"));
        let (_, chunks) = shown.next(&step(2, "I look at it. N"));
        assert_eq!(words_in(&chunks), ["I look at it."]);
    }

    /// Words that were redacted before a call are not sent after it, because the call may have shown a secret.
    #[test]
    fn unfinished_words_are_never_sent_later() {
        let (shown, chunks) = StreamContent::default().next(&work(&[], "", "The password is s3cret"));
        assert_eq!(words_in(&chunks), Vec::<String>::new());
        let calls = [("file_read a", TaskState::Done)];
        for newest in ["", "The password is [masked]", "Now the next step."] {
            let (_, chunks) = shown.next(&work(&calls, "", newest));
            assert!(!words_in(&chunks).concat().contains("s3cret"), "{newest}");
        }
    }

    /// The answer of a call was lost, so words are not sent again, but tasks and the title are.
    #[test]
    fn after_a_lost_answer_everything_but_the_words_is_sent_again() {
        let shown = StreamContent::default();
        let work = work(&[("file_list *", TaskState::Done)], "", "Done.");
        let (next, first) = shown.next(&work);
        let (_, again) = shown.with_words_of(next).next(&work);
        assert_eq!(first.len(), 3);
        assert_eq!(again, first[..2]);
    }

    #[test]
    fn what_the_model_writes_is_literal_in_a_stream() {
        let hostile =
            "<!channel> <@U0ALICE> @here https://evil.example [a](https://github.com/acme) <#C0OPS>.";
        let (_, chunks) =
            StreamContent::default().next(&work(&[("a <!here>", TaskState::Done)], "", hostile));
        let text = json!(chunks).to_string();
        for kind in [
            "user",
            "broadcast",
            "channel",
            "usergroup",
            "link",
            "markdown_text",
            "mrkdwn",
        ] {
            assert!(!text.contains(&format!("\"type\":\"{kind}\"")), "{text}");
        }
        assert!(
            words_in(&chunks)
                .concat()
                .starts_with("<!channel> <@U0ALICE> @here")
        );
    }

    #[test]
    fn a_stream_stays_within_the_limits_of_slack() {
        let names: Vec<String> = (1..=60).map(|number| format!("call {number}")).collect();
        let calls: Vec<(&str, TaskState)> = names
            .iter()
            .map(|name| (name.as_str(), TaskState::Done))
            .collect();
        let (shown, chunks) = StreamContent::default().next(&work(&calls, &"n".repeat(300), ""));
        let tasks: Vec<&Value> = chunks
            .iter()
            .filter(|chunk| chunk["type"] == "task_update")
            .collect();
        assert_eq!(tasks.len(), TASKS_MAX);
        assert_eq!(tasks[TASKS_MAX - 1]["title"], "11 more, now call 60");
        assert!(
            chunks[0]["title"]
                .as_str()
                .is_some_and(|title| title.chars().count() == 256)
        );
        let (mut shown, mut words, mut pieces) = (shown, String::new(), Vec::new());
        for number in 0..200 {
            words.push_str(&format!(
                "{} `{number}` {}. ",
                "`a` ".repeat(400),
                "w".repeat(200)
            ));
            let (next, chunks) = shown.next(&work(&calls, "", words.trim()));
            for chunk in chunks.iter().filter(|chunk| chunk["type"] == "blocks") {
                assert!(chunk.to_string().chars().count() < 13_000);
            }
            pieces.extend(words_in(&chunks));
            shown = next;
        }
        assert!(pieces.len() <= PIECES_MAX, "{}", pieces.len());
        assert!(pieces.concat().chars().count() <= WORDS_CHARS_MAX + 1);
        assert_eq!(pieces.last().map(String::as_str), Some("…"));
    }
}
