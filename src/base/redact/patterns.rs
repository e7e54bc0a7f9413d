//! Patterns of secrets that are not configured. Each pattern requires an element that does not occur in ordinary
//! configuration, so that digests, image tags and long names stay readable.

use super::classifier;
use super::code::{LineKind, is_code};
use aho_corasick::{AhoCorasick, AhoCorasickKind};
use regex::Regex;
use std::ops::Range;
use std::sync::LazyLock;

/// A pattern for one kind of secret.
struct Pattern {
    /// Every match contains one of these texts, in any case. The expression is tried only if the text contains one
    /// of them, which makes clean text fast.
    anchors: &'static [&'static str],
    /// The expression. Its first group, or else the whole match, is the secret.
    expression: &'static str,
    /// An additional condition that the expression cannot state.
    accept: fn(text: &str, range: Range<usize>) -> bool,
    /// Characters that may end a secret or belong to it.
    may_end: &'static [char],
}

/// Characters that may end a value after a telling name.
const MAY_END: &[char] = &[':', '?', '(', ')', '|', '<', '>', '[', ']'];
/// Minimum length of such a value in bytes.
const VALUE_BYTES_MIN: usize = 12;

const PATTERNS: &[Pattern] = &[
    Pattern {
        anchors: &["akia", "asia"],
        expression: r"(?-u:\b)(?:AKIA|ASIA)[A-Z0-9]{16}(?-u:\b)",
        accept: always,
        may_end: &[],
    },
    Pattern {
        anchors: &["ghp_", "gho_", "ghs_", "ghu_", "ghr_", "github_pat_"],
        expression: r"(?:gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{22,})",
        accept: always,
        may_end: &[],
    },
    Pattern {
        anchors: &["glpat-"],
        expression: r"glpat-[A-Za-z0-9_-]{20,}",
        accept: always,
        may_end: &[],
    },
    // A token of this program for a person: `state/access/token.rs` makes it.
    Pattern {
        anchors: &["drydock_"],
        expression: r"drydock_[A-Za-z0-9_-]{43}",
        accept: has_digit_or_capital,
        may_end: &[],
    },
    Pattern {
        anchors: &["xox", "xapp-"],
        expression: r"(?:xox[abceoprs]|xapp)-[A-Za-z0-9.-]{10,}",
        accept: has_digit,
        may_end: &[],
    },
    Pattern {
        anchors: &["hooks.slack.com/"],
        expression: r"hooks\.slack\.com/(?:services|workflows|triggers)/([A-Za-z0-9/_-]{20,})",
        accept: always,
        may_end: &[],
    },
    Pattern {
        anchors: &["sk-"],
        expression: r"(?-u:\b)sk-(?:ant-|proj-|or-|svcacct-|admin-)[A-Za-z0-9_-]{16,}",
        accept: has_digit,
        may_end: &[],
    },
    Pattern {
        anchors: &["sk-"],
        expression: r"(?-u:\b)sk-[A-Za-z0-9_-]{20,}",
        accept: has_three_classes,
        may_end: &[],
    },
    Pattern {
        anchors: &["aiza"],
        expression: r"(?-u:\b)AIza[0-9A-Za-z_-]{35}",
        accept: always,
        may_end: &[],
    },
    Pattern {
        anchors: &["eyj"],
        expression: r"(?-u:\b)eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*",
        accept: always,
        may_end: &[],
    },
    Pattern {
        anchors: &["authorization"],
        expression: r#"(?i)authorization["']?\s*[:=,]?\s*["']?(?:bearer|basic|token)\s+([A-Za-z0-9._~+/=-]{8,})"#,
        accept: has_digit,
        may_end: &[],
    },
    Pattern {
        anchors: &["bearer "],
        expression: r"(?i)bearer +([A-Za-z0-9._~+/=-]{20,})",
        accept: has_digit,
        may_end: &[],
    },
    Pattern {
        anchors: &["client-key-data"],
        expression: r#"client-key-data["']?\s*:\s*["']?([A-Za-z0-9+/=]{20,})"#,
        accept: always,
        may_end: &[],
    },
    Pattern {
        anchors: &["://"],
        expression: r#"://[^/\s:@"']*:([^/\s:@"'${}<>⟦⟧]{8,})@"#,
        accept: has_digit,
        may_end: &[],
    },
    // `password: ...` and `DB_TOKEN=...`, in YAML, JSON, Jsonnet and shell.
    Pattern {
        anchors: &["password", "passwd", "secret", "token", "key"],
        expression: r#"(?i)(?:password|passwd|secret|token|api[_-]?key|access[_-]?key|secret[_-]?key|account[_-]?key)["'\]]{0,2}\s*(?::{1,3}|=)\s*["']?([A-Za-z0-9+/=_.~!@#$%^&*:?()|<>\[\]-]{12,})"#,
        accept: is_random_and_named,
        may_end: MAY_END,
    },
    // The same in an entry of a container's environment.
    Pattern {
        anchors: &["value"],
        expression: r#"(?i)name["']?:\s*["']?[a-z0-9_.-]*(?:password|passwd|secret|token|key)["']?,?\s+["']?value["']?:\s*["']?([A-Za-z0-9+/=_.~!@#$%^&*:?()|<>\[\]-]{12,})"#,
        accept: is_random_and_named,
        may_end: MAY_END,
    },
];

struct CompiledPatterns {
    anchors: AhoCorasick,
    /// The index of the pattern of each anchor.
    pattern_of: Vec<usize>,
    expressions: Vec<Regex>,
    key_begin: Regex,
    key_end: Regex,
    key_rest: Regex,
}

#[expect(
    clippy::expect_used,
    reason = "the expressions are constants, and a test compiles them"
)]
static COMPILED: LazyLock<CompiledPatterns> = LazyLock::new(|| {
    let anchors = PATTERNS.iter().flat_map(|pattern| pattern.anchors);
    let pattern_of = PATTERNS
        .iter()
        .enumerate()
        .flat_map(|(index, pattern)| pattern.anchors.iter().map(move |_| index));
    CompiledPatterns {
        anchors: AhoCorasick::builder()
            .ascii_case_insensitive(true)
            .kind(Some(AhoCorasickKind::DFA))
            .build(anchors)
            .expect("anchors compile"),
        pattern_of: pattern_of.collect(),
        expressions: PATTERNS
            .iter()
            .map(|pattern| Regex::new(pattern.expression).expect("a pattern compiles"))
            .collect(),
        key_begin: Regex::new(KEY_BEGIN).expect("a pattern compiles"),
        key_end: Regex::new(KEY_END).expect("a pattern compiles"),
        key_rest: Regex::new(KEY_REST).expect("a pattern compiles"),
    }
});

/// Reports everything that looks like a secret, in any order. For a value after a name, also reports the part up to
/// a character that may end it, because that part may occur on its own elsewhere.
pub(super) fn find(text: &str, mut found: impl FnMut(Range<usize>)) {
    find_telegram(text, &mut found);
    find_private_keys(text, &mut found);
    let tried = patterns_to_try(text);
    for ((pattern, expression), tried) in PATTERNS.iter().zip(&COMPILED.expressions).zip(tried) {
        if !tried {
            continue;
        }
        for captures in expression.captures_iter(text) {
            let Some(secret) = captures.get(1).or_else(|| captures.get(0)) else {
                continue;
            };
            let whole = without_foreign_brackets(secret.as_str(), pattern.may_end);
            let part = whole.find(pattern.may_end).filter(|end| *end >= VALUE_BYTES_MIN);
            for end in std::iter::once(whole.len()).chain(part) {
                let range = secret.start()..secret.start() + end;
                if (pattern.accept)(text, range.clone()) {
                    found(range);
                }
            }
        }
    }
}

/// Returns a value without the closing brackets at its end that were opened before it.
fn without_foreign_brackets<'t>(value: &'t str, may_end: &[char]) -> &'t str {
    let mut foreign = [('(', ')'), ('[', ']'), ('<', '>')].map(|(open, close)| {
        let count = |char| value.matches(char).count();
        (close, count(close).saturating_sub(count(open)))
    });
    let mut end = value.len();
    for (at, last) in value.char_indices().rev() {
        let of_it = foreign
            .iter_mut()
            .find(|(close, _)| *close == last && may_end.contains(&last));
        match of_it {
            Some((_, left)) if *left > 0 => (*left, end) = (*left - 1, at),
            _ => break,
        }
    }
    value.get(..end).unwrap_or_default()
}

fn patterns_to_try(text: &str) -> [bool; PATTERNS.len()] {
    let mut tried = [false; PATTERNS.len()];
    let mut left = PATTERNS.len();
    // Overlapping search, because `secret_key` must not hide `key`.
    for hit in COMPILED.anchors.find_overlapping_iter(text) {
        let index = COMPILED.pattern_of.get(hit.pattern().as_usize()).copied();
        if let Some(tried) = index.and_then(|index| tried.get_mut(index))
            && !*tried
        {
            *tried = true;
            left -= 1;
            if left == 0 {
                break;
            }
        }
    }
    tried
}

/// The first and the last line of a private key in PEM.
const KEY_BEGIN: &str = r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----";
const KEY_END: &str = r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----";
/// Possible rest of a truncated key: base64 with line breaks, escaped or not.
const KEY_REST: &str = r"\A(?:[A-Za-z0-9+/=\s]|\\[nrt])*";
/// Minimum size of a key in bytes. A shorter block is only a mention in a document.
const KEY_BYTES_MIN: usize = 80;

/// Reports private keys from their first to their last line. Without a last line the key was truncated, and
/// everything that may belong to it is reported. A single expression would search for the end again from every
/// beginning.
fn find_private_keys(text: &str, found: &mut impl FnMut(Range<usize>)) {
    let mut from = 0;
    let mut end_exists = true;
    while let Some(begin) = COMPILED.key_begin.find_at(text, from) {
        let end = if end_exists {
            COMPILED.key_end.find_at(text, begin.end())
        } else {
            None
        };
        end_exists = end.is_some();
        let rest = text.get(begin.end()..).unwrap_or_default();
        let to = match end {
            Some(end) => end.end(),
            None => begin.end() + COMPILED.key_rest.find(rest).map_or(0, |rest| rest.end()),
        };
        if to - begin.start() >= KEY_BYTES_MIN {
            found(begin.start()..to);
        }
        from = to;
    }
}

/// The beginning of every first line in PEM, and the maximum length of such a line in bytes.
const PEM_BEGIN: &str = "-----BEGIN";
const PEM_LINE_BYTES_MAX: usize = 90;

/// Returns the start of a private key, or of the first line of what may be one, that does not end in the text.
pub(super) fn unfinished_key(text: &str) -> Option<usize> {
    let mut from = 0;
    while let Some(begin) = COMPILED.key_begin.find_at(text, from) {
        match COMPILED.key_end.find_at(text, begin.end()) {
            Some(end) => from = end.end(),
            None => return Some(begin.start()),
        }
    }
    let begin = text.rfind(PEM_BEGIN).filter(|begin| *begin >= from)?;
    let line = text.as_bytes().get(begin + PEM_BEGIN.len()..).unwrap_or_default();
    let may_continue = |byte: &u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || *byte == b' ';
    (line.len() < PEM_LINE_BYTES_MAX && line.iter().all(may_continue)).then_some(begin)
}

/// Reports Telegram bot tokens: a number such as `123456789:` and exactly 35 characters. The pattern has no fixed
/// text, so the search looks for a colon after a digit.
fn find_telegram(text: &str, found: &mut impl FnMut(Range<usize>)) {
    let bytes = text.as_bytes();
    for colon in memchr::memchr_iter(b':', bytes) {
        let before = bytes.get(..colon).unwrap_or_default();
        let after = bytes.get(colon + 1..).unwrap_or_default();
        if !before.last().is_some_and(u8::is_ascii_digit) {
            continue;
        }
        let digits = before
            .iter()
            .rev()
            .take(12)
            .take_while(|byte| byte.is_ascii_digit())
            .count();
        let is_key = |byte: &&u8| byte.is_ascii_alphanumeric() || **byte == b'_' || **byte == b'-';
        let key = after.iter().take(36).take_while(is_key).count();
        if (8..=10).contains(&digits) && key == 35 {
            found(colon - digits..colon + 1 + key);
        }
    }
}

fn always(_: &str, _: Range<usize>) -> bool {
    true
}

fn has_digit(text: &str, range: Range<usize>) -> bool {
    text.get(range)
        .is_some_and(|secret| secret.contains(|c: char| c.is_ascii_digit()))
}

/// True for a token of this program. The names of its modules, such as `drydock__interfaces__tool`, have small letters.
fn has_digit_or_capital(text: &str, range: Range<usize>) -> bool {
    text.get(range)
        .is_some_and(|secret| secret.contains(|c: char| c.is_ascii_digit() || c.is_ascii_uppercase()))
}

fn has_three_classes(text: &str, range: Range<usize>) -> bool {
    text.get(range).is_some_and(classifier::has_three_classes)
}

/// Number of bytes before a value that are searched for `checksum/secret:`, and for the start of an AWS resource
/// name.
const CHECKSUM_BYTES_BEFORE: usize = 40;
const NAME_BYTES_BEFORE: usize = 200;

/// True if a value after a name is random and has no other meaning. After `secret:`, names, references, paths and
/// expressions are far more frequent than secrets. A secret is random: all three classes of characters, or a long
/// hex number, and few repetitions.
fn is_random_and_named(text: &str, range: Range<usize>) -> bool {
    let Some(value) = text.get(range.clone()) else {
        return false;
    };
    let is_other = || classifier::is_reference(value) || is_code(LineKind::Program, value);
    classifier::is_random(value) && !is_named_otherwise(text, range.start) && !is_other()
}

/// True if the line announces a checksum before this position, or if the position is inside an AWS resource name.
pub(super) fn is_named_otherwise(text: &str, at: usize) -> bool {
    let from = at.saturating_sub(NAME_BYTES_BEFORE);
    let window = text.as_bytes().get(from..at).unwrap_or_default();
    let line = memchr::memrchr(b'\n', window).map_or(0, |at| at + 1);
    let before = String::from_utf8_lossy(window.get(line..).unwrap_or_default()).to_lowercase();
    let near = before.get(before.ceil_char_boundary(before.len().saturating_sub(CHECKSUM_BYTES_BEFORE))..);
    let word = before
        .rsplit(|char: char| char.is_whitespace() || "\"'=".contains(char))
        .next();
    let is_checksum = |near: &str| {
        ["checksum", "digest", "hash"]
            .iter()
            .any(|word| near.contains(word))
    };
    near.is_some_and(is_checksum) || word.is_some_and(|word| word.starts_with("arn:aws"))
}
