//! Finds the secrets in a whole text: in a file before a part of it is shown, or in a value before it is written.

use super::classifier::{self, ValueContext};
use super::{contains_placeholder, manifest, patterns, unquoted};
use crate::base::model::Secret;
use aho_corasick::{AhoCorasick, AhoCorasickKind};
use regex::Regex;
use std::collections::BTreeSet;
use std::sync::LazyLock;

/// Maximum number of lines of a declared secret file that are also learnt one by one.
const NAMED_LINES_MAX: usize = 10_000;

/// A secret as a list of texts to search for, starting with the whole secret.
#[derive(Clone)]
pub struct KnownSecret {
    pub(super) texts: Vec<Secret>,
}

impl std::fmt::Debug for KnownSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Known").finish_non_exhaustive()
    }
}

impl KnownSecret {
    /// Returns its size in bytes.
    pub fn bytes(&self) -> usize {
        let texts = self.texts.iter();
        texts.map(|text| text.expose().len() + size_of::<Secret>()).sum()
    }
}

/// Returns the secrets in a text: what matches a pattern, values after telling names, and the values of Kubernetes
/// `Secret`s.
pub(super) fn secrets_in(text: &str) -> Vec<KnownSecret> {
    let mut found = BTreeSet::new();
    collect(text, &mut found);
    for (name, value) in manifest::secret_entries(text) {
        collect_entry(&name, &value, &mut found);
    }
    into_secrets(found)
}

pub(super) fn secrets_in_entry(name: &str, value: &str) -> Vec<KnownSecret> {
    let mut found = BTreeSet::new();
    collect_entry(name, value, &mut found);
    into_secrets(found)
}

fn collect_entry(name: &str, value: &str, found: &mut BTreeSet<String>) {
    collect(value, found);
    let value = value.trim();
    if value.contains('\n') {
        // The value is a file. Certificates are public, and any other file is a secret as a whole.
        if !is_public(value) && !contains_placeholder(value) {
            found.insert(value.to_owned());
        }
        return;
    }
    if classifier::is_secret(ValueContext::InSecret(name), value) {
        found.insert(value.to_owned());
    }
}

/// Returns the secrets in a file that is a secret by declaration or name: each line that may be a secret, and the
/// whole file.
pub(super) fn secrets_of_named(text: &str) -> Vec<KnownSecret> {
    let mut found = BTreeSet::new();
    collect_entry("", text, &mut found);
    if !is_public(text.trim()) {
        for line in text.lines().map(str::trim).take(NAMED_LINES_MAX) {
            let value = line.split_once(['=', ':']).map(|(_, value)| value.trim());
            let parts = std::iter::once(line).chain(value).map(unquoted);
            let parts = parts.filter(|part| {
                !part.starts_with('#') && classifier::is_secret(ValueContext::InSecret(""), part)
            });
            found.extend(parts.map(str::to_owned));
        }
    }
    into_secrets(found)
}

fn unquoted(value: &str) -> &str {
    value.trim_matches(['"', '\''])
}

/// Returns the files that a text declares as secrets, as written: those that are read for a telling name or for a
/// `Secret`.
pub(super) fn files_named(text: &str) -> Vec<String> {
    let mut files = manifest::files(text);
    if COMPILED.names.is_match(text) {
        let named = COMPILED.file.captures_iter(text);
        files.extend(
            named.filter_map(|named| Some(named.get(1).or_else(|| named.get(2))?.as_str().to_owned())),
        );
    }
    files
}

/// True if the name of a file shows that it is a secret as a whole: `db-password`, `token.txt`.
pub fn is_secret_file_name(file_name: &str) -> bool {
    COMPILED.file_name.is_match(file_name)
}

/// Collects what matches a pattern, and values after telling names.
fn collect(text: &str, found: &mut BTreeSet<String>) {
    patterns::find(text, |range| {
        let secret = text.get(range).unwrap_or_default();
        found.insert(secret.to_owned());
    });
    if !COMPILED.names.is_match(text) {
        return;
    }
    unquoted::find(text, |secret| {
        found.insert(secret.to_owned());
    });
    for expression in [&COMPILED.named, &COMPILED.entry, &COMPILED.below] {
        for captures in expression.captures_iter(text) {
            let Some(name) = captures.get(1) else { continue };
            let quoted = captures.get(2).or_else(|| captures.get(3));
            let below = captures.get(5);
            let value = match (quoted.or(below), captures.get(4)) {
                (Some(value), _) => value.as_str(),
                (None, Some(value)) => value.as_str().trim_end_matches([',', ';']),
                (None, None) => continue,
            };
            let is_secret = classifier::is_secret(ValueContext::AfterName(name.as_str()), value);
            if !is_secret || patterns::is_named_otherwise(text, name.end()) {
                continue;
            }
            found.insert(value.to_owned());
            // At run time, the program has the value without escapes.
            if value.contains('\\')
                && let Ok(plain) = serde_json::from_str(&format!("\"{value}\""))
            {
                found.insert(plain);
            }
        }
    }
}

fn into_secrets(found: BTreeSet<String>) -> Vec<KnownSecret> {
    let found = found.into_iter().filter(|secret| !contains_placeholder(secret));
    found
        .map(|secret| KnownSecret {
            texts: texts(&secret),
        })
        .collect()
}

/// Returns the texts to search for: the whole secret, the same without escapes, and lines that are secrets on their
/// own, because a page or a hunk may contain only some of them.
fn texts(secret: &str) -> Vec<Secret> {
    let secret = body(secret).unwrap_or(secret);
    let mut texts = vec![secret.to_owned()];
    let unescaped = secret.replace("\\r", "").replace("\\n", "\n");
    if unescaped.contains('\n') {
        let lines: Vec<&str> = unescaped.lines().map(str::trim).collect();
        let plain = lines.join("\n").trim().to_owned();
        // In lines of base64, any part identifies the secret.
        let in_parts = classifier::is_opaque(&plain);
        texts.push(plain);
        let long = lines
            .iter()
            .filter(|line| line.len() >= super::live::VALUE_BYTES_MIN);
        let own = long.filter(|line| {
            !in_parts
                && !line.contains(char::is_whitespace)
                && !line.contains("-----")
                && classifier::is_random(line)
        });
        texts.extend(own.map(|line| (*line).to_owned()));
        texts.extend(last_line(secret, &lines));
    }
    texts.dedup();
    texts.into_iter().map(Secret::new).collect()
}

/// Returns the last line of a key, which may be short.
fn last_line(secret: &str, lines: &[&str]) -> Option<String> {
    let is_base64 = |line: &str| {
        line.bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte))
    };
    let of_a_key = lines
        .iter()
        .filter(|line| !line.is_empty())
        .all(|line| is_base64(line));
    let last = lines.iter().rev().find(|line| !line.is_empty())?;
    (of_a_key && secret.len() > 100 && last.len() >= super::live::VALUE_BYTES_MIN).then(|| (*last).to_owned())
}

/// Returns the lines between the first and the last line of a key. The first and last lines are the same in all
/// keys.
fn body(secret: &str) -> Option<&str> {
    let rest = secret.strip_prefix("-----BEGIN ")?;
    let (_, rest) = rest.split_once("-----")?;
    let body = rest.split("-----END ").next()?.trim();
    let body = body.strip_prefix("\\n").unwrap_or(body);
    Some(body.strip_suffix("\\n").unwrap_or(body))
}

/// True if the text consists of certificates and public keys.
fn is_public(text: &str) -> bool {
    text.starts_with("-----BEGIN ") && !text.contains("PRIVATE KEY")
}

struct SourcePatterns {
    names: AhoCorasick,
    named: Regex,
    entry: Regex,
    below: Regex,
    file: Regex,
    file_name: Regex,
}

/// Suffixes of names that indicate a secret value.
pub(super) const WORDS: &str = "password|passwd|passphrase|pwd|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|secret[_-]?key|credentials?";

#[expect(
    clippy::expect_used,
    reason = "the expressions are constants, and a test compiles them"
)]
static COMPILED: LazyLock<SourcePatterns> = LazyLock::new(|| {
    // A value in quotes or without quotes.
    let value =
        r#"(?:'((?:[^'\\\n]|\\.)*)'|"((?:[^"\\\n]|\\.)*)"|([A-Za-z0-9+/=_.~!@#$%^&*-]+[,;]?)(?:\s|$))"#;
    let named = format!(r#"(?im)([a-z0-9_.-]*(?:{WORDS}))["'\]]{{0,2}}[ \t]*(?::{{1,3}}|=)[ \t]*{value}"#);
    let entry = format!(
        r#"(?im)name["']?:[ \t]*["']?([a-z0-9_.-]*(?:{WORDS}))["']?,?\s+["']?value["']?:[ \t]*{value}"#
    );
    // The value on the next line in YAML, or in a text block.
    let block = r"(?:[|>][0-9+-]{0,2}|\|\|\|-?)[ \t]*\r?\n[ \t]+([^\s](?:[^\r\n]*[^\s])?)[ \t]*\r?$";
    let below = format!(
        r#"(?im)(?:^|[{{,])[ \t-]*["']?([a-z0-9_.-]*(?:{WORDS}))["']?[ \t]*:{{1,3}}[ \t]*(?:\r?\n[ \t]+{value}|{block})"#
    );
    // A file that is read for a name: `importstr 'file'`, also within functions, and `{{ file = "file" }}`.
    let read =
        r#"(?:[a-z0-9_.]+\([ \t]*){0,3}import(?:str|bin)[ \t]+|\{[ \t]*["']?file["']?[ \t]*[:=][ \t]*"#;
    let file = format!(
        r#"(?im)(?:{WORDS})["'\]]{{0,2}}[ \t]*(?:\+?:{{1,3}}|=)[ \t]*(?:{read})["']([^"'\n]+)["']|(?:{WORDS})[_-]?file["']?[ \t]*[:=][ \t]*["']?([^"'\s]+)"#
    );
    SourcePatterns {
        below: Regex::new(&below).expect("an expression compiles"),
        file: Regex::new(&file).expect("an expression compiles"),
        file_name: Regex::new(&format!(
            r"(?i)(?:\A|[._-])(?:{WORDS}|pgpass|htpasswd)(?:\.(?:txt|key|pem|dat|secret))?\z"
        ))
        .expect("an expression compiles"),
        names: AhoCorasick::builder()
            .ascii_case_insensitive(true)
            .kind(Some(AhoCorasickKind::DFA))
            .build([
                "passw",
                "passphrase",
                "pwd",
                "secret",
                "token",
                "key",
                "credential",
            ])
            .expect("names compile"),
        named: Regex::new(&named).expect("an expression compiles"),
        entry: Regex::new(&entry).expect("an expression compiles"),
    }
});
