//! Files that Drydock sends.

use super::client::repeatable;
use super::connector::RepeatEffect;
use super::render::escaped;
use super::{SlackChannel, lookup, message_of};
use crate::base::model::{MessageRef, Op};
use crate::interfaces::channel::visible::escape_line;
use crate::interfaces::channel::{Delivered, SendError};
use bytes::Bytes;
use serde_json::Value;
use slack_morphism::api::{
    SlackApiFilesComplete, SlackApiFilesCompleteUploadExternalRequest,
    SlackApiFilesGetUploadUrlExternalRequest,
};
use slack_morphism::{SlackChannelId, SlackTs};

impl SlackChannel {
    /// Uploads a file and shares it with a caption. The message that shows it is known if Slack has already posted it.
    pub(super) async fn upload(
        &self,
        op: &Op,
        file_name: &str,
        content: &Bytes,
        caption: &str,
    ) -> Result<Delivered, SendError> {
        let request = SlackApiFilesGetUploadUrlExternalRequest::new(file_name.to_owned(), content.len());
        let session = self.client.session();
        let ticket = session.get_upload_url_external(&request).await;
        let ticket = ticket.map_err(repeatable)?;
        let connector = self.client.connector();
        connector.upload(ticket.upload_url.0, content.clone()).await?;
        let file = SlackApiFilesComplete::new(ticket.file_id).with_title(lookup::file_title(op, file_name));
        let request = SlackApiFilesCompleteUploadExternalRequest::new(vec![file])
            .with_channel_id(SlackChannelId(op.place.chat.clone()))
            .opt_initial_comment((!caption.is_empty()).then(|| escaped(&unlinked(caption))))
            .opt_thread_ts(op.place.thread.clone().map(SlackTs));
        // The library's type of the answer lacks the messages that show the file.
        let method = "files.completeUploadExternal";
        let shared = self.client.call(method, &request, RepeatEffect::Once).await?;
        Ok(Delivered {
            message: shared_as(&shared, &op.place.chat),
        })
    }
}

/// Returns the message in which a file was shared. Slack usually shares the file after its answer.
fn shared_as(answer: &Value, chat: &str) -> Option<MessageRef> {
    let shares = answer.pointer("/files/0/shares")?;
    let kinds = ["public", "private"].into_iter();
    let mut shared = kinds.filter_map(|kind| shares.get(kind)?.get(chat)?.get(0));
    shared.find_map(|message| message_of(message, chat))
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

#[cfg(test)]
mod tests {
    use super::shared_as;
    use crate::base::model::MessageRef;
    use serde_json::json;

    #[test]
    fn the_message_of_a_file_is_known_if_slack_has_posted_it_in_the_chat() {
        for (shares, expected) in [
            (
                json!({"public": {"C1": [{"ts": "1.1", "channel_name": "ops"}]}}),
                Some("1.1"),
            ),
            (json!({"private": {"C1": [{"ts": "2.2"}]}}), Some("2.2")),
            (
                json!({"public": {"C1": []}, "private": {"C1": [{"ts": "2.2"}]}}),
                Some("2.2"),
            ),
            (json!({"public": {"C2": [{"ts": "1.1"}]}}), None),
            (json!({}), None),
        ] {
            let answer = json!({"ok": true, "files": [{"id": "F1", "shares": shares}]});
            let expected = expected.map(|id| MessageRef {
                chat: "C1".to_owned(),
                id: id.to_owned(),
            });
            assert_eq!(shared_as(&answer, "C1"), expected, "{shares}");
        }
        assert_eq!(
            shared_as(&json!({"ok": true, "files": [{"id": "F1"}]}), "C1"),
            None
        );
    }
}
