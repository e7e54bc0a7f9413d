//! The secrets of a whole text: of a file before a part of it is shown, of a value before it is written.

use super::classifier::{self, ValueContext};
use super::{contains_placeholder, manifest, patterns, unquoted};
use crate::model::Secret;
use aho_corasick::{AhoCorasick, AhoCorasickKind};
use regex::Regex;
use std::collections::BTreeSet;
use std::sync::LazyLock;

/// Lines of a file that configuration names that are looked at by themselves.
const NAMED_LINES_MAX: usize = 10_000;

/// A secret that was found, as the texts it is looked for by: first the whole of it.
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
    /// Bytes it takes.
    pub fn bytes(&self) -> usize {
        let texts = self.texts.iter();
        texts.map(|text| text.expose().len() + size_of::<Secret>()).sum()
    }
}

/// The secrets of a text: what looks like one, what stands behind a name that says so, and what a `Secret` of
/// Kubernetes holds.
pub(super) fn secrets_in(text: &str) -> Vec<KnownSecret> {
    let mut found = BTreeSet::new();
    collect(text, &mut found);
    for (name, value) in manifest::secret_entries(text) {
        collect_entry(&name, &value, &mut found);
    }
    into_secrets(found)
}

/// The secrets of an entry of a `Secret`.
pub(super) fn secrets_in_entry(name: &str, value: &str) -> Vec<KnownSecret> {
    let mut found = BTreeSet::new();
    collect_entry(name, value, &mut found);
    into_secrets(found)
}

fn collect_entry(name: &str, value: &str, found: &mut BTreeSet<String>) {
    collect(value, found);
    let value = value.trim();
    if value.contains('\n') {
        // A file: one of certificates is public, and another is a secret as a whole.
        if !is_public(value) && !contains_placeholder(value) {
            found.insert(value.to_owned());
        }
        return;
    }
    if classifier::is_secret(ValueContext::InSecret(name), value) {
        found.insert(value.to_owned());
    }
}

/// The secrets of a file that configuration names as one, or that is called like one: each line of it that may be one,
/// and all of it.
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

/// The files that a text names as ones with secrets, as they are written: what is read for a name that says so, or for
/// a `Secret`.
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

/// True for the name of a file that says that it is a secret as a whole: `db-password`, `token.txt`.
pub fn is_secret_file_name(file_name: &str) -> bool {
    COMPILED.file_name.is_match(file_name)
}

/// Collects what looks like a secret, and what stands behind a name that says so.
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
            // A program has it without the escapes it is written with.
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

/// The texts a secret is looked for by: the whole, the same as a program has it, and lines that are secrets by
/// themselves, because a page or a hunk has only some.
fn texts(secret: &str) -> Vec<Secret> {
    let secret = body(secret).unwrap_or(secret);
    let mut texts = vec![secret.to_owned()];
    let unescaped = secret.replace("\\r", "").replace("\\n", "\n");
    if unescaped.contains('\n') {
        let lines: Vec<&str> = unescaped.lines().map(str::trim).collect();
        let plain = lines.join("\n").trim().to_owned();
        // Of lines of base64 every part is known by itself.
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

/// The last line of a key, which may be short.
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

/// The lines between the first and the last one of a key: these are the same in every one.
fn body(secret: &str) -> Option<&str> {
    let rest = secret.strip_prefix("-----BEGIN ")?;
    let (_, rest) = rest.split_once("-----")?;
    let body = rest.split("-----END ").next()?.trim();
    let body = body.strip_prefix("\\n").unwrap_or(body);
    Some(body.strip_suffix("\\n").unwrap_or(body))
}

/// True for certificates and public keys, one or more.
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

/// Words that a name with a secret behind it ends with.
pub(super) const WORDS: &str = "password|passwd|passphrase|pwd|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|secret[_-]?key|credentials?";

#[expect(
    clippy::expect_used,
    reason = "the expressions are constants, and a test compiles them"
)]
static COMPILED: LazyLock<SourcePatterns> = LazyLock::new(|| {
    // A value in quotes, or one without.
    let value =
        r#"(?:'((?:[^'\\\n]|\\.)*)'|"((?:[^"\\\n]|\\.)*)"|([A-Za-z0-9+/=_.~!@#$%^&*-]+[,;]?)(?:\s|$))"#;
    let named = format!(r#"(?im)([a-z0-9_.-]*(?:{WORDS}))["'\]]{{0,2}}[ \t]*(?::{{1,3}}|=)[ \t]*{value}"#);
    let entry = format!(
        r#"(?im)name["']?:[ \t]*["']?([a-z0-9_.-]*(?:{WORDS}))["']?,?\s+["']?value["']?:[ \t]*{value}"#
    );
    // The value on the next line, of YAML, or of a text block.
    let block = r"(?:[|>][0-9+-]{0,2}|\|\|\|-?)[ \t]*\r?\n[ \t]+([^\s](?:[^\r\n]*[^\s])?)[ \t]*\r?$";
    let below = format!(
        r#"(?im)(?:^|[{{,])[ \t-]*["']?([a-z0-9_.-]*(?:{WORDS}))["']?[ \t]*:{{1,3}}[ \t]*(?:\r?\n[ \t]+{value}|{block})"#
    );
    // What is read for a name: `importstr 'file'`, also within functions, and `{{ file = "file" }}`.
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
