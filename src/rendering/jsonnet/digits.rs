//! Detection of values that differ only in the digits of numbers inside their texts. This is a known difference between
//! the engines: one of them writes fractions with fewer digits.

/// True if two canonical values are equal except for the digits of equal numbers in their texts.
pub(super) fn differ_in_digits_only(first: &str, second: &str) -> bool {
    let (mut first, mut second) = (first.as_bytes(), second.as_bytes());
    loop {
        match (first, second) {
            ([], []) => return true,
            ([one, ..], [other, ..]) if one.is_ascii_digit() && other.is_ascii_digit() => {
                let (ours, theirs) = (number(first), number(second));
                if !is_same(ours, theirs) {
                    return false;
                }
                first = first.get(ours.len()..).unwrap_or_default();
                second = second.get(theirs.len()..).unwrap_or_default();
            }
            ([one, rest @ ..], [other, others @ ..]) if one == other => (first, second) = (rest, others),
            _ => return false,
        }
    }
}

/// Returns the number at the start of a text: digits, a fraction, an exponent.
fn number(text: &[u8]) -> &[u8] {
    let digits = |from: usize| {
        let rest = text.get(from..).unwrap_or_default();
        rest.iter().take_while(|byte| byte.is_ascii_digit()).count()
    };
    let mut end = digits(0);
    if text.get(end) == Some(&b'.') && digits(end + 1) > 0 {
        end += 1 + digits(end + 1);
    }
    let sign = match text.get(end..) {
        Some([b'e' | b'E', b'+' | b'-', ..]) => 2,
        Some([b'e' | b'E', ..]) => 1,
        _ => return text.get(..end).unwrap_or_default(),
    };
    if digits(end + sign) > 0 {
        end += sign + digits(end + sign);
    }
    text.get(..end).unwrap_or_default()
}

/// True for equal texts, and for a number written with the fewest digits that identify it on one side, and with
/// seventeen digits or an exponent on the other. `v1.1` and `v1.10` are different texts.
fn is_same(first: &[u8], second: &[u8]) -> bool {
    let value = |text| std::str::from_utf8(text).ok()?.parse::<f64>().ok();
    let is_number = |number: &f64| number.is_finite();
    let (Some(one), Some(other)) = (value(first).filter(is_number), value(second).filter(is_number)) else {
        return first == second;
    };
    let shortest = significant(format!("{one:e}").as_bytes());
    let is_exact = |text: &[u8]| {
        let digits = significant(text);
        digits == shortest || digits == significant(format!("{one:.16e}").as_bytes())
    };
    let is_written = |text: &[u8]| is_exact(text) && !has_zeros_to_spare(text);
    first == second || (one.to_bits() == other.to_bits() && is_written(first) && is_written(second))
}

/// Returns the digits of a number from the first to the last nonzero one.
fn significant(text: &[u8]) -> Vec<u8> {
    let mantissa = text
        .split(|byte| matches!(byte, b'e' | b'E'))
        .next()
        .unwrap_or_default();
    let digits: Vec<u8> = mantissa.iter().copied().filter(u8::is_ascii_digit).collect();
    let from = digits.iter().position(|digit| *digit != b'0').unwrap_or(0);
    let to = digits
        .iter()
        .rposition(|digit| *digit != b'0')
        .map_or(0, |last| last + 1);
    digits.get(from..to).unwrap_or_default().to_vec()
}

/// True for a number that is written with redundant zeros.
fn has_zeros_to_spare(text: &[u8]) -> bool {
    let mantissa = text
        .split(|byte| matches!(byte, b'e' | b'E'))
        .next()
        .unwrap_or_default();
    let begins = matches!(mantissa, [b'0', next, ..] if next.is_ascii_digit());
    begins || (mantissa.contains(&b'.') && mantissa.ends_with(b"0"))
}

#[cfg(test)]
mod tests {
    use super::differ_in_digits_only;

    #[test]
    fn equal_numbers_in_texts_are_the_same_however_they_are_written() {
        for (first, second, expected) in [
            (r#"["a 0.1 b"]"#, r#"["a 0.10000000000000001 b"]"#, true),
            (r#"{"k0.0000001":1}"#, r#"{"k9.9999999999999995e-08":1}"#, true),
            (r#"["-0.7","x"]"#, r#"["-0.69999999999999996","x"]"#, true),
            (r#"["1e+21"]"#, r#"["1000000000000000000000"]"#, true),
            (r#"["0.1"]"#, r#"["0.2"]"#, false),
            (r#"["1"]"#, r#"["2"]"#, false),
            (r#"["01"]"#, r#"["1"]"#, false),
            (r#"["a"]"#, r#"["b"]"#, false),
            (r#"["0.1"]"#, r#"["0.1","b"]"#, false),
            (r#"["v1.1"]"#, r#"["v1.10"]"#, false),
            (r#"["1"]"#, r#"["1.0"]"#, false),
            (r#"["1.5.1"]"#, r#"["1.50.1"]"#, false),
            (r#"["1e400"]"#, r#"["1e999"]"#, false),
            (
                r#"["12345678901234567890.0"]"#,
                r#"["12345678901234567891.0"]"#,
                false,
            ),
            (
                r#"["0.10000000000000001"]"#,
                r#"["0.1000000000000000055"]"#,
                false,
            ),
            ("1", "1", true),
        ] {
            assert_eq!(differ_in_digits_only(first, second), expected, "{first} {second}");
        }
    }
}
