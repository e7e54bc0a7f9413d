//! The canonical form of a value that an engine returns: compact JSON with sorted fields. Two engines agree if their
//! bytes are equal.

use super::number::write_number;

/// Characters of a differing value that are shown.
const SHOWN_CHARS_MAX: usize = 200;

/// The limit that a value exceeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValueTooLarge {
    /// The number of bytes.
    Bytes,
    /// The number of nested values.
    Values,
    /// The number of Kubernetes objects.
    Objects,
}

/// The limits of a value. Its tree uses many times the memory of its text, so its parts are counted as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(super) struct ValueLimits {
    pub(super) bytes_max: usize,
    /// Texts, names of fields, numbers, arrays and objects.
    pub(super) values_max: usize,
    /// Objects with the field `apiVersion`.
    pub(super) objects_max: usize,
}

impl ValueLimits {
    /// No bounds.
    pub(super) const NONE: Self = Self {
        bytes_max: usize::MAX,
        values_max: usize::MAX,
        objects_max: usize::MAX,
    };
}

/// The field that each Kubernetes object has once.
const OBJECT_FIELD: &str = "apiVersion";

/// A writer of a value, in order, within limits.
#[derive(Debug)]
pub(super) struct CanonicalWriter {
    text: String,
    bounds: ValueLimits,
    values: usize,
    objects: usize,
    /// True until something is written after the last opening bracket.
    first: bool,
}

impl CanonicalWriter {
    pub(super) fn new(bounds: ValueLimits) -> Self {
        Self {
            text: String::new(),
            bounds,
            values: 0,
            objects: 0,
            first: true,
        }
    }

    pub(super) fn finish(self) -> String {
        self.text
    }

    pub(super) fn null(&mut self) -> Result<(), ValueTooLarge> {
        self.count()?;
        self.word("null")
    }

    pub(super) fn boolean(&mut self, value: bool) -> Result<(), ValueTooLarge> {
        self.count()?;
        self.word(if value { "true" } else { "false" })
    }

    pub(super) fn number(&mut self, value: f64) -> Result<(), ValueTooLarge> {
        self.count()?;
        write_number(&mut self.text, value);
        self.check(0)
    }

    pub(super) fn string(&mut self, value: &str) -> Result<(), ValueTooLarge> {
        self.open_string();
        self.string_part(value)?;
        self.close_string()
    }

    pub(super) fn open_string(&mut self) {
        self.text.push('"');
    }

    pub(super) fn string_part(&mut self, value: &str) -> Result<(), ValueTooLarge> {
        self.check(value.len())?;
        write_escaped(&mut self.text, value);
        self.check(0)
    }

    pub(super) fn close_string(&mut self) -> Result<(), ValueTooLarge> {
        self.count()?;
        self.word("\"")
    }

    pub(super) fn open(&mut self, bracket: char) -> Result<(), ValueTooLarge> {
        self.count()?;
        self.first = true;
        self.text.push(bracket);
        self.check(0)
    }

    pub(super) fn close(&mut self, bracket: char) -> Result<(), ValueTooLarge> {
        self.first = false;
        self.text.push(bracket);
        self.check(0)
    }

    /// Begins an item of an array. Must be called before each item.
    pub(super) fn item(&mut self) {
        if !std::mem::take(&mut self.first) {
            self.text.push(',');
        }
    }

    /// Begins the value of a field. Must be called before each value.
    pub(super) fn field(&mut self, name: &str) -> Result<(), ValueTooLarge> {
        self.item();
        if name == OBJECT_FIELD {
            self.objects += 1;
            if self.objects > self.bounds.objects_max {
                return Err(ValueTooLarge::Objects);
            }
        }
        self.string(name)?;
        self.text.push(':');
        Ok(())
    }

    /// Counts one more value.
    fn count(&mut self) -> Result<(), ValueTooLarge> {
        self.values += 1;
        match self.values > self.bounds.values_max {
            true => Err(ValueTooLarge::Values),
            false => Ok(()),
        }
    }

    fn word(&mut self, word: &str) -> Result<(), ValueTooLarge> {
        self.text.push_str(word);
        self.check(0)
    }

    fn check(&self, more: usize) -> Result<(), ValueTooLarge> {
        match self.text.len().saturating_add(more) > self.bounds.bytes_max {
            true => Err(ValueTooLarge::Bytes),
            false => Ok(()),
        }
    }
}

/// Appends the content of a JSON string, with the escapes of the Go implementation.
pub(super) fn write_escaped(out: &mut String, text: &str) {
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' => {
                out.push_str(&format!("\\u{:04x}", u32::from(character)));
            }
            _ => out.push(character),
        }
    }
}

/// The first location where two values differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ValueDifference {
    pub(super) path: String,
    pub(super) first: String,
    pub(super) second: String,
}

/// Returns the first difference between two canonical values; `None` if they are equal.
pub(super) fn difference(first: &str, second: &str) -> Option<ValueDifference> {
    if first == second {
        return None;
    }
    let (mut left, mut right) = (Events::new(first), Events::new(second));
    let mut path: Vec<Step> = Vec::new();
    loop {
        let (ours, theirs) = (left.next(), right.next());
        if ours == theirs {
            match ours {
                Some(event) => walk(&mut path, event),
                None => return None,
            }
            continue;
        }
        // Names are sorted. The side with the smaller next name has an additional field, which the other side lacks.
        let names = (ours.and_then(Event::name), theirs.and_then(Event::name));
        let at = |name: Option<&str>| shown_path(&path, name);
        return Some(match names {
            (Some(ours), Some(theirs)) if ours < theirs => lacks_second(at(Some(ours)), left.value()),
            (Some(_), Some(theirs)) | (None, Some(theirs)) => lacks_first(at(Some(theirs)), right.value()),
            (Some(ours), None) => lacks_second(at(Some(ours)), left.value()),
            (None, None) => ValueDifference {
                path: at(None),
                first: shown(left.again(ours)),
                second: shown(right.again(theirs)),
            },
        });
    }
}

fn lacks_second(path: String, value: &str) -> ValueDifference {
    ValueDifference {
        path,
        first: shown(value),
        second: "missing".to_owned(),
    }
}

fn lacks_first(path: String, value: &str) -> ValueDifference {
    ValueDifference {
        path,
        first: "missing".to_owned(),
        second: shown(value),
    }
}

fn shown(value: &str) -> String {
    match value.chars().nth(SHOWN_CHARS_MAX) {
        Some(_) => value.chars().take(SHOWN_CHARS_MAX - 1).chain(['…']).collect(),
        None => value.to_owned(),
    }
}

/// One step of the path to a value.
enum Step {
    Field(String),
    /// The number of items of the array seen so far.
    Item(usize),
    /// Inside an object, between two fields.
    Object,
}

fn walk(path: &mut Vec<Step>, event: Event<'_>) {
    match event {
        Event::Open("{") => {
            begin(path);
            path.push(Step::Object);
        }
        Event::Open(_) => {
            begin(path);
            path.push(Step::Item(0));
        }
        Event::Close(_) => {
            path.pop();
            end(path);
        }
        Event::Name(name) => path.push(Step::Field(name.to_owned())),
        Event::Scalar(_) => {
            begin(path);
            end(path);
        }
    }
}

fn begin(path: &mut [Step]) {
    if let Some(Step::Item(seen)) = path.last_mut() {
        *seen += 1;
    }
}

fn end(path: &mut Vec<Step>) {
    if let Some(Step::Field(_)) = path.last() {
        path.pop();
    }
}

fn shown_path(path: &[Step], name: Option<&str>) -> String {
    let mut text = "$".to_owned();
    let last = path.len().saturating_sub(1);
    for (position, step) in path.iter().enumerate() {
        match step {
            Step::Field(name) => push_name(&mut text, name),
            // In the innermost array, the next item is the one that differs.
            Step::Item(seen) if position == last => text.push_str(&format!("[{seen}]")),
            Step::Item(seen) => text.push_str(&format!("[{}]", seen.saturating_sub(1))),
            Step::Object => {}
        }
    }
    if let Some(name) = name {
        push_name(&mut text, name);
    }
    text
}

/// Appends a name, which is still quoted and escaped.
fn push_name(text: &mut String, name: &str) {
    let bare = name.trim_matches('"');
    let plain = !bare.is_empty()
        && bare
            .chars()
            .all(|next| next.is_ascii_alphanumeric() || next == '_' || next == '-');
    match plain {
        true => {
            text.push('.');
            text.push_str(bare);
        }
        false => {
            text.push('[');
            text.push_str(name);
            text.push(']');
        }
    }
}

/// A part of canonical JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event<'a> {
    Open(&'a str),
    Close(&'a str),
    Name(&'a str),
    Scalar(&'a str),
}

impl<'a> Event<'a> {
    fn name(self) -> Option<&'a str> {
        match self {
            Self::Name(name) => Some(name),
            Self::Open(_) | Self::Close(_) | Self::Scalar(_) => None,
        }
    }
}

/// A reader of canonical JSON. It trusts its input, which this program wrote.
struct Events<'a> {
    rest: &'a str,
}

impl<'a> Events<'a> {
    fn new(text: &'a str) -> Self {
        Self { rest: text }
    }

    fn next(&mut self) -> Option<Event<'a>> {
        self.rest = self.rest.trim_start_matches([',', ':']);
        let bytes = token_bytes(self.rest)?;
        let (token, rest) = self.rest.split_at_checked(bytes)?;
        self.rest = rest;
        Some(match token.as_bytes().first() {
            Some(b'{' | b'[') => Event::Open(token),
            Some(b'}' | b']') => Event::Close(token),
            Some(b'"') if rest.starts_with(':') => Event::Name(token),
            _ => Event::Scalar(token),
        })
    }

    /// Returns the complete next value.
    fn value(&self) -> &'a str {
        let start = self.rest.trim_start_matches([',', ':']);
        let mut following = Self { rest: start };
        let mut depth = 0_usize;
        while let Some(event) = following.next() {
            match event {
                Event::Open(_) => depth += 1,
                Event::Close(_) => depth = depth.saturating_sub(1),
                Event::Name(_) | Event::Scalar(_) => {}
            }
            if depth == 0 {
                break;
            }
        }
        let bytes = start.len() - following.rest.len();
        start.get(..bytes).unwrap_or_default()
    }

    /// Describes the value that began with the last event; `missing` if a bracket closed instead.
    fn again(&self, event: Option<Event<'a>>) -> &'a str {
        match event {
            Some(Event::Scalar(token)) => token,
            Some(Event::Open("{")) => "an object",
            Some(Event::Open(_)) => "an array",
            Some(Event::Name(_) | Event::Close(_)) | None => "missing",
        }
    }
}

/// Returns the length of the first token in bytes.
fn token_bytes(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    match bytes.first()? {
        b'{' | b'}' | b'[' | b']' => Some(1),
        b'"' => {
            let mut escaped = false;
            let end = bytes.iter().skip(1).position(|byte| {
                let ends = *byte == b'"' && !escaped;
                escaped = *byte == b'\\' && !escaped;
                ends
            });
            end.map(|end| end + 2)
        }
        _ => Some(text.find([',', '}', ']']).unwrap_or(text.len())),
    }
}

#[cfg(test)]
mod tests;
