//! The functions that replace operators in rewritten sources for the first engine: addition to a text, `%` and `==`.
//! The engine's own operators write fractions with fewer digits than Go, and treat nearly equal numbers as equal.

use super::depth_reserve;
use super::jrsonnet::{native_error, to_json};
use crate::rendering::jsonnet::native::{FormatError, FormatString, NativeError, text};
use jrsonnet_evaluator::error::ErrorKind;
use jrsonnet_evaluator::function::builtin;
use jrsonnet_evaluator::val::{ArrValue, StrValue, equals};
use jrsonnet_evaluator::{Error, ObjValue, Result, Thunk, Val, ensure_sufficient_stack};
use jrsonnet_ir::BinaryOpType;

impl From<FormatError> for Error {
    fn from(FormatError(why): FormatError) -> Self {
        native_error(NativeError::Message(why))
    }
}

/// Converts a value to the text that is added to another text.
#[builtin]
pub(super) fn text_of(value: Thunk<Val>) -> Result<Val> {
    added(&depth_reserve::with_reserved_step(|| value.evaluate())?).map(Val::Str)
}

/// Evaluates `left + right`.
#[builtin]
pub(super) fn plus(left: Thunk<Val>, right: Thunk<Val>) -> Result<Val> {
    let (left, right) =
        depth_reserve::with_reserved_step(|| Ok::<_, Error>((left.evaluate()?, right.evaluate()?)))?;
    Ok(match (left, right) {
        (Val::Str(left), right) => Val::Str(StrValue::concat(left, added(&right)?)),
        (left, Val::Str(right)) => Val::Str(StrValue::concat(added(&left)?, right)),
        (Val::Obj(left), Val::Obj(right)) => Val::Obj(right.extend_from(left)),
        (Val::Num(left), Val::Num(right)) => Val::try_num(left.get() + right.get())?,
        (Val::Arr(left), Val::Arr(right)) => {
            let both = ArrValue::extended(left, right);
            Val::Arr(both.ok_or_else(|| ErrorKind::RuntimeError("array is too large".into()))?)
        }
        (left, right) => {
            let (left, right) = (left.value_type(), right.value_type());
            let why = ErrorKind::BinaryOperatorDoesNotOperateOnValues(BinaryOpType::Add, left, right);
            return Err(why.into());
        }
    })
}

/// Returns a list unchanged.
#[builtin]
pub(super) fn list(value: Thunk<Val>) -> Result<Val> {
    depth_reserve::with_reserved_step(|| value.evaluate())
}

/// Evaluates `left % right`.
#[builtin]
pub(super) fn modulo_of(left: Thunk<Val>, right: Thunk<Val>) -> Result<Val> {
    let (left, right) =
        depth_reserve::with_reserved_step(|| Ok::<_, Error>((left.evaluate()?, right.evaluate()?)))?;
    modulo_of_values(&left, &right)
}

/// Evaluates `left == right`.
#[builtin]
pub(super) fn equal(left: Thunk<Val>, right: Thunk<Val>) -> Result<bool> {
    let (left, right) =
        depth_reserve::with_reserved_step(|| Ok::<_, Error>((left.evaluate()?, right.evaluate()?)))?;
    are_equal(&left, &right)
}

/// Evaluates `left != right`.
#[builtin]
pub(super) fn unequal(left: Thunk<Val>, right: Thunk<Val>) -> Result<bool> {
    let (left, right) =
        depth_reserve::with_reserved_step(|| Ok::<_, Error>((left.evaluate()?, right.evaluate()?)))?;
    Ok(!are_equal(&left, &right)?)
}

/// True if two values are equal, number by number.
pub(super) fn are_equal(left: &Val, right: &Val) -> Result<bool> {
    match (left, right) {
        (Val::Num(left), Val::Num(right)) => Ok(left.get() == right.get()),
        (Val::Arr(left), Val::Arr(right)) => {
            if ArrValue::ptr_eq(left, right) {
                return Ok(true);
            }
            if left.len() != right.len() {
                return Ok(false);
            }
            for (left, right) in left.iter().zip(right.iter()) {
                if !ensure_sufficient_stack(|| are_equal(&left?, &right?))? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        (Val::Obj(left), Val::Obj(right)) => {
            if ObjValue::ptr_eq(left, right) {
                return Ok(true);
            }
            let fields = left.fields();
            if fields != right.fields() {
                return Ok(false);
            }
            for field in fields {
                let (left, right) = (left.get(field.clone())?, right.get(field)?);
                let (Some(left), Some(right)) = (left, right) else {
                    return Ok(false);
                };
                if !ensure_sufficient_stack(|| are_equal(&left, &right))? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        (left, right) => equals(left, right),
    }
}

/// Formats a text, or returns the remainder of a division.
pub(super) fn modulo_of_values(left: &Val, right: &Val) -> Result<Val> {
    match left {
        Val::Str(format) => formatted(&format.clone().into_flat(), right),
        left => Val::try_mod(left, right),
    }
}

/// Evaluates `std.format`.
pub(super) fn formatted(format: &str, values: &Val) -> Result<Val> {
    let format = FormatString::parse(format)?;
    let text = match values {
        Val::Obj(fields) => format.format_object(|name| match fields.get(name.into())? {
            Some(value) => to_json(&value).map(Some),
            None => Ok(None),
        })?,
        Val::Arr(items) => {
            let item = |at: usize| match items.get(at as u32)? {
                Some(value) => to_json(&value),
                None => Ok(serde_json::Value::Null),
            };
            format.format_list(items.len() as usize, item)?
        }
        value => format.format_list(1, |_| to_json(value))?,
    };
    Ok(Val::string(text))
}

/// Converts a value to text.
fn added(value: &Val) -> Result<StrValue> {
    Ok(match value {
        Val::Str(text) => text.clone(),
        value => text(&to_json(value)?).into(),
    })
}
