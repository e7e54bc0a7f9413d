//! Numbers in Go's format: the shortest digits that parse to the same number, in one of two notations.

/// A finite number as its shortest digits, `d.ddd` times a power of ten.
struct Decimal {
    sign: &'static str,
    digits: String,
    exponent: i32,
}

/// Formats a number as YAML: with an exponent below 0.0001 and from 1000000 on.
pub(super) fn yaml(number: f64) -> String {
    if number == 0.0 {
        return zero(number);
    }
    let decimal = Decimal::from_number(number);
    if (-4..6).contains(&decimal.exponent) {
        decimal.positional()
    } else {
        decimal.scientific()
    }
}

/// Formats a number as the name of a field. Go uses single precision there.
pub(in crate::rendering::jsonnet) fn short_float(number: f64) -> String {
    let short = number as f32;
    match short.is_finite() {
        true => short.to_string().parse().map_or_else(|_| yaml(number), yaml),
        false if number < 0.0 => "-.inf".to_owned(),
        false => ".inf".to_owned(),
    }
}

/// Formats a number as JSON: with an exponent below 0.000001 and from 1e21 on, and without padding of a negative
/// exponent.
pub(super) fn json(number: f64) -> String {
    if number == 0.0 {
        return zero(number);
    }
    let decimal = Decimal::from_number(number);
    if (-6..21).contains(&decimal.exponent) {
        decimal.positional()
    } else {
        decimal.scientific().replace("e-0", "e-")
    }
}

fn zero(number: f64) -> String {
    if number.is_sign_negative() { "-0" } else { "0" }.to_owned()
}

impl Decimal {
    fn from_number(number: f64) -> Self {
        let text = format!("{:e}", number.abs());
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        Self {
            sign: if number < 0.0 { "-" } else { "" },
            digits: mantissa.replace('.', ""),
            exponent: exponent.parse().unwrap_or(0),
        }
    }

    fn scientific(&self) -> String {
        let mut digits = self.digits.chars();
        let first = digits.next().unwrap_or('0');
        let rest = digits.as_str();
        let point = if rest.is_empty() { "" } else { "." };
        let sign = if self.exponent < 0 { '-' } else { '+' };
        format!(
            "{}{first}{point}{rest}e{sign}{:02}",
            self.sign,
            self.exponent.unsigned_abs()
        )
    }

    fn positional(&self) -> String {
        let Ok(exponent) = usize::try_from(self.exponent) else {
            let zeros = self.exponent.unsigned_abs() as usize - 1;
            return format!("{}0.{}{}", self.sign, "0".repeat(zeros), self.digits);
        };
        if self.digits.len() <= exponent + 1 {
            let zeros = exponent + 1 - self.digits.len();
            return format!("{}{}{}", self.sign, self.digits, "0".repeat(zeros));
        }
        let (whole, fraction) = self.digits.split_at(exponent + 1);
        format!("{}{whole}.{fraction}", self.sign)
    }
}

#[cfg(test)]
mod tests {
    use super::{json, yaml};

    #[test]
    fn numbers_change_form_where_go_changes_it() {
        for (number, as_yaml, as_json) in [
            (0.0, "0", "0"),
            (-0.0, "-0", "-0"),
            (7.0, "7", "7"),
            (-1.5, "-1.5", "-1.5"),
            (999_999.0, "999999", "999999"),
            (1_000_000.0, "1e+06", "1000000"),
            (1_048_576.0, "1.048576e+06", "1048576"),
            (123_456.789, "123456.789", "123456.789"),
            (
                9_007_199_254_740_993.0,
                "9.007199254740992e+15",
                "9007199254740992",
            ),
            (1e20, "1e+20", "100000000000000000000"),
            (1e21, "1e+21", "1e+21"),
            (1e100, "1e+100", "1e+100"),
            (0.0001, "0.0001", "0.0001"),
            (0.00001, "1e-05", "0.00001"),
            (0.000_001, "1e-06", "0.000001"),
            (0.000_000_1, "1e-07", "1e-7"),
            (1.25e-10, "1.25e-10", "1.25e-10"),
            (f64::MAX, "1.7976931348623157e+308", "1.7976931348623157e+308"),
            (5e-324, "5e-324", "5e-324"),
        ] {
            assert_eq!((yaml(number).as_str(), json(number).as_str()), (as_yaml, as_json));
        }
    }
}
