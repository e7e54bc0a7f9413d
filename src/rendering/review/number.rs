//! Normalizes numbers: in JSON, 1 and 1.0 are the same number, so they get the same form before anything is
//! compared. This step also limits the nesting depth for all later walks.

use super::input::{FailureKind, RenderFailure};
use serde_json::{Number, Value};

/// Maximum nesting depth of an object.
const DEPTH_MAX: usize = 256;

/// Largest magnitude up to which whole numbers are exact as floats.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

/// Normalizes every number. Fails if the object is nested too deeply.
pub(super) fn unify(object: &mut Value) -> Result<(), RenderFailure> {
    walk(object, DEPTH_MAX)
}

fn walk(value: &mut Value, depth: usize) -> Result<(), RenderFailure> {
    let Some(below) = depth.checked_sub(1) else {
        return Err(RenderFailure {
            kind: FailureKind::Bound,
            message: format!("an object nests deeper than {DEPTH_MAX} levels"),
            trace: Vec::new(),
        });
    };
    match value {
        Value::Number(number) => unify_number(number),
        Value::Array(items) => items.iter_mut().try_for_each(|item| walk(item, below))?,
        Value::Object(fields) => fields.values_mut().try_for_each(|field| walk(field, below))?,
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
    Ok(())
}

#[expect(clippy::cast_possible_truncation, reason = "whole and within the exact range")]
fn unify_number(number: &mut Number) {
    if !number.is_f64() {
        return;
    }
    match number.as_f64() {
        Some(float) if float.fract() == 0.0 && float.abs() <= EXACT_MAX => {
            *number = Number::from(float as i64)
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::unify;
    use serde_json::{Value, json};

    #[test]
    fn whole_floats_are_whole_numbers_and_nothing_else_changes() {
        let mut value = json!({ "a": 1.0, "b": [2, -0.0, 0.5, 1e300], "c": "1.0", "d": u64::MAX });
        assert_eq!(unify(&mut value), Ok(()));
        let expected = json!({ "a": 1, "b": [2, 0, 0.5, 1e300], "c": "1.0", "d": u64::MAX });
        assert_eq!(value, expected);
    }

    #[test]
    fn nesting_without_end_is_a_failure_not_a_crash() {
        let mut value = Value::Null;
        for _ in 0..300 {
            value = Value::Array(vec![value]);
        }
        let failure = unify(&mut value).map_err(|failure| failure.message);
        assert_eq!(failure, Err("an object nests deeper than 256 levels".to_owned()));
    }
}
