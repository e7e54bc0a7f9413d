//! Distinguishes an expression of a program from a literal value: an expression consists of operands and operators,
//! and contains at least one element that occurs only in programs.

use super::classifier;
use regex::Regex;
use std::borrow::Cow;
use std::sync::LazyLock;

/// Keywords between operands or before one.
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
/// Keywords that are operands and not possible as passwords.
const LITERALS: [&str; 5] = ["null", "true", "false", "self", "super"];
/// Keywords after an operand.
const SUFFIXES: [&str; 1] = ["tailstrict"];
/// Characters of operators and separators between operands. Backslash and hash are not included.
const OPERATORS: &str = "+-*/%=!<>&|?^~:,;.@";
/// Names of algorithms, whose digits do not indicate a random value.
const ALGORITHMS: [&str; 9] = [
    "base64", "base32", "sha256", "sha512", "sha1", "md5", "utf8", "oauth2", "k8s",
];

/// The kind of line that contains a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineKind {
    /// A line of YAML, Jsonnet or another program.
    Program,
    /// A line `NAME=value`. The rest of the line is the value, and only a shell evaluates it.
    Environment,
}

/// The evidence that an operand is code rather than words.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Sign {
    /// A name or a number, which also occurs in prose.
    None,
    /// `config.password` or `get(name)`, which a shell does not have.
    Program,
    /// `$.password`, `'text'` or `$HOME`.
    Any,
}

struct Expressions {
    /// Prefixes that occur only in programs or templates.
    begin: Regex,
    /// An object: a brace followed by a field or nothing.
    object: Regex,
    /// A name with a path, a shell variable, or a number.
    operand: Regex,
    /// A quoted string.
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

/// True for an expression of a program.
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

/// Returns the strongest evidence in an expression, or `None` if the value is no expression. An expression that
/// continues on the next line, or began on an earlier one, has unmatched brackets.
fn sign(value: &str) -> Option<Sign> {
    let (mut rest, mut strongest) = (value, Sign::None);
    // For each open bracket: its closing bracket, and whether it belongs to a call.
    let mut open: Vec<(char, bool)> = Vec::new();
    // Whether the last token was an operand, whether a bracket after it would belong to it, and whether there was a
    // call.
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

/// Returns the evidence of one operand, or `None` if it is random and therefore not a name.
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

/// True for a random text, without regard to names of algorithms in it.
pub(super) fn is_random(text: &str) -> bool {
    let mut text = Cow::Borrowed(text);
    for name in ALGORITHMS {
        if memchr::memmem::find(text.as_bytes(), name.as_bytes()).is_some() {
            text = Cow::Owned(text.replace(name, ""));
        }
    }
    text.len() >= super::live::VALUE_BYTES_MIN && classifier::is_random(&text)
}
