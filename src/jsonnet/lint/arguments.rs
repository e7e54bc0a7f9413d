//! Calls that do not fit the function.

use super::{Code, Notes};
use crate::jsonnet::syntax::{Apply, Parameters, Span, Tree};
use std::collections::HashSet;

/// Compares a call with a function whose parameters are not known by name.
pub(super) fn count((min, max): (usize, usize), apply: &Apply<'_>, span: Span, notes: &mut Notes) {
    let got = apply.positional.len() + apply.named.len();
    if got < min {
        let message = format!("Too few arguments: got {got}, but expected at least {min}");
        notes.add(Code::Arguments, span, message);
    }
    if got > max {
        let message = format!("Too many arguments: got {got}, but expected at most {max}");
        notes.add(Code::Arguments, span, message);
    }
}

/// Compares a call with the parameters of its function. After the first name that does not fit, the rest
/// would only follow from it.
pub(super) fn fit(
    parameters: &Parameters<'_>,
    apply: &Apply<'_>,
    tree: &Tree<'_>,
    span: Span,
    notes: &mut Notes,
) {
    let (max, given) = (parameters.list.len(), apply.positional.len());
    for item in apply.positional.iter().skip(max) {
        let message = format!("Too many arguments, there can be at most {max}, but {given} provided");
        notes.add(Code::Arguments, tree.node(item.expression).span, message);
    }
    let names = parameters.list.iter().map(|parameter| parameter.name);
    let known: HashSet<&str> = names.clone().collect();
    let mut received: HashSet<&str> = names.clone().take(given).collect();
    for named in &apply.named {
        let place = tree.node(named.value).span;
        if received.contains(named.name) {
            let message = format!("Argument {} already provided", named.name);
            return notes.add(Code::Arguments, place, message);
        }
        if !known.contains(named.name) {
            let message = format!("function has no parameter {}", named.name);
            let named: Vec<String> = names.map(|name| format!("`{name}`")).collect();
            let hint = Some(format!("its parameters are {}", named.join(", ")));
            return notes.add_with_hint(Code::Arguments, place, message, hint);
        }
        received.insert(named.name);
    }
    let missing = parameters
        .list
        .iter()
        .find(|parameter| parameter.default.is_none() && !received.contains(parameter.name));
    if let Some(parameter) = missing {
        notes.add(
            Code::Arguments,
            span,
            format!("Missing argument: {}", parameter.name),
        );
    }
}
