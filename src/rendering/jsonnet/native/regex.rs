//! The functions `regexMatch`, `regexSubst` and `escapeStringRegex`, with the syntax of Go's package. Like Go's, the
//! crate's matching is linear in the text. Patterns are translated because the syntax differs: in Go, Perl classes are
//! ASCII, brackets in a class are literal, and `\Q` quotes.

use super::NativeError;
use regex::{Regex, RegexBuilder};

/// Bytes of memory of one compiled pattern.
const PATTERN_BYTES_MAX: usize = 2 << 20;

/// Returns true if the text contains a match.
pub(super) fn is_match(pattern: &str, text: &str) -> Result<bool, NativeError> {
    Ok(compile("regexMatch", pattern)?.is_match(text))
}

/// Returns the text with every match replaced; `$1` and `${name}` refer to groups.
pub(super) fn replace(pattern: &str, text: &str, replacement: &str) -> Result<String, NativeError> {
    Ok(compile("regexSubst", pattern)?
        .replace_all(text, replacement)
        .into_owned())
}

/// Returns a pattern that matches exactly this text.
pub(super) fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        if r"\.+*?()|[]{}^$".contains(character) {
            out.push('\\');
        }
        out.push(character);
    }
    out
}

fn compile(function: &str, pattern: &str) -> Result<Regex, NativeError> {
    let wrong =
        |why: &str| NativeError::message(format!("{function}: error parsing regexp: {why}: `{pattern}`"));
    let translated = translate(pattern).map_err(wrong)?;
    RegexBuilder::new(&translated)
        .size_limit(PATTERN_BYTES_MAX)
        .octal(true)
        .build()
        .map_err(|error| match error {
            regex::Error::CompiledTooBig(_) => wrong("expression too large"),
            _ => wrong("invalid syntax"),
        })
}

/// Returns a pattern in the syntax of the `regex` crate.
fn translate(pattern: &str) -> Result<String, &'static str> {
    let mut out = String::with_capacity(pattern.len());
    let mut rest = pattern;
    let mut repeats = false;
    while let Some(next) = rest.chars().next() {
        let after = rest.get(next.len_utf8()..).unwrap_or_default();
        let repetition = matches!(next, '*' | '+' | '?') || (next == '{' && is_repetition(after));
        if repetition {
            // The crate accepts a repeated repetition; Go treats it as an error.
            if repeats {
                return Err("invalid nested repetition operator");
            }
            rest = copy_repetition(rest, &mut out);
            repeats = true;
            continue;
        }
        repeats = false;
        rest = match next {
            '\\' => escape(after, &mut out)?,
            '[' => class(after, &mut out)?,
            '(' => group(after, &mut out)?,
            '{' => {
                out.push_str(r"\{");
                after
            }
            _ => {
                out.push(next);
                after
            }
        };
    }
    Ok(out)
}

/// Copies one repetition with its lazy `?`, if present.
fn copy_repetition<'a>(rest: &'a str, out: &mut String) -> &'a str {
    let operator = match rest.split_once('}') {
        Some((inside, _)) if rest.starts_with('{') => inside.len() + 1,
        _ => 1,
    };
    let lazy = rest.get(operator..).is_some_and(|after| after.starts_with('?'));
    let (copied, after) = rest
        .split_at_checked(operator + usize::from(lazy))
        .unwrap_or((rest, ""));
    out.push_str(copied);
    after
}

/// Translates an escape outside of a class, and returns the rest.
fn escape<'a>(rest: &'a str, out: &mut String) -> Result<&'a str, &'static str> {
    let next = rest
        .chars()
        .next()
        .ok_or("trailing backslash at end of expression")?;
    let after = rest.get(next.len_utf8()..).unwrap_or_default();
    match next {
        'Q' => {
            let (quoted, after) = after.split_once(r"\E").unwrap_or((after, ""));
            out.push_str(&regex::escape(quoted));
            return Ok(after);
        }
        'b' if after.starts_with('{') => return Err("invalid escape sequence"),
        'b' => out.push_str(r"(?-u:\b)"),
        'B' => out.push_str(r"(?-u:\B)"),
        '<' | '>' => out.push(next),
        // A character by its number, or a class by its name: the braces belong to the escape.
        'x' | 'p' | 'P' if after.starts_with('{') => {
            let (inside, after) = after.split_once('}').ok_or("invalid escape sequence")?;
            out.push_str(&format!("\\{next}{inside}}}"));
            return Ok(after);
        }
        _ => match ascii_class(next) {
            Some((inside, true)) => out.push_str(&format!("[{inside}]")),
            Some((inside, false)) => out.push_str(&format!("[^{inside}]")),
            None => {
                out.push('\\');
                out.push(next);
            }
        },
    }
    Ok(after)
}

/// Returns the members of a Perl class, and false if the class is negated.
fn ascii_class(letter: char) -> Option<(&'static str, bool)> {
    Some(match letter {
        'd' => ("0-9", true),
        'D' => ("0-9", false),
        'w' => ("0-9A-Za-z_", true),
        'W' => ("0-9A-Za-z_", false),
        's' => (r"\t\n\f\r ", true),
        'S' => (r"\t\n\f\r ", false),
        _ => return None,
    })
}

/// Translates a class after its opening bracket.
fn class<'a>(rest: &'a str, out: &mut String) -> Result<&'a str, &'static str> {
    out.push('[');
    let mut rest = rest;
    if let Some(after) = rest.strip_prefix('^') {
        out.push('^');
        rest = after;
    }
    let mut first = true;
    while let Some(next) = rest.chars().next() {
        let after = rest.get(next.len_utf8()..).unwrap_or_default();
        match next {
            ']' if !first => {
                out.push(']');
                return Ok(after);
            }
            '[' if after.starts_with(':') && after.contains(":]") => {
                let (name, after) = rest.split_once(":]").unwrap_or((rest, ""));
                out.push_str(name);
                out.push_str(":]");
                rest = after;
                first = false;
                continue;
            }
            '\\' => {
                let escaped = after.chars().next().ok_or("missing closing ]")?;
                match ascii_class(escaped) {
                    Some((inside, true)) => out.push_str(&format!("[{inside}]")),
                    Some((inside, false)) => out.push_str(&format!("[^{inside}]")),
                    None => {
                        out.push('\\');
                        out.push(escaped);
                    }
                }
                rest = after.get(escaped.len_utf8()..).unwrap_or_default();
                first = false;
                continue;
            }
            // In the crate's classes these characters open a class or combine two.
            '[' | ']' | '&' | '~' => {
                out.push('\\');
                out.push(next);
            }
            '-' if after.starts_with('-') => out.push_str(r"\-"),
            _ => out.push(next),
        }
        rest = after;
        first = false;
    }
    Err("missing closing ]")
}

/// Translates a group after its opening parenthesis. Flags that Go does not support are refused.
fn group<'a>(rest: &'a str, out: &mut String) -> Result<&'a str, &'static str> {
    out.push('(');
    let Some(inside) = rest.strip_prefix('?') else {
        return Ok(rest);
    };
    if inside.starts_with("P<") || inside.starts_with('<') {
        return Ok(rest);
    }
    let flags: String = inside
        .chars()
        .take_while(|next| !matches!(next, ':' | ')'))
        .collect();
    match flags.chars().all(|flag| "imsU-".contains(flag)) {
        true => Ok(rest),
        false => Err("invalid or unsupported Perl syntax"),
    }
}

/// Returns true if a brace opens a repetition: `2}`, `2,}` or `2,3}`.
fn is_repetition(after: &str) -> bool {
    let Some((inside, _)) = after.split_once('}') else {
        return false;
    };
    let (low, high) = inside.split_once(',').unwrap_or((inside, "0"));
    let digits = |text: &str| text.chars().all(|next| next.is_ascii_digit());
    !low.is_empty() && digits(low) && digits(high)
}

#[cfg(test)]
mod tests {
    use super::{is_match, quote, replace};

    #[test]
    fn patterns_mean_what_go_means() {
        for (pattern, text, expected) in [
            ("a.c", "xabcx", true),
            ("^abc$", "abcd", false),
            (r"^\d+$", "123", true),
            (r"^\d+$", "१२३", false),
            (r"^\w+$", "ü", false),
            (r"^\W$", "ü", true),
            (r"^[\w-]+$", "a-b_1", true),
            (r"^[^\d]$", "१", true),
            (r"\bfoo\b", "a foo b", true),
            (r"\bfoo\b", "üfooü", true),
            (r"\Bo", "foo", true),
            (r"^\s$", "\u{b}", false),
            (r"^\s$", "\t", true),
            (r"\Qa.b\E.", "a.bc", true),
            (r"\Qa.b\E.", "axbc", false),
            (r"\Qa.b", "a.b", true),
            ("^[a[b]$", "[", true),
            ("^[]a]$", "]", true),
            ("^[^]a]$", "b", true),
            ("^[a&&b]$", "&", true),
            ("^[[:alpha:]]$", "a", true),
            ("^[[:^alpha:]]$", "a", false),
            ("^a{,2}$", "a{,2}", true),
            ("^a{2}$", "aa", true),
            ("^a{1,}$", "aaa", true),
            ("^{$", "{", true),
            ("(?i)ABC", "abc", true),
            ("(?s)a.b", "a\nb", true),
            ("a.b", "a\nb", false),
            (r"^\pL$", "ü", true),
            (r"^\x{1F600}$", "😀", true),
            ("", "", true),
        ] {
            assert_eq!(is_match(pattern, text), Ok(expected), "{pattern} {text}");
        }
    }

    #[test]
    fn patterns_go_does_not_know_are_errors() {
        for pattern in [
            "(", "[", "a**", "(?x)a", "(?u)a", "(?=a)", r"\", r"[\", "a{2,1}", "(?R)a", "*",
        ] {
            assert!(is_match(pattern, "a").is_err(), "{pattern}");
        }
    }

    #[test]
    fn groups_are_named_as_in_go() {
        for (pattern, text, replacement, expected) in [
            ("a(x*)b", "-ab-axxb-", "T", "-T-T-"),
            ("a(x*)b", "-ab-axxb-", "$1", "--xx-"),
            ("a(x*)b", "-ab-axxb-", "$1W", "---"),
            ("a(x*)b", "-ab-axxb-", "${1}W", "-W-xxW-"),
            ("a(?P<n>x*)b", "axb", "[$n]", "[x]"),
            ("a", "a", "$$", "$"),
            ("a", "banana", "", "bnn"),
        ] {
            assert_eq!(replace(pattern, text, replacement).as_deref(), Ok(expected));
        }
    }

    #[test]
    fn quoted_text_matches_itself() {
        assert_eq!(quote("a.b*c-d/e#"), r"a\.b\*c-d/e#");
        for text in [r"\.+*?()|[]{}^$", "ü-&&#~ x", r"\Qa\E"] {
            assert_eq!(is_match(&format!("^{}$", quote(text)), text), Ok(true), "{text}");
        }
    }

    /// T48
    #[test]
    fn no_pattern_takes_long() {
        let text = "a".repeat(50_000);
        assert_eq!(is_match("(a*)*b", &text), Ok(false));
        assert!(is_match("((a{1000}){1000}){1000}", "a").is_err());
    }
}
