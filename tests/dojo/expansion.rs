//! The expansion of the table: a row becomes one case for each combination of its values, on each platform and wire.

use super::extent::TableExtent;
use super::placeholders::{PlaceholderValues, expand};
use super::table::{AttackClass, CasePlatform, CaseRow, QuestionReply, ScriptedFault, WireFormat};
use serde_json::Value;
use std::collections::BTreeMap;

/// The result that a case must have: an attack must fail, a benign request succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CaseKind {
    Attack,
    Benign,
}

/// A row with one combination of its values, on one platform and wire.
#[derive(Clone, Debug)]
pub(crate) struct DojoCase {
    /// The number within the class, from 1.
    pub(crate) number: usize,
    pub(crate) kind: CaseKind,
    /// The name of the row and its values, for people.
    pub(crate) title: String,
    pub(crate) on: CasePlatform,
    pub(crate) wire: WireFormat,
    /// The row with its values in place.
    pub(crate) row: CaseRow,
}

impl AttackClass {
    /// Returns every case, in the order of the file.
    pub(crate) fn cases(&self, values: &PlaceholderValues, extent: TableExtent) -> Vec<DojoCase> {
        let attacks = self.attack.iter().map(|row| (CaseKind::Attack, row));
        let benign = self.benign.iter().map(|row| (CaseKind::Benign, row));
        let mut cases = Vec::new();
        for (kind, row) in attacks.chain(benign) {
            let wires = row.wires(self.extent(extent));
            for (shown, values) in combinations(&row.each, values) {
                for on in &row.on {
                    for wire in wires {
                        let mut title = format!("{}{shown}", row.name);
                        if row.on.len() > 1 {
                            title.push_str(&format!(" on {on:?}"));
                        }
                        if wires.len() > 1 {
                            title.push_str(&format!(" over {wire:?}"));
                        }
                        cases.push(DojoCase {
                            number: cases.len() + 1,
                            kind,
                            title,
                            on: *on,
                            wire: *wire,
                            row: row.with_values(&values),
                        });
                    }
                }
            }
        }
        cases
    }
}

/// Returns every combination of the values, with its title.
fn combinations(
    each: &BTreeMap<String, Vec<String>>,
    values: &PlaceholderValues,
) -> Vec<(String, PlaceholderValues)> {
    let mut all = vec![(String::new(), values.clone())];
    for (name, choices) in each {
        let mut more = Vec::new();
        for (shown, values) in &all {
            for choice in choices {
                let shortened: String = choice.chars().take(60).collect();
                let mut values = values.clone();
                values.set(name, choice);
                more.push((format!("{shown} {name}={shortened:?}"), values));
            }
        }
        all = more;
    }
    all
}

impl CaseRow {
    fn with_values(&self, values: &PlaceholderValues) -> Self {
        let mut row = self.clone();
        let texts = [
            &mut row.words,
            &mut row.says,
            &mut row.thinks,
            &mut row.ponders,
            &mut row.summary,
        ];
        for text in texts.into_iter().flatten() {
            *text = expand(text, values);
        }
        let expect = &mut row.expect;
        let changed = expect.changed.iter_mut().flatten();
        if let Some(received) = &mut row.received {
            received.text = expand(&received.text, values);
        }
        for press in &mut row.pressed {
            press.label = expand(&press.label, values);
        }
        for reply in &mut row.replies {
            match reply {
                QuestionReply::Press(press) => press.label = expand(&press.label, values),
                QuestionReply::Words(words) => *words = expand(words, values),
            }
        }
        let lists = [
            &mut row.meanwhile,
            &mut row.then,
            &mut expect.never,
            &mut expect.reads,
            &mut expect.shows,
            &mut expect.stopped,
            &mut expect.sends,
            &mut expect.never_sends,
            &mut expect.never_instructs,
            &mut expect.never_passes_on,
        ];
        for text in lists.into_iter().flatten().chain(changed) {
            *text = expand(text, values);
        }
        for call in row.steps.iter_mut().chain(&mut row.later).flatten() {
            call.tool = expand(&call.tool, values);
            expand_json(&mut call.with, values);
        }
        match &mut row.fault {
            Some(ScriptedFault::Body { body, .. }) => *body = expand(body, values),
            Some(ScriptedFault::Arguments(text) | ScriptedFault::Ids(text) | ScriptedFault::Stop(text)) => {
                *text = expand(text, values);
            }
            Some(ScriptedFault::Reset(_) | ScriptedFault::End(_) | ScriptedFault::Malformed) | None => {}
        }
        row
    }
}

/// Replaces the placeholders in a JSON value. A text that begins with `#` becomes a number.
fn expand_json(value: &mut Value, values: &PlaceholderValues) {
    match value {
        Value::String(text) => {
            let filled = expand(text, values);
            *value = match text.strip_prefix('#') {
                Some(_) => filled[1..].parse::<i64>().expect("a number").into(),
                None => filled.into(),
            };
        }
        Value::Array(items) => items.iter_mut().for_each(|item| expand_json(item, values)),
        Value::Object(fields) => {
            let filled = std::mem::take(fields).into_iter().map(|(name, mut value)| {
                expand_json(&mut value, values);
                (expand(&name, values), value)
            });
            *fields = filled.collect();
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
