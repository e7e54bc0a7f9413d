//! Tells values that differ only in how numbers are written inside their texts: a difference between the engines that
//! is known, because one of them writes fractions with fewer digits than the other.

/// True for two canonical values that are the same but for the digits of equal numbers in their texts.
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

/// The number a text begins with: digits, a fraction, an exponent.
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

fn is_same(first: &[u8], second: &[u8]) -> bool {
    if first == second {
        return true;
    }
    let value = |text| std::str::from_utf8(text).ok()?.parse::<f64>().ok();
    let is_fraction = |text: &[u8]| text.contains(&b'.') || text.contains(&b'e');
    let is_written_otherwise = is_fraction(first) || is_fraction(second);
    is_written_otherwise && value(first).is_some_and(|first| value(second) == Some(first))
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
            (r#"["1.5.1"]"#, r#"["1.50.1"]"#, true),
            ("1", "1", true),
        ] {
            assert_eq!(differ_in_digits_only(first, second), expected, "{first} {second}");
        }
    }
}
