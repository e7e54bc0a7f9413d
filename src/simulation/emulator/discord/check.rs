//! The checks of a message body. The body is also read with the types of twilight-model, as an independent reader of
//! Discord's API. See <https://docs.discord.com/developers/resources/message#create-message>.

use super::shown::shown;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use twilight_model::channel::message::{AllowedMentions, Component, MentionType};

/// The maximum number of characters of a content.
const CONTENT_CHARS_MAX: usize = 2_000;
/// The maximum number of rows, and of buttons in a row.
const ROWS_MAX: usize = 5;
/// The maximum number of characters of a label, of the id of a button and of a nonce.
const LABEL_CHARS_MAX: usize = 80;
const BUTTON_ID_CHARS_MAX: usize = 100;
const NONCE_CHARS_MAX: usize = 25;
/// `SUPPRESS_EMBEDS`, and `EPHEMERAL` for answers to interactions.
const SUPPRESS_EMBEDS: u64 = 1 << 2;
pub(super) const EPHEMERAL: u64 = 1 << 6;
/// The fields of a message that are read.
const FIELDS: [&str; 9] = [
    "content",
    "allowed_mentions",
    "attachments",
    "components",
    "enforce_nonce",
    "flags",
    "message_reference",
    "nonce",
    "payload_json",
];

/// A refusal in the shape of Discord: status, code, message and errors by field.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct DiscordRefusal {
    pub(super) status: u16,
    pub(super) code: u64,
    pub(super) message: String,
    pub(super) errors: Option<Value>,
    /// True if a correct application would never send the call.
    pub(super) is_problem: bool,
}

impl DiscordRefusal {
    /// Creates a refusal that can happen to a correct application.
    pub(super) fn expected(status: u16, code: u64, message: &str) -> Self {
        Self {
            status,
            code,
            message: message.to_owned(),
            errors: None,
            is_problem: false,
        }
    }

    /// Creates the refusal of a field.
    pub(super) fn invalid(field: &str, code: &str, message: &str) -> Self {
        let mut errors = json!({});
        errors[field] = json!({"_errors": [{"code": code, "message": message}]});
        Self {
            errors: Some(errors),
            is_problem: true,
            ..Self::expected(400, 50_035, "Invalid Form Body")
        }
    }

    pub(super) fn body(&self) -> Value {
        let mut body = json!({"message": self.message, "code": self.code});
        if let Some(errors) = &self.errors {
            body["errors"] = errors.clone();
        }
        body
    }
}

/// The place for which a body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BodyUse {
    /// A new message, or an edit.
    Message,
    /// An answer to an interaction.
    Answer,
}

/// Checks a body. Returns the people whom it pings.
pub(super) fn check_body(body: &Value, files: usize, body_use: BodyUse) -> Result<Vec<u64>, DiscordRefusal> {
    let Some(fields) = body.as_object() else {
        return Err(DiscordRefusal::invalid(
            "_",
            "DICT_TYPE_CONVERT",
            "Only dictionaries may be used",
        ));
    };
    if let Some(unknown) = fields.keys().find(|name| !FIELDS.contains(&name.as_str())) {
        return Err(DiscordRefusal::invalid(
            unknown,
            "UNKNOWN_FIELD",
            "an unknown field",
        ));
    }
    let content = body["content"].as_str().unwrap_or_default();
    if content.chars().count() > CONTENT_CHARS_MAX {
        let why = "Must be 2000 or fewer in length.";
        return Err(DiscordRefusal::invalid("content", "BASE_TYPE_BAD_LENGTH", why));
    }
    let components = check_components(&body["components"])?;
    if content.trim().is_empty() && files == 0 && components == 0 {
        let mut refusal = DiscordRefusal::expected(400, 50_006, "Cannot send an empty message");
        refusal.is_problem = true;
        return Err(refusal);
    }
    let allowed_flags = match body_use {
        BodyUse::Message => SUPPRESS_EMBEDS,
        BodyUse::Answer => SUPPRESS_EMBEDS | EPHEMERAL,
    };
    if body["flags"].as_u64().unwrap_or_default() & !allowed_flags != 0 {
        return Err(DiscordRefusal::invalid(
            "flags",
            "FLAGS_INVALID",
            "these flags cannot be set",
        ));
    }
    if body["nonce"]
        .as_str()
        .is_some_and(|nonce| nonce.chars().count() > NONCE_CHARS_MAX)
    {
        return Err(DiscordRefusal::invalid(
            "nonce",
            "NONCE_TYPE_TOO_LARGE",
            "25 characters at most",
        ));
    }
    check_attachments(&body["attachments"], files)?;
    pings(body, content)
}

fn check_components(components: &Value) -> Result<usize, DiscordRefusal> {
    let invalid = |why: &str| DiscordRefusal::invalid("components", "COMPONENT_INVALID", why);
    if components.is_null() {
        return Ok(0);
    }
    let rows: Vec<Component> =
        serde_json::from_value(components.clone()).map_err(|error| invalid(&error.to_string()))?;
    if rows.len() > ROWS_MAX {
        return Err(invalid("more than five rows"));
    }
    let mut ids = BTreeSet::new();
    for row in &rows {
        let Component::ActionRow(row) = row else {
            return Err(invalid("not a row"));
        };
        if row.components.is_empty() || row.components.len() > ROWS_MAX {
            return Err(invalid("a row has one to five buttons"));
        }
        for button in &row.components {
            let Component::Button(button) = button else {
                return Err(invalid("not a button"));
            };
            let label = button.label.as_deref().unwrap_or_default().chars().count();
            let id = button.custom_id.as_deref().unwrap_or_default();
            if !(1..=LABEL_CHARS_MAX).contains(&label)
                || !(1..=BUTTON_ID_CHARS_MAX).contains(&id.chars().count())
            {
                return Err(invalid("a label or an id of a button is too long or missing"));
            }
            if !ids.insert(id.to_owned()) {
                return Err(invalid("Component custom id cannot be duplicated"));
            }
        }
    }
    Ok(rows.len())
}

fn check_attachments(attachments: &Value, files: usize) -> Result<(), DiscordRefusal> {
    let listed = attachments.as_array().map(Vec::as_slice).unwrap_or_default();
    let is_known = |attachment: &Value| {
        let id = attachment["id"].as_u64().and_then(|id| usize::try_from(id).ok());
        id.is_some_and(|id| id < files) && attachment["filename"].is_string()
    };
    match listed.len() == files && listed.iter().all(is_known) {
        true => Ok(()),
        false => Err(DiscordRefusal::invalid(
            "attachments",
            "ATTACHMENT_NOT_FOUND",
            "a file without its part",
        )),
    }
}

/// Returns the people whom a content pings. Without `allowed_mentions` all mentions would.
fn pings(body: &Value, content: &str) -> Result<Vec<u64>, DiscordRefusal> {
    let invalid = |why: &str| DiscordRefusal::invalid("allowed_mentions", "MENTIONS_INVALID", why);
    let seen = shown(content);
    if body["allowed_mentions"].is_null() {
        return Err(invalid("everything that the message names would be pinged"));
    }
    let allowed: AllowedMentions = serde_json::from_value(body["allowed_mentions"].clone())
        .map_err(|error| invalid(&error.to_string()))?;
    if allowed.parse.contains(&MentionType::Users) && !allowed.users.is_empty() {
        return Err(invalid(
            "parse:[\"users\"] and users: [ids...] are mutually exclusive.",
        ));
    }
    if !seen.other_mentions.is_empty() {
        return Err(invalid(&format!(
            "the content mentions {:?}",
            seen.other_mentions
        )));
    }
    let is_allowed = |person: &u64| {
        allowed.parse.contains(&MentionType::Users) || allowed.users.iter().any(|user| user.get() == *person)
    };
    Ok(seen.people.into_iter().filter(is_allowed).collect())
}
