//! Paths inside a repository, checked once when they are parsed.

use super::{cut_after, one_line};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::sync::Arc;

/// The maximum length of a path in bytes.
const PATH_BYTES_MAX: usize = 4_096;

/// A file's path inside the repository: relative, `/`-separated UTF-8 of at most 4,096 bytes. It has no empty, `.` or
/// `..` component, no backslash, backtick or control character, and no component that git, on any system, would treat
/// as its own directory. So a path cannot break a line or end its code span. In the gateway it is a key in a tree,
/// not a name on a disk.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RepoPath(Arc<str>);

/// The reason why a text is not a [`RepoPath`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// The text could name something other than a file of the repository.
    #[error(
        "`{0}` is outside the repository; use a path relative to its root, such as `environments/dev/main.jsonnet`"
    )]
    Outside(String),
    /// The text contains a backslash, which is a separator on some systems and part of a name on others.
    #[error(
        "`{0}` is outside the repository, where no name has a backslash; use `/` between folders, or another name"
    )]
    Backslash(String),
    /// The text contains a character that would start a line or end the code span of a name.
    #[error(
        "`{0}`: names with line ends, control characters or backticks are not part of the workspace; use another name"
    )]
    Unprintable(String),
    /// A component names git's own files.
    #[error("`{0}`: git metadata is read-only and not part of the workspace")]
    GitMetadata(String),
}

impl RepoPath {
    /// Checks a path. A leading `./` is removed, because models write it; nothing else is corrected.
    pub fn parse(text: &str) -> Result<Self, PathError> {
        let outside = || PathError::Outside(shorten(text));
        let path = text.strip_prefix("./").unwrap_or(text);
        if path.is_empty() || path.len() > PATH_BYTES_MAX || path.contains('\0') || path.starts_with('~') {
            return Err(outside());
        }
        if path.contains('\\') {
            return Err(PathError::Backslash(shorten(text)));
        }
        if path.contains(leaves_its_line) {
            return Err(PathError::Unprintable(shorten(text)));
        }
        if path.contains('%') {
            let lower = path.to_ascii_lowercase();
            if ["%2e", "%2f", "%5c", "%00"]
                .iter()
                .any(|escape| lower.contains(escape))
            {
                return Err(outside());
            }
        }
        for component in path.split('/').filter(|component| !is_plain(component)) {
            check_component(component).map_err(|reason| match reason {
                Reason::Shape => outside(),
                Reason::Git => PathError::GitMetadata(shorten(text)),
            })?;
        }
        Ok(Self(path.into()))
    }

    /// Returns the path as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the last component.
    pub fn file_name(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or(&self.0)
    }

    /// Returns the directory of the file; `None` at the root.
    pub fn parent(&self) -> Option<&str> {
        self.0.rsplit_once('/').map(|(parent, _)| parent)
    }
}

impl std::fmt::Display for RepoPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for RepoPath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for RepoPath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

enum Reason {
    Shape,
    Git,
}

/// Returns true for an ordinary component, which needs no further check: it begins with a letter, a digit or `_` and
/// has only these characters, `-` and `.`. No name that git or a file system treats specially has this form.
fn is_plain(component: &str) -> bool {
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let bytes = component.as_bytes();
    bytes.first().is_some_and(is_word)
        && bytes
            .iter()
            .all(|byte| is_word(byte) || matches!(byte, b'-' | b'.'))
}

fn check_component(component: &str) -> Result<(), Reason> {
    use gix_validate::path::component::{Error, Options};
    // Names of Windows devices are allowed: `aux.libsonnet` is a valid name in a repository.
    let options = Options {
        protect_windows: false,
        protect_hfs: true,
        protect_ntfs: true,
    };
    match gix_validate::path::component(component.into(), None, options) {
        Ok(_) => Ok(()),
        Err(Error::DotGitDir) => Err(Reason::Git),
        Err(_) => Err(Reason::Shape),
    }
}

fn leaves_its_line(character: char) -> bool {
    character.is_control() || matches!(character, '`' | '\u{2028}' | '\u{2029}')
}

fn shorten(text: &str) -> String {
    const SHOWN_CHARS_MAX: usize = 120;
    one_line(&cut_after(text, SHOWN_CHARS_MAX)).replace('`', "'")
}

#[cfg(test)]
mod tests {
    use super::{PathError, RepoPath, check_component, is_plain};
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_plain_component_is_one_that_git_takes(
            component in "[A-Za-z0-9_.-]{0,12}|(?i)[.]?(git|aux|con|nul)[0-9._-]{0,3}|git[~]?[0-9][.]?"
        ) {
            prop_assert!(!is_plain(&component) || check_component(&component).is_ok(), "{component}");
        }
    }

    /// T35
    #[test]
    fn what_could_name_another_file_is_outside() {
        let deep = "../".repeat(5_000);
        for text in [
            "",
            ".",
            "..",
            "/",
            "/etc/passwd",
            "../x",
            "a/../../x",
            "a//b",
            "a/",
            "a/.",
            "./../x",
            "././x",
            "..\\x",
            "a\\b",
            "~/x",
            "%2e%2e/x",
            "a/%2E%2e/b",
            "a%2fb",
            "a\0b",
            "//x",
            deep.as_str(),
        ] {
            assert!(
                matches!(
                    RepoPath::parse(text),
                    Err(PathError::Outside(_) | PathError::Backslash(_))
                ),
                "{text:?}"
            );
        }
    }

    /// T43, T58
    #[test]
    fn a_name_that_could_start_a_line_or_leave_its_backticks_is_refused() {
        for text in [
            "a\nno secrets in added lines  pass",
            "a\r\nb",
            "a\tb",
            "a/\u{1b}[2J",
            "a\u{7f}",
            "a\u{85}b",
            "a\u{2028}b",
            "a/b\u{2029}",
            "a`, which is fine, `b",
        ] {
            let why = RepoPath::parse(text).map_or_else(|error| error.to_string(), |path| path.to_string());
            assert!(why.contains("use another name"), "{why}");
            // The only backticks are those around the name.
            let parts: Vec<&str> = why.split('`').collect();
            assert_eq!(parts.len(), 3, "{why:?}");
            assert!(!parts.concat().chars().any(super::leaves_its_line), "{why:?}");
        }
    }

    /// T39
    #[test]
    fn names_git_would_take_for_its_own_are_refused() {
        for text in [
            ".git",
            ".GIT/config",
            "a/.git",
            ".git/hooks/x",
            "sub/.Git/x",
            ".g\u{200c}it/config",
            "git~1/config",
            ".git::$INDEX_ALLOCATION/config",
            ".git /config",
            ".git./config",
        ] {
            assert!(
                matches!(RepoPath::parse(text), Err(PathError::GitMetadata(_))),
                "{text:?}"
            );
        }
    }

    #[test]
    fn ordinary_names_are_accepted_as_they_are() {
        for text in [
            "a",
            "a/b.jsonnet",
            ".gitignore",
            "lib/aux.libsonnet",
            "ümlaut/x y.txt",
            "a..b/c",
            "gitops/x",
        ] {
            assert_eq!(
                RepoPath::parse(text).map(|path| path.as_str().to_owned()),
                Ok(text.to_owned())
            );
        }
        assert_eq!(
            RepoPath::parse("./a/b").map(|path| path.to_string()),
            Ok("a/b".to_owned())
        );
    }
}
