//! Modals: a press is responded to with one, its person writes into its field and submits it. See
//! <https://docs.discord.com/developers/components/reference#label>.

use super::check::DiscordRefusal;
use super::state::EmulatedInteraction;
use super::{DiscordEmulator, UnsentInteraction};
use serde_json::{Value, json};

/// The maximum number of characters of the title and of a label.
const TITLE_CHARS_MAX: usize = 45;
/// The maximum number of characters of the description of a label, and of an id.
const ID_CHARS_MAX: usize = 100;
/// The maximum number of characters that a text field accepts.
const WORDS_CHARS_MAX: u64 = 4_000;

/// A modal that a person sees.
#[derive(Clone, Debug, PartialEq)]
pub struct ShownModal {
    /// The person.
    pub person: u64,
    /// The title.
    pub title: String,
    /// The label of its field.
    pub label: String,
    /// The response as it was sent.
    pub data: Value,
    pub(super) channel: u64,
    /// The message whose button was pressed.
    pub(super) message: Option<u64>,
}

/// Reads the modal of a response to an interaction.
pub(super) fn read(
    response: &Value,
    interaction: &EmulatedInteraction,
) -> Result<ShownModal, DiscordRefusal> {
    let data = &response["data"];
    let text = |value: &Value, field: &str, chars_max: usize| {
        let text = value[field].as_str().unwrap_or_default();
        match (1..=chars_max).contains(&text.chars().count()) {
            true => Ok(text.to_owned()),
            false => Err(DiscordRefusal::invalid(
                field,
                "BASE_TYPE_BAD_LENGTH",
                "a wrong length",
            )),
        }
    };
    let wrong =
        |field: &str| DiscordRefusal::invalid(field, "BASE_TYPE_CHOICES", "not a form with one text field");
    let components = data["components"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let [label] = components else {
        return Err(wrong("components"));
    };
    let field = &label["component"];
    if label["type"] != 18 || field["type"] != 4 || !matches!(field["style"].as_u64(), Some(1 | 2)) {
        return Err(wrong("type"));
    }
    // The label of a field is in the label around it.
    if field.get("label").is_some() {
        return Err(wrong("label"));
    }
    let (least, most) = (field["min_length"].as_u64(), field["max_length"].as_u64());
    if least.is_some_and(|least| least > WORDS_CHARS_MAX)
        || most.is_some_and(|most| !(1..=WORDS_CHARS_MAX).contains(&most))
    {
        return Err(wrong("max_length"));
    }
    text(data, "custom_id", ID_CHARS_MAX)?;
    text(field, "custom_id", ID_CHARS_MAX)?;
    if label.get("description").is_some() {
        text(label, "description", ID_CHARS_MAX)?;
    }
    Ok(ShownModal {
        person: interaction.person,
        title: text(data, "title", TITLE_CHARS_MAX)?,
        label: text(label, "label", TITLE_CHARS_MAX)?,
        data: data.clone(),
        channel: interaction.channel,
        message: interaction.original,
    })
}

impl DiscordEmulator {
    /// Returns the submission of a modal with words in its field.
    pub fn submit(&self, modal: &ShownModal, words: &str) -> UnsentInteraction {
        let field = &modal.data["components"][0]["component"]["custom_id"];
        let data = json!({"custom_id": modal.data["custom_id"],
            "components": [{"type": 18, "id": 1, "component": {"type": 4, "id": 2, "custom_id": field, "value": words}}]});
        self.with_message(5, modal.person, modal.channel, &data, modal.message)
    }
}
