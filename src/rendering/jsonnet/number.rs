//! Numbers in the format of the Go implementation for manifested values.

use std::fmt::Write;

/// The significant digits that Go prints for a number with a fraction.
const DIGITS: usize = 17;

/// Appends a finite number: whole numbers with every digit, others with 17 significant digits and without trailing
/// zeros.
pub(super) fn write_number(out: &mut String, number: f64) {
    // Writing to a string cannot fail.
    if number.floor() == number {
        let _written = write!(out, "{number:.0}");
        return;
    }
    // A number with a fraction is below 2^53, so its decimal exponent is at most 15.
    let scientific = format!("{number:.*e}", DIGITS - 1);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let (sign, mantissa) = match mantissa.strip_prefix('-') {
        Some(mantissa) => ("-", mantissa),
        None => ("", mantissa),
    };
    let digits = mantissa.replace('.', "");
    let digits = digits.trim_end_matches('0');
    out.push_str(sign);
    if exponent < -4 {
        let mut each = digits.chars();
        out.extend(each.next());
        if !each.as_str().is_empty() {
            out.push('.');
            out.push_str(each.as_str());
        }
        let _written = write!(out, "e-{:02}", exponent.unsigned_abs());
    } else if exponent < 0 {
        out.push_str("0.");
        out.extend(std::iter::repeat_n('0', exponent.unsigned_abs() as usize - 1));
        out.push_str(digits);
    } else {
        let whole = exponent.unsigned_abs() as usize + 1;
        for (position, digit) in digits.chars().enumerate() {
            if position == whole {
                out.push('.');
            }
            out.push(digit);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::write_number;

    fn text(number: f64) -> String {
        let mut out = String::new();
        write_number(&mut out, number);
        out
    }

    #[test]
    fn numbers_read_as_go_writes_them() {
        for (number, expected) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (-1.5, "-1.5"),
            (0.1, "0.10000000000000001"),
            (1.2, "1.2"),
            (3.3, "3.2999999999999998"),
            (1e6, "1000000"),
            (1e21, "1000000000000000000000"),
            (1e-4, "0.0001"),
            (1e-5, "1.0000000000000001e-05"),
            (1.5e-7, "1.4999999999999999e-07"),
            (5e-324, "4.9406564584124654e-324"),
            (123_456.789, "123456.789"),
            (9_007_199_254_740_993.0, "9007199254740992"),
            (0.5, "0.5"),
            (99.95, "99.950000000000003"),
        ] {
            assert_eq!(text(number), expected, "{number:e}");
        }
    }

    proptest::proptest! {
        #[test]
        fn what_is_written_reads_as_the_same_number(bits in proptest::num::f64::NORMAL) {
            proptest::prop_assert_eq!(text(bits).parse::<f64>().ok(), Some(bits));
        }
    }
}
