//! The form that asks a person for words: a modal with one text field, opened for a press of a button. Slack sends the
//! words with the place that the form carries, so they become a message of the person in the thread of the button. See
//! <https://docs.slack.dev/surfaces/modals>.

use super::client::SlackClient;
use super::connector::RepeatEffect;
use crate::base::model::ChatPlace;
use crate::interfaces::channel::SendError;
use crate::interfaces::channel::visible::escape_label;
use serde::{Deserialize, Serialize};
use slack_morphism::api::SlackApiViewsOpenRequest;
use slack_morphism::blocks::{
    SlackBlockId, SlackBlockPlainTextInputElement, SlackBlockPlainTextOnly, SlackInputBlock, SlackModalView,
    SlackView,
};
use slack_morphism::{SlackActionId, SlackCallbackId, SlackTriggerId};

/// The id of the form in submissions.
pub(super) const CALLBACK: &str = "drydock_words";
/// The id of the block and of the field with the words.
pub(super) const FIELD: &str = "words";
/// The maximum number of characters of the title and of the labels of a modal.
const TITLE_CHARS_MAX: usize = 24;
/// The maximum number of characters of the label of a field.
const LABEL_CHARS_MAX: usize = 2_000;
/// The maximum number of characters of a text field.
const WORDS_CHARS_MAX: u64 = 3_000;

/// A form with one field.
pub(super) struct WordsForm<'a> {
    pub(super) title: &'a str,
    pub(super) question: &'a str,
    pub(super) about: &'a str,
}

/// The place and the subject of a form. Slack returns it unchanged in the signed submission.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FormPlace {
    pub(super) chat: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) thread: Option<String>,
    /// The subject of the question.
    pub(super) about: String,
}

/// Opens a form for a press. Returns false if Slack refuses, because the press is too old for example.
pub(super) async fn open(
    client: &SlackClient,
    trigger: &str,
    place: &ChatPlace,
    form: WordsForm<'_>,
) -> Result<bool, SendError> {
    let request = SlackApiViewsOpenRequest::new(
        SlackTriggerId(trigger.to_owned()),
        SlackView::Modal(modal(place, form)?),
    );
    // The answer shows the whole view, whose type in the library may lack new fields.
    match client
        .call("views.open", &request, RepeatEffect::Repeatable)
        .await
    {
        Ok(_) => Ok(true),
        Err(SendError::Refused(why)) => {
            tracing::info!(why, "slack opened no form; the question is a message");
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

fn modal(place: &ChatPlace, form: WordsForm<'_>) -> Result<SlackModalView, SendError> {
    let of = FormPlace {
        chat: place.chat.clone(),
        thread: place.thread.clone(),
        about: form.about.to_owned(),
    };
    let of = serde_json::to_string(&of).map_err(|error| SendError::Refused(error.to_string()))?;
    let plain = |text: &str, chars_max: usize| SlackBlockPlainTextOnly::from(escape_label(text, chars_max));
    let field = SlackBlockPlainTextInputElement::new()
        .with_action_id(SlackActionId(FIELD.to_owned()))
        .with_multiline(true)
        .with_min_length(1)
        .with_max_length(WORDS_CHARS_MAX)
        .with_focus_on_load(true);
    let input = SlackInputBlock::new(plain(form.question, LABEL_CHARS_MAX), field.into())
        .with_block_id(SlackBlockId(FIELD.to_owned()))
        .with_hint(plain("Your words are shown in the thread.", TITLE_CHARS_MAX * 4));
    Ok(
        SlackModalView::new(plain(form.title, TITLE_CHARS_MAX), vec![input.into()])
            .with_submit(plain("Send", TITLE_CHARS_MAX))
            .with_close(plain("Cancel", TITLE_CHARS_MAX))
            .with_callback_id(SlackCallbackId(CALLBACK.to_owned()))
            .with_private_metadata(of),
    )
}
