//! Checks of calls against the called function.

use super::{LintCode, RawFindings};
use crate::rendering::jsonnet::syntax::{Apply, Parameters, Span, SyntaxTree};
use std::collections::HashSet;

/// Checks the number of arguments of a call to a function whose parameter names are unknown.
pub(super) fn check_count(
    (min, max): (usize, usize),
    apply: &Apply<'_>,
    span: Span,
    notes: &mut RawFindings,
) {
    let got = apply.positional.len() + apply.named.len();
    if got < min {
        let message = format!("Too few arguments: got {got}, but expected at least {min}");
        notes.add(LintCode::Arguments, span, message);
    }
    if got > max {
        let message = format!("Too many arguments: got {got}, but expected at most {max}");
        notes.add(LintCode::Arguments, span, message);
    }
}

/// A parameter: its name, and whether it is required.
pub(super) type ParameterSpec<'a> = (&'a str, bool);

/// Returns the parameters of a function by name, each with whether it is required.
pub(super) fn parameter_specs<'p>(parameters: &'p Parameters<'_>) -> Vec<ParameterSpec<'p>> {
    let parameters = parameters.list.iter();
    parameters
        .map(|parameter| (parameter.name, parameter.default.is_none()))
        .collect()
}

/// Checks a call against the parameters of its function. Stops after the first name that does not match, since further
/// findings would only follow from it.
pub(super) fn check_arguments(
    parameters: &[ParameterSpec<'_>],
    apply: &Apply<'_>,
    tree: &SyntaxTree<'_>,
    span: Span,
    notes: &mut RawFindings,
) {
    let (max, given) = (parameters.len(), apply.positional.len());
    for item in apply.positional.iter().skip(max) {
        let message = format!("Too many arguments, there can be at most {max}, but {given} provided");
        notes.add(LintCode::Arguments, tree.node(item.expression).span, message);
    }
    let names = parameters.iter().map(|(name, _)| *name);
    let known: HashSet<&str> = names.clone().collect();
    let mut received: HashSet<&str> = names.clone().take(given).collect();
    for named in &apply.named {
        let place = tree.node(named.value).span;
        if received.contains(named.name) {
            let message = format!("Argument {} already provided", named.name);
            return notes.add(LintCode::Arguments, place, message);
        }
        if !known.contains(named.name) {
            let message = format!("function has no parameter {}", named.name);
            let named: Vec<String> = names.map(|name| format!("`{name}`")).collect();
            let hint = Some(format!("its parameters are {}", named.join(", ")));
            return notes.add_with_hint(LintCode::Arguments, place, message, hint);
        }
        received.insert(named.name);
    }
    let missing = parameters
        .iter()
        .find(|(name, is_needed)| *is_needed && !received.contains(name));
    if let Some((name, _)) = missing {
        notes.add(LintCode::Arguments, span, format!("Missing argument: {name}"));
    }
}
