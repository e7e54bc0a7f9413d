//! Tells a value that a program computes from one that somebody wrote: operands with operators between them, at least
//! one of which only programs have.

use super::classifier;
use regex::Regex;
use std::sync::LazyLock;

/// Words that stand between operands, or before one.
const WORDS: [&str; 17] = [
    "if",
    "then",
    "else",
    "for",
    "in",
    "and",
    "or",
    "not",
    "local",
    "error",
    "assert",
    "import",
    "importstr",
    "importbin",
    "new",
    "await",
    "return",
];
/// Words that are operands, and that nobody passes with.
const LITERALS: [&str; 5] = ["null", "true", "false", "self", "super"];
/// Words behind an operand.
const SUFFIXES: [&str; 1] = ["tailstrict"];
/// Characters of operators, and of what stands between operands. A backslash or a hash is none.
const OPERATORS: &str = "+-*/%=!<>&|?^~:,;.@";
/// Names of algorithms, whose digits are none of a secret.
const ALGORITHMS: [&str; 9] = [
    "base64", "base32", "sha256", "sha512", "sha1", "md5", "utf8", "oauth2", "k8s",
];

/// The line a value stands on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineKind {
    /// Of YAML, Jsonnet or another program.
    Program,
    /// `NAME=value`: all of the line is the value, and only a shell computes one.
    Environment,
}

/// A sign by which an operand tells code from words.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Sign {
    /// A name or a number, which people write as well.
    None,
    /// `config.password`, `get(name)`: no shell has it.
    Program,
    /// `$.password`, `'text'`, `$HOME`.
    Any,
}

struct Expressions {
    /// Texts that nothing but a program or a template begins with.
    begin: Regex,
    /// An object: a brace, then a field or nothing.
    object: Regex,
    /// A name, with those it is reached by; a variable of a shell; a number.
    operand: Regex,
    /// A text in quotes.
    quoted: Regex,
}

static EXPRESSIONS: LazyLock<Expressions> = LazyLock::new(|| Expressions {
    begin: compiled(r"\A(?:(?:function|func)[ \t]*\(|local [A-Za-z_]\w*[ \t]*=|\{%|if .*\bthen\b)"),
    object: compiled(
        r#"\A\{[ \t]*(?:\}|\z|(?:"[^"]*"|'[^']*'|[\w.$/-]+|\[[^\]]*\])[ \t]*\+?(?::{1,3}|=)(?:[ \t]|\z))"#,
    ),
    operand: compiled(
        r"\A(?:\$(?:[A-Z_][A-Z0-9_]*|[0-9@?*#]|(?:\.[A-Za-z_]\w*)*)|[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*|[0-9]+(?:\.[0-9]+)?)",
    ),
    quoted: compiled(r#"\A(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`)"#),
});

#[expect(
    clippy::expect_used,
    reason = "the expressions are constants, and a test compiles them"
)]
fn compiled(expression: &str) -> Regex {
    Regex::new(expression).expect("an expression compiles")
}

/// True for what a program computes.
pub(super) fn is_code(line: LineKind, value: &str) -> bool {
    if line == LineKind::Program && (EXPRESSIONS.begin.is_match(value) || EXPRESSIONS.object.is_match(value))
    {
        return true;
    }
    let least = match line {
        LineKind::Program => Sign::Program,
        LineKind::Environment => Sign::Any,
    };
    sign(value).is_some_and(|sign| sign >= least)
}

/// The strongest sign of an expression, or nothing for what is none. One that goes on in the next line, or that began
/// in one before, has brackets of which the other is missing.
fn sign(value: &str) -> Option<Sign> {
    let (mut rest, mut strongest) = (value, Sign::None);
    // Of each open bracket its other, and whether a name is called by it.
    let mut open: Vec<(char, bool)> = Vec::new();
    // What the last token was: an operand, and whether a bracket behind it belongs to it.
    let (mut is_operand, mut is_name, mut has_call) = (false, false, false);
    while let Some(char) = rest.chars().next() {
        if let Some(quoted) = EXPRESSIONS.quoted.find(rest) {
            if is_operand {
                return None;
            }
            (strongest, is_operand, is_name) = (Sign::Any, true, false);
            rest = rest.get(quoted.end()..)?;
        } else if let Some(operand) = EXPRESSIONS.operand.find(rest).map(|found| found.as_str()) {
            rest = rest.get(operand.len()..)?;
            if WORDS.contains(&operand) {
                is_operand = false;
                continue;
            }
            if is_operand && SUFFIXES.contains(&operand) {
                continue;
            }
            let is_joined = rest.starts_with(|next: char| next.is_alphanumeric() || "_$".contains(next));
            if is_operand || is_joined {
                return None;
            }
            strongest = strongest.max(sign_of(operand)?);
            (is_operand, is_name) = (true, true);
        } else {
            rest = rest.get(char.len_utf8()..)?;
            match char {
                '(' | '[' | '{' => {
                    let is_call = is_operand && is_name && char != '{';
                    let other = match char {
                        '(' => ')',
                        '[' => ']',
                        _ => '}',
                    };
                    open.push((other, is_call));
                    is_operand = false;
                }
                ')' | ']' | '}' => {
                    let is_call = match open.pop() {
                        Some((other, is_call)) if other == char => is_call,
                        Some(_) => return None,
                        None => false,
                    };
                    has_call |= is_call;
                    (is_operand, is_name) = (true, true);
                }
                ' ' | '\t' => is_name = false,
                _ if OPERATORS.contains(char) => (is_operand, is_name) = (false, false),
                _ => return None,
            }
        }
    }
    match has_call && !is_random(value) {
        true => Some(strongest.max(Sign::Program)),
        false => Some(strongest),
    }
}

/// The sign of one operand, or nothing for one that nobody named.
fn sign_of(operand: &str) -> Option<Sign> {
    let head = operand.split('.').next().unwrap_or_default();
    if operand.starts_with('$') || LITERALS.contains(&head) {
        return Some(Sign::Any);
    }
    let is_path = operand.contains('.') && !operand.starts_with(|char: char| char.is_ascii_digit());
    match is_random(operand) {
        true => None,
        false if is_path => Some(Sign::Program),
        false => Some(Sign::None),
    }
}

/// True for a text that nobody made up, but for the names of algorithms in it.
pub(super) fn is_random(text: &str) -> bool {
    let mut text = text.to_owned();
    for name in ALGORITHMS {
        text = text.replace(name, "");
    }
    text.len() >= super::live::VALUE_BYTES_MIN && classifier::is_random(&text)
}
