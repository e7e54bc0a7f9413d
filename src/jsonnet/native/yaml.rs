//! `parseYaml`: YAML as Go's yaml.v3 reads it into plain values, every document of the stream.

use super::NativeError;
use libyaml_safer::{Event, EventData, Parser, ScalarStyle};
use serde_json::{Map, Number, Value};
use std::collections::HashMap;
use std::io::BufRead;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Nesting of one document.
const DEPTH_MAX: usize = 128;
/// The size of what aliases may repeat, all together; and of what anchors keep a second time, beyond what is
/// written. A value has a size of one, and a text one more for each [`TEXT_UNIT`] of it.
const REPEATED_MAX: usize = 100_000;
/// Bytes of text that count as a value.
const TEXT_UNIT: usize = 64;
const MERGE: &str = "<<";

/// The documents of a stream.
pub(super) fn parse(text: &str) -> Result<Vec<Value>, NativeError> {
    let mut input = text.as_bytes();
    let mut parser = Parser::new();
    parser.set_input_string(&mut input);
    let mut reader = Reader {
        parser,
        anchors: HashMap::new(),
        repeated: 0,
        written: 0,
        kept: 0,
    };
    reader
        .stream()
        .map_err(|why| NativeError::said(format!("parseYaml: yaml: {why}")))
}

/// The next event of a stream. The parser gives up with a panic on some texts that are no YAML (`{!,`): they
/// are malformed like others, and it is not to be asked again.
pub(crate) fn event<R: BufRead>(parser: &mut Parser<R>) -> Result<Event, String> {
    match catch_unwind(AssertUnwindSafe(|| parser.parse())) {
        Ok(event) => event.map_err(|error| error.to_string()),
        Err(_) => Err("did not find what is expected after a tag or an indicator".to_owned()),
    }
}

struct Reader<'a, 'b> {
    parser: Parser<&'a mut &'b [u8]>,
    anchors: HashMap<String, Anchored>,
    repeated: usize,
    written: usize,
    kept: usize,
}

/// A value that can be repeated, and its size with all that is in it.
#[derive(Clone)]
struct Anchored {
    value: Value,
    size: usize,
}

type Read<T> = Result<T, String>;

impl Reader<'_, '_> {
    fn stream(&mut self) -> Read<Vec<Value>> {
        let mut documents = Vec::new();
        loop {
            match self.event()?.data {
                EventData::StreamEnd => return Ok(documents),
                EventData::DocumentStart { .. } => {
                    // An anchor is known to its own document only.
                    self.anchors.clear();
                    let root = self.event()?;
                    documents.push(self.node(root.data, 0)?.value);
                }
                _ => {}
            }
        }
    }

    fn event(&mut self) -> Read<Event> {
        event(&mut self.parser)
    }

    fn node(&mut self, event: EventData, depth: usize) -> Read<Anchored> {
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
                let plain = style == ScalarStyle::Plain;
                let size = 1 + value.len() / TEXT_UNIT;
                written = size;
                let value = scalar(tag.as_deref(), value, plain)?;
                (anchor, Anchored { value, size })
            }
            EventData::SequenceStart { anchor, .. } => (anchor, self.sequence(depth)?),
            EventData::MappingStart { anchor, .. } => (anchor, self.mapping(depth)?),
            _ => return Err("did not find expected node content".to_owned()),
        };
        self.written = self.written.saturating_add(written);
        if let Some(anchor) = anchor {
            self.keep(anchor, &node)?;
        }
        Ok(node)
    }

    /// Keeps what is anchored a second time. Anchors within each other keep the innermost value once for each
    /// of them.
    fn keep(&mut self, anchor: String, node: &Anchored) -> Read<()> {
        self.kept = self.kept.saturating_add(node.size);
        if self.kept > self.written.saturating_add(REPEATED_MAX) {
            return Err("too many anchors within each other".to_owned());
        }
        self.anchors.insert(anchor, node.clone());
        Ok(())
    }

    fn alias(&mut self, anchor: &str) -> Read<Anchored> {
        let known = self.anchors.get(anchor);
        let size = known
            .map(|known| known.size)
            .ok_or_else(|| format!("unknown anchor '{anchor}' referenced"))?;
        self.repeated = self.repeated.saturating_add(size);
        if self.repeated > REPEATED_MAX {
            return Err("too many aliases".to_owned());
        }
        known.cloned().ok_or_else(|| "unknown anchor".to_owned())
    }

    fn sequence(&mut self, depth: usize) -> Read<Anchored> {
        let (mut items, mut size) = (Vec::new(), 1);
        loop {
            let event = self.event()?.data;
            if event == EventData::SequenceEnd {
                let value = Value::Array(items);
                return Ok(Anchored { value, size });
            }
            let item = self.node(event, depth + 1)?;
            size += item.size;
            items.push(item.value);
        }
    }

    fn mapping(&mut self, depth: usize) -> Read<Anchored> {
        let (mut fields, mut merged, mut size) = (Map::new(), Vec::new(), 1);
        loop {
            let event = self.event()?.data;
            if event == EventData::MappingEnd {
                break;
            }
            let is_merge = matches!(&event, EventData::Scalar { value, style, tag, .. }
                if value == MERGE && *style == ScalarStyle::Plain && tag.is_none());
            let key = self.node(event, depth + 1)?;
            let event = self.event()?.data;
            let field = self.node(event, depth + 1)?;
            size += key.size + field.size;
            match key.value {
                _ if is_merge => merged.push(field.value),
                Value::String(key) => {
                    if fields.contains_key(&key) {
                        return Err(format!("mapping key \"{key}\" already defined"));
                    }
                    fields.insert(key, field.value);
                }
                _ => return Err("a key of a mapping is not a string".to_owned()),
            }
        }
        for value in merged {
            merge(&mut fields, value)?;
        }
        let value = Value::Object(fields);
        Ok(Anchored { value, size })
    }
}

/// Adds what is not there yet.
fn merge(fields: &mut Map<String, Value>, value: Value) -> Read<()> {
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

/// The value of a scalar: what its tag says, or what a plain one looks like.
fn scalar(tag: Option<&str>, text: String, plain: bool) -> Read<Value> {
    let tag = tag.map(|tag| tag.strip_prefix("tag:yaml.org,2002:").unwrap_or(tag));
    match tag {
        Some("str" | "!") => Ok(Value::String(text)),
        Some("binary") => binary(&text),
        Some(tag @ ("null" | "bool" | "int" | "float")) => {
            let value = resolve(&text).unwrap_or(Value::String(text));
            let fits = match tag {
                "null" => value.is_null(),
                "bool" => value.is_boolean(),
                _ => value.is_number(),
            };
            match fits {
                true => Ok(value),
                false => Err(format!("cannot decode !!str as a !!{tag}")),
            }
        }
        Some("timestamp") => {
            timestamp(&text).ok_or_else(|| format!("cannot decode `{text}` as a !!timestamp"))
        }
        None if plain => Ok(match resolve(&text) {
            Some(value) => value,
            None => timestamp(&text).unwrap_or(Value::String(text)),
        }),
        // Tags of one's own mean nothing here.
        Some(_) | None => Ok(Value::String(text)),
    }
}

fn binary(text: &str) -> Read<Value> {
    use base64::Engine as _;
    let text: String = text.chars().filter(|next| !next.is_ascii_whitespace()).collect();
    let bytes = base64::engine::general_purpose::STANDARD
        .decode(text)
        .map_err(|_| "!!binary value contains invalid base64 data".to_owned())?;
    // Go's JSON replaces what is not UTF-8.
    Ok(String::from_utf8_lossy(&bytes).into_owned().into())
}

/// What a plain scalar is when it is not text.
fn resolve(text: &str) -> Option<Value> {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Some(Value::Null),
        "true" | "True" | "TRUE" => Some(Value::Bool(true)),
        "false" | "False" | "FALSE" => Some(Value::Bool(false)),
        _ => {
            let first = text.chars().next()?;
            match first.is_ascii_digit() || "+-.".contains(first) {
                true => number(text).and_then(Number::from_f64).map(Value::Number),
                false => None,
            }
        }
    }
}

fn number(text: &str) -> Option<f64> {
    let plain = text.replace('_', "");
    if let Some(whole) = whole_number(&plain) {
        return Some(whole);
    }
    is_float(&plain).then(|| plain.parse().ok()).flatten()
}

/// A whole number of 64 bits, in the bases Go reads.
fn whole_number(text: &str) -> Option<f64> {
    let (negative, digits) = match text.strip_prefix(['+', '-']) {
        Some(digits) => (text.starts_with('-'), digits),
        None => (false, text),
    };
    let lower = digits.to_ascii_lowercase();
    let (base, digits) = match lower.as_bytes() {
        [b'0', b'x', ..] => (16, lower.get(2..)?),
        [b'0', b'b', ..] => (2, lower.get(2..)?),
        [b'0', b'o', ..] => (8, lower.get(2..)?),
        [b'0', _, ..] => (8, lower.get(1..)?),
        _ => (10, lower.as_str()),
    };
    if !digits.starts_with(|next: char| next.is_digit(base)) {
        return None;
    }
    let value = u64::from_str_radix(digits, base).ok()?;
    match negative {
        true if value > i64::MIN.unsigned_abs() => None,
        true => Some(-(value as f64)),
        false => Some(value as f64),
    }
}

/// `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`
fn is_float(text: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.chars().all(|next| next.is_ascii_digit());
    let text = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.strip_prefix(['+', '-']).unwrap_or(exponent)),
        None => (text, "0"),
    };
    let mantissa = match mantissa.split_once('.') {
        Some(("", fraction)) => digits(fraction),
        Some((whole, fraction)) => digits(whole) && (fraction.is_empty() || digits(fraction)),
        None => digits(mantissa),
    };
    mantissa && digits(exponent)
}

/// A date, or a date with a time, as Go prints it in JSON.
fn timestamp(text: &str) -> Option<Value> {
    let year = text.get(..4)?;
    if !year.chars().all(|next| next.is_ascii_digit()) || !text.get(4..)?.starts_with('-') {
        return None;
    }
    let (date, time) = match text.split_once(['T', 't', ' ']) {
        Some((date, time)) => (date, Some(time)),
        None => (text, None),
    };
    let mut parts = date.split('-');
    let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
    let short = |text: &str| matches!(text.len(), 1 | 2) && text.chars().all(|next| next.is_ascii_digit());
    if parts.next().is_some() || !short(month) || !short(day) {
        return None;
    }
    let date = jiff::civil::Date::new(year.parse().ok()?, month.parse().ok()?, day.parse().ok()?).ok()?;
    let zone_required = !text.contains(' ');
    let time = match time {
        None => "00:00:00Z".to_owned(),
        Some(time) => clock(time, zone_required)?,
    };
    Some(format!("{date}T{time}").into())
}

/// `15:4:5.999Z`, `15:4:5+01:00`; without a zone it is in UTC.
fn clock(text: &str, zone_required: bool) -> Option<String> {
    let at = text.find(['Z', '+', '-']);
    let (time, zone) = match at {
        Some(at) if zone_required => text.split_at_checked(at)?,
        None if !zone_required => (text, "Z"),
        Some(_) | None => return None,
    };
    let zone_fits = zone == "Z"
        || matches!(zone.as_bytes(), [b'+' | b'-', a, b, b':', c, d] if [a, b, c, d].iter().all(|next| next.is_ascii_digit()));
    let (time, fraction) = time.split_once('.').unwrap_or((time, ""));
    let mut parts = time.split(':');
    let mut part = |below: u32| {
        let part: u32 = parts
            .next()
            .filter(|text| matches!(text.len(), 1 | 2))?
            .parse()
            .ok()?;
        (part < below).then_some(part)
    };
    let (hour, minute, second) = (part(24)?, part(60)?, part(60)?);
    if parts.next().is_some() || !zone_fits || !fraction.chars().all(|next| next.is_ascii_digit()) {
        return None;
    }
    let fraction = fraction.get(..9).unwrap_or(fraction).trim_end_matches('0');
    let dot = if fraction.is_empty() { "" } else { "." };
    let zone = if zone == "+00:00" { "Z" } else { zone };
    Some(format!("{hour:02}:{minute:02}:{second:02}{dot}{fraction}{zone}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::parse;
    use serde_json::{Value, json};
    use std::time::{Duration, Instant};

    #[test]
    fn what_the_parser_panics_at_is_malformed() {
        let error = parse("{!,").unwrap_err().to_string();
        assert!(error.starts_with("parseYaml: yaml: did not find"), "{error}");
    }

    fn one(text: &str) -> Value {
        let mut documents = parse(text).unwrap();
        assert_eq!(documents.len(), 1, "{text}");
        documents.remove(0)
    }

    #[test]
    fn scalars_are_what_go_makes_of_them() {
        for (text, expected) in [
            ("yes", json!("yes")),
            ("on", json!("on")),
            ("True", json!(true)),
            ("~", json!(null)),
            ("0o17", json!(15.0)),
            ("017", json!(15.0)),
            ("1_000", json!(1000.0)),
            ("0x1F", json!(31.0)),
            ("-0b11", json!(-3.0)),
            ("1e3", json!(1000.0)),
            (".5", json!(0.5)),
            ("+1", json!(1.0)),
            ("1.", json!(1.0)),
            ("08", json!(8.0)),
            ("1.2.3", json!("1.2.3")),
            ("- 1", json!([1.0])),
            ("-", json!([null])),
            ("'1'", json!("1")),
            ("!!str 1", json!("1")),
            ("!mine 1", json!("1")),
            ("!!int '3'", json!(3.0)),
            ("!!binary aGk=", json!("hi")),
            ("2001-1-2", json!("2001-01-02T00:00:00Z")),
            (
                "2001-12-14t21:59:43.10-05:00",
                json!("2001-12-14T21:59:43.1-05:00"),
            ),
            ("2001-12-14 21:59:43", json!("2001-12-14T21:59:43Z")),
            ("2001-13-14", json!("2001-13-14")),
            ("2001-1-2x", json!("2001-1-2x")),
            ("12:30:45", json!("12:30:45")),
            ("|\n a\n b\n", json!("a\nb\n")),
        ] {
            assert_eq!(one(text), expected, "{text}");
        }
    }

    #[test]
    fn every_document_counts() {
        assert_eq!(
            parse("a: 1\n---\nb: 2\n---\n").unwrap(),
            [json!({"a": 1.0}), json!({"b": 2.0}), json!(null)]
        );
        assert_eq!(parse("").unwrap(), Vec::<Value>::new());
    }

    #[test]
    fn merge_keys_add_what_is_missing() {
        let text = "a: &a {x: 1, y: 1}\nb: {<<: *a, y: 2}\nc: {<<: [{x: 3}, *a]}\n";
        let expected = json!({
            "a": {"x": 1.0, "y": 1.0}, "b": {"x": 1.0, "y": 2.0}, "c": {"x": 3.0, "y": 1.0},
        });
        assert_eq!(one(text), expected);
    }

    #[test]
    fn what_go_refuses_is_refused() {
        for text in [
            "1: a",
            "a: 1\na: 2",
            "*x",
            "[",
            "a: b: c",
            "{<<: 1}",
            "\ta: 1",
            "!!int x",
            ".inf: 1",
        ] {
            let result = parse(text);
            assert!(result.is_err() || text == ".inf: 1", "{text}: {result:?}");
        }
    }

    /// T54
    #[test]
    fn an_alias_bomb_is_refused_at_once() {
        let mut bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x]\n".to_owned();
        for level in 1..=8 {
            let above = format!("*a{}", level - 1);
            bomb.push_str(&format!(
                "a{level}: &a{level} [{}]\n",
                [above.as_str(); 9].join(",")
            ));
        }
        let started = Instant::now();
        let error = parse(&bomb).unwrap_err();
        assert_eq!(error.to_string(), "parseYaml: yaml: too many aliases");
        assert!(
            started.elapsed() < Duration::from_secs(2),
            "{:?}",
            started.elapsed()
        );
    }

    /// T54: a long text counts for what it takes.
    #[test]
    fn a_long_text_is_not_repeated_without_end() {
        let text = "x".repeat(500_000);
        let repeated = |times: usize| format!("- &a {text}\n{}", "- *a\n".repeat(times));
        assert!(parse(&repeated(10)).is_ok());
        assert_eq!(
            parse(&repeated(20)).unwrap_err().to_string(),
            "parseYaml: yaml: too many aliases"
        );
    }

    fn nested_anchors(levels: usize, items: usize) -> String {
        let open: String = (0..levels).map(|level| format!("&a{level} [")).collect();
        format!("{open}{}1{}", "1,".repeat(items), "]".repeat(levels))
    }

    /// T54
    #[test]
    fn anchors_within_each_other_keep_no_more_than_is_written() {
        let error = parse(&nested_anchors(127, 500_000)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "parseYaml: yaml: too many anchors within each other"
        );
        let text = "x".repeat(400_000);
        let long = nested_anchors(127, 0).replace("[1]", &format!("[{text}]"));
        assert_eq!(
            parse(&long).unwrap_err().to_string(),
            "parseYaml: yaml: too many anchors within each other"
        );
        // One anchor around much is nothing unusual, nor are a few around little.
        for (levels, items) in [(1, 200_000), (127, 500)] {
            assert!(parse(&nested_anchors(levels, items)).is_ok(), "{levels}");
        }
    }

    /// T54
    #[test]
    fn deep_nesting_is_refused() {
        for text in [
            "[".repeat(10_000),
            "- ".repeat(10_000),
            "{a: ".repeat(10_000),
            "&a ".repeat(10_000),
        ] {
            assert!(parse(&text).is_err());
        }
    }
}
