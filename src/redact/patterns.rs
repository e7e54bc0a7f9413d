//! Patterns of secrets that are not configured. Each pattern is bound to something that does not
//! occur in ordinary configuration, so that digests, image tags and long names stay readable.

use super::judge;
use aho_corasick::{AhoCorasick, AhoCorasickKind};
use regex::Regex;
use std::ops::Range;
use std::sync::LazyLock;

/// A pattern for one kind of secret.
struct Pattern {
    /// Texts one of which every match contains, in any case. Without any of them the expression is
    /// not tried, which is what makes clean text fast.
    anchors: &'static [&'static str],
    /// The expression; its first group, or else all of it, is the secret.
    expression: &'static str,
    /// The last word, where the expression cannot say it.
    accept: fn(text: &str, range: Range<usize>) -> bool,
}

const PATTERNS: &[Pattern] = &[
    Pattern {
        anchors: &["akia", "asia"],
        expression: r"(?-u:\b)(?:AKIA|ASIA)[A-Z0-9]{16}(?-u:\b)",
        accept: always,
    },
    Pattern {
        anchors: &["ghp_", "gho_", "ghs_", "ghu_", "ghr_", "github_pat_"],
        expression: r"(?:gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{22,})",
        accept: always,
    },
    Pattern {
        anchors: &["glpat-"],
        expression: r"glpat-[A-Za-z0-9_-]{20,}",
        accept: always,
    },
    Pattern {
        anchors: &["xox", "xapp-"],
        expression: r"(?:xox[abceoprs]|xapp)-[A-Za-z0-9.-]{10,}",
        accept: has_digit,
    },
    Pattern {
        anchors: &["hooks.slack.com/"],
        expression: r"hooks\.slack\.com/(?:services|workflows|triggers)/([A-Za-z0-9/_-]{20,})",
        accept: always,
    },
    Pattern {
        anchors: &["sk-"],
        expression: r"(?-u:\b)sk-(?:ant-|proj-|or-|svcacct-|admin-)[A-Za-z0-9_-]{16,}",
        accept: has_digit,
    },
    Pattern {
        anchors: &["sk-"],
        expression: r"(?-u:\b)sk-[A-Za-z0-9_-]{20,}",
        accept: has_three_classes,
    },
    Pattern {
        anchors: &["aiza"],
        expression: r"(?-u:\b)AIza[0-9A-Za-z_-]{35}",
        accept: always,
    },
    Pattern {
        anchors: &["eyj"],
        expression: r"(?-u:\b)eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*",
        accept: always,
    },
    Pattern {
        anchors: &["authorization"],
        expression: r#"(?i)authorization["']?\s*[:=,]?\s*["']?(?:bearer|basic|token)\s+([A-Za-z0-9._~+/=-]{8,})"#,
        accept: has_digit,
    },
    Pattern {
        anchors: &["bearer "],
        expression: r"(?i)bearer +([A-Za-z0-9._~+/=-]{20,})",
        accept: has_digit,
    },
    Pattern {
        anchors: &["client-key-data"],
        expression: r#"client-key-data["']?\s*:\s*["']?([A-Za-z0-9+/=]{20,})"#,
        accept: always,
    },
    Pattern {
        anchors: &["://"],
        expression: r#"://[^/\s:@"']*:([^/\s:@"'${}<>⟦⟧]{8,})@"#,
        accept: has_digit,
    },
    // `password: ...` and `DB_TOKEN=...`, in YAML, JSON, Jsonnet and shell.
    Pattern {
        anchors: &["password", "passwd", "secret", "token", "key"],
        expression: r#"(?i)(?:password|passwd|secret|token|api[_-]?key|access[_-]?key|secret[_-]?key|account[_-]?key)["'\]]{0,2}\s*(?::{1,3}|=)\s*["']?([A-Za-z0-9+/=_.~!@#$%^&*:?()|<>\[\]-]{12,})"#,
        accept: is_random_and_no_checksum,
    },
    // The same as an entry of a container's environment.
    Pattern {
        anchors: &["value"],
        expression: r#"(?i)name["']?:\s*["']?[a-z0-9_.-]*(?:password|passwd|secret|token|key)["']?,?\s+["']?value["']?:\s*["']?([A-Za-z0-9+/=_.~!@#$%^&*:?()|<>\[\]-]{12,})"#,
        accept: is_random_and_no_checksum,
    },
];

/// Patterns, ready to run.
struct Compiled {
    anchors: AhoCorasick,
    /// The pattern of each anchor, by number of the anchor.
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
static COMPILED: LazyLock<Compiled> = LazyLock::new(|| {
    let anchors = PATTERNS.iter().flat_map(|pattern| pattern.anchors);
    let pattern_of = PATTERNS
        .iter()
        .enumerate()
        .flat_map(|(index, pattern)| pattern.anchors.iter().map(move |_| index));
    Compiled {
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

/// Reports whatever looks like a secret, in no order.
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
            if (pattern.accept)(text, secret.range()) {
                found(secret.range());
            }
        }
    }
}

fn patterns_to_try(text: &str) -> [bool; PATTERNS.len()] {
    let mut tried = [false; PATTERNS.len()];
    let mut left = PATTERNS.len();
    // Overlapping, because `secret_key` must not hide `key`.
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

/// The first line of a private key in PEM, and its last.
const KEY_BEGIN: &str = r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----";
const KEY_END: &str = r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----";
/// Text that may be the rest of a key that was cut off: base64 with line breaks, escaped or not.
const KEY_REST: &str = r"\A(?:[A-Za-z0-9+/=\s]|\\[nrt])*";
/// A shorter block is a mention in a document.
const KEY_BYTES_MIN: usize = 80;

/// Private keys, from their first line to their last. Without the last the block was cut: then
/// everything that may belong to it goes. Not one expression, because that would look for the end
/// again from every beginning.
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

/// `123456789:` and exactly 35 characters. It has no fixed text to anchor at, so it is found by its
/// colon, and only after a digit.
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

fn has_three_classes(text: &str, range: Range<usize>) -> bool {
    text.get(range).is_some_and(judge::has_three_classes)
}

/// Bytes before a value in which `checksum/secret:` may stand.
const CHECKSUM_BYTES_BEFORE: usize = 40;

/// Names, references and paths stand after `secret:` far more often than secrets do. A secret is
/// random: all three classes of characters, or a long hex number, and few repetitions.
fn is_random_and_no_checksum(text: &str, range: Range<usize>) -> bool {
    let Some(value) = text.get(range.clone()) else {
        return false;
    };
    !is_checksum(text, range.start) && judge::is_random(value)
}

/// True if the line says before this place that what comes is a checksum.
pub(super) fn is_checksum(text: &str, at: usize) -> bool {
    let from = at.saturating_sub(CHECKSUM_BYTES_BEFORE);
    let window = text.as_bytes().get(from..at).unwrap_or_default();
    let line = memchr::memrchr(b'\n', window).map_or(0, |at| at + 1);
    let before = String::from_utf8_lossy(window.get(line..).unwrap_or_default()).to_lowercase();
    ["checksum", "digest", "hash"]
        .iter()
        .any(|word| before.contains(word))
}
