//! Glob patterns for repository paths, as models write them.

use super::ToolError;
use super::text::shortened;
use crate::base::model::{PathError, RepoPath};
use globset::{GlobBuilder, GlobMatcher};

/// The maximum length of a pattern, in bytes.
const PATTERN_BYTES_MAX: usize = 500;

/// A compiled pattern.
#[derive(Clone, Debug)]
pub(super) struct GlobPattern {
    matcher: GlobMatcher,
    names_dot_files: bool,
}

impl GlobPattern {
    /// Compiles a pattern. A pattern that leads out of the repository is refused, as such a path is.
    pub(super) fn parse(text: &str) -> Result<Self, ToolError> {
        let pattern = text.strip_prefix("./").unwrap_or(text);
        check(text, pattern)?;
        let glob = GlobBuilder::new(pattern)
            .literal_separator(true)
            .build()
            .map_err(|err| {
                ToolError::Failed(format!("`{}` is not a glob: {}", shortened(text), err.kind()))
            })?;
        Ok(Self {
            matcher: glob.compile_matcher(),
            names_dot_files: names_dot_files(pattern),
        })
    }

    /// Returns the matcher for searches.
    pub(super) fn matcher(&self) -> &GlobMatcher {
        &self.matcher
    }

    /// Returns true if a list of this pattern includes the file. Dot-files are included only if the pattern names
    /// one.
    pub(super) fn lists(&self, path: &RepoPath) -> bool {
        let hidden = || {
            path.as_str()
                .split('/')
                .any(|component| component.starts_with('.'))
        };
        self.matcher.is_match(path.as_str()) && (self.names_dot_files || !hidden())
    }
}

fn check(text: &str, pattern: &str) -> Result<(), ToolError> {
    if pattern.is_empty() || pattern == "." {
        return Err(ToolError::Failed(
            "the glob is empty; use `**` for all files or `environments/**` for one directory".to_owned(),
        ));
    }
    check_stays_inside(text, pattern)?;
    if pattern.len() > PATTERN_BYTES_MAX {
        return Err(ToolError::Failed(format!(
            "the glob has {} bytes; the limit is {PATTERN_BYTES_MAX}",
            pattern.len()
        )));
    }
    Ok(())
}

/// Checks that the pattern, without its wildcards, is a path in the repository. It may end like a directory: then the
/// answer says how to list a directory.
fn check_stays_inside(text: &str, pattern: &str) -> Result<(), ToolError> {
    let outside = || {
        ToolError::Failed(format!(
            "`{}` is outside the repository; use a glob relative to its root, such as `**/*.jsonnet`",
            shortened(text)
        ))
    };
    let without_wildcards = pattern
        .strip_suffix('/')
        .unwrap_or(pattern)
        .replace(['*', '?', '[', ']', '{', '}', ','], "x");
    match RepoPath::parse(&without_wildcards) {
        Ok(_) => {}
        Err(PathError::Outside(_)) => return Err(outside()),
        Err(err @ (PathError::Backslash(_) | PathError::Unprintable(_) | PathError::GitMetadata(_))) => {
            return Err(ToolError::Failed(err.to_string()));
        }
    }
    let mut alternatives = pattern.split(['/', '{', '}', ',']);
    if pattern.starts_with("./") || alternatives.any(|alternative| alternative == "..") {
        return Err(outside());
    }
    Ok(())
}

fn names_dot_files(pattern: &str) -> bool {
    pattern
        .split(['/', '{', ','])
        .any(|component| component.starts_with('.'))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::GlobPattern;
    use crate::base::model::RepoPath;

    fn listed(pattern: &str, path: &str) -> bool {
        GlobPattern::parse(pattern)
            .unwrap()
            .lists(&RepoPath::parse(path).unwrap())
    }

    /// TK-33
    #[test]
    fn two_stars_cross_directories_and_one_does_not() {
        assert!(listed("**/*.jsonnet", "main.jsonnet"));
        assert!(listed("**/*.jsonnet", "a/b/main.jsonnet"));
        assert!(listed("*.jsonnet", "main.jsonnet"));
        assert!(!listed("*.jsonnet", "a/main.jsonnet"));
        assert!(listed("./a/**", "a/b/c"));
        assert!(listed("a/*.{jsonnet,libsonnet}", "a/x.libsonnet"));
    }

    #[test]
    fn dot_files_are_hidden_until_one_is_named() {
        for (pattern, path, shown) in [
            ("**", ".gitignore", false),
            ("**", ".github/workflows/ci.yaml", false),
            (".gitignore", ".gitignore", true),
            ("**/.github/**", ".github/workflows/ci.yaml", true),
            ("**/{.env,x}", "a/.env", true),
            ("**/*.yaml", "a/b.yaml", true),
        ] {
            assert_eq!(listed(pattern, path), shown, "{pattern} {path}");
        }
    }

    /// T35
    #[test]
    fn a_glob_that_leads_outside_is_refused() {
        for pattern in [
            "../**",
            "a/../../**",
            "/etc/*",
            "~/*",
            "{..,a}/x",
            "..\\*",
            "a/..",
            "/",
            "\0",
            "./../x",
        ] {
            let refused = GlobPattern::parse(pattern).unwrap_err().to_string();
            assert!(refused.contains("outside the repository"), "{pattern}: {refused}");
        }
    }

    #[test]
    fn a_pattern_that_is_no_glob_says_why() {
        let why = |pattern: &str| GlobPattern::parse(pattern).unwrap_err().to_string();
        assert!(why("a[").starts_with("`a[` is not a glob: "));
        assert!(why("{a").starts_with("`{a` is not a glob: "));
        assert!(why("").starts_with("the glob is empty; use `**`"));
        assert_eq!(why(&"*".repeat(501)), "the glob has 501 bytes; the limit is 500");
    }
}
