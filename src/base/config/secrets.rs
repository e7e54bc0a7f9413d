//! Fetches secrets and refuses unusable ones: placeholders, empty values, and values that could be guessed. A refusal
//! never repeats the value.

use crate::base::config::keys::TOKEN_CHARS_MIN;
use crate::base::config::value::SecretSource;
use crate::base::model::Secret;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// The maximum number of bytes of a secret; a key file is smaller.
const SECRET_BYTES_MAX: u64 = 16_384;
/// The minimum number of different characters; a secret with fewer can be guessed.
const DIFFERENT_CHARS_MIN: usize = 5;
/// The variable with which systemd names the directory of the credentials of a service.
const CREDENTIALS: &str = "CREDENTIALS_DIRECTORY";
/// Permission bits of a secret file that let others read or replace it.
const EXPOSED: u32 = 0o077;
/// The same for a credential, whose bits of the group are the mask of an access list: systemd lets only the user of the
/// service read it.
const CREDENTIAL_EXPOSED: u32 = 0o037;
/// Values that are often left in a file by mistake.
const PLACEHOLDER_VALUES: [&str; 22] = [
    "undefined",
    "null",
    "none",
    "nil",
    "nan",
    "true",
    "false",
    "todo",
    "fixme",
    "tbd",
    "secret",
    "password",
    "passw0rd",
    "token",
    "dummy",
    "default",
    "default-secret",
    "my-secret",
    "mysecret",
    "apikey",
    "api-key",
    "[object object]",
];
/// Texts that occur only in documentation, not in real secrets.
const PLACEHOLDER_PARTS: [&str; 15] = [
    "changeme",
    "change-me",
    "change_me",
    "replaceme",
    "replace-me",
    "replace_me",
    "your-",
    "your_",
    "placeholder",
    "example",
    "xxxx",
    "...",
    "insert-",
    "${",
    "{{",
];

/// A reader of secrets from environment and files.
pub(super) struct SecretResolver<'a> {
    /// The environment variables by name.
    environment: &'a BTreeMap<String, String>,
    /// The base directory of relative paths of secret files.
    directory: PathBuf,
    /// Every secret that was fetched. Settings get their secrets only from here, so none is missing for the redactor.
    fetched: Vec<Secret>,
}

impl<'a> SecretResolver<'a> {
    pub(super) fn new(environment: &'a BTreeMap<String, String>, directory: PathBuf) -> Self {
        Self {
            environment,
            directory,
            fetched: Vec::new(),
        }
    }

    /// Returns the path of a secret file.
    pub(super) fn path_of(&self, path: &Path) -> PathBuf {
        self.directory.join(path)
    }

    /// Returns the secret of a file. A service manager may have read the file for this process, which then needs no right
    /// to read it.
    fn file(&self, path: &Path) -> Result<Secret, String> {
        let path = self.path_of(path);
        let credentials = self.environment.get(CREDENTIALS).map(Path::new);
        let credential = credentials.map(|directory| directory.join(credential_name(&path)));
        match credential.filter(|credential| credential.exists()) {
            Some(credential) => read_secret(&credential, CREDENTIAL_EXPOSED),
            None => read_secret(&path, EXPOSED),
        }
    }

    /// Returns every secret that was fetched.
    pub(super) fn into_fetched(self) -> Vec<Secret> {
        self.fetched
    }

    /// Fetches a secret of at least `chars_min` characters. The error is one line without the value.
    pub(super) fn fetch(&mut self, source: &SecretSource, chars_min: usize) -> Result<Secret, String> {
        let secret = match source {
            SecretSource::Value(secret) => secret.clone(),
            SecretSource::Variable(name) => self.variable(name)?,
            SecretSource::File(path) => self.file(path)?,
        };
        check_secret(secret.expose(), chars_min)?;
        self.fetched.push(secret.clone());
        Ok(secret)
    }

    /// Returns a secret from one of the conventional variables, and the name of that variable. An empty variable
    /// counts as not set, as in the providers' own tools.
    pub(super) fn conventional(&self, names: &[impl AsRef<str>]) -> Option<(String, SecretSource)> {
        let mut names = names.iter().map(AsRef::as_ref);
        let name =
            names.find(|name: &&str| self.environment.get(*name).is_some_and(|value| !value.is_empty()))?;
        Some((name.to_owned(), SecretSource::Variable(name.to_owned())))
    }

    fn variable(&self, name: &str) -> Result<Secret, String> {
        match self.environment.get(name) {
            Some(value) => Ok(Secret::new(value.clone())),
            None if is_variable_name(name) => Err(format!("the environment variable {name} is not set")),
            None => Err("the environment variable it names is not set".to_owned()),
        }
    }
}

/// Returns a key of a model provider that a person typed. The error does not repeat it.
pub fn checked_key(typed: &str) -> Result<Secret, String> {
    check_secret(typed, TOKEN_CHARS_MIN)?;
    Ok(Secret::new(typed.to_owned()))
}

/// Returns the key of a model provider in a file. Others must not be able to read the file.
pub fn key_of_file(path: &Path) -> Result<Secret, String> {
    let secret = read_secret(path, EXPOSED)?;
    check_secret(secret.expose(), TOKEN_CHARS_MIN)?;
    Ok(secret)
}

/// Returns true for a text that looks like the name of a variable. The setting may hold the secret itself by mistake, so
/// any other text is not repeated.
pub(super) fn is_variable_name(name: &str) -> bool {
    let shown = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    let begins = name.chars().next().is_some_and(|first| !first.is_ascii_digit());
    name.len() <= 64 && name.chars().all(shown) && begins && name.contains('_')
}

/// Returns the name of the credential that holds the secret of a file.
pub fn credential_name(file: &Path) -> String {
    hex::encode(Sha256::digest(file.as_os_str().as_encoded_bytes()))
}

fn read_secret(path: &Path, exposed: u32) -> Result<Secret, String> {
    let unreadable = |err: std::io::Error| format!("cannot read the secret file: {err}");
    // `NONBLOCK`: opening a pipe must not wait for a writer. The checks below use the opened file.
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(path)
        .map_err(unreadable)?;
    let metadata = file.metadata().map_err(unreadable)?;
    if !metadata.is_file() {
        return Err("the secret file is not a regular file".to_owned());
    }
    let mode = metadata.permissions().mode();
    if mode & exposed != 0 {
        let shown = crate::base::config::error::printable(&path.display().to_string());
        return Err(format!("others can read the secret file; run: chmod 600 {shown}"));
    }
    let mut text = Zeroizing::new(String::new());
    file.take(SECRET_BYTES_MAX + 1)
        .read_to_string(&mut text)
        .map_err(unreadable)?;
    let trimmed = text.strip_suffix('\n').unwrap_or(&text);
    Ok(Secret::new(
        trimmed.strip_suffix('\r').unwrap_or(trimmed).to_owned(),
    ))
}

/// Returns the problem of a secret, without its value.
fn check_secret(value: &str, chars_min: usize) -> Result<(), String> {
    if value.trim().is_empty() {
        return Err("the secret is empty".to_owned());
    }
    if is_placeholder(value) {
        return Err("the secret is a placeholder; put the real one there".to_owned());
    }
    if value.len() as u64 > SECRET_BYTES_MAX {
        return Err(format!("the secret is longer than {SECRET_BYTES_MAX} bytes"));
    }
    if !value.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("the secret holds a space, a line break or a character outside ASCII".to_owned());
    }
    if value.len() < chars_min {
        return Err(format!(
            "the secret is too short; it needs at least {chars_min} characters"
        ));
    }
    let mut different: Vec<u8> = value.bytes().collect();
    different.sort_unstable();
    different.dedup();
    if different.len() < DIFFERENT_CHARS_MIN {
        return Err(format!(
            "the secret can be guessed; it needs at least {DIFFERENT_CHARS_MIN} different characters"
        ));
    }
    Ok(())
}

fn is_placeholder(value: &str) -> bool {
    let lower = value.trim().to_lowercase();
    let bracketed = |open, close| lower.starts_with(open) && lower.ends_with(close);
    PLACEHOLDER_VALUES.contains(&lower.as_str())
        || PLACEHOLDER_PARTS.iter().any(|part| lower.contains(part))
        || lower.chars().all(|c| c == 'x')
        || bracketed('<', '>')
        || bracketed('[', ']')
        || bracketed('%', '%')
}

#[cfg(test)]
mod tests {
    #![allow(
        clippy::unwrap_used,
        clippy::disallowed_methods,
        reason = "tests build their own files"
    )]
    use super::*;

    const REAL: &str = "8f742231b10e8888abcd99yyyzzz85a5";

    fn fetch_file(text: &str, mode: u32) -> Result<String, String> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("secret");
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        let environment = BTreeMap::new();
        let mut resolver = SecretResolver::new(&environment, directory.path().to_owned());
        let secret = resolver.fetch(&SecretSource::File(PathBuf::from("secret")), 16);
        secret.map(|secret| secret.expose().to_owned())
    }

    /// T96
    #[test]
    fn placeholders_are_never_taken_for_secrets() {
        for value in [
            "changeme",
            "CHANGEME-please-now-1",
            "your-token",
            "xoxb-your-token-here",
            "<token>",
            "<slack bot token>",
            "xxx",
            "xoxb-xxxxxxxxxxxx",
            "todo",
            "TODO",
            "example",
            "AKIAIOSFODNN7EXAMPLE",
            "undefined",
            "null",
            "None",
            "nil",
            "${SLACK_BOT_TOKEN}",
            "{{ .Values.token }}",
            "%TOKEN%",
            "sk-ant-...",
            "[object Object]",
        ] {
            let why = check_secret(value, 1).unwrap_err();
            assert_eq!(
                why, "the secret is a placeholder; put the real one there",
                "{value}"
            );
        }
    }

    /// T96
    #[test]
    fn empty_short_and_repetitive_secrets_are_refused() {
        assert_eq!(check_secret("", 1).unwrap_err(), "the secret is empty");
        assert_eq!(check_secret(" \t\n", 1).unwrap_err(), "the secret is empty");
        assert_eq!(
            check_secret("abcdefghijklmno", 16).unwrap_err(),
            "the secret is too short; it needs at least 16 characters"
        );
        assert_eq!(
            check_secret("abababababababab", 16).unwrap_err(),
            "the secret can be guessed; it needs at least 5 different characters"
        );
        assert_eq!(
            check_secret("two words 12345678", 16).unwrap_err(),
            "the secret holds a space, a line break or a character outside ASCII"
        );
        assert_eq!(check_secret(REAL, 16), Ok(()));
    }

    #[test]
    fn one_newline_at_the_end_of_a_secret_file_is_not_part_of_it() {
        assert_eq!(fetch_file(&format!("{REAL}\n"), 0o600).unwrap(), REAL);
        assert_eq!(fetch_file(&format!("{REAL}\r\n"), 0o400).unwrap(), REAL);
        assert!(
            fetch_file(&format!("{REAL}\n\n"), 0o600)
                .unwrap_err()
                .contains("line break")
        );
    }

    /// STK-4: the file itself is readable for the service manager only.
    #[test]
    fn a_secret_file_is_read_from_the_credentials_of_the_service() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("secret");
        let credential = directory.path().join(credential_name(&file));
        std::fs::write(&credential, format!("{REAL}\n")).unwrap();
        let environment = BTreeMap::from([(
            CREDENTIALS.to_owned(),
            directory.path().to_str().unwrap().to_owned(),
        )]);
        let mut resolver = SecretResolver::new(&environment, directory.path().to_owned());
        let mut fetch = |mode| {
            std::fs::set_permissions(&credential, std::fs::Permissions::from_mode(mode)).unwrap();
            let secret = resolver.fetch(&SecretSource::File(PathBuf::from("secret")), 16);
            secret.map(|secret| secret.expose().to_owned())
        };
        assert_eq!(fetch(0o440), Ok(REAL.to_owned()));
        assert!(fetch(0o444).unwrap_err().contains("others can read"));
        // Another file has another credential.
        let other = resolver.fetch(&SecretSource::File(PathBuf::from("other")), 16);
        assert!(other.is_err_and(|why| why.contains("cannot read the secret file")));
    }

    /// T96
    #[test]
    fn a_secret_file_others_can_read_is_refused_with_the_fix() {
        for mode in [0o644, 0o640, 0o604, 0o620] {
            let why = fetch_file(REAL, mode).unwrap_err();
            assert!(
                why.starts_with("others can read the secret file; run: chmod 600 /"),
                "{why}"
            );
            assert!(!why.contains(REAL));
        }
    }

    #[test]
    fn a_pipe_or_directory_is_refused_as_a_secret_file_without_blocking() {
        let directory = tempfile::tempdir().unwrap();
        let environment = BTreeMap::new();
        let mut resolver = SecretResolver::new(&environment, directory.path().to_owned());
        let mut fetch = |path: &str| {
            resolver
                .fetch(&SecretSource::File(PathBuf::from(path)), 1)
                .map(|_| ())
                .unwrap_err()
        };
        assert_eq!(fetch("."), "the secret file is not a regular file");
        assert_eq!(fetch("/dev/null"), "the secret file is not a regular file");
        assert_eq!(
            fetch("missing"),
            "cannot read the secret file: No such file or directory (os error 2)"
        );
    }

    #[test]
    fn a_secret_written_where_its_name_belongs_is_not_repeated() {
        let environment = BTreeMap::new();
        let mut resolver = SecretResolver::new(&environment, PathBuf::new());
        for value in [REAL, "xoxb-123-abc", "ABCDEFGHIJKLMNOP0123"] {
            let why = resolver
                .fetch(&SecretSource::Variable(value.to_owned()), 1)
                .map(|_| ())
                .unwrap_err();
            assert_eq!(why, "the environment variable it names is not set");
        }
    }
}
