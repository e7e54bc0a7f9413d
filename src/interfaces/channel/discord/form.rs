//! The form that asks a person for words: a modal with one text field, which is the response to the press of a button.
//! The id of the modal carries the subject, and Discord sends the words with the place of the button. See
//! <https://docs.discord.com/developers/interactions/receiving-and-responding#interaction-response-object-modal>.

use super::api::{ApiError, DiscordApi, code};
use super::interaction;
use crate::base::model::ResponseUrl;
use crate::interfaces::channel::SendError;
use crate::interfaces::channel::visible::escape_line;
use serde_json::{Value, json};
use twilight_http::request::{Method, RequestBuilder};

/// The start of the id of a modal; the subject follows.
const MODAL: &str = "words:";
/// The id of the field with the words.
const FIELD: &str = "words";
/// The maximum number of characters of the id of a modal.
const MODAL_ID_CHARS_MAX: usize = 100;
/// The maximum number of characters of the title of a modal, and of the label of a field.
const TITLE_CHARS_MAX: usize = 45;
/// The maximum number of characters of the description of a field.
const DESCRIPTION_CHARS_MAX: usize = 100;
/// The maximum number of characters of a text field that Drydock accepts; Discord accepts 4,000.
const WORDS_CHARS_MAX: u64 = 3_000;
/// The type of a response that opens a modal.
const OPEN_MODAL: u64 = 9;
/// The types of a label and of a text field, and the style of a field of several lines.
const LABEL: u64 = 18;
const TEXT_INPUT: u64 = 4;
const PARAGRAPH: u64 = 2;

/// A form with one field.
pub(super) struct ModalForm<'a> {
    pub(super) title: &'a str,
    pub(super) question: &'a str,
    pub(super) about: &'a str,
}

/// Opens a form for a press. Returns false if Discord refuses, because the press was responded to for example.
pub(super) async fn open(
    api: &DiscordApi,
    trigger: &str,
    address: Option<&ResponseUrl>,
    form: &ModalForm<'_>,
) -> Result<bool, SendError> {
    let path = address.and_then(|address| interaction::callback_path(trigger, address.expose()));
    let Some(path) = path else {
        return Ok(false);
    };
    // The types of the library have other fields for a label than Discord documents.
    let request = RequestBuilder::raw(Method::Post, path)
        .json(&modal(form))
        .use_authorization_token(false)
        .build();
    let request = request.map_err(|error| SendError::Refused(error.to_string()))?;
    match api.send(request).await {
        Ok(_) => Ok(true),
        Err(error) if error.is(code::ALREADY_RESPONDED) || error.is(code::UNKNOWN_INTERACTION) => {
            tracing::debug!("discord opens no form for a press any more; the question is a message");
            Ok(false)
        }
        Err(ApiError::Refused { reason, .. }) => {
            tracing::info!(reason, "discord opened no form; the question is a message");
            Ok(false)
        }
        Err(error) => Err(error.into_repeatable_error()),
    }
}

fn modal(form: &ModalForm<'_>) -> Value {
    let plain = |text: &str, chars_max: usize| -> String {
        let text = escape_line(text);
        text.chars().take(chars_max).collect()
    };
    let field = json!({"type": TEXT_INPUT, "custom_id": FIELD, "style": PARAGRAPH, "min_length": 1,
        "max_length": WORDS_CHARS_MAX, "required": true});
    let label = json!({"type": LABEL, "label": plain(form.question, TITLE_CHARS_MAX),
        "description": plain("Your words are shown in the thread.", DESCRIPTION_CHARS_MAX), "component": field});
    let id = format!("{MODAL}{}", form.about);
    json!({"type": OPEN_MODAL, "data": {"custom_id": plain(&id, MODAL_ID_CHARS_MAX),
        "title": plain(form.title, TITLE_CHARS_MAX), "components": [label]}})
}

/// The subject and the words of a form that a person has sent; `None` if it is another form.
pub(super) struct SentForm<'a> {
    pub(super) about: &'a str,
    pub(super) words: &'a str,
}

/// Reads a form. The field is in a label; older clients may send it in a row.
pub(super) fn sent(payload: &Value) -> Option<SentForm<'_>> {
    let about = payload
        .pointer("/data/custom_id")?
        .as_str()?
        .strip_prefix(MODAL)?;
    let components = payload.pointer("/data/components")?.as_array()?;
    let fields = components
        .iter()
        .flat_map(|outer| [&outer["component"], &outer["components"][0]]);
    let words = fields
        .filter(|field| field["custom_id"] == FIELD)
        .find_map(|field| field["value"].as_str())?;
    Some(SentForm { about, words })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::{ModalForm, modal, sent};
    use serde_json::json;

    #[test]
    fn the_words_of_a_form_come_back_with_their_subject() {
        let opened = modal(&ModalForm {
            title: &"Revise CHG-1 ".repeat(9),
            question: "What should be different?",
            about: "CHG-1 rev 2",
        });
        assert_eq!(opened["data"]["title"].as_str().unwrap().chars().count(), 45);
        let id = &opened["data"]["custom_id"];
        let field = json!({"type": 4, "custom_id": "words", "value": "two more"});
        for components in [
            json!([{"type": 18, "component": field}]),
            json!([{"type": 1, "components": [field]}]),
        ] {
            let payload = json!({"data": {"custom_id": id, "components": components}});
            let form = sent(&payload).unwrap();
            assert_eq!((form.about, form.words), ("CHG-1 rev 2", "two more"));
        }
        for data in [
            json!({"custom_id": "other", "components": [{"component": field}]}),
            json!({"custom_id": id, "components": [{"component": {"custom_id": "x", "value": "y"}}]}),
            json!({"custom_id": id}),
        ] {
            assert!(sent(&json!({ "data": data })).is_none(), "{data}");
        }
    }
}
