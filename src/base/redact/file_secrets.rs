//! Cache of the secrets in files by the hash of their content, so that each content is scanned once.

use super::KnownSecret;
use std::collections::HashMap;
use std::sync::Arc;

/// Maximum number of cached files. Above it, the older half is dropped.
const FILES_MAX: usize = 65_536;
/// Maximum size of the cache in bytes. Above it, the older half is dropped.
pub(super) const FILES_BYTES_MAX: usize = 16 << 20;

/// The secrets in a file, and the files that it declares as secrets.
#[derive(Debug)]
pub struct FileSecrets {
    /// The secrets in the file.
    pub secrets: Vec<KnownSecret>,
    /// The files that it declares as secrets, as written.
    pub files: Vec<String>,
}

impl FileSecrets {
    pub(super) fn bytes(&self) -> usize {
        let secrets = self.secrets.iter().map(KnownSecret::bytes);
        let files = self.files.iter().map(|file| file.len() + size_of::<String>());
        secrets.chain(files).sum()
    }
}

#[derive(Default)]
pub(super) struct FileSecretsCache {
    pub(super) recent: HashMap<String, Arc<FileSecrets>>,
    recent_bytes: usize,
    pub(super) before: HashMap<String, Arc<FileSecrets>>,
}

impl FileSecretsCache {
    pub(super) fn get(&mut self, key: &str) -> Option<Arc<FileSecrets>> {
        if let Some(known) = self.recent.get(key) {
            return Some(Arc::clone(known));
        }
        let known = self.before.remove(key)?;
        self.put(key.to_owned(), &known);
        Some(known)
    }

    pub(super) fn put(&mut self, key: String, known: &Arc<FileSecrets>) {
        self.recent_bytes += key.len() + known.bytes();
        self.recent.insert(key, Arc::clone(known));
        if self.recent.len() > FILES_MAX / 2 || self.recent_bytes > FILES_BYTES_MAX / 2 {
            self.before = std::mem::take(&mut self.recent);
            self.recent_bytes = 0;
        }
    }
}
