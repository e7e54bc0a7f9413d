//! The result of a turn: the model's answer and the facts about the prepared change. It needs a few messages at most. A
//! long answer of the model becomes a file; facts, checks and buttons stay in the messages.

use crate::base::config::Config;
use crate::base::model::{
    Action, Button, Change, FoldState, Op, Reply, ReplyPart, Verdict, group_thousands, totals,
};
use crate::engine::agent::TurnOutcome;
use crate::engine::gateway::change_view;
use crate::engine::gateway::compose::{self, Address, FILE_BYTES_MAX, Facts, MESSAGES_MAX, NOT_APPLIED};
use crate::state::store::{NumberedChange, StoredChange};
use bytes::Bytes;
use std::sync::Arc;

/// Maximum number of bytes of an answer that are measured.
const SHOWN_BYTES_MAX: usize = 128 << 10;
/// Bytes of an answer that are kept before an inline diff is dropped.
const SHOWN_BYTES_MIN: usize = 1_000;
/// Maximum number of lines of an answer above a change. All of it follows below.
const LEAD_LINES_MAX: usize = 3;
/// Maximum number of bytes of these lines.
const LEAD_BYTES_MAX: usize = 400;
/// Maximum number of bytes of an answer in the fold of a result.
const FOLDED_BYTES_MAX: usize = 6_000;
/// Size up to which an answer is measured only together with the rest of the result.
const SHORT_BYTES_MAX: usize = 4 << 10;
/// The name of the file with the full answer.
const FILE_NAME: &str = "answer.md";

/// The model's final answer and how much of it can be shown.
pub(super) struct ModelAnswer {
    whole: String,
    shown: usize,
}

impl ModelAnswer {
    /// Measures how much of a long answer fits into one reply. This never runs on the store's thread.
    pub(super) async fn measure(whole: String, address: &Address, config: &Arc<Config>) -> Self {
        let shown = whole.len();
        let said = Self { whole, shown };
        if shown <= SHORT_BYTES_MAX {
            return said;
        }
        let (address, config) = (address.clone(), Arc::clone(config));
        let fitted = tokio::task::spawn_blocking(move || said.fitted(&address, &config));
        // The task cannot panic. If it did, the answer would lack the model's words.
        fitted.await.unwrap_or_else(|_| Self {
            whole: String::new(),
            shown: 0,
        })
    }

    /// True if the model gave no answer.
    pub(super) fn is_empty(&self) -> bool {
        self.whole.is_empty()
    }

    fn fitted(self, address: &Address, config: &Config) -> Self {
        let alone = |shown: &str| {
            let text = shown.to_owned();
            let reply = Reply {
                parts: vec![ReplyPart::Markdown { text }],
            };
            address.fits(config, &reply, MESSAGES_MAX - 1)
        };
        let fits = |shown: &usize| alone(self.first(*shown));
        let shown = sizes(self.shown.min(SHOWN_BYTES_MAX)).find(fits).unwrap_or(0);
        let shown = self.first(shown).len();
        Self { shown, ..self }
    }

    /// Returns the start of the answer within a number of bytes: whole lines if possible, else whole words.
    fn first(&self, bytes_max: usize) -> &str {
        if bytes_max >= self.whole.len() {
            return &self.whole;
        }
        let end = self.whole.floor_char_boundary(bytes_max);
        let start = self.whole.get(..end).unwrap_or_default();
        let after = |separator: char| start.rfind(separator).filter(|at| *at > end / 2);
        let at = after('\n').or_else(|| after(' ')).unwrap_or(end);
        start.get(..at).unwrap_or_default()
    }

    /// Returns the line that names the file, if the answer is cut.
    fn note(&self, shown: &str) -> Option<String> {
        let bytes = self.whole.len();
        if shown.len() == bytes {
            return None;
        }
        let all = group_thousands(bytes as u64);
        Some(match bytes > FILE_BYTES_MAX {
            false => format!(
                "The answer is cut here: it has {all} bytes, and the full text follows as `{FILE_NAME}`."
            ),
            true => format!(
                "The answer is cut here: it has {all} bytes, and the first {} follow as `{FILE_NAME}`.",
                group_thousands(FILE_BYTES_MAX as u64)
            ),
        })
    }

    fn file(&self, address: &Address) -> Op {
        let end = self.whole.floor_char_boundary(FILE_BYTES_MAX);
        let content = self.whole.get(..end).unwrap_or_default();
        let action = Action::Upload {
            file_name: FILE_NAME.to_owned(),
            content: Bytes::copy_from_slice(content.as_bytes()),
            caption: "What the model answered.".to_owned(),
        };
        address.op(FILE_NAME, action)
    }
}

/// Returns a number of bytes, then repeated halves, then zero.
fn sizes(bytes: usize) -> impl Iterator<Item = usize> {
    std::iter::successors(Some(bytes), |bytes| (*bytes > 0).then_some(bytes / 2))
}

/// The messages of a result and their files.
pub(super) struct ResultMessages {
    pub(super) messages: Vec<Reply>,
    /// The full answer, if it is cut in the messages.
    pub(super) file: Option<Op>,
    /// The largest diff that is shown inline, in bytes.
    pub(super) inline_diff_bytes_max: usize,
}

/// The state of the writes of a turn, including those before a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriteState {
    /// There were certainly no writes.
    Nothing,
    /// There were writes, or it is unknown.
    Possible,
}

/// The prepared change after a turn.
#[derive(Clone, Copy)]
pub(super) enum RemainingChange<'a> {
    /// No change.
    Nothing,
    /// A change that was not reported before.
    New(&'a Change),
    /// An earlier turn's change, untouched by this one.
    Unchanged(&'a Change),
    /// The change of this name is closed, because the workspace equals its base.
    Closed(&'a str),
}

impl<'a> RemainingChange<'a> {
    pub(super) fn from_stored(leaves: StoredChange<'a>) -> Self {
        match leaves {
            StoredChange::Nothing => Self::Nothing,
            StoredChange::Closed(name) => Self::Closed(name),
            StoredChange::Change(NumberedChange { change, is_new: true }) => Self::New(change),
            StoredChange::Change(NumberedChange { change, .. }) => Self::Unchanged(change),
        }
    }

    /// Returns the change to show.
    pub(super) fn shown(self) -> Option<&'a Change> {
        match self {
            Self::New(change) => Some(change),
            Self::Nothing | Self::Unchanged(_) | Self::Closed(_) => None,
        }
    }
}

pub(super) struct TurnResult<'a> {
    pub(super) address: &'a Address,
    pub(super) config: &'a Config,
    pub(super) remaining_change: RemainingChange<'a>,
    pub(super) outcome: &'a TurnOutcome,
    pub(super) write_state: WriteState,
    pub(super) model_answer: &'a ModelAnswer,
    /// A line that the files are not current, if so.
    pub(super) stale: Option<String>,
    /// Lines about files that were not read, and about open changes of others in the same files.
    pub(super) remarks: Vec<String>,
    pub(super) facts: Facts,
    pub(super) buttons: Vec<Button>,
}

impl TurnResult<'_> {
    /// Returns the result in at most five messages. First the answer is shortened, then the diff moves to its file,
    /// then the answer moves to its file. The program's own text is never cut, even if it needs more messages.
    pub(super) fn messages(&self) -> ResultMessages {
        let inline = self.config.limits.inline_diff_bytes_max;
        // Beside a change, an answer is a detail.
        let most = match self.remaining_change.shown() {
            Some(_) => self.model_answer.shown.min(FOLDED_BYTES_MAX),
            None => self.model_answer.shown,
        };
        // The first words of the answer are shown in any case.
        let least = match self.remaining_change.shown() {
            Some(_) => 0,
            None => SHOWN_BYTES_MIN,
        };
        let is_enough = |bytes: &usize| *bytes == most || *bytes >= least;
        let with_diff = sizes(most).take_while(is_enough);
        let with_diff = with_diff.map(|bytes| (bytes, inline));
        let without = sizes(most).map(|bytes| (bytes, 0));
        with_diff
            .chain(without)
            .map(|(bytes, inline)| self.paged(bytes, inline))
            .find(|pages| pages.messages.len() + self.file_messages(pages) <= MESSAGES_MAX)
            .unwrap_or_else(|| self.paged(0, 0))
    }

    /// Returns the number of messages that show files of an answer beside a change.
    fn file_messages(&self, pages: &ResultMessages) -> usize {
        usize::from(pages.file.is_some() && self.remaining_change.shown().is_some())
    }

    fn paged(&self, shown_bytes_max: usize, inline_diff_bytes_max: usize) -> ResultMessages {
        let shown = self.model_answer.first(shown_bytes_max);
        let note = self.model_answer.note(shown);
        let file = note.is_some().then(|| self.model_answer.file(self.address));
        let reply = self.reply(shown, note, inline_diff_bytes_max);
        ResultMessages {
            messages: self.address.split(self.config, &reply),
            file,
            inline_diff_bytes_max,
        }
    }

    /// Returns the result before the split into messages, with this part of the answer.
    fn reply(&self, shown: &str, note: Option<String>, inline_diff_bytes_max: usize) -> Reply {
        let mut parts = Vec::new();
        if let Some(to) = &self.address.mention {
            parts.push(ReplyPart::Mention { to: to.clone() });
        }
        parts.extend(self.heading().map(|text| ReplyPart::Heading { text }));
        let Some(change) = self.remaining_change.shown() else {
            parts.extend(self.unwritten().map(text));
            parts.extend(self.notice().map(text));
            parts.extend(markdown(shown));
            parts.extend(self.notes(note).map(text));
            parts.extend(self.change_note().map(text));
            parts.extend(self.buttons());
            parts.push(ReplyPart::Footer { text: self.footer() });
            return Reply { parts };
        };
        let lead = lead(&self.model_answer.whole);
        parts.extend(change_view::failures(change));
        parts.extend(self.notice().map(text));
        parts.push(text(NOT_APPLIED.to_owned()));
        parts.extend(markdown(&quoted(lead)));
        parts.extend(self.notes(note).map(text));
        parts.extend(self.unwritten().map(text));
        parts.extend(change_view::overview(change));
        parts.push(change_view::checks(change));
        parts.extend(change_view::diff(change, inline_diff_bytes_max));
        if lead != shown && !shown.is_empty() {
            parts.push(ReplyPart::Fold {
                title: match shown.len() == self.model_answer.whole.len() {
                    true => "The whole answer".to_owned(),
                    false => "The answer, cut".to_owned(),
                },
                state: FoldState::Closed,
                parts: markdown(shown).into_iter().collect(),
            });
        }
        parts.extend(self.buttons());
        let mut footer = format!("base {} · {}", compose::short(&change.base), self.facts.line());
        // The change of a hook belongs to nobody who could pull it.
        if !self.config.server.public_url.is_empty() && self.address.mention.is_some() {
            footer.push_str(&format!(" · `drydock pull CHG-{}`", change.number));
        }
        parts.push(ReplyPart::Footer { text: footer });
        Reply { parts }
    }

    /// Returns the lines about the answer itself: where all of it is, which model gave it, and old files.
    fn notes(&self, cut: Option<String>) -> impl Iterator<Item = String> {
        let about = [cut, self.outcome.fallback.clone(), self.stale.clone()];
        about.into_iter().flatten().chain(self.remarks.clone())
    }

    fn buttons(&self) -> Option<ReplyPart> {
        let buttons = self.buttons.clone();
        (!buttons.is_empty()).then_some(ReplyPart::Buttons { buttons })
    }

    /// Returns the first line of a result, which notifications show.
    pub(super) fn headline(&self) -> String {
        self.heading()
            .unwrap_or_else(|| "Here is your answer.".to_owned())
    }

    /// Returns the heading above the model's words. An answer without a requested change has none.
    fn heading(&self) -> Option<String> {
        let is_whole = self.outcome.notice.is_none();
        Some(match self.remaining_change {
            RemainingChange::New(change) if is_whole => format!("{change} is ready: {}", size(change)),
            RemainingChange::New(change) if self.outcome.verdict == Verdict::Fail => {
                let failing = change_view::failing_count(change).unwrap_or_else(|| size(change));
                format!("{change} is not ready: {failing}")
            }
            RemainingChange::New(change) => format!("{change} is not finished: {}", size(change)),
            RemainingChange::Closed(name) => format!("{name} is closed."),
            RemainingChange::Nothing if !is_whole => "No change was prepared.".to_owned(),
            RemainingChange::Unchanged(_) if self.notice().is_some() => "Nothing was changed.".to_owned(),
            RemainingChange::Nothing | RemainingChange::Unchanged(_) if self.unwritten().next().is_some() => {
                "Nothing was changed.".to_owned()
            }
            RemainingChange::Nothing | RemainingChange::Unchanged(_) => return None,
        })
    }

    /// Returns the notice of what cut the turn short. If the change is unchanged, failed checks are described as
    /// failures of that change.
    fn notice(&self) -> Option<String> {
        let is_of_change = self.outcome.verdict == Verdict::Fail
            && matches!(self.remaining_change, RemainingChange::Unchanged(_));
        self.outcome.notice.clone().filter(|_| !is_of_change)
    }

    /// Returns the writes that did not happen: all refused ones, and the failed ones if nothing was written.
    fn unwritten(&self) -> impl Iterator<Item = String> {
        let writes = &self.outcome.writes;
        let has_nothing = self.remaining_change.shown().is_none();
        let failures = writes.failures().filter(|_| has_nothing && writes.done == 0);
        writes.refusals().into_iter().chain(failures)
    }

    /// Returns the line about a change that this turn did not touch, or that is closed.
    fn change_note(&self) -> Option<String> {
        let change = match self.remaining_change {
            RemainingChange::Unchanged(change) => change,
            RemainingChange::Closed(_) => {
                return Some("Nothing differs from the base any more, so nothing is prepared.".to_owned());
            }
            RemainingChange::Nothing | RemainingChange::New(_) => return None,
        };
        let fails = match self.outcome.verdict {
            Verdict::Fail => " and fails a check",
            _ => "",
        };
        Some(format!("{change} stays as it was{fails}; `diff` shows it."))
    }

    /// Returns the counts of a turn that prepared nothing.
    fn footer(&self) -> String {
        let facts = self.facts.line();
        match self.write_state {
            WriteState::Nothing => format!("no file changed · {facts}"),
            WriteState::Possible => facts,
        }
    }
}

/// Returns the environments and the size of a change: `dev, 1 file, +2 −2`.
fn size(change: &Change) -> String {
    let totals = totals(&change.stats);
    match change.overview.scope.as_str() {
        "" => totals,
        scope => format!("{scope}, {totals}"),
    }
}

fn text(text: String) -> ReplyPart {
    ReplyPart::Text { text }
}

fn markdown(words: &str) -> Option<ReplyPart> {
    let text = words.to_owned();
    (!words.is_empty()).then_some(ReplyPart::Markdown { text })
}

/// Returns words of a model as a quote, which sets them apart from the facts around them.
fn quoted(words: &str) -> String {
    let lines = words
        .lines()
        .map(|line| format!("> {line}").trim_end().to_owned());
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns the first lines of an answer, at most three. A code block does not begin in them.
fn lead(answer: &str) -> &str {
    let mut end = 0;
    let mut lines = 0;
    for line in answer.split_inclusive('\n') {
        let words = line.trim();
        if words.starts_with("```") || words.starts_with("~~~") || lines == LEAD_LINES_MAX {
            return answer.get(..end).unwrap_or_default().trim_end();
        }
        if end + line.len() > LEAD_BYTES_MAX {
            let room = answer.floor_char_boundary(LEAD_BYTES_MAX);
            let part = answer.get(..room).unwrap_or_default();
            return part
                .rsplit_once(char::is_whitespace)
                .map_or(part, |(words, _)| words);
        }
        end += line.len();
        lines += usize::from(!words.is_empty());
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::{ModelAnswer, sizes};

    #[test]
    fn an_answer_is_cut_after_whole_lines_and_says_so() {
        let said = |whole: &str| ModelAnswer {
            whole: whole.to_owned(),
            shown: whole.len(),
        };
        assert_eq!(said("one\ntwo\nthree").first(10), "one\ntwo");
        assert_eq!(said("one two three").first(10), "one two");
        assert_eq!(said("ääää").first(5), "ää");
        assert_eq!(said("all").first(3), "all");
        assert_eq!(said("all").note("all"), None);
        let cut = said(&"x".repeat(2_000)).note("x");
        let note = "The answer is cut here: it has 2,000 bytes, and the full text follows as `answer.md`.";
        assert_eq!(cut.as_deref(), Some(note));
        assert_eq!(sizes(9).collect::<Vec<_>>(), [9, 4, 2, 1, 0]);
    }
}
