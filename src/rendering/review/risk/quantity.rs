//! Quantities in the Kubernetes format: `10Gi`, `500m`, `1e3`.

use serde_json::Value;

/// Parses a quantity. Returns `None` if it is invalid.
pub(super) fn parse(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => from_text(text),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

fn from_text(text: &str) -> Option<f64> {
    // Plain numbers and exponents are tried first: in `1E3`, `E` is an exponent and not the suffix for exa.
    if let Ok(number) = text.parse::<f64>() {
        return Some(number).filter(|number| number.is_finite());
    }
    let suffixes = [
        ("Ki", 1024_f64),
        ("Mi", 1024_f64.powi(2)),
        ("Gi", 1024_f64.powi(3)),
        ("Ti", 1024_f64.powi(4)),
        ("Pi", 1024_f64.powi(5)),
        ("Ei", 1024_f64.powi(6)),
        ("n", 1e-9),
        ("u", 1e-6),
        ("m", 1e-3),
        ("k", 1e3),
        ("M", 1e6),
        ("G", 1e9),
        ("T", 1e12),
        ("P", 1e15),
        ("E", 1e18),
    ];
    let (digits, factor) = suffixes
        .iter()
        .find_map(|(suffix, factor)| Some((text.strip_suffix(suffix)?, factor)))?;
    let number: f64 = digits.parse().ok()?;
    Some(number * factor).filter(|number| number.is_finite())
}

#[cfg(test)]
mod tests {
    use super::parse;
    use serde_json::json;

    #[test]
    fn quantities_compare_across_suffixes() {
        for (written, expected) in [
            (json!("1Gi"), Some(1_073_741_824.0)),
            (json!("1G"), Some(1e9)),
            (json!("500m"), Some(0.5)),
            (json!("1e3"), Some(1000.0)),
            (json!("1E"), Some(1e18)),
            (json!(3), Some(3.0)),
            (json!("inf"), None),
            (json!("much"), None),
            (json!(null), None),
        ] {
            assert_eq!(parse(&written), expected, "{written}");
        }
    }
}
