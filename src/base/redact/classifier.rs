//! Decides whether a value at a place for secrets is one. Names, references, addresses and words also occur at such
//! places, and a text without them would be unreadable.

use regex::Regex;
use std::sync::LazyLock;

/// Minimum entropy per character of a random value, in bits.
const ENTROPY_BITS_MIN: f64 = 3.0;
/// Minimum number of digits of a hex key.
const HEX_DIGITS_MIN: usize = 32;
/// Minimum length of a value of letters only that may be a secret.
const LETTERS_MIN: usize = 24;

/// Suffixes of entry names whose values are secrets even if they are not random.
const OPEN_WORDS: [&str; 5] = ["password", "passwd", "passphrase", "pwd", "pass"];
/// Names of entries of a `Secret` that usually contain an address or a user name.
const PLAIN_NAMES: [&str; 20] = [
    "user", "username", "login", "host", "hostname", "port", "db", "database", "dbname", "name", "email",
    "mail", "region", "bucket", "endpoint", "url", "uri", "type", "crt", "cert",
];

/// The place of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValueContext<'a> {
    /// After a name that indicates a secret: `password`, `api_token`.
    AfterName(&'a str),
    /// In a `Secret`, under this name.
    InSecret(&'a str),
}

/// True if a value of at least eight bytes is a secret at its place.
pub(super) fn is_secret(place: ValueContext<'_>, value: &str) -> bool {
    if value.len() < 8 || is_ordinary(value) {
        return false;
    }
    match place {
        ValueContext::AfterName(name) => (is_open(name) && !is_prose(value)) || is_random(value),
        ValueContext::InSecret(name) => is_random(value) || !is_plain(name),
    }
}

/// Maximum number of spaces in a passphrase. A value with more is a sentence.
const SPACES_MAX: usize = 4;

fn is_prose(value: &str) -> bool {
    value.bytes().filter(|byte| *byte == b' ').count() > SPACES_MAX
}

fn is_open(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    OPEN_WORDS.iter().any(|word| name.ends_with(word))
}

fn is_plain(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let last = name.rsplit(['.', '_', '-']).next().unwrap_or_default();
    PLAIN_NAMES.contains(&last)
}

/// True for values that are common in any repository: addresses, paths, images, hosts, numbers, words, and template
/// expressions.
fn is_ordinary(value: &str) -> bool {
    let has = |text: &str| value.contains(text);
    let is_template = ["${", "{{", "$(", "%(", "⟦secret:", "***", "..."]
        .into_iter()
        .any(has)
        || (value.starts_with('<') && value.ends_with('>'));
    let letters = value.bytes().all(|byte| byte.is_ascii_alphabetic());
    let digits = value
        .bytes()
        .all(|byte| byte.is_ascii_digit() || b".,:_+- /TZ".contains(&byte));
    is_template
        || digits
        || (letters && (value.len() < LETTERS_MIN || !is_mixed(value)))
        || is_reference(value)
}

/// True for a reference: an address, a path, an image, a host, an AWS resource name, or a variable.
pub(super) fn is_reference(value: &str) -> bool {
    VARIABLE.is_match(value)
        || (ADDRESS.is_match(value)
            && !value.contains('@')
            && !value.split(['/', '?', '&', '=', '#']).any(is_random))
        || ((PATH.is_match(value) || NAMED.is_match(value)) && !value.split('/').any(is_random))
}

/// AWS resource names, and the variables of pipelines, shells and the kubelet.
static VARIABLE: LazyLock<Regex> = LazyLock::new(|| {
    compiled(
        r"\A(?:arn:aws[a-z-]*:(?:[A-Za-z0-9-]*:){3}\S+|\(\([A-Za-z_][A-Za-z0-9_./:-]*\)\)|\$\([A-Za-z_][A-Za-z0-9_]*\)|\$[A-Z_]+)\z",
    )
});

static ADDRESS: LazyLock<Regex> = LazyLock::new(|| compiled(r"\A[a-zA-Z][a-zA-Z0-9+.-]*://\S*\z"));
/// Paths and images.
static PATH: LazyLock<Regex> = LazyLock::new(|| {
    compiled(r"\A(?:~|\.{1,2})?[A-Za-z0-9._-]*(?::[0-9]+)?(?:/[A-Za-z0-9._*-]*)+(?:[:@][A-Za-z0-9._:-]+)?\z")
});
/// Hosts, mail addresses, and field accesses of a program: `config.db.password`, `$.token`.
static NAMED: LazyLock<Regex> = LazyLock::new(|| {
    compiled(r"\A(?:\$\.|[a-z0-9._+-]+@)?[A-Za-z_][A-Za-z0-9_-]*(?:\.[A-Za-z_][A-Za-z0-9_-]*)+(?::[0-9]+)?\z")
});

#[expect(
    clippy::expect_used,
    reason = "the expressions are constants, and a test compiles them"
)]
fn compiled(expression: &str) -> Regex {
    Regex::new(expression).expect("an expression compiles")
}

/// True if upper and lower case alternate more often than in words.
fn is_mixed(value: &str) -> bool {
    let bytes = value.as_bytes();
    let turns = bytes
        .iter()
        .zip(bytes.iter().skip(1))
        .filter(|(one, next)| one.is_ascii_uppercase() != next.is_ascii_uppercase());
    turns.count() * 3 >= bytes.len() && entropy_bits(value) >= ENTROPY_BITS_MIN
}

/// True if any part identifies the value: a random value, or lines of base64.
pub(super) fn is_opaque(value: &str) -> bool {
    let mut lines = value.lines().map(str::trim);
    let is_base64 = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte);
    is_random(value)
        && match value.trim_end().contains('\n') {
            true => lines.all(|line| line.bytes().all(is_base64)),
            false => !value.contains(char::is_whitespace),
        }
}

/// True for a random value: all three classes of characters, or a long hex number, and few repetitions.
pub(super) fn is_random(value: &str) -> bool {
    (has_three_classes(value) || is_hex(value)) && !is_words(value) && entropy_bits(value) >= ENTROPY_BITS_MIN
}

fn is_hex(value: &str) -> bool {
    let mut bytes = value.bytes();
    bytes.all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
        && value.bytes().filter(|byte| *byte != b'-').count() >= HEX_DIGITS_MIN
}

pub(super) fn has_three_classes(value: &str) -> bool {
    let has = |class: fn(&u8) -> bool| value.bytes().any(|byte| class(&byte));
    has(u8::is_ascii_digit) && has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase)
}

/// True for `Grafana-Admin-v2` and `std.extVar`: parts that are words or small numbers.
fn is_words(value: &str) -> bool {
    let parts = value
        .as_bytes()
        .split(|byte| !byte.is_ascii_alphanumeric())
        .filter(|part| !part.is_empty());
    let is_word = |part: &[u8]| {
        let trailing = part.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
        trailing <= 4 && !part.iter().rev().skip(trailing).any(u8::is_ascii_digit)
    };
    let mut count = 0;
    let all = parts.inspect(|_| count += 1).all(is_word);
    all && count > 1
}

fn entropy_bits(value: &str) -> f64 {
    let mut counts = [0_u32; 256];
    for byte in value.bytes() {
        counts[usize::from(byte)] += 1;
    }
    let length = f64::from(u32::try_from(value.len()).unwrap_or(u32::MAX));
    let bits = counts.iter().filter(|count| **count > 0).map(|count| {
        let share = f64::from(*count) / length;
        -share * share.log2()
    });
    bits.sum()
}

#[cfg(test)]
mod tests {
    use super::{ValueContext, is_secret};

    #[test]
    fn what_stands_in_the_open_is_no_secret_whatever_its_name() {
        for value in [
            "short",
            "https://login.example.com/oauth2/token",
            "/etc/tls/private.key",
            "../secrets/prod.key",
            "registry.example.com:5000/team/web:1.8.3",
            "ghcr.io/acme/web@sha256:abc123",
            "db.prod.svc.cluster.local",
            "db.prod.svc.cluster.local:5432",
            "ops@example.com",
            "${DB_PASSWORD}",
            "{{ .Values.password }}",
            "$(DB_PASSWORD)",
            "<your-password>",
            "20260101",
            "3600.5000",
            "2026-11-24T21:00:00Z",
            "LoadBalancer",
            "PersistentVolume",
            "production",
            "$.database.password",
            "config.database.password",
            "⟦secret:4⟧",
        ] {
            for place in [
                ValueContext::AfterName("password"),
                ValueContext::InSecret("anything"),
            ] {
                assert!(!is_secret(place, value), "{place:?} {value}");
            }
        }
        for (place, value) in [
            (ValueContext::AfterName("tokenSecret"), "db-credentials-v2"),
            (ValueContext::AfterName("secret"), "grafana-admin"),
            (ValueContext::InSecret("username"), "app-user-1"),
            (ValueContext::InSecret("DB_HOST"), "db-primary-1"),
        ] {
            assert!(!is_secret(place, value), "{place:?} {value}");
        }
    }

    #[test]
    fn secrets_that_people_made_up_are_secrets_where_only_secrets_stand() {
        for (place, value) in [
            (
                ValueContext::AfterName("DB_PASSWORD"),
                "correct-horse-battery-staple",
            ),
            (ValueContext::AfterName("password"), "blue moon 42"),
            (ValueContext::AfterName("token"), "q7Rk2ZpX9vTn4WbY6mLc"),
            (ValueContext::InSecret("password"), "hunter-two"),
            (ValueContext::InSecret("anything"), "kept-to-ourselves-4711"),
            (ValueContext::InSecret("username"), "q7Rk2ZpX9vTn4WbY6mLc"),
            (
                ValueContext::InSecret("dsn"),
                "postgres://app:kept-to-us@db:5432/app",
            ),
            (
                ValueContext::InSecret("webhook"),
                "https://hooks.example.com/in/q7Rk2ZpX9vTn4WbY6mLc",
            ),
            (
                ValueContext::AfterName("token"),
                "https://store.example.com/a?sig=q7Rk2ZpX9vTn4WbY6mLc",
            ),
            (ValueContext::InSecret("key"), "aB3/cD4/eF5gH6iJ7kL8mN9oP0+="),
        ] {
            assert!(is_secret(place, value), "{place:?} {value}");
        }
    }
}
