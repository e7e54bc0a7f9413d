//! Files that hold secrets by their names: nobody looks into them.

use crate::model::compose_name;
use globset::{Glob, GlobBuilder, GlobSet, GlobSetBuilder};
use std::borrow::Cow;

/// The first character of an entry that takes files out again.
const ALLOWS: char = '!';

/// Lists of globs. A file is denied when the last entry of any list that fits it does not begin with `!`.
#[derive(Clone, Debug, Default)]
pub struct DeniedFiles {
    lists: Vec<List>,
}

#[derive(Clone, Debug)]
struct List {
    globs: GlobSet,
    /// True for globs that take files out again, by number of the glob.
    allows: Vec<bool>,
}

impl DeniedFiles {
    /// The files of one list. Names are compared without regard to case and to the forms of Unicode: a directory at a
    /// terminal may do so, too.
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

    /// The files an operator configured. An entry that is no glob, which the configuration refuses, denies everything.
    pub fn from_config(entries: &[String]) -> Self {
        let list = Self::new(entries.iter().map(String::as_str));
        list.or_else(|_| Self::new(["**"])).unwrap_or_default()
    }

    /// The files of these lists and of others.
    #[must_use]
    pub fn merged_with(mut self, others: Self) -> Self {
        self.lists.extend(others.lists);
        self
    }

    /// True if nobody looks into the file at this path. Links are not followed.
    pub fn is_denied(&self, path: &str) -> bool {
        let path = comparable(path);
        self.lists.iter().any(|list| {
            let last = list.globs.matches(path.as_ref()).last().copied();
            last.is_some_and(|last| list.allows.get(last) == Some(&false))
        })
    }
}

/// A path or a glob with each letter in one form and one case. What is ASCII is left to the globs.
fn comparable(text: &str) -> Cow<'_, str> {
    match text.is_ascii() {
        true => text.into(),
        false => compose_name(&text.chars().flat_map(lowered).collect::<String>())
            .into_owned()
            .into(),
    }
}

/// A letter in lower case, whatever is around it: a sigma has another form at the end of a word.
fn lowered(letter: char) -> impl Iterator<Item = char> {
    letter.to_lowercase().map(|lower| match lower {
        '\u{3c2}' => '\u{3c3}',
        other => other,
    })
}

/// Compiles an entry as a glob.
fn glob(entry: &str) -> Result<Glob, globset::Error> {
    let glob = entry.strip_prefix(ALLOWS).unwrap_or(entry);
    GlobBuilder::new(&comparable(glob)).case_insensitive(true).build()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::DeniedFiles;
    use crate::config::SandboxSettings;

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
