//! The secrets of the fixture, and a search for them in every encoding.

use aho_corasick::AhoCorasick;
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use drydock::simulation::demo::environment::{
    HOOK_SECRET, MODEL_KEY, SLACK_BOT_TOKEN, SLACK_SIGNING_SECRET, TELEGRAM_BOT_TOKEN,
};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::sync::LazyLock;

/// The encodings in which a secret may travel.
pub(crate) const ENCODINGS: [&str; 12] = [
    "plain",
    "base64",
    "base64-after-one",
    "base64-after-two",
    "base64url",
    "hex",
    "hex-upper",
    "percent",
    "json-escapes",
    "html-entities",
    "utf16-base64",
    "percent-usual",
];

/// The least number of bytes of a secret's part that the search must find.
const PART_BYTES_MIN: usize = 16;

/// The token that the emulated Telegram sends with its updates.
pub(crate) const TELEGRAM_HOOK_SECRET: &str = "dojo-Q7n2vKx94TfLzR8mWc3Yb6Hd";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SecretOwner {
    /// The server, whose configuration contains the secret.
    Server,
    /// A file of the repository.
    Repository,
}

/// A value that must not be visible.
#[derive(Clone, Debug)]
pub(crate) struct PlantedSecret {
    pub(crate) name: &'static str,
    pub(crate) owner: SecretOwner,
    pub(crate) value: String,
}

static ALL: LazyLock<Vec<PlantedSecret>> = LazyLock::new(|| {
    let server = [
        ("slack-bot", SLACK_BOT_TOKEN),
        ("slack-signing", SLACK_SIGNING_SECRET),
        ("telegram", TELEGRAM_BOT_TOKEN),
        ("telegram-hook", TELEGRAM_HOOK_SECRET),
        ("hook", HOOK_SECRET),
        ("model-key", MODEL_KEY),
    ];
    let repository = [
        ("pem", pem("pem")),
        ("other-pem", pem("other-pem")),
        ("db-password", random("db-password", 24)),
        ("api-token", random("api-token", 32)),
        ("old-token", random("old-token", 32)),
        ("env-file", random("env-file", 28)),
        ("prod-password", random("prod-password", 26)),
        ("registry", random("registry", 30)),
        ("cloud-key", random("cloud-key", 40)),
        (
            "cloud-id",
            format!("AKIA{}", random("cloud-id", 16).to_uppercase()),
        ),
        ("forge-token", format!("ghp_{}", random("forge-token", 36))),
        ("client-key", STANDARD.encode(pem("client-key"))),
    ];
    let server = server.map(|(name, value)| PlantedSecret {
        name,
        owner: SecretOwner::Server,
        value: value.to_owned(),
    });
    let repository = repository.map(|(name, value)| PlantedSecret {
        name,
        owner: SecretOwner::Repository,
        value,
    });
    server.into_iter().chain(repository).collect()
});

/// Returns the value of a secret.
pub(crate) fn value(name: &str) -> &'static str {
    let found = ALL.iter().find(|secret| secret.name == name);
    &found
        .unwrap_or_else(|| panic!("no secret is called `{name}`"))
        .value
}

/// Returns letters of both cases and digits, the same for each name.
fn random(name: &str, length: usize) -> String {
    const ALPHABET: &[u8] = b"ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz23456789";
    let mut text = String::new();
    let mut block = Sha256::digest(name.as_bytes());
    while text.len() < length {
        for byte in block {
            text.push(char::from(ALPHABET[usize::from(byte) % ALPHABET.len()]));
        }
        block = Sha256::digest(block);
    }
    text.truncate(length);
    // All three classes of characters are always included.
    text.replace_range(0..3, "Z7q");
    text
}

/// Returns a private key of four lines, as its file contains it.
fn pem(name: &str) -> String {
    let kind = "PRIVATE KEY";
    let lines: Vec<String> = (0..4).map(|line| random(&format!("{name} {line}"), 64)).collect();
    format!(
        "-----BEGIN {kind}-----\n{}\n-----END {kind}-----",
        lines.join("\n")
    )
}

/// Returns a value in one of the encodings.
pub(crate) fn encoded(encoding: &str, value: &str) -> String {
    let bytes = value.as_bytes();
    let each = |form: &dyn Fn(u8) -> String| bytes.iter().map(|byte| form(*byte)).collect::<String>();
    match encoding {
        "plain" => value.to_owned(),
        "base64" => STANDARD.encode(bytes),
        "base64-after-one" => STANDARD.encode(format!("u{value}")),
        "base64-after-two" => STANDARD.encode(format!("u:{value}")),
        "base64url" => URL_SAFE.encode(bytes),
        "hex" => each(&|byte| format!("{byte:02x}")),
        "hex-upper" => each(&|byte| format!("{byte:02X}")),
        "percent" => each(&|byte| format!("%{byte:02X}")),
        "percent-usual" => each(
            &|byte| match byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
                true => char::from(byte).to_string(),
                false => format!("%{byte:02x}"),
            },
        ),
        "json-escapes" => each(&|byte| format!("\\u{byte:04x}")),
        "html-entities" => each(&|byte| format!("&#{byte};")),
        "utf16-base64" => {
            let wide: Vec<u8> = value.encode_utf16().flat_map(u16::to_le_bytes).collect();
            STANDARD.encode(wide)
        }
        unknown => panic!("no encoding is called `{unknown}`"),
    }
}

/// Finds secrets in bytes.
pub(crate) struct SecretFinder {
    automaton: AhoCorasick,
    labels: Vec<String>,
}

impl SecretFinder {
    /// Creates a finder for the secrets of these owners.
    pub(crate) fn for_owners(owners: &[SecretOwner]) -> Self {
        let mut forms: Vec<(String, String)> = Vec::new();
        for secret in ALL.iter().filter(|secret| owners.contains(&secret.owner)) {
            for part in parts(&secret.value) {
                for encoding in ENCODINGS {
                    let label = format!("{} as {encoding}", secret.name);
                    let form = encoded(encoding, &part);
                    forms.push((label, context_free_part(encoding, &form).to_owned()));
                }
            }
        }
        let automaton = AhoCorasick::new(forms.iter().map(|(_, form)| form)).unwrap();
        Self {
            automaton,
            labels: forms.into_iter().map(|(label, _)| label).collect(),
        }
    }

    /// Returns the secrets in the bytes, as `name as encoding`.
    pub(crate) fn find(&self, bytes: &[u8]) -> BTreeSet<String> {
        let hits = self.automaton.find_iter(bytes);
        hits.map(|hit| self.labels[hit.pattern().as_usize()].clone())
            .collect()
    }
}

/// Returns the lines of a long secret, each of which reveals much of it, or else the secret.
fn parts(value: &str) -> Vec<String> {
    let lines = value.lines().filter(|line| !line.starts_with("-----"));
    let long = lines.filter(|line| line.len() >= PART_BYTES_MIN);
    long.map(str::to_owned).collect()
}

/// Returns the part of an encoded text that does not depend on the text around the value.
fn context_free_part<'f>(encoding: &str, form: &'f str) -> &'f str {
    let trimmed = form.trim_end_matches('=');
    let without_last = |text: &'f str| &text[..text.len() - 1];
    match encoding {
        "base64" | "base64url" | "utf16-base64" => without_last(trimmed),
        "base64-after-one" => &without_last(trimmed)[2..],
        "base64-after-two" => &without_last(trimmed)[3..],
        _ => form,
    }
}

#[test]
fn a_secret_is_found_in_every_encoding_wherever_it_stands() {
    let finder = SecretFinder::for_owners(&[SecretOwner::Server, SecretOwner::Repository]);
    for secret in ALL.iter() {
        let line = parts(&secret.value).pop().expect("a part");
        for encoding in ENCODINGS {
            let text = format!("before {} behind", encoded(encoding, &line));
            assert!(
                !finder.find(text.as_bytes()).is_empty(),
                "{} {encoding}",
                secret.name
            );
        }
        let among = STANDARD.encode(format!("a: {line}\nb: 1\n"));
        assert!(!finder.find(among.as_bytes()).is_empty(), "{}", secret.name);
    }
    assert_eq!(finder.find(b"name: web\nimage: nginx:1.27\n"), BTreeSet::new());
}
