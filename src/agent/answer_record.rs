//! The record of a model's answer: its words, the names and arguments of its calls, and the provider's own blocks,
//! all without secrets. Calls are carried out with the arguments as they were written; what is kept is never carried
//! out.

use crate::model::{Assistant, ContentBlock, RawBlocks, ToolCall};
use crate::redact::Redactor;
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// The times that JSON may be packed into a string of JSON before we stop following.
const ESCAPES_MAX: usize = 2;

/// An answer to act on, and what is kept of it.
pub(super) struct RecordedAnswer {
    /// The answer, with the arguments as the model wrote them.
    pub(super) assistant: Assistant,
    /// The answer without secrets.
    pub(super) redacted: Assistant,
}

impl RecordedAnswer {
    /// Takes secrets out of an answer. The provider's own blocks are signed or read byte for byte, so with a secret in
    /// one of them none is kept: the list of blocks is empty then, and what we read of the answer is sent back instead.
    pub(super) fn new(mut assistant: Assistant, redactor: &Redactor) -> Self {
        for block in &mut assistant.blocks {
            match block {
                ContentBlock::Text { text } => redact(text, redactor),
                // What pairs a result with its call, and what is looked up, is the same in both.
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
            if let ContentBlock::Call(call) = block
                && let Cow::Owned(arguments) = redact_arguments(&call.arguments, redactor)
            {
                call.arguments = arguments;
            }
        }
        Self {
            assistant,
            redacted: kept,
        }
    }
}

/// True if a call is given one of the live secrets, in whatever way its JSON says so.
pub(super) fn is_given_live_secret(call: &ToolCall, redactor: &Redactor) -> bool {
    let holds = |text: &str| variants(text).any(|text| redactor.contains_live(&text));
    let mut found = holds(&call.arguments);
    if let Ok(mut arguments) = serde_json::from_str::<Value>(&call.arguments) {
        each_text(&mut arguments, &mut |text| found |= holds(text));
    }
    found
}

/// The arguments of a call without secrets. JSON stays JSON: secrets are looked for in the texts it holds, whichever way
/// those are escaped.
pub(super) fn redact_arguments<'t>(written: &'t str, redactor: &Redactor) -> Cow<'t, str> {
    let Ok(mut value) = serde_json::from_str::<Value>(written) else {
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
    // What is left is no text of the value: a number, or a field that was written twice.
    match words(&kept, redactor) {
        Cow::Owned(_) => Cow::Owned("{}".to_owned()),
        Cow::Borrowed(_) => kept,
    }
}

fn holds_secret(block: &RawValue, redactor: &Redactor) -> bool {
    matches!(redact_arguments(block.get(), redactor), Cow::Owned(_))
}

fn redact(text: &mut String, redactor: &Redactor) {
    if let Cow::Owned(redacted) = words(text, redactor) {
        *text = redacted;
    }
}

/// A text without secrets, also those that are written with escapes.
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

/// A text, and what it is once its escapes are undone.
fn variants(text: &str) -> impl Iterator<Item = Cow<'_, str>> {
    let next = |text: &Cow<'_, str>| text.contains('\\').then(|| Cow::Owned(unescaped(text)));
    std::iter::successors(Some(Cow::Borrowed(text)), next).take(1 + ESCAPES_MAX)
}

/// A text with the escapes of JSON undone, whatever else it is.
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
            // `\/` and `\"` stand for what follows; of the others nobody makes a secret.
            None => after,
        };
    }
    plain.push_str(rest);
    plain
}

/// Calls `change` with each text of a value, names of fields included.
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
