//! The files that people send with a message. Text becomes part of the request as marked data; any other file is named in
//! the result and to the model, with the reason why it was not read.

use super::TurnRunner;
use crate::base::model::{ChatFile, Inbound, RepoPath, group_thousands, one_line};
use crate::engine::agent::prompt;
use crate::interfaces::channel::SendError;
use crate::state::workspace::SecretGuard;
use tokio::time::Instant;

/// Maximum number of bytes of the files of one message that are read.
const BYTES_MAX: usize = 256 << 10;
/// Maximum number of files of one message that are read.
const FILES_MAX: usize = 10;

/// The files of a message, as far as a turn reads them.
#[derive(Default)]
pub(super) struct SentTexts {
    /// A block of data for each text.
    blocks: Vec<String>,
    /// A line for each file that was not read.
    pub(super) unread: Vec<String>,
}

impl SentTexts {
    /// Returns the words of a person with what belongs to them.
    pub(super) fn with_words(&self, words: String) -> String {
        let mut parts = vec![words];
        parts.extend(self.blocks.iter().cloned());
        parts.extend(unread_note(&self.unread));
        parts.join("\n\n")
    }
}

/// Returns the note for the model about files that it does not get. It is a block of data, because its words are not those
/// of the person, and the names are chosen by others.
pub(super) fn unread_note(unread: &[String]) -> Option<String> {
    let note = format!("These attached files were not read:\n{}", unread.join("\n"));
    (!unread.is_empty()).then(|| prompt::data_block("note", "Drydock", &note))
}

/// Returns a line for each file of a message of which only the words are read.
pub(super) fn unread_files(inbound: &Inbound) -> Vec<String> {
    let why = "beside an answer, only the words are read";
    inbound.files.iter().map(|file| unread_line(file, why)).collect()
}

fn unread_line(file: &ChatFile, why: &str) -> String {
    format!(
        "`{}` was not read: {why}.",
        one_line(&file.name).replace('`', "'")
    )
}

impl TurnRunner {
    /// Reads the files of a message. The secrets of each are learnt before its text is shown to a model.
    /// `deadline` is the end of the time of the turn.
    pub(super) async fn read_files(
        &self,
        inbound: &Inbound,
        guard: &SecretGuard,
        deadline: Instant,
    ) -> SentTexts {
        let mut read = SentTexts::default();
        let mut left = BYTES_MAX;
        for (index, file) in inbound.files.iter().enumerate() {
            let text = match index < FILES_MAX {
                true => {
                    let reading = self.read_file(inbound, file, (guard, left));
                    let read = tokio::time::timeout_at(deadline, reading).await;
                    read.unwrap_or_else(|_| Err("it took too long to load".to_owned()))
                }
                false => Err(format!("a message has at most {FILES_MAX} files")),
            };
            match text {
                Ok(text) => {
                    left -= text.len();
                    let name = one_line(&file.name);
                    let text = guard.redactor.redact(&text);
                    read.blocks
                        .push(prompt::data_block("an attached file", &name, &text));
                }
                Err(why) => read.unread.push(unread_line(file, &why)),
            }
        }
        read
    }

    /// Reads one file. The error is the reason why it is not read, without a full stop.
    async fn read_file(
        &self,
        inbound: &Inbound,
        file: &ChatFile,
        (guard, left): (&SecretGuard, usize),
    ) -> Result<String, String> {
        let too_large = || {
            let most = group_thousands((BYTES_MAX >> 10) as u64);
            format!("the files of a message may have {most} KiB together")
        };
        if file.reference.is_none() {
            return Err("it is no text".to_owned());
        }
        if guard.denied.is_denied(&file.name) {
            return Err("its name is that of a file with secrets".to_owned());
        }
        if file.bytes.is_some_and(|bytes| bytes > left as u64) {
            return Err(too_large());
        }
        let channel = self.outgoing.channel(&inbound.channel);
        let channel = channel.ok_or("its channel is not connected")?;
        let content = match channel.read_file(file, left).await {
            Ok(Some(content)) => content,
            Ok(None) => return Err(too_large()),
            Err(SendError::Refused(why)) => return Err(format!("the platform refused it ({why})")),
            Err(error) => return Err(format!("it could not be loaded ({error})")),
        };
        let is_text = !content.is_empty() && !content.contains(&0);
        let text = is_text
            .then(|| String::from_utf8(content.to_vec()).ok())
            .flatten();
        let text = text.ok_or("it is no text in UTF-8")?;
        guard.redactor.learn_file(None, text.as_bytes());
        if RepoPath::parse(&file.name).is_ok_and(|name| guard.redactor.is_secret_file(&name)) {
            guard.redactor.learn_named_file(text.as_bytes());
        }
        Ok(text)
    }
}
