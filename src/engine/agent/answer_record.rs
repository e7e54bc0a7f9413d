//! The record of a model's answer: its words, the names and arguments of its calls, and the provider's own blocks,
//! all without secrets. Calls run with the arguments as the model wrote them; the redacted record is never executed.

use crate::base::model::{Assistant, CallArguments, ContentBlock, RawBlocks, ToolCall};
use crate::base::redact::Redactor;
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// The number of levels of JSON in a string of JSON that are searched for secrets.
const ESCAPES_MAX: usize = 2;

/// An answer to act on, and its redacted copy for the record.
pub(super) struct RecordedAnswer {
    /// The answer, with the arguments as the model wrote them.
    pub(super) assistant: Assistant,
    /// The answer without secrets.
    pub(super) redacted: Assistant,
}

impl RecordedAnswer {
    /// Redacts an answer. The provider's own blocks are signed or read byte for byte, so they cannot be redacted: if
    /// one of them holds a secret, the list of blocks becomes empty, and the parsed parts of the answer are sent back
    /// instead.
    pub(super) fn new(mut assistant: Assistant, redactor: &Redactor) -> Self {
        for block in &mut assistant.blocks {
            match block {
                ContentBlock::Text { text } => redact(text, redactor),
                // The call id and the tool name are the same in both copies: they pair results with calls and are
                // looked up.
                ContentBlock::Call(call) => {
                    redact(&mut call.id, redactor);
                    redact(&mut call.name, redactor);
                }
            }
        }
        if let Some(raw) = &mut assistant.raw
            && raw.blocks.iter().any(|block| holds_secret(block, redactor))
        {
            *raw = RawBlocks {
                provider: std::mem::take(&mut raw.provider),
                blocks: Vec::new(),
            };
        }
        let mut kept = assistant.clone();
        for block in &mut kept.blocks {
            if let ContentBlock::Call(call) = block {
                call.arguments = redact_arguments(&call.arguments, redactor);
            }
        }
        Self {
            assistant,
            redacted: kept,
        }
    }
}

/// Returns true if the arguments of a call contain a live secret, however their JSON escapes it.
pub(super) fn is_given_live_secret(call: &ToolCall, redactor: &Redactor) -> bool {
    let holds = |text: &str| variants(text).any(|text| redactor.contains_live(&text));
    let mut found = holds(call.arguments.text());
    if let Ok(arguments) = call.arguments.value() {
        found |= any_text(arguments, &holds);
    }
    found
}

/// Redacts the arguments of a call. The result is still JSON: secrets are searched for in its strings, however those
/// are escaped.
pub(super) fn redact_arguments(written: &CallArguments, redactor: &Redactor) -> CallArguments {
    match redact_json(written.text(), written.value().ok().cloned(), redactor) {
        Cow::Owned(redacted) => redacted.into(),
        Cow::Borrowed(_) => written.without_value(),
    }
}

/// Redacts a text and its JSON value, if it is JSON.
fn redact_json<'t>(written: &'t str, value: Option<Value>, redactor: &Redactor) -> Cow<'t, str> {
    let Some(mut value) = value else {
        return words(written, redactor);
    };
    let mut changed = false;
    each_text(&mut value, &mut |text| {
        if let Cow::Owned(redacted) = words(text, redactor) {
            *text = redacted;
            changed = true;
        }
    });
    let kept = match changed {
        true => Cow::Owned(value.to_string()),
        false => Cow::Borrowed(written),
    };
    // Remaining secrets are not in strings of the value: they are in a number, or in a field that was written twice.
    match words(&kept, redactor) {
        Cow::Owned(_) => Cow::Owned("{}".to_owned()),
        Cow::Borrowed(_) => kept,
    }
}

fn holds_secret(block: &RawValue, redactor: &Redactor) -> bool {
    let value = serde_json::from_str(block.get()).ok();
    matches!(redact_json(block.get(), value, redactor), Cow::Owned(_))
}

fn redact(text: &mut String, redactor: &Redactor) {
    if let Cow::Owned(redacted) = words(text, redactor) {
        *text = redacted;
    }
}

/// Redacts a text, including secrets that are written with escapes.
fn words<'t>(text: &'t str, redactor: &Redactor) -> Cow<'t, str> {
    let mut kept = redactor.redact(text);
    let mut plain = kept.clone();
    for _ in 0..ESCAPES_MAX {
        if !plain.contains('\\') {
            break;
        }
        plain = Cow::Owned(unescaped(&plain));
        if let Cow::Owned(redacted) = redactor.redact(&plain) {
            kept = Cow::Owned(redacted.clone());
            plain = Cow::Owned(redacted);
        }
    }
    kept
}

/// Returns a text, and the text without its escapes.
fn variants(text: &str) -> impl Iterator<Item = Cow<'_, str>> {
    let next = |text: &Cow<'_, str>| text.contains('\\').then(|| Cow::Owned(unescaped(text)));
    std::iter::successors(Some(Cow::Borrowed(text)), next).take(1 + ESCAPES_MAX)
}

/// Returns a text with its JSON escapes undone; the text need not be JSON.
fn unescaped(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        plain.push_str(before);
        let code = after.strip_prefix('u').and_then(|digits| digits.get(..4));
        let char = code.and_then(|code| u32::from_str_radix(code, 16).ok().and_then(char::from_u32));
        rest = match char {
            Some(char) => {
                plain.push(char);
                after.get(5..).unwrap_or_default()
            }
            // `\/` and `\"` stand for the character that follows; the other escapes do not occur in secrets.
            None => after,
        };
    }
    plain.push_str(rest);
    plain
}

/// Returns true if `holds` is true for a string of a value, or for a field name.
fn any_text(value: &Value, holds: &dyn Fn(&str) -> bool) -> bool {
    match value {
        Value::String(text) => holds(text),
        Value::Array(items) => items.iter().any(|item| any_text(item, holds)),
        Value::Object(fields) => fields
            .iter()
            .any(|(name, field)| holds(name) || any_text(field, holds)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Calls `change` with each string of a value, including field names.
fn each_text(value: &mut Value, change: &mut dyn FnMut(&mut String)) {
    match value {
        Value::String(text) => change(text),
        Value::Array(items) => items.iter_mut().for_each(|item| each_text(item, change)),
        Value::Object(fields) => {
            for (mut name, mut field) in std::mem::take(fields) {
                change(&mut name);
                each_text(&mut field, change);
                fields.insert(name, field);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests;
