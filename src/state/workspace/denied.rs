//! Files that are known by name to hold secrets. Tools and programs do not read them.

use crate::base::model::compose_name;
use globset::{Glob, GlobBuilder, GlobSet, GlobSetBuilder};
use std::borrow::Cow;

/// Prefix of an entry that allows files which earlier entries deny.
const ALLOWS: char = '!';

/// Lists of globs. A file is denied if the last matching entry of any list does not begin with `!`.
#[derive(Clone, Debug, Default)]
pub struct DeniedFiles {
    lists: Vec<List>,
}

#[derive(Clone, Debug)]
struct List {
    globs: GlobSet,
    /// For each glob, by index: true if it allows files again.
    allows: Vec<bool>,
}

impl DeniedFiles {
    /// Compiles one list. Names are compared without regard to case and Unicode normalization form, because the
    /// file system of a working directory may ignore both.
    pub fn new<'a>(entries: impl IntoIterator<Item = &'a str>) -> Result<Self, globset::Error> {
        let (mut globs, mut allows) = (GlobSetBuilder::new(), Vec::new());
        for entry in entries {
            allows.push(entry.starts_with(ALLOWS));
            globs.add(glob(entry)?);
        }
        let globs = globs.build()?;
        Ok(Self {
            lists: vec![List { globs, allows }],
        })
    }

    /// Compiles the list that an operator configured. An invalid glob denies every file; the configuration check
    /// refuses such a glob earlier.
    pub fn from_config(entries: &[String]) -> Self {
        let list = Self::new(entries.iter().map(String::as_str));
        list.or_else(|_| Self::new(["**"])).unwrap_or_default()
    }

    /// Adds the lists of `others`.
    #[must_use]
    pub fn merged_with(mut self, others: Self) -> Self {
        self.lists.extend(others.lists);
        self
    }

    /// True if the file at this path must not be read. Links are not followed.
    pub fn is_denied(&self, path: &str) -> bool {
        let path = comparable(path);
        self.lists.iter().any(|list| {
            let last = list.globs.matches(path.as_ref()).last().copied();
            last.is_some_and(|last| list.allows.get(last) == Some(&false))
        })
    }
}

/// Normalizes a path or glob: one Unicode form and one case for each letter. ASCII is left as it is; the globs
/// ignore its case.
fn comparable(text: &str) -> Cow<'_, str> {
    match text.is_ascii() {
        true => text.into(),
        false => compose_name(&text.chars().flat_map(lowered).collect::<String>())
            .into_owned()
            .into(),
    }
}

/// Converts a letter to lower case regardless of its neighbours. A final sigma has its own lower-case form, which
/// is mapped to the usual one.
fn lowered(letter: char) -> impl Iterator<Item = char> {
    letter.to_lowercase().map(|lower| match lower {
        '\u{3c2}' => '\u{3c3}',
        other => other,
    })
}

fn glob(entry: &str) -> Result<Glob, globset::Error> {
    let glob = entry.strip_prefix(ALLOWS).unwrap_or(entry);
    GlobBuilder::new(&comparable(glob)).case_insensitive(true).build()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::DeniedFiles;
    use crate::base::config::SandboxSettings;

    #[test]
    fn the_last_entry_that_fits_decides_and_one_list_is_enough() {
        let denied = DeniedFiles::new(["secrets/**", "!**/*.jsonnet", "secrets/own.jsonnet"]).unwrap();
        let denied = denied.merged_with(DeniedFiles::new(["**/main.jsonnet"]).unwrap());
        for (path, holds) in [
            ("secrets/prod.key", true),
            ("Secrets/Prod.KEY", true),
            ("secrets/a/b.jsonnet", false),
            ("secrets/own.jsonnet", true),
            ("lib/secrets/prod.key", false),
            ("secrets/main.jsonnet", true),
            ("readme.md", false),
        ] {
            assert_eq!(denied.is_denied(path), holds, "{path}");
        }
        assert!(!DeniedFiles::default().is_denied(".env"));
        let denied = DeniedFiles::new(["\u{3ba}\u{3bb}\u{3b5}\u{3b9}\u{3c3}/*", "\u{39f}\u{3a3}"]).unwrap();
        for path in [
            "\u{39a}\u{39b}\u{395}\u{399}\u{3a3}/x",
            "\u{3ba}\u{3bb}\u{3b5}\u{3b9}\u{3c2}/x",
            "\u{3bf}\u{3c3}",
            "\u{3bf}\u{3c2}",
        ] {
            assert!(denied.is_denied(path), "{path}");
        }
        let denied = DeniedFiles::new(["gr\u{f6}\u{df}e/**", "sche\u{301}ma"]).unwrap();
        for path in [
            "gro\u{308}\u{df}e/x",
            "GR\u{d6}\u{df}E/x",
            "sch\u{e9}ma",
            "SCHE\u{301}MA",
        ] {
            assert!(denied.is_denied(path), "{path}");
        }
    }

    #[test]
    fn what_holds_secrets_by_its_name_is_denied_by_default_and_nothing_else() {
        let settings = SandboxSettings::default();
        let denied = DeniedFiles::new(settings.secrets_denied.iter().map(String::as_str)).unwrap();
        for path in [
            ".env",
            "a/.env",
            "a/.env.production",
            "tls/prod.key",
            "deploy/id_rsa",
            "id_ed25519",
            "secrets/prod.txt",
            "secrets/a/prod.yaml",
            "keys/store.p12",
        ] {
            assert!(denied.is_denied(path), "{path}");
        }
        for path in [
            ".env.example",
            ".envrc.md",
            "environments/dev/main.jsonnet",
            "secrets/main.jsonnet",
            "secrets/lib.libsonnet",
            "lib/secrets.libsonnet",
            "tls/ca.pem",
            "tls/ca.crt",
            "deploy/id_rsa.pub",
            "environments/dev/secrets/sealed.yaml",
            "vendor/k/keyboard.libsonnet",
        ] {
            assert!(!denied.is_denied(path), "{path}");
        }
    }
}
