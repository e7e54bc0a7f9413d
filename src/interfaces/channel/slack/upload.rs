//! Files that Drydock sends.

use super::render::escaped;
use super::{SlackChannel, lookup};
use crate::base::model::Op;
use crate::interfaces::channel::visible::escape_line;
use crate::interfaces::channel::{Delivered, SendError};
use bytes::Bytes;

impl SlackChannel {
    /// Sends a file with a caption.
    pub(super) async fn upload(
        &self,
        op: &Op,
        file_name: &str,
        content: &Bytes,
        caption: &str,
    ) -> Result<Delivered, SendError> {
        let title = lookup::file_title(op, file_name);
        let comment = (!caption.is_empty()).then(|| escaped(&unlinked(caption)));
        let shared = self
            .client
            .share_file(&op.place, file_name, &title, content, comment);
        let message = shared.await?;
        Ok(Delivered { message })
    }
}

/// Returns the caption of a file with invisible joiners in texts that Slack would convert to links. A caption is the
/// only text for which Slack has no option to disable links.
pub(super) fn unlinked(caption: &str) -> String {
    const JOINER: char = '\u{2060}';
    let mut out = String::with_capacity(caption.len());
    let mut characters = escape_line(caption)
        .chars()
        .collect::<Vec<_>>()
        .into_iter()
        .peekable();
    while let Some(character) = characters.next() {
        out.push(character);
        let goes_on = characters
            .peek()
            .is_some_and(|next| next.is_alphanumeric() || *next == '/');
        if matches!(character, '.' | ':' | '@') && goes_on {
            out.push(JOINER);
        }
    }
    out
}
