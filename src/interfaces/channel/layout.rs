//! The layout of parts that several platforms show in the same way: facts, and rows of buttons.

use super::visible::escape_line;
use crate::base::model::Button;

/// The maximum number of columns of a table of facts, so that it fits a phone; wider tables become plain lines.
const COLUMNS_MAX: usize = 40;

/// Facts as a message shows them.
pub(super) enum FactLayout {
    /// The lines of a table, which is shown as code.
    Table(String),
    /// Plain lines, each with its label and its value.
    Lines(Vec<(String, String)>),
}

/// Returns facts as a table, or as lines if that is too wide. A line end in one of them is shown as a character.
pub(super) fn fact_layout(rows: &[(String, String)]) -> FactLayout {
    let rows: Vec<(String, String)> = rows
        .iter()
        .map(|(label, value)| (escape_line(label), escape_line(value)))
        .collect();
    let width = |text: &str| text.chars().count();
    let column = rows.iter().map(|(label, _)| width(label)).max().unwrap_or(0);
    let is_narrow = rows
        .iter()
        .all(|(_, value)| column + 2 + width(value) <= COLUMNS_MAX && !value.contains('`'));
    if !is_narrow {
        return FactLayout::Lines(rows);
    }
    let lines = rows
        .iter()
        .map(|(label, value)| format!("{label}{}  {value}", " ".repeat(column - width(label))));
    FactLayout::Table(lines.collect::<Vec<_>>().join("\n"))
}

/// Returns rows of similar length: four buttons are two rows of two if a row has at most three.
pub(super) fn button_rows(buttons: &[Button], row_max: usize) -> std::slice::Chunks<'_, Button> {
    let count = buttons.len().div_ceil(row_max).max(1);
    buttons.chunks(buttons.len().div_ceil(count).max(1))
}
