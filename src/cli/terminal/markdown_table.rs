//! Tables of Markdown: columns if they fit into the terminal, else one record for each row.

use super::live_area::ScreenLine;
use super::wrapping::{StyledRun, wrapped};
use crate::cli::output::{Output, OutputStyle};
use unicode_width::UnicodeWidthStr;

/// The space between two columns.
const BETWEEN: &str = "  ";

/// The cells of a table; the first row is its head.
#[derive(Debug, Default)]
pub(super) struct TableText {
    rows: Vec<Vec<Vec<StyledRun>>>,
    row: Vec<Vec<StyledRun>>,
}

impl TableText {
    /// Adds a cell to the current row.
    pub(super) fn cell(&mut self, cell: Vec<StyledRun>) {
        self.row.push(cell);
    }

    /// Ends the current row.
    pub(super) fn end_row(&mut self) {
        self.rows.push(std::mem::take(&mut self.row));
    }

    /// Returns the table as rows of the terminal.
    pub(super) fn lines(&self, columns: usize, output: &Output) -> Vec<ScreenLine> {
        let count = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell_columns(cell)).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..count).map(width).collect();
        let all = widths.iter().sum::<usize>() + BETWEEN.width() * count.saturating_sub(1);
        match all <= columns {
            true => self.aligned(&widths, all, output),
            false => self.records(columns, output),
        }
    }

    fn aligned(&self, widths: &[usize], all: usize, output: &Output) -> Vec<ScreenLine> {
        let mut lines = Vec::new();
        for (number, row) in self.rows.iter().enumerate() {
            let cells = row.iter().zip(widths).map(|(cell, width)| {
                let space = " ".repeat(width.saturating_sub(cell_columns(cell)));
                let style = (number == 0).then_some(OutputStyle::Bold);
                format!("{}{space}", painted(cell, style, output))
            });
            lines.push(ScreenLine {
                text: cells.collect::<Vec<_>>().join(BETWEEN),
                columns: all,
            });
            if number == 0 {
                let rules: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
                lines.push(ScreenLine {
                    text: output.paint(OutputStyle::Border, &rules.join(BETWEEN)),
                    columns: all,
                });
            }
        }
        lines
    }

    fn records(&self, columns: usize, output: &Output) -> Vec<ScreenLine> {
        let (head, rows) = self
            .rows
            .split_first()
            .map_or((&[][..], &[][..]), |(head, rows)| (&head[..], rows));
        let mut lines = Vec::new();
        for row in rows {
            if !lines.is_empty() {
                lines.push(ScreenLine::default());
            }
            for (name, cell) in head.iter().zip(row) {
                let name: String = name.iter().map(|run| run.text.as_str()).collect();
                let mut runs = vec![StyledRun {
                    text: format!("{name}: "),
                    styles: vec![OutputStyle::Bold],
                }];
                runs.extend(cell.iter().cloned());
                for (number, line) in wrapped(&runs, columns.saturating_sub(2)).into_iter().enumerate() {
                    let indent = if number == 0 { "" } else { "  " };
                    lines.push(ScreenLine {
                        text: format!("{indent}{}", painted(&line, None, output)),
                        columns: indent.width() + cell_columns(&line),
                    });
                }
            }
        }
        lines
    }
}

fn cell_columns(cell: &[StyledRun]) -> usize {
    cell.iter().map(|run| run.text.width()).sum()
}

fn painted(cell: &[StyledRun], style: Option<OutputStyle>, output: &Output) -> String {
    let runs = cell.iter().map(|run| {
        let styles: Vec<OutputStyle> = style.iter().chain(&run.styles).copied().collect();
        output.paint_all(&styles, &run.text)
    });
    runs.collect()
}
