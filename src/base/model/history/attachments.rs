//! Attachments of the messages that begin turns. Where one is left out, a line with its name stays.

use super::{History, HistoryError, Turn};
use crate::base::model::{ATTACHED_BYTES_MAX, AttachedFile, Attachment};
use std::fmt::Write as _;

/// The beginning of the line that replaces an attachment of a trimmed turn.
pub(super) const TRIMMED_FILE: &str = "[trimmed]";

/// The overhead of an attachment in a request, in bytes, without its content.
const ATTACHMENT_BYTES: usize = 160;
/// The bytes of text that count as a token of an attachment. A request is as long as its tokens, not as its base64.
const TOKEN_BYTES: usize = 3;

/// Returns the number of bytes that attachments count in a request: those of a text with as many tokens.
pub(super) fn attached_bytes(attachments: &[Attachment]) -> usize {
    let bytes = attachments.iter().map(|attachment| {
        let tokens = usize::try_from(attachment.tokens()).unwrap_or(usize::MAX);
        ATTACHMENT_BYTES + attachment.file().name.len() + tokens.saturating_mul(TOKEN_BYTES)
    });
    bytes.fold(0, usize::saturating_add)
}

/// Returns a text with a line for each file whose content is not there; `mark` begins each line.
pub fn with_absent_files<'a>(
    text: &str,
    mark: &str,
    files: impl IntoIterator<Item = &'a AttachedFile>,
) -> String {
    let mut text = text.to_owned();
    for (index, file) in files.into_iter().enumerate() {
        let separator = if index == 0 { "\n\n" } else { "\n" };
        // Writing to a string cannot fail.
        let _ = write!(text, "{separator}{mark} {file}");
    }
    text
}

impl Turn {
    /// Returns the attachments of the message, in order.
    pub fn attachments(&self) -> &[Attachment] {
        &self.attachments
    }

    /// Returns the number of bytes of the contents of attachments in a request.
    pub fn base64_bytes(&self) -> usize {
        let contents = self.attachments.iter();
        contents.map(|attachment| attachment.base64().len()).sum()
    }

    /// Returns the user's text with a line for each attachment, whose content is not there.
    pub fn user_without_attachments(&self, mark: &str) -> String {
        with_absent_files(&self.user, mark, self.attachments.iter().map(Attachment::file))
    }

    /// Returns the turn without those attachments that `keeps` does not keep; a line that begins with `mark` stays for each.
    pub fn with_attachments_kept(&self, mark: &str, keeps: impl Fn(&Attachment) -> bool) -> Self {
        let (kept, absent): (Vec<_>, Vec<_>) = self.attachments.iter().cloned().partition(&keeps);
        let user = with_absent_files(&self.user, mark, absent.iter().map(Attachment::file));
        let mut turn = Self::new(self.id, user).with_attachments(kept);
        for step in self.steps.iter() {
            turn.push(step.clone());
        }
        turn
    }

    /// Adds the attachments of the message.
    pub(super) fn with_attachments(mut self, attachments: Vec<Attachment>) -> Self {
        self.bytes += attached_bytes(&attachments);
        self.attachments.extend(attachments);
        self
    }

    /// Replaces the attachments by lines.
    pub(super) fn trim_attachments(&mut self) {
        if !self.attachments.is_empty() {
            *self = self.with_attachments_kept(TRIMMED_FILE, |_| false);
        }
    }
}

impl History {
    /// Starts a turn with a message that has attachments. If the contents of all turns do not fit into a request, those of the
    /// oldest turns are left out.
    pub fn begin_attached(
        &mut self,
        user: impl Into<String>,
        attachments: Vec<Attachment>,
    ) -> Result<(), HistoryError> {
        self.begin_turn(Turn::new(None, user.into()).with_attachments(attachments))?;
        // Three bytes are four characters of base64.
        let mut room = ATTACHED_BYTES_MAX / 3 * 4;
        let last = self.turns.len().saturating_sub(1);
        for (index, turn) in self.turns.iter_mut().enumerate().rev() {
            let bytes = turn.base64_bytes();
            if bytes <= room || index == last {
                room = room.saturating_sub(bytes);
                continue;
            }
            room = 0;
            self.bytes -= turn.bytes;
            turn.trim_attachments();
            self.bytes += turn.bytes;
        }
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use crate::base::model::{Attachment, History, MediaType, Turn};

    fn image(name: &str, bytes: usize) -> Attachment {
        Attachment::new(name, MediaType::Png, &vec![b'x'; bytes])
    }

    fn counted(history: &History) -> usize {
        history.turns().iter().map(Turn::bytes).sum()
    }

    fn names(turn: &Turn) -> Vec<&str> {
        let files = turn.attachments().iter().map(Attachment::file);
        files.map(|file| file.name.as_str()).collect()
    }

    /// STK-39
    #[test]
    fn attachments_count_as_a_text_with_as_many_tokens() {
        let (mut plain, mut attached) = (History::default(), History::default());
        plain.begin("see").unwrap();
        attached
            .begin_attached("see", vec![image("a.png", 9), image("b.png", 3_000_000)])
            .unwrap();
        let more = attached.bytes() - plain.bytes();
        assert!((2 * 3 * 4_784..2 * 3 * 5_000).contains(&more), "{more}");
        assert_eq!(attached.bytes(), counted(&attached));
        assert_eq!(attached.turns()[0].user_bytes(), attached.turns()[0].bytes());
        // The contents are not copied with the turn.
        let again = attached.turns()[0].clone();
        let contents = |turn: &Turn| turn.attachments()[1].base64().as_ptr();
        assert_eq!(contents(&again), contents(&attached.turns()[0]));
    }

    /// STK-39
    #[test]
    fn a_trimmed_turn_names_the_attachments_that_it_had() {
        let mut history = History::default();
        history
            .begin_attached("see", vec![image("a.png", 9), image("b.png", 10)])
            .unwrap();
        history.close("seen");
        history.begin("now").unwrap();
        history.trim(1_000);
        let turn = &history.turns()[0];
        let user = "see\n\n[trimmed] a.png (image/png, 9 bytes)\n[trimmed] b.png (image/png, 10 bytes)";
        assert_eq!((turn.user(), turn.attachments().len()), (user, 0));
        assert_eq!(turn.steps()[0].assistant().text(), "seen");
        assert_eq!(history.bytes(), counted(&history));
        // Trimming it again changes nothing.
        history.trim(1_000);
        assert_eq!(history.turns()[0].user(), user);
    }

    /// STK-39
    #[test]
    fn the_attachments_of_the_open_turn_stay_when_its_steps_are_left_out() {
        let mut history = History::default();
        history.begin_attached("see", vec![image("a.png", 9)]).unwrap();
        history.trim(0);
        let turn = history.turns()[0].shortened(0, " [note]", |_, _, _| None);
        assert_eq!((turn.user(), names(&turn)), ("see [note]", vec!["a.png"]));
        assert_eq!(turn.bytes(), history.bytes() + " [note]".len());
    }

    /// STK-39
    #[test]
    fn the_contents_of_all_turns_fit_into_a_request() {
        let mut history = History::default();
        for name in ["a.png", "b.png", "c.png"] {
            history.begin_attached("see", vec![image(name, 6 << 20)]).unwrap();
            history.close("seen");
        }
        let kept: Vec<_> = history.turns().iter().map(names).collect();
        assert_eq!(kept, [vec![], vec!["b.png"], vec!["c.png"]]);
        assert_eq!(history.bytes(), counted(&history));
    }
}
