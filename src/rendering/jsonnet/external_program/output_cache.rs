//! A cache of the outputs of external programs. The key covers all inputs of an output.

use super::copies::Copies;
use sha2::{Digest, Sha256};
use std::collections::{HashMap, VecDeque};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Bytes of all cached outputs.
const BYTES_MAX: usize = 64 << 20;

/// The key of an output: a hash of the installed program, its arguments, its input and its files.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct OutputKey([u8; 32]);

impl OutputKey {
    pub(super) fn new(program: &Path, arguments: &[String], input: &[u8], copies: &Copies) -> Self {
        let mut hash = Sha256::new();
        let mut part = |bytes: &[u8]| {
            hash.update((bytes.len() as u64).to_be_bytes());
            hash.update(bytes);
        };
        part(program.to_string_lossy().as_bytes());
        // A replaced or rewritten program file counts as another version.
        if let Ok(file) = std::fs::metadata(program) {
            let version = [file.dev(), file.ino(), file.size(), file.mtime().cast_unsigned()];
            version.iter().for_each(|number| part(&number.to_be_bytes()));
            part(&file.mtime_nsec().to_be_bytes());
        }
        part(&arguments.len().to_be_bytes());
        arguments.iter().for_each(|argument| part(argument.as_bytes()));
        part(input);
        for (path, content) in copies {
            part(path.as_str().as_bytes());
            part(content);
        }
        Self(hash.finalize().into())
    }
}

/// Cached outputs. The oldest ones are evicted first.
#[derive(Debug, Default)]
pub(super) struct OutputCache {
    outputs: HashMap<OutputKey, String>,
    order: VecDeque<OutputKey>,
    bytes: usize,
}

impl OutputCache {
    pub(super) fn get(&self, key: &OutputKey) -> Option<String> {
        self.outputs.get(key).cloned()
    }

    /// Caches an output. If another run has stored one in the meantime, that one stays.
    pub(super) fn insert(&mut self, key: OutputKey, output: &str) {
        if self.outputs.contains_key(&key) {
            return;
        }
        self.bytes = self.bytes.saturating_add(output.len());
        self.outputs.insert(key.clone(), output.to_owned());
        self.order.push_back(key);
        while self.bytes > BYTES_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            if let Some(gone) = self.outputs.remove(&oldest) {
                self.bytes = self.bytes.saturating_sub(gone.len());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::{BYTES_MAX, OutputCache, OutputKey};
    use crate::base::model::RepoPath;
    use crate::rendering::jsonnet::external_program::Copies;
    use bytes::Bytes;
    use std::path::Path;

    fn key(arguments: &[&str], input: &str, files: &[(&str, &str)]) -> OutputKey {
        let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
        let files = files.iter().map(|(path, text)| {
            let content = Bytes::copy_from_slice(text.as_bytes());
            (RepoPath::parse(path).unwrap(), content)
        });
        let copies: Copies = files.collect();
        OutputKey::new(Path::new("/nowhere/helm"), &arguments, input.as_bytes(), &copies)
    }

    /// T34
    #[test]
    fn a_cache_key_covers_every_input_of_an_output() {
        let base = key(&["a", "b"], "v", &[("x", "1")]);
        assert_eq!(base, key(&["a", "b"], "v", &[("x", "1")]));
        for other in [
            key(&["ab"], "v", &[("x", "1")]),
            key(&["a", "b"], "w", &[("x", "1")]),
            key(&["a", "b"], "v", &[("x", "2")]),
            key(&["a", "b"], "v", &[("y", "1")]),
            key(&["a"], "b", &[("v", ""), ("x", "1")]),
        ] {
            assert_ne!(base, other);
        }
        // Adjacent parts must stay distinct in the hash.
        assert_ne!(key(&["ab", "c"], "", &[]), key(&["a", "bc"], "", &[]));
        assert_ne!(key(&[], "", &[("ab", "c")]), key(&[], "", &[("a", "bc")]));
    }

    #[test]
    fn the_output_cache_is_bounded_and_keeps_the_first_answer() {
        let mut kept = OutputCache::default();
        let first = key(&["1"], "", &[]);
        kept.insert(first.clone(), "first");
        kept.insert(first.clone(), "second");
        assert_eq!(kept.get(&first).as_deref(), Some("first"));
        kept.insert(key(&["2"], "", &[]), &"x".repeat(BYTES_MAX));
        assert_eq!(kept.get(&first), None);
        assert!(kept.bytes <= BYTES_MAX);
    }
}
