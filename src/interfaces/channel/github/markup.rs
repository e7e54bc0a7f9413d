//! Text in the Markdown of GitHub. Every character of others that could format, mention, refer or link is escaped. Mentions,
//! references and addresses for mail are found after the Markdown is read, so a character without a width divides them. See
//! <https://github.github.com/gfm/> and
//! <https://docs.github.com/en/get-started/writing-on-github/working-with-advanced-formatting/autolinked-references-and-urls>.

use crate::interfaces::channel::markdown::{Inline, LinePlace, MarkdownDialect, SpanStyle};
use crate::interfaces::channel::visible::{escape_code, escape_line, escape_text};

/// The characters that always have a meaning.
const SPECIAL: &str = "\\`*_~|<>[]()!&$";
/// The characters that have a meaning at the beginning of a line. Other programs read a slash there as a command.
const SPECIAL_AT_START: &str = "#=+-/:";
/// The character without a width.
const DIVIDER: char = '\u{200b}';
/// The languages of code that GitHub shows as something else than code.
const SHOWN_OTHERWISE: [&str; 6] = ["geojson", "math", "mermaid", "stl", "suggestion", "topojson"];

const DIALECT: MarkdownDialect = MarkdownDialect { escaped, inline_code };

/// Returns the source of a text that GitHub shows as it is, in one or more lines.
pub(super) fn escaped(text: &str) -> String {
    let text = escape_text(text);
    let mut out = String::with_capacity(text.len() + text.len() / 8);
    let mut place = LinePlace::Start;
    // The last three characters, the newest at the end.
    let mut before = ['\n'; 3];
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        let next = characters.peek().copied();
        let is_special = SPECIAL.contains(character)
            || place == LinePlace::Start && SPECIAL_AT_START.contains(character)
            || character == '.' && (place == LinePlace::Number || is_address_start(before));
        if is_special {
            out.push('\\');
        }
        out.push(character);
        if is_divided(before, character, next) || character == '@' && is_mail_domain(characters.clone()) {
            out.push(DIVIDER);
        }
        place = place.after(character);
        before = [before[1], before[2], character];
    }
    out
}

/// Returns true after `www`, which begins an address without a scheme.
fn is_address_start(before: [char; 3]) -> bool {
    before.iter().all(|char| char.eq_ignore_ascii_case(&'w'))
}

/// Returns true between the sign and the name of a mention, and between the sign and the number of a reference.
fn is_divided(before: [char; 3], character: char, next: Option<char>) -> bool {
    // The text may go on after its end, in another style.
    let is_number = next.is_none_or(|next| next.is_ascii_digit());
    match character {
        '@' => {
            let is_inside = before[2].is_alphanumeric() || before[2] == '_';
            !is_inside && next.is_none_or(|next| next.is_ascii_alphanumeric())
        }
        '#' => is_number,
        '-' => {
            let is_name = before[1].eq_ignore_ascii_case(&'g') && before[2].eq_ignore_ascii_case(&'h');
            is_name && is_number
        }
        _ => false,
    }
}

/// Returns true for a domain with a dot, which GitHub links with the words before its sign as an address for mail.
fn is_mail_domain(rest: impl Iterator<Item = char>) -> bool {
    let mut rest = rest.skip_while(|char| char.is_ascii_alphanumeric() || matches!(char, '-' | '_'));
    rest.next() == Some('.') && rest.next().is_some_and(|char| char.is_ascii_alphanumeric())
}

/// Returns code within a line. Its marks are longer than any backticks in it.
pub(super) fn inline_code(text: &str) -> String {
    let text = escape_line(text);
    if text.trim().is_empty() {
        return text;
    }
    let marks = "`".repeat(longest_backticks(&text) + 1);
    let pad = match text.starts_with(['`', ' ']) || text.ends_with(['`', ' ']) {
        true => " ",
        false => "",
    };
    format!("{marks}{pad}{text}{pad}{marks}")
}

/// Returns a block of code. Each line has a space at its beginning, which GitHub does not show, so no program reads a line as
/// a command.
pub(super) fn code_block(language: &str, text: &str) -> String {
    let is_word = |char: &char| char.is_ascii_alphanumeric() || matches!(char, '_' | '-' | '+');
    let language: String = language.chars().take_while(is_word).take(32).collect();
    let language = match SHOWN_OTHERWISE.contains(&language.to_ascii_lowercase().as_str()) {
        true => "",
        false => language.as_str(),
    };
    let text = escape_code(text.trim_end_matches('\n'));
    let fence = "`".repeat(3.max(longest_backticks(&text) + 1));
    let lines: String = text.lines().map(|line| format!(" {line}\n")).collect();
    format!(" {fence}{language}\n{lines} {fence}")
}

fn longest_backticks(text: &str) -> usize {
    let runs = text.split(|char| char != '`');
    runs.map(str::len).max().unwrap_or(0)
}

/// Returns inline content, with `style` for all of it. No line begins with spaces, which would make it code.
pub(super) fn inlines(inlines: &[Inline], style: SpanStyle) -> String {
    let mut source = String::new();
    for inline in inlines {
        let next = DIALECT.inline(inline, style);
        // The marks of two codes would be one longer mark.
        if source.ends_with('`') && next.starts_with('`') {
            source.push(DIVIDER);
        }
        source.push_str(&next);
    }
    let lines = source
        .split('\n')
        .map(|line| line.trim_start_matches([' ', '\t']));
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::{code_block, escaped, inline_code, inlines};
    use crate::interfaces::channel::markdown::{Inline, SpanStyle};

    #[test]
    fn words_stay_words() {
        for (text, source) in [
            ("plain words, 1.5 and a-b", "plain words, 1.5 and a-b"),
            ("@team and @alice", "@\u{200b}team and @\u{200b}alice"),
            ("web@sha256:1 a@b.example", "web@sha256:1 a@\u{200b}b.example"),
            ("a+b@c-d.example. a@b.", "a+b@\u{200b}c-d.example. a@b."),
            ("Duplicate of #12", "Duplicate of #\u{200b}12"),
            ("acme/web#7 GH-7", "acme/web#\u{200b}7 GH-\u{200b}7"),
            ("# title\n- item\n1. one", "\\# title\n\\- item\n1\\. one"),
            ("/lgtm\n /approve", "\\/lgtm\n \\/approve"),
            (
                "<b>x</b> &amp; <!-- x -->",
                "\\<b\\>x\\</b\\> \\&amp; \\<\\!-- x --\\>",
            ),
            (
                "![x](y) `z` *a* _b_ ~c~",
                "\\!\\[x\\]\\(y\\) \\`z\\` \\*a\\* \\_b\\_ \\~c\\~",
            ),
            ("see www.example.com", "see www\\.example.com"),
            ("a\n===", "a\n\\==="),
            ("a\n:-:", "a\n\\:-:"),
            ("$x$ | y", "\\$x\\$ \\| y"),
        ] {
            assert_eq!(escaped(text), source, "{text}");
        }
    }

    #[test]
    fn codes_beside_each_other_stay_apart() {
        let style = SpanStyle::default();
        let codes = ["a", "b`<img>"].map(|text| Inline::Code {
            text: text.to_owned(),
            style,
        });
        assert_eq!(inlines(&codes, style), "`a`\u{200b}``b`<img>``");
    }

    #[test]
    fn nothing_in_code_ends_it() {
        for (text, source) in [
            ("a", "`a`"),
            ("a `b` c", "``a `b` c``"),
            ("`", "`` ` ``"),
            ("```", "```` ``` ````"),
        ] {
            assert_eq!(inline_code(text), source);
        }
        assert_eq!(
            code_block("yaml", "a: 1\n/lgtm\n"),
            " ```yaml\n a: 1\n /lgtm\n ```"
        );
        assert_eq!(
            code_block("", "```\n@team\n```"),
            " ````\n ```\n @team\n ```\n ````"
        );
        for language in ["Mermaid", "suggestion", "math x"] {
            assert_eq!(code_block(language, "x"), " ```\n x\n ```");
        }
    }
}
