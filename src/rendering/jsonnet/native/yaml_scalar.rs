//! The scalars of YAML, as Go's yaml.v2 and yaml.v3 resolve them.

use crate::rendering::jsonnet::yaml::{GoYamlVersion, short_float, yaml11_boolean};
use libyaml_safer::ScalarStyle;
use serde_json::{Number, Value};

/// The result of reading a scalar; the error is the reason why it has no value.
pub(super) type YamlResult<T> = Result<T, String>;

/// Returns the value of a scalar, from its tag or, for a plain scalar, from its form.
pub(super) fn scalar(
    profile: GoYamlVersion,
    tag: Option<&str>,
    text: String,
    style: ScalarStyle,
) -> YamlResult<Value> {
    let tag = tag.map(|tag| tag.strip_prefix("tag:yaml.org,2002:").unwrap_or(tag));
    let resolve = |text: &str| match profile {
        GoYamlVersion::V2 => resolve_v2(text),
        GoYamlVersion::V3 => Ok(resolve_v3(text)),
    };
    match tag {
        Some("str" | "!") => Ok(Value::String(text)),
        Some("binary") => binary(profile, &text),
        Some(tag @ ("null" | "bool" | "int" | "float")) => {
            let value = resolve(&text)?.unwrap_or_else(|| Value::String(text.clone()));
            let fits = match tag {
                "null" => value.is_null(),
                "bool" => value.is_boolean(),
                "int" if profile == GoYamlVersion::V2 => value.is_i64() || value.is_u64(),
                _ => value.is_number(),
            };
            match fits {
                true => Ok(value),
                false => Err(format!(
                    "cannot decode !!{} `{text}` as a !!{tag}",
                    short_tag(&value)
                )),
            }
        }
        Some("timestamp") => {
            let moment = timestamp(&text);
            let moment = moment.ok_or_else(|| format!("cannot decode `{text}` as a !!timestamp"))?;
            Ok(match profile {
                GoYamlVersion::V2 => Value::String(text),
                GoYamlVersion::V3 => moment,
            })
        }
        None if style == ScalarStyle::Plain => Ok(match (resolve(&text)?, profile) {
            (Some(value), _) => value,
            (None, GoYamlVersion::V2) => Value::String(text),
            (None, GoYamlVersion::V3) => timestamp(&text).unwrap_or(Value::String(text)),
        }),
        // Custom tags have no effect here.
        Some(_) | None => Ok(Value::String(text)),
    }
}

/// Returns the tag that matches the type of a value.
fn short_tag(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float",
        Value::Number(_) => "int",
        _ => "str",
    }
}

/// Returns the field name for a key with this value, as yaml.v2 and its conversion to JSON produce it.
pub(super) fn key(value: Value) -> YamlResult<String> {
    match value {
        Value::String(text) => Ok(text),
        Value::Bool(value) => Ok(value.to_string()),
        Value::Number(number) if number.is_i64() => Ok(number.to_string()),
        Value::Number(number) if number.is_f64() => Ok(short_float(number.as_f64().unwrap_or_default())),
        Value::Number(number) => Err(format!("unsupported map key of type: uint64, key: {number}")),
        Value::Null => Err("unsupported map key of type: %!s(<nil>)".to_owned()),
        Value::Array(_) | Value::Object(_) => Err("invalid map key".to_owned()),
    }
}

/// Returns the field name for a plain key that is not a finite number.
pub(super) fn infinite_key(text: &str) -> Option<&'static str> {
    match infinite(text)? {
        "+Inf" => Some(".inf"),
        "-Inf" => Some("-.inf"),
        _ => Some(".nan"),
    }
}

fn binary(profile: GoYamlVersion, text: &str) -> YamlResult<Value> {
    use base64::Engine as _;
    let is_left_out = |next: char| match profile {
        GoYamlVersion::V2 => matches!(next, '\r' | '\n'),
        GoYamlVersion::V3 => next.is_ascii_whitespace(),
    };
    let text: String = text.chars().filter(|next| !is_left_out(*next)).collect();
    let bytes = base64::engine::general_purpose::STANDARD
        .decode(text)
        .map_err(|_| "!!binary value contains invalid base64 data".to_owned())?;
    Ok(lossy(&bytes).into())
}

/// Returns a text in which invalid UTF-8 bytes are replaced, as in Go.
pub(super) fn lossy(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    text
}

/// Returns the value of a plain scalar in yaml.v2 if it is not text.
fn resolve_v2(text: &str) -> YamlResult<Option<Value>> {
    if let Some(value) = yaml11_boolean(text) {
        return Ok(Some(value.into()));
    }
    if let Some(number) = infinite(text) {
        return Err(format!("json: unsupported value: {number}"));
    }
    Ok(match text.chars().next() {
        Some('.') if has_separators_only(text) => finite_float(&text.replace('_', "")),
        Some('.') => None,
        Some('+' | '-' | '0'..='9') => {
            let plain = text.replace('_', "");
            whole_number(&plain)
                .or_else(|| finite_float(&plain))
                .or_else(|| binary_number(&plain))
        }
        _ => resolve_v3(text),
    })
}

/// Returns Go's name of a number that is not finite.
fn infinite(text: &str) -> Option<&'static str> {
    match text {
        ".nan" | ".NaN" | ".NAN" => Some("NaN"),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => Some("+Inf"),
        "-.inf" | "-.Inf" | "-.INF" => Some("-Inf"),
        _ => None,
    }
}

/// Returns the value of a plain scalar in yaml.v3 if it is not text.
fn resolve_v3(text: &str) -> Option<Value> {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Some(Value::Null),
        "true" | "True" | "TRUE" => Some(Value::Bool(true)),
        "false" | "False" | "FALSE" => Some(Value::Bool(false)),
        _ => {
            let first = text.chars().next()?;
            if !first.is_ascii_digit() && !"+-.".contains(first) {
                return None;
            }
            let plain = text.replace('_', "");
            let number = whole_number(&plain)
                .or_else(|| finite_float(&plain))
                .or_else(|| binary_number(&plain))?;
            // All numbers are floats there.
            Number::from_f64(number.as_f64()?).map(Value::Number)
        }
    }
}

/// True if each `_` is between digits.
fn has_separators_only(text: &str) -> bool {
    let bytes = text.as_bytes();
    let is_digit = |at: Option<usize>| at.and_then(|at| bytes.get(at)).is_some_and(u8::is_ascii_digit);
    let mut marks = text.match_indices('_');
    marks.all(|(at, _)| is_digit(at.checked_sub(1)) && is_digit(Some(at + 1)))
}

fn finite_float(text: &str) -> Option<Value> {
    let number = is_float(text).then(|| text.parse::<f64>().ok()).flatten()?;
    Number::from_f64(number).map(Value::Number)
}

/// Parses a binary number with a sign after its prefix.
fn binary_number(text: &str) -> Option<Value> {
    let (is_negative, digits) = match text.strip_prefix("-0b") {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix("0b")?),
    };
    let number = match is_negative {
        // The number has its own sign already.
        true if digits.starts_with(['+', '-']) => return None,
        true => i64::from_str_radix(&format!("-{digits}"), 2),
        false => i64::from_str_radix(digits, 2),
    };
    number.ok().map(Value::from)
}

/// Parses a whole number of 64 bits in the bases that Go supports.
fn whole_number(text: &str) -> Option<Value> {
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
        true => 0_i64.checked_sub_unsigned(value).map(Value::from),
        false => Some(value.into()),
    }
}

/// Matches `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`.
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

/// Returns a date, or a date with a time, in Go's JSON format.
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
    let time = match time.map(split_zone) {
        None => "00:00:00Z".to_owned(),
        Some((time, Some(zone))) if !text.contains(' ') => clock(time, zone)?,
        Some((time, None)) if text.contains(' ') => clock(time, "Z")?,
        Some(_) => return None,
    };
    Some(format!("{date}T{time}").into())
}

/// Splits `15:4:5.999Z` or `15:4:5+01:00` into the time and the zone, if there is one.
fn split_zone(text: &str) -> (&str, Option<&str>) {
    let at = text.find(['Z', '+', '-']);
    match at.and_then(|at| text.split_at_checked(at)) {
        Some((time, zone)) => (time, Some(zone)),
        None => (text, None),
    }
}

/// Returns the time in Go's JSON format, from `15:4:5.999` and a zone.
fn clock(time: &str, zone: &str) -> Option<String> {
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
