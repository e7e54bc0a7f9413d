//! The layout: indentation, line folding, spaces and line breaks. It reproduces the states of the Go emitters exactly,
//! including their oddities, because the output must be equal byte for byte.

use super::scalar::{AllowedStyles, ScalarPosition, ScalarStyle, is_break, is_printable, style};
use super::{GoYamlVersion, key};
use serde_json::{Map, Value};

/// Columns after which v2 folds a line at the next space.
const WIDTH_COLUMNS: usize = 80;
/// Bytes of the longest key that is written on the line of its value.
const SIMPLE_KEY_BYTES_MAX: usize = 128;

#[derive(Clone, Copy, PartialEq, Eq)]
enum ParentNode {
    Document,
    Sequence,
    Mapping,
}

/// The emitter of one document.
pub(super) struct Emitter {
    profile: GoYamlVersion,
    number: fn(f64) -> String,
    out: String,
    column: usize,
    /// True if the last output was white space, or counts as such.
    is_after_space: bool,
    /// True if the line so far contains only white space and indicators such as `- `.
    is_in_indentation: bool,
}

impl Emitter {
    pub(super) fn new(profile: GoYamlVersion, number: fn(f64) -> String) -> Self {
        Self {
            profile,
            number,
            out: String::new(),
            column: 0,
            is_after_space: true,
            is_in_indentation: true,
        }
    }

    /// Writes one document.
    pub(super) fn document(mut self, value: &Value) -> String {
        self.node(value, None, ParentNode::Document);
        self.break_to(0);
        self.out
    }

    fn node(&mut self, value: &Value, indent: Option<usize>, parent: ParentNode) {
        match value {
            Value::Null => self.plain_word("null"),
            Value::Bool(true) => self.plain_word("true"),
            Value::Bool(false) => self.plain_word("false"),
            Value::Number(value) => self.plain_word(&(self.number)(value.as_f64().unwrap_or_default())),
            Value::String(text) => {
                let indent = self.nested_indent(indent, parent).unwrap_or(self.step());
                self.scalar(text, indent, ScalarPosition::Block);
            }
            Value::Array(items) if items.is_empty() => self.plain_word("[]"),
            Value::Array(items) => self.sequence(items, indent, parent),
            Value::Object(members) if members.is_empty() => self.plain_word("{}"),
            Value::Object(members) => self.mapping(members, indent, parent),
        }
    }

    fn sequence(&mut self, items: &[Value], indent: Option<usize>, parent: ParentNode) {
        // v2 writes a list below a key in the column of the key.
        let is_level =
            self.profile == GoYamlVersion::V2 && parent == ParentNode::Mapping && !self.is_in_indentation;
        let inner = match indent {
            Some(indent) if is_level => indent,
            outer => self.nested_indent(outer, parent).unwrap_or(0),
        };
        for item in items {
            self.break_to(inner);
            self.block_indicator('-');
            self.node(item, Some(inner), ParentNode::Sequence);
        }
    }

    fn mapping(&mut self, members: &Map<String, Value>, indent: Option<usize>, parent: ParentNode) {
        let inner = self.nested_indent(indent, parent).unwrap_or(0);
        for (key, member) in key::sorted(self.profile, members.iter()) {
            self.break_to(inner);
            let is_simple =
                key.len() <= SIMPLE_KEY_BYTES_MAX && !AllowedStyles::for_text(self.profile, key).is_multiline;
            if is_simple {
                self.scalar(key, inner, ScalarPosition::SimpleKey);
                self.indicator(":");
            } else {
                self.block_indicator('?');
                let below = self.nested_indent(Some(inner), ParentNode::Mapping).unwrap_or(0);
                self.scalar(key, below, ScalarPosition::Block);
                self.break_to(inner);
                self.block_indicator(':');
            }
            self.node(member, Some(inner), ParentNode::Mapping);
        }
    }

    /// Returns the indentation inside a node; `None` in the first node of a document.
    fn nested_indent(&self, indent: Option<usize>, parent: ParentNode) -> Option<usize> {
        let indent = indent?;
        let step = self.step();
        Some(match (self.profile, parent) {
            (GoYamlVersion::V2, _) => indent + step,
            (GoYamlVersion::V3, ParentNode::Sequence) => indent + 2,
            (GoYamlVersion::V3, ParentNode::Document | ParentNode::Mapping) => (indent + step) / step * step,
        })
    }

    fn step(&self) -> usize {
        match self.profile {
            GoYamlVersion::V2 => 2,
            GoYamlVersion::V3 => 4,
        }
    }

    fn scalar(&mut self, text: &str, indent: usize, position: ScalarPosition) {
        let shape = AllowedStyles::for_text(self.profile, text);
        match style(self.profile, text, shape, position) {
            ScalarStyle::Plain => self.plain(text, indent, position),
            ScalarStyle::SingleQuoted => self.single_quoted(text, indent, position),
            ScalarStyle::DoubleQuoted => self.double_quoted(text, indent, position),
            ScalarStyle::Literal => self.literal(text, indent),
        }
    }

    /// Returns true if long scalars at a position are folded.
    fn folds(&self, position: ScalarPosition) -> bool {
        self.profile == GoYamlVersion::V2 && position == ScalarPosition::Block
    }

    fn plain_word(&mut self, word: &str) {
        self.space_if_due();
        self.word(word);
    }

    fn word(&mut self, word: &str) {
        self.put_all(word);
        self.is_after_space = false;
        self.is_in_indentation = false;
    }

    fn plain(&mut self, text: &str, indent: usize, position: ScalarPosition) {
        self.space_if_due();
        if !text.contains(' ') {
            return self.word(text);
        }
        let mut after_space = false;
        for (character, next) in with_next(text) {
            if character == ' ' {
                let is_fold = self.folds(position) && !after_space && self.is_wide() && next != Some(' ');
                match is_fold {
                    true => self.break_to(indent),
                    false => self.put(' '),
                }
                after_space = true;
            } else {
                self.put(character);
                self.is_in_indentation = false;
                after_space = false;
            }
        }
        self.is_after_space = false;
        self.is_in_indentation = false;
    }

    fn single_quoted(&mut self, text: &str, indent: usize, position: ScalarPosition) {
        self.space_if_due();
        self.put('\'');
        self.is_in_indentation = false;
        let (mut after_space, mut after_break, mut is_first) = (false, false, true);
        for (character, next) in with_next(text) {
            if character == ' ' {
                let is_inner = !is_first && next.is_some_and(|next| next != ' ');
                match self.folds(position) && !after_space && self.is_wide() && is_inner {
                    true => self.break_to(indent),
                    false => self.put(' '),
                }
                after_space = true;
            } else if is_break(character) {
                self.line_break(character);
                after_break = true;
            } else {
                if after_break {
                    self.break_to(indent);
                }
                if character == '\'' {
                    self.put('\'');
                }
                self.put(character);
                self.is_in_indentation = false;
                (after_space, after_break) = (false, false);
            }
            is_first = false;
        }
        self.indicator("'");
        self.is_after_space = false;
        self.is_in_indentation = false;
    }

    fn double_quoted(&mut self, text: &str, indent: usize, position: ScalarPosition) {
        self.space_if_due();
        self.put('"');
        // For every character, both emitters check for a byte order mark at the start of the text. If the text starts
        // with one, they escape every character.
        let all_escaped = text.starts_with('\u{feff}');
        let (mut after_space, mut is_first) = (false, true);
        for (character, next) in with_next(text) {
            let is_escaped = all_escaped
                || !is_printable(character)
                || is_break(character)
                || matches!(character, '"' | '\\');
            if is_escaped {
                self.put_all(&escaped(character));
                after_space = false;
            } else if character == ' ' {
                let is_fold =
                    self.folds(position) && !after_space && self.is_wide() && !is_first && next.is_some();
                match is_fold {
                    true => self.break_to(indent),
                    false => self.put(' '),
                }
                if is_fold && next == Some(' ') {
                    self.put('\\');
                }
                after_space = true;
            } else {
                self.put(character);
                after_space = false;
            }
            is_first = false;
        }
        self.put('"');
        self.is_after_space = false;
        self.is_in_indentation = false;
    }

    fn literal(&mut self, text: &str, indent: usize) {
        self.space_if_due();
        self.put('|');
        if text.starts_with([' ', '\n', '\u{2028}', '\u{2029}']) {
            self.put_all(&self.step().to_string());
        }
        let mut from_end = text.chars().rev();
        match (from_end.next().map(is_break), from_end.next().map(is_break)) {
            (Some(true), None | Some(true)) => self.put('+'),
            (Some(true), Some(false)) => {}
            (Some(false) | None, _) => self.put('-'),
        }
        self.is_in_indentation = false;
        self.is_after_space = true;
        // v3 leaves this line break to the first line, and so loses it if the text starts with a line break.
        if self.profile == GoYamlVersion::V2 {
            self.line_break('\n');
        }
        let mut after_break = true;
        for character in text.chars() {
            if is_break(character) {
                self.line_break(character);
                after_break = true;
                continue;
            }
            if after_break {
                self.break_to(indent);
            }
            self.put(character);
            self.is_in_indentation = false;
            after_break = false;
        }
    }

    /// Ends the line unless it contains only indentation, and moves to the column of `indent`.
    fn break_to(&mut self, indent: usize) {
        let is_used = !self.is_in_indentation
            || self.column > indent
            || (self.column == indent && !self.is_after_space);
        if is_used {
            self.line_break('\n');
        }
        while self.column < indent {
            self.put(' ');
        }
        self.is_after_space = true;
        self.is_in_indentation = true;
    }

    /// Writes `- `, `? ` or `: ` at the start of a line.
    fn block_indicator(&mut self, indicator: char) {
        self.space_if_due();
        self.put(indicator);
        self.is_after_space = false;
    }

    fn indicator(&mut self, indicator: &str) {
        self.put_all(indicator);
        self.is_after_space = false;
        self.is_in_indentation = false;
    }

    fn space_if_due(&mut self) {
        if !self.is_after_space {
            self.put(' ');
        }
    }

    fn line_break(&mut self, character: char) {
        self.out.push(character);
        self.column = 0;
        self.is_in_indentation = true;
    }

    fn put(&mut self, character: char) {
        self.out.push(character);
        self.column += 1;
    }

    fn put_all(&mut self, text: &str) {
        self.out.push_str(text);
        self.column += text.chars().count();
    }

    fn is_wide(&self) -> bool {
        self.column > WIDTH_COLUMNS
    }
}

fn with_next(text: &str) -> impl Iterator<Item = (char, Option<char>)> {
    text.chars()
        .zip(text.chars().skip(1).map(Some).chain(std::iter::once(None)))
}

fn escaped(character: char) -> String {
    let short = match character {
        '\0' => '0',
        '\u{7}' => 'a',
        '\u{8}' => 'b',
        '\t' => 't',
        '\n' => 'n',
        '\u{b}' => 'v',
        '\u{c}' => 'f',
        '\r' => 'r',
        '\u{1b}' => 'e',
        '"' => '"',
        '\\' => '\\',
        '\u{85}' => 'N',
        '\u{a0}' => '_',
        '\u{2028}' => 'L',
        '\u{2029}' => 'P',
        _ => {
            let code = u32::from(character);
            return match code {
                0..=0xff => format!("\\x{code:02X}"),
                0x100..=0xffff => format!("\\u{code:04X}"),
                _ => format!("\\U{code:08X}"),
            };
        }
    };
    format!("\\{short}")
}
