//! Intake of messages. Invites are extracted from any surrounding text. Secrets in messages and payloads, and the
//! tokens of buttons, are removed here and go no further.

use crate::base::model::{Inbound, InboundKind};
use crate::base::redact::Redactor;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::borrow::Cow;

/// Length of an invite token, in characters.
const TOKEN_CHARS: usize = 43;
/// Maximum number of words around an invite for which the message is clearly meant as one.
const WORDS_AROUND_MAX: usize = 8;
/// The text between two texts of a payload that are searched together. No secret contains it.
const BETWEEN_TEXTS: &str = "\n¶\n";
/// The text that replaces a token.
const INSTEAD_OF_TOKEN: &str = "[invite]";

#[derive(Debug, PartialEq, Eq)]
struct FoundInvite<'t> {
    token: &'t str,
    /// True if the message is meant as an invite, not a text that mentions one.
    is_intended: bool,
}

/// Converts a message to an invite if it contains one. `join TOKEN please` means `join TOKEN`. A longer direct message
/// keeps its other text, without the token. In other chats people could read the token, so the message is always
/// treated as an invite, and that invite is revoked.
pub(super) fn extract_invite(mut inbound: Inbound) -> Inbound {
    let said = match &inbound.kind {
        InboundKind::Text { text, .. } => text.clone(),
        InboundKind::Command { verb, arguments } => format!("{verb} {arguments}"),
        InboundKind::Join { .. }
        | InboundKind::Click { .. }
        | InboundKind::HomeOpened
        | InboundKind::Hook { .. }
        | InboundKind::Schedule(_)
        | InboundKind::Pipeline(_)
        | InboundKind::Unsupported { .. } => {
            return inbound;
        }
    };
    if let Some(found) = find(&said)
        && (found.is_intended || !inbound.direct)
    {
        inbound.kind = InboundKind::Join {
            token: found.token.to_owned(),
        };
        return inbound;
    }
    match &mut inbound.kind {
        InboundKind::Text { text, quoted, .. } => {
            take_out(text);
            quoted.iter_mut().for_each(take_out);
        }
        InboundKind::Command { verb, arguments } => {
            let mut whole = format!("{verb} {arguments}");
            take_out(&mut whole);
            *arguments = whole.split_off(verb.len() + 1);
        }
        InboundKind::Join { .. }
        | InboundKind::Click { .. }
        | InboundKind::HomeOpened
        | InboundKind::Hook { .. }
        | InboundKind::Schedule(_)
        | InboundKind::Pipeline(_)
        | InboundKind::Unsupported { .. } => {}
    }
    inbound
}

/// Returns the message to store: without secrets, and with a hash instead of a button's token.
pub(super) fn without_secrets(mut inbound: Inbound, redactor: &Redactor) -> Inbound {
    let redact = |text: &mut String| {
        if let Cow::Owned(redacted) = redactor.redact(text) {
            *text = redacted;
        }
    };
    match &mut inbound.kind {
        InboundKind::Text { text, quoted, .. } => {
            redact(text);
            quoted.iter_mut().for_each(&redact);
        }
        InboundKind::Command { arguments, .. } => redact(arguments),
        InboundKind::Hook {
            event,
            fields,
            payload,
        } => {
            redact(event);
            fields.values_mut().for_each(&redact);
            if let Some(payload) = payload {
                redact_payload(payload, redactor);
            }
        }
        InboundKind::Schedule(work) => redact(&mut work.words),
        InboundKind::Pipeline(work) => {
            redact(&mut work.words);
            work.data.iter_mut().for_each(|(_, value)| redact(value));
            work.results.values_mut().for_each(&redact);
        }
        InboundKind::Click { token, .. } => *token = hex::encode(Sha256::digest(token.as_bytes())),
        InboundKind::Unsupported { .. } | InboundKind::HomeOpened | InboundKind::Join { .. } => {}
    }
    inbound
}

/// Removes the secrets of a payload. Most payloads have none, which one search in all of their texts shows.
fn redact_payload(payload: &mut Value, redactor: &Redactor) {
    let mut texts = String::new();
    add_texts(payload, &mut texts);
    if matches!(redactor.redact(&texts), Cow::Owned(_)) {
        redact_value(payload, redactor);
    }
}

/// Adds the texts, the numbers and the names of fields, without the escapes of JSON.
fn add_texts(value: &Value, texts: &mut String) {
    let mut add = |text: &str| {
        texts.push_str(text);
        texts.push_str(BETWEEN_TEXTS);
    };
    match value {
        Value::String(text) => add(text),
        Value::Number(number) => add(&number.to_string()),
        Value::Array(values) => values.iter().for_each(|value| add_texts(value, texts)),
        Value::Object(fields) => {
            for (name, field) in fields {
                texts.push_str(name);
                texts.push_str(BETWEEN_TEXTS);
                add_texts(field, texts);
            }
        }
        Value::Null | Value::Bool(_) => {}
    }
}

/// Removes the secrets of each text, of each number as a text, and of each name of a field. Of two names that become the same
/// one, the first stays.
pub(super) fn redact_value(value: &mut Value, redactor: &Redactor) {
    match value {
        Value::String(text) => {
            if let Cow::Owned(redacted) = redactor.redact(text) {
                *text = redacted;
            }
        }
        Value::Number(number) => {
            let text = number.to_string();
            if let Cow::Owned(redacted) = redactor.redact(&text) {
                *value = Value::String(redacted);
            }
        }
        Value::Array(values) => values.iter_mut().for_each(|value| redact_value(value, redactor)),
        Value::Object(fields) => {
            for (name, mut field) in std::mem::take(fields) {
                redact_value(&mut field, redactor);
                fields.entry(redactor.redact(&name)).or_insert(field);
            }
        }
        Value::Null | Value::Bool(_) => {}
    }
}

/// Returns the hash that [`without_secrets`] stored for a button's token. Any other text gives the hash of no button.
pub(super) fn hash_of_click(token: &str) -> [u8; 32] {
    let mut hash = [0; 32];
    for (place, byte) in hash.iter_mut().enumerate() {
        let digits = token.get(2 * place..2 * place + 2).unwrap_or_default();
        *byte = u8::from_str_radix(digits, 16).unwrap_or_default();
    }
    hash
}

fn take_out(text: &mut String) {
    // Each round removes one token, so there are no more rounds than words.
    while let Some(token) = find(text).map(|found| found.token.to_owned()) {
        *text = text.replace(&token, INSTEAD_OF_TOKEN);
    }
}

/// Returns the first word with the form of a token after `join` or `start`.
fn find(text: &str) -> Option<FoundInvite<'_>> {
    let words: Vec<&str> = text.split_whitespace().map(bare).collect();
    let token = words.windows(2).find_map(|pair| match pair {
        [verb, token] if is_join(verb) && is_token(token) => Some(*token),
        _ => None,
    })?;
    Some(FoundInvite {
        token,
        is_intended: words.len() <= WORDS_AROUND_MAX + 2,
    })
}

/// Strips the marks that people and markup put around a word. A token contains none of them.
fn bare(word: &str) -> &str {
    word.trim_matches(|char: char| !(char.is_ascii_alphanumeric() || char == '-' || char == '_'))
}

fn is_join(word: &str) -> bool {
    // `/start@bot` is the form in Telegram groups.
    let verb = word.split('@').next().unwrap_or_default();
    verb.eq_ignore_ascii_case("join") || verb.eq_ignore_ascii_case("start")
}

fn is_token(word: &str) -> bool {
    word.len() == TOKEN_CHARS
        && word
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}

#[cfg(test)]
mod tests {
    use super::{FoundInvite, find, hash_of_click, redact_payload, take_out};
    use crate::base::model::Secret;
    use crate::base::redact::Redactor;
    use serde_json::json;
    use sha2::{Digest, Sha256};

    const TOKEN: &str = "-Aa0_bcdefghijklmnopqrstuvwxyz0123456789ABC";

    /// T94
    #[test]
    fn an_invite_is_found_whatever_stands_around_it() {
        for meant in [
            "join {}",
            "join {} please",
            "please Join: `{}`, thank you!",
            "/start {}",
            "/start@drydock_bot <{}>",
            "START\n\n\"{}\"",
            "I would like to join\t{}",
        ] {
            let text = meant.replace("{}", TOKEN);
            assert_eq!(
                find(&text),
                Some(FoundInvite {
                    token: TOKEN,
                    is_intended: true
                }),
                "{text}"
            );
        }
        let long = format!("{} join {TOKEN} and so on", "word ".repeat(20));
        assert_eq!(find(&long).map(|found| found.is_intended), Some(false));
        for none in [
            "join us",
            "join {}x",
            "the digest {} of the image",
            "joined {}",
            "join the channel {}",
            "",
        ] {
            assert_eq!(find(&none.replace("{}", TOKEN)), None, "{none}");
        }
    }

    #[test]
    fn no_token_is_left_in_what_is_kept() {
        let other = TOKEN.replace('A', "B");
        let mut text = format!("join {TOKEN} or start {other}: {TOKEN}");
        take_out(&mut text);
        assert_eq!(text, "join [invite] or start [invite]: [invite]");
    }

    #[test]
    fn a_payload_is_kept_without_secrets_in_texts_names_and_numbers() {
        let secrets = ["line \"one\"\nline two", "4711471147"];
        let redactor = Redactor::new(secrets.map(|secret| Secret::new(secret.to_owned())));
        let clean = json!({ "a": ["b", 1.5, null, true], "c": { "d": "" } });
        let mut kept = clean.clone();
        redact_payload(&mut kept, &redactor);
        assert_eq!(kept, clean);
        let mut payload = json!({
            "texts": ["x", format!("a {} z", secrets[0])],
            "numbers": [4711, 4_711_471_147_i64],
            (secrets[0]): { (secrets[1]): true },
        });
        redact_payload(&mut payload, &redactor);
        let shown = payload.to_string();
        assert!(
            !shown.contains("line two") && !shown.contains(secrets[1]),
            "{shown}"
        );
        assert_eq!(
            (&payload["texts"][0], &payload["numbers"][0]),
            (&json!("x"), &json!(4711))
        );
        assert_eq!(payload.as_object().map(serde_json::Map::len), Some(3));
    }

    #[test]
    fn of_a_press_only_the_hash_is_kept() {
        let hash: [u8; 32] = Sha256::digest(b"token").into();
        assert_eq!(hash_of_click(&hex::encode(hash)), hash);
        assert_eq!(hash_of_click("token"), [0; 32]);
        assert_eq!(hash_of_click("ü"), [0; 32]);
    }
}
