//! Finds the parts of a change that the request does not mention. The result is a hint and not a verdict: it
//! compares words and errs on the side of "not asked for".

use crate::base::model::{MAIN_FILE, SPEC_FILE};
use serde::Serialize;
use std::collections::BTreeSet;

/// The mention of a changed part in the person's request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AskedFor {
    /// The request names the part.
    Yes,
    /// The request names other parts of this kind, but not this one.
    No,
    /// The request names no part of this kind, so nothing can be concluded.
    Unsaid,
}

pub(super) struct RequestWords {
    words: BTreeSet<String>,
}

impl RequestWords {
    pub(super) fn new(text: &str) -> Self {
        let pieces = text.split(|c: char| !is_name_char(c));
        // A name may be at the end of a sentence or stand for a folder.
        let words = pieces.map(|piece| piece.trim_matches(['.', '/', '-', '_']).to_lowercase());
        Self {
            words: words.filter(|word| !word.is_empty()).collect(),
        }
    }

    /// Returns for each name whether the request mentions it, in order.
    pub(super) fn asked_for<'a>(&self, names: impl Iterator<Item = &'a str>) -> Vec<AskedFor> {
        let named: Vec<bool> = names.map(|name| self.mentions(name)).collect();
        let otherwise = match named.contains(&true) {
            true => AskedFor::No,
            false => AskedFor::Unsaid,
        };
        let answers = named
            .into_iter()
            .map(|named| if named { AskedFor::Yes } else { otherwise });
        answers.collect()
    }

    /// True if the request names the path, a suffix of it, or a component other than the first, which is a shared
    /// folder.
    fn mentions(&self, path: &str) -> bool {
        let path = path.trim_matches('/').to_lowercase();
        let parts: Vec<&str> = path.split('/').collect();
        let ends = (0..parts.len()).map(|start| parts.get(start..).unwrap_or_default().join("/"));
        let inner = parts.iter().skip(1).map(|part| (*part).to_owned());
        let stem = parts
            .last()
            .and_then(|file| file.rsplit_once('.'))
            .map(|(stem, _)| stem.to_owned());
        ends.chain(inner)
            .chain(stem)
            .any(|name| !is_common(&name) && self.words.contains(&name))
    }
}

fn is_name_char(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | '/')
}

/// True for file names that every environment has.
fn is_common(name: &str) -> bool {
    matches!(name, "main" | MAIN_FILE | "spec" | SPEC_FILE | "")
}

#[cfg(test)]
mod tests {
    use super::{AskedFor, RequestWords};

    fn asked(request: &str, names: &[&str]) -> Vec<AskedFor> {
        RequestWords::new(request).asked_for(names.iter().copied())
    }

    #[test]
    fn what_the_request_does_not_name_was_not_asked_for() {
        let environments = ["environments/staging", "environments/prod"];
        let (yes, no, unsaid) = (AskedFor::Yes, AskedFor::No, AskedFor::Unsaid);
        assert_eq!(asked("Scale web to 3 in staging.", &environments), [yes, no]);
        assert_eq!(asked("scale it in Prod and staging", &environments), [yes, yes]);
        assert_eq!(asked("scale it", &environments), [unsaid, unsaid]);
        assert_eq!(asked("in environments/prod/", &environments), [no, yes]);
        assert_eq!(asked("reproduce the product", &environments), [unsaid, unsaid]);
    }

    #[test]
    fn files_are_named_by_path_name_or_folder_but_not_by_what_all_share() {
        let files = [
            "environments/dev/main.jsonnet",
            "lib/common.libsonnet",
            "environments/prod/main.jsonnet",
        ];
        let (yes, no) = (AskedFor::Yes, AskedFor::No);
        assert_eq!(asked("change `common.libsonnet`", &files), [no, yes, no]);
        assert_eq!(asked("common and dev", &files), [yes, yes, no]);
        assert_eq!(asked("edit environments/dev/main.jsonnet", &files), [yes, no, no]);
    }
}
