//! The errors of the second engine in the wording of go-jsonnet, with their locations.

use rsjsonnet_lang::ast::{BinaryOp, UnaryOp};
use rsjsonnet_lang::program::{AnalyzeError, EvalErrorKind, EvalErrorValueType};
use rsjsonnet_lang::span::SpanId;

/// Functions that Go implements natively. Go's errors about their arguments do not name the argument.
const GO_FUNCTIONS: [&str; 39] = [
    "abs",
    "acos",
    "asin",
    "atan",
    "base64Decode",
    "ceil",
    "codepoint",
    "cos",
    "decodeUTF8",
    "encodeUTF8",
    "exp",
    "exponent",
    "filter",
    "floor",
    "foldl",
    "foldr",
    "isEmpty",
    "join",
    "log",
    "makeArray",
    "mantissa",
    "md5",
    "member",
    "parseInt",
    "parseJson",
    "pow",
    "range",
    "remove",
    "reverse",
    "sin",
    "sort",
    "splitLimit",
    "sqrt",
    "strReplace",
    "substr",
    "sum",
    "tan",
    "trim",
    "xor",
];

/// Returns the message of an error, and the expression that failed. The engine does not know the expression for every
/// error.
pub(super) fn eval_error_message(kind: &EvalErrorKind) -> (String, Option<SpanId>) {
    use EvalErrorKind as Error;
    match kind {
        Error::ExplicitError { span, message } => (message.clone(), Some(*span)),
        Error::AssertFailed { span, message } => {
            let message = message.clone().unwrap_or_else(|| "Assertion failed".to_owned());
            (message, Some(*span))
        }
        Error::Other { span, message } => (standard(message), *span),
        Error::AssertEqualFailed { lhs, rhs } => (format!("Assertion failed. {lhs} != {rhs}"), None),
        Error::InfiniteRecursion | Error::StackOverflow => ("max stack frames exceeded.".to_owned(), None),
        Error::InvalidIndexedType { span, got_type } => (not_indexable(name(*got_type)), Some(*span)),
        Error::InvalidSlicedType { span, got_type } => {
            let got = name(*got_type);
            (
                format!("std.slice accepts a string or an array, but got: {got}"),
                Some(*span),
            )
        }
        Error::SliceIndexOrStepIsNotNumber { span, got_type }
        | Error::StringIndexIsNotNumber { span, got_type }
        | Error::ArrayIndexIsNotNumber { span, got_type } => (unexpected(*got_type, "number"), Some(*span)),
        Error::ObjectIndexIsNotString { span, got_type } => (unexpected(*got_type, "string"), Some(*span)),
        Error::ForSpecValueIsNotArray { span, got_type } => (unexpected(*got_type, "array"), Some(*span)),
        Error::CondIsNotBool { span, got_type } => (unexpected(*got_type, "boolean"), Some(*span)),
        Error::NumericIndexIsNotValid { span, index } => (format!("Index {index}{NO_INDEX}"), Some(*span)),
        Error::NumericIndexOutOfRange { span, index, length } => (
            format!("Index {index} out of bounds, not within [0, {length})"),
            Some(*span),
        ),
        Error::RepeatedFieldName { span, name } => (format!("Duplicate field name: {name:?}"), Some(*span)),
        Error::FieldNameIsNotString { span, got_type } => {
            let got = name(*got_type);
            (format!("Field name must be string, got {got}"), Some(*span))
        }
        Error::UnknownObjectField { span, field_name } => {
            (format!("Field does not exist: {field_name}"), Some(*span))
        }
        Error::FieldOfNonObject { span } => (NOT_INDEXABLE.to_owned(), Some(*span)),
        Error::SuperWithoutSuperObject { span } => (
            "Attempt to use super when there is no super class.".to_owned(),
            Some(*span),
        ),
        Error::CalleeIsNotFunction { span, got_type } => (unexpected(*got_type, "function"), *span),
        Error::TooManyCallArgs { span, num_params } => (
            format!("function expected {num_params} positional argument(s), but got more"),
            *span,
        ),
        Error::UnknownCallParam { span, param_name } => {
            (format!("function has no parameter {param_name}"), *span)
        }
        Error::RepeatedCallParam { span, param_name } => {
            (format!("Argument {param_name} already provided"), *span)
        }
        Error::CallParamNotBound { span, param_name } => (format!("Missing argument: {param_name}"), *span),
        Error::NativeCallFailed => ("a native function failed".to_owned(), None),
        Error::InvalidUnaryOpType { span, op, rhs_type } => {
            let expected = match op {
                UnaryOp::LogicNot => "boolean",
                UnaryOp::Minus | UnaryOp::Plus | UnaryOp::BitwiseNot => "number",
            };
            (unexpected(*rhs_type, expected), Some(*span))
        }
        Error::InvalidBinaryOpTypes {
            span,
            op,
            lhs_type,
            rhs_type,
        } => (operands(*op, *lhs_type, *rhs_type), *span),
        Error::NumberNotBitwiseSafe { span } => (
            "Bitwise operator argument outside of range [-9007199254740991, 9007199254740991]".to_owned(),
            *span,
        ),
        Error::NumberOverflow { span } => ("Overflow".to_owned(), *span),
        Error::NumberNan { span } => ("Not a number".to_owned(), *span),
        Error::DivByZero { span } => ("Division by zero.".to_owned(), *span),
        Error::ShiftByNegative { span } => ("Shift by negative exponent.".to_owned(), *span),
        Error::InvalidStdFuncArgType {
            func_name,
            arg_index,
            expected_types,
            got_type,
        } => {
            let expected: Vec<_> = expected_types.iter().map(|kind| name(*kind)).collect();
            let words = argument(func_name, *arg_index, &expected.join(" or "), name(*got_type));
            (words, None)
        }
        Error::ImportFailed { span, path } => (
            format!("couldn't open import {path:?}: no match locally or in the Jsonnet library paths"),
            Some(*span),
        ),
        Error::UnknownExtVar { name } => {
            // A variable of a task has a prefix with the task's number.
            let name = name.split_once('/').map_or(name.as_str(), |(_, name)| name);
            (format!("Undefined external variable: {name}"), None)
        }
        Error::ManifestFunction => ("couldn't manifest function as JSON".to_owned(), None),
        Error::CompareNullInequality => ("Unexpected type null".to_owned(), None),
        Error::CompareBooleanInequality => ("Unexpected type boolean".to_owned(), None),
        Error::CompareObjectInequality => ("Unexpected type object".to_owned(), None),
        Error::CompareFunctions => ("Cannot test equality of functions".to_owned(), None),
        Error::CompareDifferentTypesInequality { lhs_type, rhs_type } => match lhs_type {
            EvalErrorValueType::Number | EvalErrorValueType::String | EvalErrorValueType::Array => {
                (unexpected(*rhs_type, name(*lhs_type)), None)
            }
            lhs_type => (format!("Unexpected type {}", name(*lhs_type)), None),
        },
        Error::PrimitiveEqualsNonPrimitive { got_type } => {
            let got = name(*got_type);
            (
                format!("primitiveEquals operates on primitive types, got {got}"),
                None,
            )
        }
    }
}

/// Go's message for an index into a value that cannot be indexed, if the engine does not know the type.
const NOT_INDEXABLE: &str = "Value non indexable";
/// The end of the message about an invalid index, if the engine does not know the length.
const NO_INDEX: &str = " is not an index";

/// True for a message for which the first engine may have more detail.
pub(in crate::rendering::jsonnet) fn is_vague(message: &str) -> bool {
    message == NOT_INDEXABLE || message.ends_with(NO_INDEX)
}

/// Returns Go's message for a value that cannot be indexed.
pub(super) fn not_indexable(kind: &str) -> String {
    let mut letters = kind.chars();
    let first = letters.next().map(|first| first.to_ascii_uppercase());
    let kind: String = first.into_iter().chain(letters).collect();
    format!("{NOT_INDEXABLE}: *jsonnet.value{kind}")
}

/// Translates a message of a standard library function to Go's wording.
fn standard(message: &str) -> String {
    let number = message.strip_prefix("invalid base 10: '");
    let number = number.and_then(|number| number.strip_suffix('\''));
    let item = message.strip_prefix("array item must null or string, got ");
    match (number, item) {
        (Some(number), _) => format!("{number} is not a base 10 integer"),
        (_, Some(item)) => format!("Unexpected type {item}, expected string"),
        _ => message.to_owned(),
    }
}

/// Returns Go's message for an argument of the wrong type to a function of the standard library.
fn argument(function: &str, index: usize, expected: &str, got: &str) -> String {
    match (function, index) {
        ("length", _) => format!("Unexpected type {got}"),
        ("map", 0) => format!("std.map first param must be function, got {got}"),
        ("map", _) => format!("std.map second param must be array / string, got {got}"),
        (name, _) if GO_FUNCTIONS.contains(&name) => {
            let expected = expected.split(" or ").next().unwrap_or_default();
            format!("Unexpected type {got}, expected {expected}")
        }
        _ => {
            let place = index + 1;
            format!("std.{function}: argument {place} must be {expected}, got {got}")
        }
    }
}

/// Returns message and location of code that follows the grammar but is invalid.
pub(super) fn analyze_error_message(error: &AnalyzeError) -> (String, SpanId) {
    match error {
        AnalyzeError::UnknownVariable { span, name } => (format!("Unknown variable: {name}"), *span),
        AnalyzeError::SelfOutsideObject { self_span } => {
            ("Can't use self outside of an object.".to_owned(), *self_span)
        }
        AnalyzeError::SuperOutsideObject { super_span } => {
            ("Can't use super outside of an object.".to_owned(), *super_span)
        }
        AnalyzeError::DollarOutsideObject { dollar_span } => {
            ("No top-level object found.".to_owned(), *dollar_span)
        }
        AnalyzeError::RepeatedLocalName {
            repeated_span, name, ..
        } => (format!("Duplicate local var: {name}"), *repeated_span),
        AnalyzeError::RepeatedFieldName {
            repeated_span, name, ..
        } => (format!("Duplicate field: {name}"), *repeated_span),
        AnalyzeError::RepeatedParamName {
            repeated_span, name, ..
        } => (format!("Duplicate function parameter: {name}"), *repeated_span),
        AnalyzeError::PositionalArgAfterNamed { arg_span } => (
            "Positional argument after a named argument is not allowed".to_owned(),
            *arg_span,
        ),
        AnalyzeError::TextBlockAsImportPath { span } => {
            ("Block string literals not allowed in imports".to_owned(), *span)
        }
        AnalyzeError::ComputedImportPath { span } => ("Computed imports are not allowed".to_owned(), *span),
    }
}

fn unexpected(got: EvalErrorValueType, expected: &str) -> String {
    format!("Unexpected type {}, expected {expected}", name(got))
}

/// Returns Go's message for operand types that an operator does not accept.
fn operands(operator: BinaryOp, left: EvalErrorValueType, right: EvalErrorValueType) -> String {
    use EvalErrorValueType as Type;
    let is_number = |operand| matches!(operand, Type::Number);
    match operator {
        BinaryOp::Add if matches!(left, Type::Number | Type::Object | Type::Array) => {
            unexpected(right, name(left))
        }
        BinaryOp::Add => format!("Unexpected type {}", name(left)),
        BinaryOp::LogicAnd | BinaryOp::LogicOr if matches!(left, Type::Bool) => unexpected(right, "boolean"),
        BinaryOp::LogicAnd | BinaryOp::LogicOr => unexpected(left, "boolean"),
        BinaryOp::In if matches!(left, Type::String) => unexpected(right, "object"),
        BinaryOp::In => unexpected(left, "string"),
        BinaryOp::Rem => format!(
            "Operator % cannot be used on types {} and {}.",
            name(left),
            name(right)
        ),
        _ if is_number(left) => unexpected(right, "number"),
        _ => unexpected(left, "number"),
    }
}

fn name(kind: EvalErrorValueType) -> &'static str {
    match kind {
        EvalErrorValueType::Null => "null",
        EvalErrorValueType::Bool => "boolean",
        EvalErrorValueType::Number => "number",
        EvalErrorValueType::String => "string",
        EvalErrorValueType::Array => "array",
        EvalErrorValueType::Object => "object",
        EvalErrorValueType::Function => "function",
    }
}
