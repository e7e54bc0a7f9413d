//! Strings.

use super::SourceWriter;
use crate::rendering::jsonnet::syntax::{BlockIndent, TextStyle};

impl SourceWriter<'_, '_> {
    pub(super) fn string(&mut self, style: TextStyle, value: &str, block: BlockIndent<'_>) {
        match style {
            TextStyle::Single => self.quoted("'", value, "'"),
            TextStyle::Double => self.quoted("\"", value, "\""),
            TextStyle::VerbatimSingle => self.quoted("@'", &value.replace('\'', "''"), "'"),
            TextStyle::VerbatimDouble => self.quoted("@\"", &value.replace('"', "\"\""), "\""),
            TextStyle::Block => self.text_block(value, block),
        }
    }

    fn quoted(&mut self, open: &str, value: &str, close: &str) {
        self.push(open);
        self.push(value);
        self.push(close);
    }

    /// Writes a text block. Empty lines are not indented, and carriage returns are dropped.
    fn text_block(&mut self, value: &str, indent: BlockIndent<'_>) {
        let chomped = !value.ends_with('\n');
        self.push(if chomped { "|||-\n" } else { "|||\n" });
        for line in value.split_inclusive('\n') {
            self.block_line(line, indent);
        }
        if value.is_empty() {
            self.block_line("", indent);
        }
        if chomped {
            self.push("\n");
        }
        match indent {
            BlockIndent::FromSource(_, last) => self.push(last),
            BlockIndent::Spaces(_, last) => self.spaces(last),
            BlockIndent::None => {}
        }
        self.push("|||");
    }

    fn block_line(&mut self, line: &str, indent: BlockIndent<'_>) {
        if line != "\n" {
            match indent {
                BlockIndent::FromSource(lines, _) => self.push(lines),
                BlockIndent::Spaces(lines, _) => self.spaces(lines),
                BlockIndent::None => {}
            }
        }
        for part in line.split('\r') {
            self.push(part);
        }
    }
}
