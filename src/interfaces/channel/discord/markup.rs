//! Text in Discord's Markdown. Discord has no entities beside the text, so every character of others that could format,
//! mention or link is escaped. See <https://docs.discord.com/developers/reference#message-formatting>.

use crate::interfaces::channel::markdown::{Inline, LinePlace, MarkdownDialect, SpanStyle};
use crate::interfaces::channel::visible::{escape_code, escape_line, escape_text};

/// The characters that always have a meaning.
const SPECIAL: &str = "\\*_~|`><#[]()@&";
/// The character in place of a backtick in code that would end the code.
const OTHER_BACKTICK: char = 'ˋ';

const DIALECT: MarkdownDialect = MarkdownDialect { escaped, inline_code };

/// Returns the source of a text that Discord shows as it is, in one or more lines.
pub(super) fn escaped(text: &str) -> String {
    let text = escape_text(text);
    let mut out = String::with_capacity(text.len() + text.len() / 8);
    // The characters of the line and of the word so far.
    let (mut place, mut word_has_dot) = (LinePlace::Start, false);
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        let next = characters.peek().copied();
        let is_special = match character {
            // Lists and small text at the beginning of a line.
            '-' | '+' => place == LinePlace::Start,
            '.' => place == LinePlace::Number,
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
        place = place.after(character);
    }
    out
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
    let sources = inlines.iter().map(|inline| DIALECT.inline(inline, style));
    sources.collect()
}
