//! The values of a file of pipelines with their lines, from YAML or from the JSON of an evaluated program. Of YAML,
//! only what JSON can express is accepted: no anchors, no aliases, no tags. The text is untrusted, and every size is
//! bounded.

use super::problem::{FoundProblems, shown_name};
use super::{FILE_BYTES_MAX, NESTING_MAX, VALUES_MAX};
use crate::rendering::jsonnet::yaml_event;
use libyaml_safer::{Event, EventData, Parser, ScalarStyle};
use serde_json::Value;
use std::collections::HashSet;

/// A value with its line.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct DocumentValue {
    /// The line, from 1; `None` for the value of a program.
    pub(super) line: Option<u32>,
    pub(super) content: DocumentContent,
}

/// The content of a value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum DocumentContent {
    Null,
    Boolean(bool),
    Integer(i64),
    Number(f64),
    Text(String),
    List(Vec<DocumentValue>),
    Map(Vec<DocumentEntry>),
}

/// An entry of a map.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct DocumentEntry {
    pub(super) key: String,
    /// The line of the key.
    pub(super) line: Option<u32>,
    pub(super) value: DocumentValue,
}

impl DocumentContent {
    /// Returns the type in words.
    pub(super) fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "nothing",
            Self::Boolean(_) => "true or false",
            Self::Integer(_) => "a whole number",
            Self::Number(_) => "a number",
            Self::Text(_) => "text",
            Self::List(_) => "a list",
            Self::Map(_) => "a map",
        }
    }
}

impl DocumentValue {
    /// Returns the line of the innermost written value on the path of a key, such as `pipelines.a.steps[0].name`.
    pub(super) fn line_at(&self, key: &str) -> Option<u32> {
        let mut at = self;
        let mut line = self.line;
        for part in key.split('.') {
            let (name, indexes) = part
                .split_once('[')
                .map_or((part, ""), |(name, rest)| (name, rest));
            let DocumentContent::Map(entries) = &at.content else {
                return line;
            };
            let meant = |entry: &&DocumentEntry| entry.key == name || snake_case(&entry.key) == name;
            let Some(entry) = entries.iter().find(meant) else {
                return line;
            };
            (line, at) = (entry.line, &entry.value);
            for index in indexes
                .split(['[', ']'])
                .filter_map(|text| text.parse::<usize>().ok())
            {
                let DocumentContent::List(items) = &at.content else {
                    return line;
                };
                let Some(item) = items.get(index) else {
                    return line;
                };
                (line, at) = (item.line, item);
            }
        }
        line
    }
}

/// Returns a key in snake case: `maxSteps` and `baseURL` are `max_steps` and `base_url`.
pub(super) fn snake_case(key: &str) -> String {
    let mut snake = String::with_capacity(key.len() + 4);
    let mut after_lower = false;
    for character in key.chars() {
        if character.is_ascii_uppercase() && after_lower {
            snake.push('_');
        }
        after_lower = !character.is_ascii_uppercase();
        snake.push(character.to_ascii_lowercase());
    }
    snake
}

/// Reads the only document of a YAML text. `None` means that its problems are recorded.
pub(super) fn from_yaml(text: &str, problems: &mut FoundProblems) -> Option<DocumentValue> {
    if text.len() > FILE_BYTES_MAX {
        problems.add(None, "", too_large());
        return None;
    }
    let mut input = text.as_bytes();
    let mut parser = Parser::new();
    parser.set_input_string(&mut input);
    let read = YamlDocumentReader {
        parser,
        problems: &mut *problems,
        values: 0,
    }
    .document();
    match read {
        Ok(document) => Some(document),
        Err(YamlStop::Recorded) => None,
        Err(YamlStop::Malformed(why)) => {
            let line = line_in(&why);
            let hint = line.filter(|line| has_bare_reference(text, *line));
            let hint = hint.map_or("", |_| "; write each `${...}` in quotation marks");
            problems.add(line, "", format!("is not YAML: {}{hint}", shown_reason(&why)));
            None
        }
    }
}

/// Returns the line that the parser names in `Scanner error: line 3 column 5: ...`.
fn line_in(why: &str) -> Option<u32> {
    let (_, rest) = why.split_once("error: line ")?;
    rest.split(' ').next()?.parse().ok()
}

/// True if a line has a reference without quotation marks, whose braces are those of a map in `{...}` and `[...]`.
fn has_bare_reference(text: &str, line: u32) -> bool {
    let before = usize::try_from(line).unwrap_or(usize::MAX).saturating_sub(1);
    text.lines().nth(before).is_some_and(|line| {
        let mut references = line.match_indices("${");
        references.any(|(at, _)| !line.get(..at).unwrap_or_default().ends_with(['"', '\'']))
    })
}

/// Converts the value of a program. `None` means that its problems are recorded.
pub(super) fn from_json(value: Value, problems: &mut FoundProblems) -> Option<DocumentValue> {
    let mut count = 0;
    match json_value(value, 0, &mut count) {
        Ok(value) => Some(value),
        Err(why) => {
            problems.add(None, "", why);
            None
        }
    }
}

fn json_value(value: Value, depth: usize, count: &mut usize) -> Result<DocumentValue, String> {
    *count += 1;
    if depth > NESTING_MAX {
        return Err(too_deep());
    }
    if *count > VALUES_MAX {
        return Err(too_many());
    }
    let content = match value {
        Value::Null => DocumentContent::Null,
        Value::Bool(value) => DocumentContent::Boolean(value),
        Value::Number(number) => match number.as_i64() {
            Some(number) => DocumentContent::Integer(number),
            None => DocumentContent::Number(number.as_f64().unwrap_or_default()),
        },
        Value::String(text) => DocumentContent::Text(text),
        Value::Array(items) => {
            let items = items.into_iter().map(|item| json_value(item, depth + 1, count));
            DocumentContent::List(items.collect::<Result<_, _>>()?)
        }
        Value::Object(members) => {
            let entries = members.into_iter().map(|(key, value)| {
                let value = json_value(value, depth + 1, count)?;
                Ok(DocumentEntry {
                    key,
                    line: None,
                    value,
                })
            });
            DocumentContent::Map(entries.collect::<Result<_, String>>()?)
        }
    };
    Ok(DocumentValue { line: None, content })
}

pub(super) fn too_large() -> String {
    format!(
        "is larger than {} KiB; use fewer or shorter pipelines",
        FILE_BYTES_MAX >> 10
    )
}

fn too_deep() -> String {
    format!("has more than {NESTING_MAX} levels of lists and maps")
}

fn too_many() -> String {
    format!("has more than {VALUES_MAX} values")
}

/// Returns the reason of the parser on one line.
fn shown_reason(why: &str) -> String {
    why.chars()
        .take(200)
        .map(|next| if next.is_control() { ' ' } else { next })
        .collect()
}

/// The reason why no document was read.
enum YamlStop {
    /// The problem is recorded.
    Recorded,
    /// The text is not YAML.
    Malformed(String),
}

struct YamlDocumentReader<'a, 'b, 'p> {
    parser: Parser<&'a mut &'b [u8]>,
    problems: &'p mut FoundProblems,
    values: usize,
}

impl YamlDocumentReader<'_, '_, '_> {
    fn document(mut self) -> Result<DocumentValue, YamlStop> {
        let mut document = None;
        loop {
            let event = self.event()?;
            match event.data {
                EventData::StreamEnd => break,
                EventData::DocumentStart { .. } if document.is_some() => {
                    let why = "is a second document; write all pipelines into one, without `---`";
                    return Err(self.refuse(&event, why));
                }
                EventData::DocumentStart { .. } => {
                    let root = self.event()?;
                    document = Some(self.value(root, 0)?);
                }
                _ => {}
            }
        }
        document.ok_or_else(|| {
            self.problems.add(
                None,
                "",
                "is empty; write `pipelines:` and the pipelines below it",
            );
            YamlStop::Recorded
        })
    }

    fn event(&mut self) -> Result<Event, YamlStop> {
        yaml_event(&mut self.parser).map_err(YamlStop::Malformed)
    }

    fn refuse(&mut self, event: &Event, why: impl Into<String>) -> YamlStop {
        self.problems.add(line_of(event), "", why);
        YamlStop::Recorded
    }

    fn value(&mut self, event: Event, depth: usize) -> Result<DocumentValue, YamlStop> {
        self.values += 1;
        if depth > NESTING_MAX {
            return Err(self.refuse(&event, too_deep()));
        }
        if self.values > VALUES_MAX {
            return Err(self.refuse(&event, too_many()));
        }
        let (anchor, tag) = match &event.data {
            EventData::Alias { .. } => (true, false),
            EventData::Scalar { anchor, tag, .. }
            | EventData::SequenceStart { anchor, tag, .. }
            | EventData::MappingStart { anchor, tag, .. } => (anchor.is_some(), tag.is_some()),
            _ => return Err(self.refuse(&event, "a value is missing")),
        };
        if anchor {
            let why =
                "anchors and aliases are not accepted; use `defaults`, or write the pipelines in Jsonnet";
            return Err(self.refuse(&event, why));
        }
        if tag {
            return Err(self.refuse(
                &event,
                "tags such as `!!str` are not accepted; put texts in quotes",
            ));
        }
        let line = line_of(&event);
        let content = match event.data {
            EventData::Scalar { value, style, .. } => scalar(value, style),
            EventData::SequenceStart { .. } => DocumentContent::List(self.list(depth)?),
            _ => DocumentContent::Map(self.map(depth)?),
        };
        Ok(DocumentValue { line, content })
    }

    fn list(&mut self, depth: usize) -> Result<Vec<DocumentValue>, YamlStop> {
        let mut items = Vec::new();
        loop {
            let event = self.event()?;
            if event.data == EventData::SequenceEnd {
                return Ok(items);
            }
            items.push(self.value(event, depth + 1)?);
        }
    }

    fn map(&mut self, depth: usize) -> Result<Vec<DocumentEntry>, YamlStop> {
        let mut entries = Vec::new();
        let mut keys = HashSet::new();
        loop {
            let event = self.event()?;
            if event.data == EventData::MappingEnd {
                return Ok(entries);
            }
            let line = line_of(&event);
            let key = self.value(event, depth + 1)?;
            let DocumentContent::Text(key) = key.content else {
                let why = format!("a key is {}; put it in quotes", key.content.type_name());
                self.problems.add(line, "", why);
                return Err(YamlStop::Recorded);
            };
            let event = self.event()?;
            let value = self.value(event, depth + 1)?;
            if !keys.insert(key.clone()) {
                self.problems
                    .add(line, &shown_name(&key), "is written twice; keep one of them");
                continue;
            }
            entries.push(DocumentEntry { key, line, value });
        }
    }
}

fn line_of(event: &Event) -> Option<u32> {
    u32::try_from(event.start_mark.line + 1).ok()
}

/// Returns the value of a scalar. Only what is a word or a number of JSON is not text, and `~` and nothing.
fn scalar(text: String, style: ScalarStyle) -> DocumentContent {
    if style != ScalarStyle::Plain {
        return DocumentContent::Text(text);
    }
    match text.as_str() {
        "" | "~" | "null" => return DocumentContent::Null,
        "true" => return DocumentContent::Boolean(true),
        "false" => return DocumentContent::Boolean(false),
        _ => {}
    }
    if !text.starts_with(|first: char| first == '-' || first.is_ascii_digit()) {
        return DocumentContent::Text(text);
    }
    match serde_json::from_str::<serde_json::Number>(&text) {
        Ok(number) => match number.as_i64() {
            Some(number) => DocumentContent::Integer(number),
            None => DocumentContent::Number(number.as_f64().unwrap_or_default()),
        },
        Err(_) => DocumentContent::Text(text),
    }
}
