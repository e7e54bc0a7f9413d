//! The parser from YAML to plain values as in Go: Tanka's `parseYaml` uses yaml.v3 for every document of the stream,
//! and `std.parseYaml` uses yaml.v2.

use super::NativeError;
use super::yaml_scalar::{YamlResult, infinite_key, key as name, scalar};
use crate::rendering::jsonnet::yaml::GoYamlVersion;
use libyaml_safer::{Event, EventData, Parser, ScalarStyle};
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::io::BufRead;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Levels of nesting of one document.
const DEPTH_MAX: usize = 128;
/// The total size of aliased values, and the total size of stored anchors beyond the written size. A value has a size
/// of one; a text has one more for each [`TEXT_UNIT`] of its length.
const REPEATED_MAX: usize = 100_000;
/// Bytes of text that count as one value.
const TEXT_UNIT: usize = 64;
const MERGE: &str = "<<";
const MERGE_TAG: &str = "tag:yaml.org,2002:merge";

/// Parses the documents of a stream.
pub(super) fn parse(text: &str) -> Result<Vec<Value>, NativeError> {
    let documents = read(GoYamlVersion::V3, text, |reader| reader.stream());
    documents.map_err(|why| NativeError::message(format!("parseYaml: yaml: {why}")))
}

/// Returns the value of `std.parseYaml`: a list if a line begins a document, otherwise the first document.
pub(super) fn parse_standard(text: &str) -> Result<Value, NativeError> {
    let (chunks, is_stream) = chunks(text);
    let documents = chunks
        .iter()
        .map(|chunk| read(GoYamlVersion::V2, chunk, |reader| reader.first()));
    let documents: Result<Vec<Value>, String> = documents.collect();
    let documents = documents.map_err(|why| {
        let why = match why.starts_with("json: ") {
            true => why,
            false => format!("yaml: {why}"),
        };
        NativeError::message(format!(
            "failed to parse YAML: error converting YAML to JSON: {why}"
        ))
    })?;
    Ok(match is_stream {
        true => Value::Array(documents),
        false => documents.into_iter().next().unwrap_or_default(),
    })
}

/// Splits a text at lines of `---`. Also returns true if there is such a line. go-jsonnet reads one document of each
/// part.
fn chunks(text: &str) -> (Vec<String>, bool) {
    let (mut chunks, mut is_stream) = (Vec::new(), false);
    let mut chunk = String::new();
    for line in text.lines() {
        let begins = line.strip_prefix("---");
        if begins.is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t'])) {
            is_stream = true;
            if !chunk.is_empty() {
                chunks.push(std::mem::take(&mut chunk));
            }
        }
        chunk.push_str(line);
        chunk.push('\n');
    }
    if !chunk.is_empty() {
        chunks.push(chunk);
    }
    (chunks, is_stream)
}

fn read<T>(
    profile: GoYamlVersion,
    text: &str,
    read: impl FnOnce(&mut YamlReader<'_, '_>) -> YamlResult<T>,
) -> YamlResult<T> {
    let mut input = text.as_bytes();
    let mut parser = Parser::new();
    parser.set_input_string(&mut input);
    read(&mut YamlReader {
        parser,
        profile,
        anchors: HashMap::new(),
        alias_size: 0,
        written_size: 0,
        anchor_size: 0,
    })
}

/// Returns the next event of a stream. The parser panics on some texts that are not YAML, such as `{!,`. These count as
/// malformed, and the parser must not be used again.
pub(crate) fn event<R: BufRead>(parser: &mut Parser<R>) -> Result<Event, String> {
    match catch_unwind(AssertUnwindSafe(|| parser.parse())) {
        Ok(event) => event.map_err(|error| error.to_string()),
        Err(_) => Err("did not find what is expected after a tag or an indicator".to_owned()),
    }
}

struct YamlReader<'a, 'b> {
    parser: Parser<&'a mut &'b [u8]>,
    profile: GoYamlVersion,
    anchors: HashMap<String, SizedValue>,
    alias_size: usize,
    written_size: usize,
    anchor_size: usize,
}

/// A value that can be repeated, and its total size.
#[derive(Clone)]
struct SizedValue {
    value: Value,
    size: usize,
}

impl YamlReader<'_, '_> {
    fn stream(&mut self) -> YamlResult<Vec<Value>> {
        let mut documents = Vec::new();
        loop {
            match self.event()?.data {
                EventData::StreamEnd => return Ok(documents),
                EventData::DocumentStart { .. } => {
                    // Anchors are valid only within their own document.
                    self.anchors.clear();
                    let root = self.event()?;
                    documents.push(self.node(root.data, 0)?.value);
                }
                _ => {}
            }
        }
    }

    /// Returns the first document, or nothing if there is none.
    fn first(&mut self) -> YamlResult<Value> {
        loop {
            match self.event()?.data {
                EventData::StreamEnd => return Ok(Value::Null),
                EventData::DocumentStart { .. } => {
                    let root = self.event()?;
                    let document = self.node(root.data, 0)?.value;
                    // Text after the document must not be part of it.
                    self.event()?;
                    return Ok(document);
                }
                _ => {}
            }
        }
    }

    fn event(&mut self) -> YamlResult<Event> {
        event(&mut self.parser)
    }

    fn node(&mut self, event: EventData, depth: usize) -> YamlResult<SizedValue> {
        if depth > DEPTH_MAX {
            return Err(format!("exceeded max depth of {DEPTH_MAX}"));
        }
        let mut written = 1;
        let (anchor, node) = match event {
            EventData::Alias { anchor } => return self.alias(&anchor),
            EventData::Scalar {
                anchor,
                tag,
                value,
                style,
                ..
            } => {
                let size = 1 + value.len() / TEXT_UNIT;
                written = size;
                let value = scalar(self.profile, tag.as_deref(), value, style)?;
                (anchor, SizedValue { value, size })
            }
            EventData::SequenceStart { anchor, .. } => (anchor, self.sequence(depth)?),
            EventData::MappingStart { anchor, .. } => (anchor, self.mapping(depth)?),
            _ => return Err("did not find expected node content".to_owned()),
        };
        self.written_size = self.written_size.saturating_add(written);
        if let Some(anchor) = anchor {
            self.store_anchor(anchor, &node)?;
        }
        Ok(node)
    }

    /// Parses a key. In yaml.v2 a number that is not finite is valid as a key although it is not valid as a value.
    fn key(&mut self, event: EventData, depth: usize) -> YamlResult<SizedValue> {
        if let EventData::Scalar {
            value,
            style: ScalarStyle::Plain,
            tag: None,
            ..
        } = &event
            && let (GoYamlVersion::V2, Some(key)) = (self.profile, infinite_key(value))
        {
            return Ok(SizedValue {
                value: key.into(),
                size: 1,
            });
        }
        self.node(event, depth)
    }

    /// Stores a copy of an anchored value. Nested anchors store the innermost value once for each of them.
    fn store_anchor(&mut self, anchor: String, node: &SizedValue) -> YamlResult<()> {
        self.anchor_size = self.anchor_size.saturating_add(node.size);
        if self.anchor_size > self.written_size.saturating_add(REPEATED_MAX) {
            return Err("too many anchors within each other".to_owned());
        }
        self.anchors.insert(anchor, node.clone());
        Ok(())
    }

    fn alias(&mut self, anchor: &str) -> YamlResult<SizedValue> {
        let known = self.anchors.get(anchor);
        let size = known
            .map(|known| known.size)
            .ok_or_else(|| format!("unknown anchor '{anchor}' referenced"))?;
        self.alias_size = self.alias_size.saturating_add(size);
        if self.alias_size > REPEATED_MAX {
            return Err("too many aliases".to_owned());
        }
        known.cloned().ok_or_else(|| "unknown anchor".to_owned())
    }

    fn sequence(&mut self, depth: usize) -> YamlResult<SizedValue> {
        let (mut items, mut size) = (Vec::new(), 1);
        loop {
            let event = self.event()?.data;
            if event == EventData::SequenceEnd {
                let value = Value::Array(items);
                return Ok(SizedValue { value, size });
            }
            let item = self.node(event, depth + 1)?;
            size += item.size;
            items.push(item.value);
        }
    }

    fn mapping(&mut self, depth: usize) -> YamlResult<SizedValue> {
        let (mut fields, mut merged, mut size) = (Map::new(), Vec::new(), 1);
        loop {
            let event = self.event()?.data;
            if event == EventData::MappingEnd {
                break;
            }
            let merges = matches!(&event, EventData::Scalar { value, style, tag, .. }
                if value == MERGE && is_merge(style, tag.as_deref()));
            let key = self.key(event, depth + 1)?;
            let event = self.event()?.data;
            let field = self.node(event, depth + 1)?;
            size += key.size + field.size;
            match self.profile {
                GoYamlVersion::V2 if merges => merge_over(&mut fields, field.value)?,
                GoYamlVersion::V2 => {
                    fields.insert(name(key.value)?, field.value);
                }
                GoYamlVersion::V3 if merges => merged.push(field.value),
                GoYamlVersion::V3 => add(&mut fields, key.value, field.value)?,
            }
        }
        for value in merged {
            merge(&mut fields, value)?;
        }
        let value = Value::Object(fields);
        Ok(SizedValue { value, size })
    }
}

/// True for `<<` unless it is a text.
fn is_merge(style: &ScalarStyle, tag: Option<&str>) -> bool {
    match tag {
        None => *style == ScalarStyle::Plain,
        Some(tag) => tag == MERGE_TAG,
    }
}

/// Adds a field. yaml.v3 refuses a duplicate name.
fn add(fields: &mut Map<String, Value>, key: Value, value: Value) -> YamlResult<()> {
    let Value::String(key) = key else {
        return Err("a key of a mapping is not a string".to_owned());
    };
    if fields.contains_key(&key) {
        return Err(format!("mapping key \"{key}\" already defined"));
    }
    fields.insert(key, value);
    Ok(())
}

/// Merges fields over the existing ones, as in yaml.v2. In a list, the first entry takes precedence.
fn merge_over(fields: &mut Map<String, Value>, value: Value) -> YamlResult<()> {
    match value {
        Value::Object(more) => {
            fields.extend(more);
            Ok(())
        }
        Value::Array(all) if all.iter().all(Value::is_object) => all
            .into_iter()
            .rev()
            .try_for_each(|value| merge_over(fields, value)),
        _ => Err("map merge requires map or sequence of maps as the value".to_owned()),
    }
}

/// Merges fields that do not exist yet.
fn merge(fields: &mut Map<String, Value>, value: Value) -> YamlResult<()> {
    match value {
        Value::Object(more) => {
            for (key, value) in more {
                fields.entry(key).or_insert(value);
            }
            Ok(())
        }
        Value::Array(all) if all.iter().all(Value::is_object) => {
            all.into_iter().try_for_each(|value| merge(fields, value))
        }
        _ => Err("map merge requires map or sequence of maps as the value".to_owned()),
    }
}

#[cfg(test)]
mod tests;
