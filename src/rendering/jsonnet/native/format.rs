//! The functions `std.format` and `%` as in go-jsonnet: a text with placeholders for values.

use super::{math, text, type_name};
use serde_json::Value;

/// The error for a text that ends within a placeholder.
const TRUNCATED: &str = "Truncated format code.";
/// The default number of digits after the point.
const PRECISION: f64 = 6.0;

/// The error of a format that does not match its values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(in crate::rendering::jsonnet) struct FormatError(pub(in crate::rendering::jsonnet) String);

type FormatResult<T> = Result<T, FormatError>;

/// A text with placeholders for values.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::rendering::jsonnet) struct FormatString(Vec<FormatPiece>);

#[derive(Clone, Debug, PartialEq)]
enum FormatPiece {
    Text(String),
    Code(FormatCode),
}

/// A placeholder for a value.
#[derive(Clone, Debug, PartialEq)]
struct FormatCode {
    key: Option<String>,
    flags: Flags,
    width: Amount,
    precision: Option<Amount>,
    conversion: char,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Flags {
    /// `#`
    alternate: bool,
    /// `0`
    zero: bool,
    /// `-`
    left: bool,
    /// A blank.
    blank: bool,
    /// `+`
    plus: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Amount {
    Literal(f64),
    /// `*`: a value provides the number.
    FromArgument,
}

/// The sign and the layout of a number.
#[derive(Clone, Copy)]
struct NumberLayout {
    /// The width to which zeros are added.
    width: f64,
    flags: Flags,
    is_capital: bool,
}

/// The layout of the digits after the point.
#[derive(Clone, Copy)]
struct FractionLayout {
    /// True if the point is written without digits after it.
    has_point: bool,
    /// True if zeros at the end are written.
    has_zeros: bool,
}

impl FormatString {
    pub(in crate::rendering::jsonnet) fn parse(format: &str) -> FormatResult<Self> {
        let mut pieces = Vec::new();
        let mut rest = FormatParser(format);
        while let Some((before, after)) = rest.0.split_once('%') {
            if !before.is_empty() {
                pieces.push(FormatPiece::Text(before.to_owned()));
            }
            rest = FormatParser(after);
            pieces.push(FormatPiece::Code(rest.code()?));
        }
        if !rest.0.is_empty() {
            pieces.push(FormatPiece::Text(rest.0.to_owned()));
        }
        Ok(Self(pieces))
    }

    /// Returns the names of the requested fields, in the order of the placeholders.
    pub(in crate::rendering::jsonnet) fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|piece| match piece {
            FormatPiece::Code(code) => code.key.as_deref(),
            FormatPiece::Text(_) => None,
        })
    }

    /// Formats a list of values in the order of the placeholders. `value` returns one of them.
    pub(in crate::rendering::jsonnet) fn format_list<E: From<FormatError>>(
        &self,
        count: usize,
        mut value: impl FnMut(usize) -> Result<Value, E>,
    ) -> Result<String, E> {
        let mut out = String::new();
        let mut used = 0;
        let few = |than: &str, used: usize| {
            FormatError(format!(
                "Not enough values to format: {count}, expected {than} {used}"
            ))
        };
        for piece in &self.0 {
            let code = match piece {
                FormatPiece::Text(text) => {
                    out.push_str(text);
                    continue;
                }
                FormatPiece::Code(code) => code,
            };
            let mut amount = |given: Amount, used: &mut usize| match given {
                Amount::Literal(amount) => Ok(amount),
                Amount::FromArgument if *used >= count => Err(E::from(few("at least", *used))),
                Amount::FromArgument => {
                    *used += 1;
                    Ok(number(&value(*used - 1)?)?)
                }
            };
            let width = amount(code.width, &mut used)?;
            let precision = code
                .precision
                .map(|precision| amount(precision, &mut used))
                .transpose()?;
            let shown = match code.conversion {
                '%' => "%".to_owned(),
                _ if used >= count => return Err(few("more than", used).into()),
                _ => {
                    used += 1;
                    let shown = value(used - 1)?;
                    code.render_value(&shown, width, precision, &(used - 1).to_string())?
                }
            };
            code.pad(&shown, width, &mut out);
        }
        match used < count {
            true => Err(FormatError(format!("Too many values to format: {count}, expected {used}")).into()),
            false => Ok(out),
        }
    }

    /// Formats the fields of an object. `value` returns one of them, or nothing if it does not exist.
    pub(in crate::rendering::jsonnet) fn format_object<E: From<FormatError>>(
        &self,
        mut value: impl FnMut(&str) -> Result<Option<Value>, E>,
    ) -> Result<String, E> {
        let mut out = String::new();
        for piece in &self.0 {
            let code = match piece {
                FormatPiece::Text(text) => {
                    out.push_str(text);
                    continue;
                }
                FormatPiece::Code(code) => code,
            };
            let amount = |given: Amount, what: &str| match given {
                Amount::Literal(amount) => Ok(amount),
                Amount::FromArgument => Err(FormatError(format!("Cannot use * {what} with object."))),
            };
            let (width, precision, key) = match code.conversion {
                '%' => (amount(code.width, "field width")?, None, ""),
                _ => (
                    amount(code.width, "field width")?,
                    code.precision
                        .map(|precision| amount(precision, "precision"))
                        .transpose()?,
                    code.key
                        .as_deref()
                        .ok_or_else(|| FormatError("Mapping keys required.".to_owned()))?,
                ),
            };
            let shown = match code.conversion {
                '%' => "%".to_owned(),
                _ => {
                    let field = value(key)?;
                    let field = field.ok_or_else(|| FormatError(format!("No such field: {key}")))?;
                    code.render_value(&field, width, precision, key)?
                }
            };
            code.pad(&shown, width, &mut out);
        }
        Ok(out)
    }
}

/// The unread rest of a format.
struct FormatParser<'a>(&'a str);

impl FormatParser<'_> {
    /// Returns the next character without consuming it.
    fn peek(&self) -> FormatResult<char> {
        self.0
            .chars()
            .next()
            .ok_or_else(|| FormatError(TRUNCATED.to_owned()))
    }

    fn take(&mut self, expected: char) -> bool {
        match self.0.strip_prefix(expected) {
            Some(rest) => {
                self.0 = rest;
                true
            }
            None => false,
        }
    }

    /// Parses a placeholder after its `%`.
    fn code(&mut self) -> FormatResult<FormatCode> {
        self.peek()?;
        let key = match self.take('(') {
            true => {
                let (key, rest) = self
                    .0
                    .split_once(')')
                    .ok_or_else(|| FormatError(TRUNCATED.to_owned()))?;
                self.0 = rest;
                Some(key.to_owned())
            }
            false => None,
        };
        let flags = self.flags()?;
        let width = self.amount()?;
        self.peek()?;
        let precision = match self.take('.') {
            true => Some(self.amount()?),
            false => None,
        };
        if matches!(self.peek()?, 'h' | 'l' | 'L') {
            self.take(self.peek()?);
        }
        let conversion = self.peek()?;
        self.take(conversion);
        match conversion {
            'd' | 'i' | 'u' | 'o' | 'x' | 'X' | 'e' | 'E' | 'f' | 'F' | 'g' | 'G' | 'c' | 's' | '%' => {
                Ok(FormatCode {
                    key,
                    flags,
                    width,
                    precision,
                    conversion,
                })
            }
            other => Err(FormatError(format!("Unrecognised conversion type: {other}"))),
        }
    }

    fn flags(&mut self) -> FormatResult<Flags> {
        let mut flags = Flags::default();
        loop {
            let flag = match self.peek()? {
                '#' => &mut flags.alternate,
                '0' => &mut flags.zero,
                '-' => &mut flags.left,
                ' ' => &mut flags.blank,
                '+' => &mut flags.plus,
                _ => return Ok(flags),
            };
            *flag = true;
            self.take(self.peek()?);
        }
    }

    fn amount(&mut self) -> FormatResult<Amount> {
        if self.take('*') {
            return Ok(Amount::FromArgument);
        }
        let mut amount = 0.0;
        while let Some(digit) = self.peek()?.to_digit(10) {
            amount = amount * 10.0 + f64::from(digit);
            self.take(self.peek()?);
        }
        Ok(Amount::Literal(amount))
    }
}

impl FormatCode {
    /// Formats one value without padding. Errors name its `place`.
    fn render_value(
        &self,
        value: &Value,
        width: f64,
        precision: Option<f64>,
        place: &str,
    ) -> FormatResult<String> {
        match self.conversion {
            's' => {
                return Ok(match value {
                    Value::String(value) => value.clone(),
                    value => text(value),
                });
            }
            'c' => return character(value),
            _ => {}
        }
        let Some(number) = value.as_f64() else {
            let got = type_name(value);
            return Err(FormatError(format!(
                "Format required number at {place}, got {got}"
            )));
        };
        let layout = NumberLayout {
            width: match self.flags.zero && !self.flags.left {
                true => width,
                false => 0.0,
            },
            flags: self.flags,
            is_capital: self.conversion.is_ascii_uppercase(),
        };
        let digits = precision.unwrap_or(PRECISION);
        let digits_min = precision.unwrap_or_default();
        let is_alternate = self.flags.alternate;
        let whole = FractionLayout {
            has_point: is_alternate,
            has_zeros: true,
        };
        let short = FractionLayout {
            has_point: is_alternate,
            has_zeros: is_alternate,
        };
        Ok(match self.conversion.to_ascii_lowercase() {
            'o' => {
                let zero = if is_alternate { "0" } else { "" };
                let digits = octal(number.abs().floor(), zero);
                layout.signed(number.trunc(), &digits, digits_min, "")
            }
            'x' => {
                let digits = hexadecimal(number.floor().abs());
                let (digits, prefix) = match layout.is_capital {
                    true => (digits.to_ascii_uppercase(), "0X"),
                    false => (digits, "0x"),
                };
                let prefix = if is_alternate { prefix } else { "" };
                layout.signed(number, &digits, digits_min, prefix)
            }
            'f' => layout.decimal(number, digits, whole),
            'e' => layout.scientific(number, digits, whole),
            'g' => {
                let exponent = exponent(number);
                if exponent < -4.0 || exponent >= digits {
                    layout.scientific(number, digits - 1.0, short)
                } else {
                    let before_point = (exponent + 1.0).max(1.0);
                    layout.decimal(number, digits - before_point, short)
                }
            }
            _ => layout.signed(
                number.trunc(),
                &decimal_digits(number.abs().floor()),
                digits_min,
                "",
            ),
        })
    }

    fn pad(&self, shown: &str, width: f64, out: &mut String) {
        let blanks = " ".repeat(padding(shown, width));
        match self.flags.left {
            true => out.extend([shown, &blanks]),
            false => out.extend([&blanks, shown]),
        }
    }
}

impl NumberLayout {
    /// Adds the sign of a number, a prefix and leading zeros to its digits.
    fn signed(self, number: f64, digits: &str, digits_min: f64, prefix: &str) -> String {
        let Flags { blank, plus, .. } = self.flags;
        let sign = match (number < 0.0, plus, blank) {
            (true, _, _) => "-",
            (false, true, _) => "+",
            (false, false, true) => " ",
            (false, false, false) => "",
        };
        let width = self.width - (sign.len() + prefix.len()) as f64;
        let zeros = "0".repeat(padding(digits, width.max(digits_min)));
        [sign, prefix, &zeros, digits].concat()
    }

    /// Formats a number with a fixed number of digits after the point.
    fn decimal(self, number: f64, digits: f64, fraction: FractionLayout) -> String {
        let FractionLayout { has_point, has_zeros } = fraction;
        let magnitude = number.abs();
        let denominator = math::pow(10.0, digits);
        let numerator = magnitude * denominator + 0.5;
        let before = match magnitude == 0.0 {
            true => 0.0,
            false => (numerator / denominator).floor(),
        };
        let fraction = numerator.floor() % denominator;
        let point = if digits == 0.0 && !has_point { 0.0 } else { 1.0 };
        let layout = Self {
            width: self.width - digits - point,
            ..self
        };
        let mut shown = layout.signed(number, &decimal_digits(before), 0.0, "");
        if digits == 0.0 {
            if has_point {
                shown.push('.');
            }
        } else if has_zeros || fraction > 0.0 {
            let fraction = decimal_digits(fraction);
            let zeros = "0".repeat(padding(&fraction, digits));
            let fraction = zeros + &fraction;
            shown.push('.');
            shown.push_str(match has_zeros {
                true => &fraction,
                false => fraction.trim_end_matches('0'),
            });
        }
        shown
    }

    /// Formats a number with one digit before the point, and an exponent.
    fn scientific(self, number: f64, digits: f64, fraction: FractionLayout) -> String {
        let exponent = exponent(number);
        let power = Self {
            width: 0.0,
            flags: Flags {
                plus: true,
                ..Flags::default()
            },
            is_capital: false,
        };
        // The sign counts as one of the three characters.
        let power = Self { width: 3.0, ..power }.signed(exponent, &decimal_digits(exponent.abs()), 0.0, "");
        let mark = if self.is_capital { 'E' } else { 'e' };
        let mantissa = match exponent == -324.0 {
            true => number * 10.0 / math::pow(10.0, exponent + 1.0),
            false => number / math::pow(10.0, exponent),
        };
        let layout = Self {
            width: self.width - (power.len() + 1) as f64,
            ..self
        };
        let mantissa = layout.decimal(mantissa, digits, fraction);
        format!("{mantissa}{mark}{power}")
    }
}

/// Returns the number of characters that are missing to a width.
fn padding(text: &str, width: f64) -> usize {
    // The width may be any number; a negative one adds no padding.
    (width - text.chars().count() as f64).ceil() as usize
}

fn number(value: &Value) -> FormatResult<f64> {
    let got = || FormatError(format!("Unexpected type {}, expected number", type_name(value)));
    value.as_f64().ok_or_else(got)
}

fn character(value: &Value) -> FormatResult<String> {
    match value {
        Value::Number(number) => {
            let code = number.as_f64().unwrap_or_default();
            match char::from_u32(code as u32) {
                _ if code < 0.0 => Err(FormatError(format!("Codepoints must be >= 0, got {code}"))),
                Some(character) => Ok(character.to_string()),
                None => Err(FormatError(format!("Invalid unicode codepoint, got {code}"))),
            }
        }
        Value::String(text) => match text.chars().count() {
            1 => Ok(text.clone()),
            count => Err(FormatError(format!("%c expected 1-sized string got: {count}"))),
        },
        other => Err(FormatError(format!(
            "%c expected number / string, got: {}",
            type_name(other)
        ))),
    }
}

/// Returns the decimal exponent of a number.
fn exponent(number: f64) -> f64 {
    match number == 0.0 {
        true => 0.0,
        false => (math::log(number.abs()) / math::log(10.0)).floor(),
    }
}

/// Returns the digits of a whole number.
fn decimal_digits(number: f64) -> String {
    digits(number, 10.0, "")
}

fn octal(number: f64, zero: &str) -> String {
    digits(number, 8.0, zero)
}

fn hexadecimal(number: f64) -> String {
    digits(number, 16.0, "")
}

/// Returns the digits of a whole number in a base, by repeated floating-point division.
fn digits(number: f64, radix: f64, first: &str) -> String {
    if number == 0.0 {
        return "0".to_owned();
    }
    let mut digits = Vec::new();
    let mut rest = number;
    while rest > 0.0 && rest.is_finite() {
        digits.push(char::from_digit((rest % radix) as u32, 16).unwrap_or('0'));
        rest = (rest / radix).floor();
    }
    digits.extend(first.chars());
    digits.iter().rev().collect()
}
