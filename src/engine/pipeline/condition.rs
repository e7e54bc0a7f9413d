//! Conditions in the Common Expression Language. They are untrusted, so an expression is checked before it is kept: the
//! work of an evaluation is at most the size of the expression times the size of the values.

use super::definition::{ConditionText, ScalarValue};
use super::problem::name_hint;
use crate::base::webhook::EVENT_NESTING_MAX;
use cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, operators};
use cel::parser::PrattParser;
use cel::{Context, ExecutionError};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// The maximum number of nested calls, selections and brackets.
const CONDITION_DEPTH_MAX: usize = 24;
/// The maximum number of operands, calls and selections.
const CONDITION_NODES_MAX: usize = 200;
/// The maximum number of additions. They are the only operation whose result is larger than its operands.
const ADDITIONS_MAX: usize = 8;
/// The maximum number of bytes of an event: of its texts, and [`VALUE_BYTES`] for each value.
const EVENT_SIZE_MAX: usize = 2 << 20;
/// The bytes that count for each value. So an event has at most some 50,000, and a loop over them ends soon.
const VALUE_BYTES: usize = 40;
/// The maximum number of bytes of a parameter. A loop may use it for each of its entries.
const PARAMETER_BYTES_MAX: usize = 4_096;

/// The variables.
const EVENT: &str = "event";
const PARAMS: &str = "params";
const STEPS: &str = "steps";
/// The name that the parser gives to the result of a loop.
const LOOP_RESULT: &str = "@result";

/// The functions that an expression may call, beside operators and loops.
const FUNCTIONS: [&str; 7] = [
    "contains",
    "double",
    "endsWith",
    "int",
    "size",
    "startsWith",
    "string",
];
const OPERATORS: [&str; 17] = [
    operators::CONDITIONAL,
    operators::LOGICAL_AND,
    operators::LOGICAL_OR,
    operators::LOGICAL_NOT,
    operators::SUBSTRACT,
    operators::ADD,
    operators::MULTIPLY,
    operators::DIVIDE,
    operators::MODULO,
    operators::EQUALS,
    operators::NOT_EQUALS,
    operators::GREATER_EQUALS,
    operators::LESS_EQUALS,
    operators::GREATER,
    operators::LESS,
    operators::NEGATE,
    operators::INDEX,
];

/// A condition that can be evaluated.
#[derive(Clone, Debug)]
pub struct CompiledCondition {
    expression: Arc<IdedExpr>,
    names: ConditionNames,
}

/// The names of other values in a condition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConditionNames {
    /// The parameters, as `params.NAME`.
    pub params: BTreeSet<String>,
    /// The steps, as `steps.NAME.output` and `steps.NAME.status`.
    pub steps: BTreeSet<String>,
    /// True if it names `event`.
    pub uses_event: bool,
}

/// An event that is converted once for any number of evaluations. A copy shares its values.
#[derive(Clone, Debug)]
pub struct ConditionEvent {
    /// `None` if the event is too large.
    value: Option<cel::Value>,
}

/// The values of one evaluation.
#[derive(Clone, Debug, Default)]
pub struct ConditionValues {
    /// `event`: the payload of the event that started the run.
    pub event: ConditionEvent,
    /// `params`, by name.
    pub params: BTreeMap<String, ScalarValue>,
    /// `steps`, by name.
    pub steps: BTreeMap<String, StepResult>,
}

/// The result of a finished step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StepResult {
    /// `success`, `failure` or `skipped`.
    pub status: String,
    /// The output.
    pub output: String,
}

/// The reason why an evaluation has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConditionError {
    /// The event is too large to be examined.
    #[error("the event is too large for a condition: more than {} MiB with {VALUE_BYTES} bytes for each value, or more than {EVENT_NESTING_MAX} levels", EVENT_SIZE_MAX >> 20)]
    EventTooLarge,
    /// A parameter is too long.
    #[error("the parameter `{0}` is too long for a condition: more than {PARAMETER_BYTES_MAX} bytes")]
    ParameterTooLong(String),
    /// The expression has another type.
    #[error("the condition is no boolean; compare its value, as in `event.action == 'opened'`")]
    NoBoolean,
    /// A value is missing, or has the wrong type for an operation.
    #[error("the condition cannot be evaluated: {0}")]
    Failed(String),
}

impl ConditionEvent {
    /// Converts an event.
    pub fn of(event: &serde_json::Value) -> Self {
        Self {
            value: event_value(event, 0, &mut 0),
        }
    }
}

impl Default for ConditionEvent {
    fn default() -> Self {
        Self {
            value: Some(cel::Value::Null),
        }
    }
}

impl CompiledCondition {
    /// Compiles a condition. The error is the reason why it is refused.
    pub fn compile(text: &ConditionText) -> Result<Self, String> {
        let parser = PrattParser::new()
            .max_recursion_depth(16)
            .error_reporting_limit(1)
            .max_expression_node_count(CONDITION_NODES_MAX * 4);
        // The parser panics on some malformed literals.
        let parsed = catch_unwind(AssertUnwindSafe(|| parser.parse(text.as_str())));
        let expression = match parsed {
            Ok(Ok(expression)) => expression,
            Ok(Err(errors)) => return Err(syntax(&errors)),
            Err(_) => return Err("is no valid expression".to_owned()),
        };
        let mut check = ExpressionCheck::default();
        check.node(&expression, 0, Loop::Outside)?;
        Ok(Self {
            expression: Arc::new(expression),
            names: check.names,
        })
    }

    /// Returns the names in the condition.
    pub fn names(&self) -> &ConditionNames {
        &self.names
    }

    /// Evaluates the condition.
    pub fn evaluate(&self, values: &ConditionValues) -> Result<bool, ConditionError> {
        let event = values.event.value.clone().ok_or(ConditionError::EventTooLarge)?;
        let too_long = values.params.iter().find(|(_, value)| match value {
            ScalarValue::Text(text) => text.len() > PARAMETER_BYTES_MAX,
            ScalarValue::Boolean(_) | ScalarValue::Integer(_) | ScalarValue::Number(_) => false,
        });
        if let Some((name, _)) = too_long {
            return Err(ConditionError::ParameterTooLong(name.clone()));
        }
        let params = values.params.iter().map(|(name, value)| {
            let value = match value {
                ScalarValue::Boolean(value) => cel::Value::Bool(*value),
                ScalarValue::Integer(value) => cel::Value::Int(*value),
                ScalarValue::Number(value) => cel::Value::Float(*value),
                ScalarValue::Text(value) => cel::Value::from(value.as_str()),
            };
            (name.clone(), value)
        });
        let steps = values.steps.iter().map(|(name, result)| {
            let result = [("status", &result.status), ("output", &result.output)];
            let result = result.map(|(field, text)| (field, cel::Value::from(text.as_str())));
            (name.clone(), cel::Value::from(HashMap::from(result)))
        });
        let mut context = Context::default();
        context.add_variable_from_value(EVENT, event);
        context.add_variable_from_value(PARAMS, params.collect::<HashMap<String, cel::Value>>());
        context.add_variable_from_value(STEPS, steps.collect::<HashMap<String, cel::Value>>());
        let resolved = catch_unwind(AssertUnwindSafe(|| context.resolve(&self.expression)));
        match resolved {
            Ok(Ok(cel::Value::Bool(result))) => Ok(result),
            Ok(Ok(_)) => Err(ConditionError::NoBoolean),
            Ok(Err(error)) => Err(ConditionError::Failed(reason(&error))),
            Err(_) => Err(ConditionError::Failed("an operation has no result".to_owned())),
        }
    }
}

/// Returns a reason that contains no value of the event.
fn reason(error: &ExecutionError) -> String {
    match error {
        ExecutionError::NoSuchKey(key) => format!("there is no `{key}`; test it with has(...)"),
        ExecutionError::UndeclaredReference(name) => format!("there is no `{name}`"),
        ExecutionError::IndexOutOfBounds(_) => "a list has no entry at this index".to_owned(),
        ExecutionError::DivisionByZero(_) | ExecutionError::RemainderByZero(_) => {
            "a division by zero".to_owned()
        }
        ExecutionError::Overflow(..) => "a number is too large".to_owned(),
        _ => "an operation does not fit the types of its values".to_owned(),
    }
}

/// Returns the first error with its column. The text of the parser may contain quotes of the expression.
fn syntax(errors: &cel::ParseErrors) -> String {
    match errors.errors.first() {
        Some(error) => {
            let message: String = error
                .msg
                .chars()
                .take(120)
                .map(|next| if next.is_control() { ' ' } else { next })
                .collect();
            match error.pos {
                (line, column) if line > 0 => {
                    format!("is no valid expression: line {line}, column {column}: {message}")
                }
                _ => format!("is no valid expression: {message}"),
            }
        }
        None => "is no valid expression".to_owned(),
    }
}

fn event_value(value: &serde_json::Value, depth: usize, size: &mut usize) -> Option<cel::Value> {
    use serde_json::Value;
    *size += VALUE_BYTES + value.as_str().map_or(0, str::len);
    if *size > EVENT_SIZE_MAX || depth > EVENT_NESTING_MAX {
        return None;
    }
    Some(match value {
        Value::Null => cel::Value::Null,
        Value::Bool(value) => cel::Value::Bool(*value),
        Value::Number(number) => match number.as_i64() {
            Some(number) => cel::Value::Int(number),
            None => cel::Value::Float(number.as_f64().unwrap_or_default()),
        },
        Value::String(text) => cel::Value::from(text.as_str()),
        Value::Array(items) => {
            let items = items.iter().map(|item| event_value(item, depth + 1, size));
            cel::Value::from(items.collect::<Option<Vec<_>>>()?)
        }
        Value::Object(members) => {
            let mut map = HashMap::with_capacity(members.len());
            for (name, member) in members {
                *size += name.len();
                map.insert(name.clone(), event_value(member, depth + 1, size)?);
            }
            cel::Value::from(map)
        }
    })
}

/// The place of a node.
#[derive(Clone, Copy)]
enum Loop<'a> {
    Outside,
    /// Inside of `all`, `exists` or `exists_one`, with this variable.
    Inside(&'a str),
}

/// The check of an expression.
#[derive(Default)]
struct ExpressionCheck {
    nodes: usize,
    additions: usize,
    names: ConditionNames,
}

impl ExpressionCheck {
    fn node(&mut self, node: &IdedExpr, depth: usize, place: Loop<'_>) -> Result<(), String> {
        self.nodes += 1;
        if self.nodes > CONDITION_NODES_MAX {
            return Err(format!("has more than {CONDITION_NODES_MAX} operands and calls"));
        }
        if depth > CONDITION_DEPTH_MAX {
            return Err(format!("is nested more than {CONDITION_DEPTH_MAX} levels deep"));
        }
        let below = depth + 1;
        match &node.expr {
            Expr::Literal(_) => Ok(()),
            Expr::Ident(name) => {
                self.names.uses_event |= name == EVENT;
                Self::variable(name, place)
            }
            Expr::Select(select) => match self.named(&node.expr, place)? {
                true => Ok(()),
                false => self.node(&select.operand, below, place),
            },
            Expr::Call(call) => self.call(call, below, place),
            Expr::List(list) => list
                .elements
                .iter()
                .try_for_each(|item| self.node(item, below, place)),
            Expr::Map(map) => map.entries.iter().try_for_each(|entry| match &entry.expr {
                EntryExpr::MapEntry(entry) => {
                    self.node(&entry.key, below, place)?;
                    self.node(&entry.value, below, place)
                }
                EntryExpr::StructField(_) => Err("contains a message; use a map".to_owned()),
            }),
            Expr::Comprehension(comprehension) => self.comprehension(comprehension, below, place),
            Expr::Struct(_) | Expr::Unspecified => Err("contains a message; use a map".to_owned()),
        }
    }

    /// Records `params.NAME`, `steps.NAME.output` or `steps.NAME.status`. Returns false for another selection.
    fn named(&mut self, expression: &Expr, place: Loop<'_>) -> Result<bool, String> {
        let Expr::Select(outer) = expression else {
            return Ok(false);
        };
        match &outer.operand.expr {
            Expr::Ident(name) if name == PARAMS => {
                self.names.params.insert(outer.field.clone());
                Ok(true)
            }
            Expr::Select(inner) if matches!(&inner.operand.expr, Expr::Ident(name) if name == STEPS) => {
                Self::variable_is_outside(STEPS, place)?;
                if !matches!(outer.field.as_str(), "output" | "status") {
                    return Err("a step has `output` and `status`, as in steps.build.status".to_owned());
                }
                self.names.steps.insert(inner.field.clone());
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    fn variable(name: &str, place: Loop<'_>) -> Result<(), String> {
        match (name, place) {
            (name, Loop::Inside(variable)) if name == variable || name == LOOP_RESULT => Ok(()),
            (EVENT, _) => Self::variable_is_outside(EVENT, place),
            (PARAMS, _) => Err("name one parameter, as in params.environment".to_owned()),
            (STEPS, _) => Err("name one step, as in steps.build.status".to_owned()),
            _ => Err(format!(
                "unknown variable `{name}`{}",
                name_hint(name, [EVENT, PARAMS, STEPS])
            )),
        }
    }

    /// Refuses a value of any size inside of a loop: the work would be the product of two sizes.
    fn variable_is_outside(name: &str, place: Loop<'_>) -> Result<(), String> {
        match place {
            Loop::Outside => Ok(()),
            Loop::Inside(_) => Err(format!(
                "`{name}` is not available inside of all, exists and exists_one; use their variable and `params`"
            )),
        }
    }

    fn call(&mut self, call: &CallExpr, depth: usize, place: Loop<'_>) -> Result<(), String> {
        let name = call.func_name.as_str();
        let is_known = FUNCTIONS.contains(&name)
            || OPERATORS.contains(&name)
            || matches!(name, operators::IN | operators::NOT_STRICTLY_FALSE);
        if !is_known {
            let hint = name_hint(name, FUNCTIONS);
            return Err(format!("unknown function `{name}`{hint}"));
        }
        let counts_loop = matches!(call.args.first().map(|first| &first.expr), Some(Expr::Ident(name)) if name == LOOP_RESULT);
        if name == operators::ADD && !counts_loop {
            self.additions += 1;
            if matches!(place, Loop::Inside(_)) {
                return Err("`+` is not available inside of all, exists and exists_one".to_owned());
            }
            if self.additions > ADDITIONS_MAX {
                return Err(format!("has more than {ADDITIONS_MAX} additions"));
            }
        }
        let target = call.target.as_deref();
        target
            .into_iter()
            .chain(&call.args)
            .try_for_each(|node| self.node(node, depth, place))
    }

    fn comprehension(
        &mut self,
        found: &ComprehensionExpr,
        depth: usize,
        place: Loop<'_>,
    ) -> Result<(), String> {
        if matches!(place, Loop::Inside(_)) {
            return Err("all, exists and exists_one cannot be inside of each other".to_owned());
        }
        if matches!(found.accu_init.expr, Expr::List(_)) {
            return Err("map and filter are not available; use all, exists or exists_one".to_owned());
        }
        self.node(&found.iter_range, depth, place)?;
        self.node(&found.loop_step, depth, Loop::Inside(&found.iter_var))
    }
}
