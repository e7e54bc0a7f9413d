//! Text in Discord's Markdown. Discord has no entities beside the text, so every character of others that could format,
//! mention or link is escaped. See <https://docs.discord.com/developers/reference#message-formatting>.

use crate::interfaces::channel::markdown::{Inline, SpanStyle};
use crate::interfaces::channel::visible::{escape_code, escape_line, escape_text};

/// The characters that always have a meaning.
const SPECIAL: &str = "\\*_~|`><#[]()@&";
/// The character in place of a backtick in code that would end the code.
const OTHER_BACKTICK: char = 'ˋ';

/// Returns the source of a text that Discord shows as it is, in one or more lines.
pub(super) fn escaped(text: &str) -> String {
    let text = escape_text(text);
    let mut out = String::with_capacity(text.len() + text.len() / 8);
    // The characters of the line and of the word so far.
    let (mut line, mut word_has_dot) = (Line::Start, false);
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        let next = characters.peek().copied();
        let is_special = match character {
            '\n' => {
                (line, word_has_dot) = (Line::Start, false);
                out.push('\n');
                continue;
            }
            // Lists and small text at the beginning of a line.
            '-' | '+' => line == Line::Start,
            '.' => line == Line::Number,
            // Addresses and names of emoji.
            ':' => next.is_none_or(|next| !next.is_whitespace()),
            // Invites, which Discord finds without a scheme.
            '/' => word_has_dot,
            _ => SPECIAL.contains(character),
        };
        if is_special {
            out.push('\\');
        }
        out.push(character);
        word_has_dot = match character {
            '.' => true,
            _ => word_has_dot && !character.is_whitespace(),
        };
        line = match (line, character) {
            (Line::Start, ' ' | '\t') => Line::Start,
            (Line::Start | Line::Number, '0'..='9') => Line::Number,
            _ => Line::Middle,
        };
    }
    out
}

/// The beginning of a line, which may be that of a list.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Line {
    Start,
    Number,
    Middle,
}

/// Returns code within a line. A backtick in it is replaced, because Discord has no escape for it.
pub(super) fn inline_code(text: &str) -> String {
    let text = escape_line(text).replace('`', &OTHER_BACKTICK.to_string());
    match text.trim().is_empty() {
        true => text,
        false => format!("`{text}`"),
    }
}

/// Returns a block of code. Three backticks in it would end it, so they are replaced.
pub(super) fn code_block(language: &str, text: &str) -> String {
    let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '+' | '#');
    let language: String = language.chars().take_while(|c| is_word(*c)).take(32).collect();
    let shown = escape_code(text.trim_end_matches('\n'));
    let mut shown = shown.replace("```", &OTHER_BACKTICK.to_string().repeat(3));
    if shown.ends_with('`') {
        shown.pop();
        shown.push(OTHER_BACKTICK);
    }
    if shown.trim().is_empty() {
        "(empty)".clone_into(&mut shown);
    }
    format!("```{language}\n{shown}\n```")
}

/// Returns inline content, with `style` for all of it.
pub(super) fn inlines(inlines: &[Inline], style: SpanStyle) -> String {
    inlines.iter().map(|inline| one(inline, style)).collect()
}

fn one(inline: &Inline, look: SpanStyle) -> String {
    match inline {
        Inline::Code { text, .. } => inline_code(text),
        // Without the brackets, Discord would fetch the page.
        Inline::Link { label, url, .. } => format!("[{}](<{url}>)", escaped(&escape_line(label))),
        Inline::Text { text, style } => {
            let style = SpanStyle {
                bold: style.bold || look.bold,
                italic: style.italic || look.italic,
                strike: style.strike || look.strike,
            };
            let lines = text.split('\n').map(|line| styled(line, style));
            lines.collect::<Vec<_>>().join("\n")
        }
    }
}

/// Returns a line with its style. Marks beside spaces would be shown, so they are around the words only.
fn styled(line: &str, style: SpanStyle) -> String {
    let words = line.trim();
    let is_plain = !(style.bold || style.italic || style.strike);
    if words.is_empty() || is_plain {
        return escaped(line);
    }
    let (before, after) = line.split_once(words).unwrap_or(("", ""));
    let marks = [(style.bold, "**"), (style.italic, "*"), (style.strike, "~~")];
    let marks: Vec<&str> = marks
        .into_iter()
        .filter(|(is_set, _)| *is_set)
        .map(|(_, mark)| mark)
        .collect();
    let open = marks.concat();
    let close: String = marks.iter().rev().copied().collect();
    format!("{before}{open}{}{close}{after}", escaped(words))
}
