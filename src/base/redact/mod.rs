//! The single point where secrets are removed: every text for a model, a chat, a log, a recording or a diff passes
//! it, and is cut to length only afterwards. It knows the live secrets in every usual encoding, and the patterns of
//! common secrets. It never stores the texts.

mod code;
mod common_bytes;
mod document;
mod file_secrets;
mod classifier;
mod live;
mod manifest;
mod named_files;
mod patterns;
mod program;
mod stable;
mod source;
mod unquoted;
mod visible_text;

pub use file_secrets::FileSecrets;
pub use named_files::NamedFiles;
pub use source::{KnownSecret, is_secret_file_name};

use crate::base::model::{RepoPath, Secret};
use file_secrets::FileSecretsCache;
use live::{LiveValues, SearchText};
use sha2::{Digest as _, Sha256};
use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use visible_text::VisibleText;

/// The text before the number in a placeholder.
const OPENING: &str = "⟦secret:";
/// The character after the number.
const CLOSING: char = '⟧';
/// Maximum number of values with their own number. All later values share the next number.
const NUMBERS_MAX: usize = 100_000;
/// Maximum number of file names that are recorded as searched.
const SEARCHED_NAMES_MAX: usize = 10_000;
/// Maximum size of all texts that one redactor learns, in bytes. Above it, all text is withheld.
const LEARNED_BYTES_MAX: usize = 2 << 20;

/// Replaces secrets by `⟦secret:N⟧`. The same value always has the same number in this redactor, so that people and
/// models can distinguish values.
///
/// It hides the live secrets and those it has learnt. Redactors do not share learnt secrets. Code that reads files
/// on behalf of a person creates a separate redactor with [`Redactor::fresh`].
pub struct Redactor {
    shared: Arc<SharedSecrets>,
    learned: Mutex<LearnedSecrets>,
}

/// The part that all redactors of a process share.
struct SharedSecrets {
    live: LiveValues,
    /// The random key of the fingerprints in this process, so that none can be looked up.
    fingerprints: RandomState,
    /// Fingerprint to number. The lock is held only for a look-up, and never across an await.
    numbers: Mutex<HashMap<u64, usize>>,
    /// The secrets in files by the hash of their content, without their owners.
    files: Mutex<FileSecretsCache>,
}

/// The learnt secrets.
#[derive(Default)]
struct LearnedSecrets {
    /// The fingerprints of the texts.
    known: HashSet<u64>,
    /// The texts to search for, each with the fingerprint of its secret.
    texts: Vec<(Secret, u64)>,
    /// The size of the texts in bytes, including those that were dropped.
    bytes: usize,
    /// The finder of the texts; `None` while there are new ones.
    live: Option<Arc<LiveValues>>,
    /// Files that other files declare as secrets.
    named: NamedFiles,
    /// Names of files for which all other files were searched.
    searched_names: HashSet<String>,
}

/// A range of a text to hide, and its number.
struct SecretSpan {
    range: Range<usize>,
    fingerprint: u64,
}

impl std::fmt::Debug for Redactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Redactor").finish_non_exhaustive()
    }
}

impl Redactor {
    /// Creates a redactor for these live secrets. Secrets of fewer than 8 bytes are ignored, because they also
    /// occur in ordinary text.
    pub fn new(secrets: impl IntoIterator<Item = Secret>) -> Self {
        let fingerprints = RandomState::new();
        let live = LiveValues::of_secrets(secrets, |value| fingerprints.hash_one(value));
        Self {
            shared: Arc::new(SharedSecrets {
                live,
                fingerprints,
                numbers: Mutex::default(),
                files: Mutex::default(),
            }),
            learned: Mutex::default(),
        }
    }

    /// Returns a redactor with the same live secrets and without the learnt ones.
    #[must_use]
    pub fn fresh(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            learned: Mutex::default(),
        }
    }

    /// Learns the secrets in a whole file, so that they are hidden in every part of it and in every text made from
    /// it. `blob` is the git hash of the content, if known.
    pub fn learn_file(&self, blob: Option<&str>, content: &[u8]) {
        let found = self.secrets_in_file(blob, content);
        self.learn(&found.secrets);
        if !found.files.is_empty() {
            let mut learnt = self.learned.lock().unwrap_or_else(PoisonError::into_inner);
            learnt.named.add(&found.files);
        }
    }

    /// Learns the secrets in a file that is a secret as a whole.
    pub fn learn_named_file(&self, content: &[u8]) {
        self.learn(&self.secrets_of_named_file(content));
    }

    /// True for a file that is a secret as a whole, by its own name or because a learnt file declares it.
    pub fn is_secret_file(&self, path: &RepoPath) -> bool {
        let learnt = self.learned.lock().unwrap_or_else(PoisonError::into_inner);
        is_secret_file_name(path.file_name()) || learnt.named.contains(path)
    }

    /// True if all files that mention this name were learnt. Later content is learnt when it is written.
    pub fn is_name_searched(&self, file_name: &str) -> bool {
        let learnt = self.learned.lock().unwrap_or_else(PoisonError::into_inner);
        learnt.searched_names.contains(file_name)
    }

    /// Records that all files that mention this name were learnt.
    pub fn mark_name_searched(&self, file_name: &str) {
        let mut learnt = self.learned.lock().unwrap_or_else(PoisonError::into_inner);
        if learnt.searched_names.len() < SEARCHED_NAMES_MAX {
            learnt.searched_names.insert(file_name.to_owned());
        }
    }

    /// Returns the secrets in a file that is a secret as a whole. Certificate bundles are public.
    pub fn secrets_of_named_file(&self, content: &[u8]) -> Vec<KnownSecret> {
        std::str::from_utf8(content).map_or_else(|_| Vec::new(), source::secrets_of_named)
    }

    /// Returns the secrets in a whole file, and the files that it declares as secrets.
    pub fn secrets_in_file(&self, blob: Option<&str>, content: &[u8]) -> Arc<FileSecrets> {
        let key = match blob {
            Some(blob) => blob.to_owned(),
            None => hex::encode(Sha256::digest(content)),
        };
        if let Some(found) = self.shared.files().get(&key) {
            return found;
        }
        // Content that is not UTF-8 has no secrets that could be shown.
        let text = std::str::from_utf8(content).unwrap_or_default();
        let found = Arc::new(FileSecrets {
            secrets: source::secrets_in(text),
            files: source::files_named(text),
        });
        self.shared.files().put(key, &found);
        found
    }

    /// Returns the secrets in a file by the git hash of its content. Reads the content only if the hash is not
    /// cached, and stores the result under the actual hash, because the file may have changed in the meantime.
    pub fn secrets_in_blob(
        &self,
        blob: &str,
        read: impl FnOnce() -> Option<(bytes::Bytes, String)>,
    ) -> Option<Arc<FileSecrets>> {
        let known = self.shared.files().get(blob);
        known.or_else(|| {
            let (content, blob) = read()?;
            Some(self.secrets_in_file(Some(&blob), &content))
        })
    }

    /// True if it has learnt secrets in addition to the live ones.
    pub fn has_learned_secrets(&self) -> bool {
        let learnt = self.learned.lock().unwrap_or_else(PoisonError::into_inner);
        learnt.bytes > 0
    }

    /// Returns the secrets in an entry of a rendered `Secret`.
    pub fn secrets_in_entry(&self, name: &str, value: &str) -> Vec<KnownSecret> {
        source::secrets_in_entry(name, value)
    }

    /// Returns the secrets in a whole text.
    pub fn secrets_in(&self, text: &str) -> Vec<KnownSecret> {
        source::secrets_in(text)
    }

    /// Learns secrets that were found.
    pub fn learn(&self, secrets: &[KnownSecret]) {
        if secrets.is_empty() {
            return;
        }
        let mut learnt = self.learned.lock().unwrap_or_else(PoisonError::into_inner);
        for secret in secrets {
            let whole = secret.texts.first().map_or("", Secret::expose);
            let whole = self.shared.fingerprints.hash_one(whole);
            for text in &secret.texts {
                if learnt.bytes > LEARNED_BYTES_MAX {
                    return;
                }
                let fingerprint = self.shared.fingerprints.hash_one(text.expose());
                if learnt.known.insert(fingerprint) {
                    learnt.add(text, whole);
                }
            }
        }
    }

    /// Returns the finder of the learnt secrets, or `None` if there are none.
    fn learned_values(&self) -> Option<Arc<LiveValues>> {
        let mut learnt = self.learned.lock().unwrap_or_else(PoisonError::into_inner);
        if learnt.bytes == 0 {
            return None;
        }
        if let Some(live) = &learnt.live {
            return Some(Arc::clone(live));
        }
        let sought = learnt.texts.iter().map(|(text, fingerprint)| SearchText {
            text: text.expose(),
            fingerprint: *fingerprint,
        });
        let live = Arc::new(match learnt.bytes > LEARNED_BYTES_MAX {
            true => LiveValues::too_large(),
            false => LiveValues::new(&sought.collect::<Vec<_>>()),
        });
        learnt.live = Some(Arc::clone(&live));
        Some(live)
    }

    /// Returns the numbers, counted from 1, of the lines that contain a secret or a part of one.
    pub fn lines(&self, text: &str) -> BTreeSet<usize> {
        let mut lines = BTreeSet::new();
        let (mut counted, mut line) = (0, 1);
        for finding in self.findings(text) {
            let passed = text
                .as_bytes()
                .get(counted..finding.range.start)
                .unwrap_or_default();
            line += memchr::memchr_iter(b'\n', passed).count();
            counted = finding.range.start;
            let inside = text.as_bytes().get(finding.range).unwrap_or_default();
            lines.extend(line..=line + memchr::memchr_iter(b'\n', inside).count());
        }
        lines
    }

    /// Returns the text without secrets, borrowed if it contains none.
    pub fn redact<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let findings = self.findings(text);
        if findings.is_empty() {
            return Cow::Borrowed(text);
        }
        let mut redacted = String::with_capacity(text.len());
        let mut copied = 0;
        for finding in findings {
            redacted.push_str(text.get(copied..finding.range.start).unwrap_or_default());
            redacted.push_str(&format!("{OPENING}{}{CLOSING}", self.number(finding.fingerprint)));
            copied = finding.range.end;
        }
        redacted.push_str(text.get(copied..).unwrap_or_default());
        Cow::Owned(redacted)
    }

    /// True if the text contains a live secret.
    pub fn contains_live(&self, text: &str) -> bool {
        let mut holds = false;
        self.shared.live.find(text, |_, _| holds = true);
        holds || VisibleText::new(text).is_some_and(|seen| self.contains_live(&seen.text))
    }

    /// Returns all ranges to replace, in order, without overlaps and on character boundaries.
    fn findings(&self, text: &str) -> Vec<SecretSpan> {
        let mut findings = Vec::new();
        let learnt = self.learned_values();
        let mut found = |range, fingerprint| findings.push(SecretSpan { range, fingerprint });
        self.shared.live.find(text, &mut found);
        if let Some(learnt) = &learnt {
            learnt.find(text, &mut found);
        }
        let seen = VisibleText::new(text);
        if let Some(seen) = &seen {
            let mut found =
                |range: Range<usize>, fingerprint| found(seen.original_range(&range), fingerprint);
            self.shared.live.find(&seen.text, &mut found);
            if let Some(learnt) = &learnt {
                learnt.find(&seen.text, &mut found);
            }
        }
        let live = findings.len();
        if let Some(seen) = &seen {
            patterns::find(&seen.text, |range| {
                let secret = seen.text.get(range.clone()).unwrap_or_default();
                let (range, fingerprint) = (
                    seen.original_range(&range),
                    self.shared.fingerprints.hash_one(secret),
                );
                findings.push(SecretSpan { range, fingerprint });
            });
        }
        patterns::find(text, |range| {
            let fingerprint = self
                .shared
                .fingerprints
                .hash_one(text.get(range.clone()).unwrap_or_default());
            findings.push(SecretSpan { range, fingerprint });
        });
        if findings.len() <= 1 {
            return findings;
        }
        // A live value determines the number of any finding that contains it, so that it has the same number in
        // every context.
        let mut ordered: Vec<(bool, SecretSpan)> = findings
            .into_iter()
            .enumerate()
            .map(|(index, finding)| (index < live, finding))
            .collect();
        ordered.sort_by_key(|(_, finding)| finding.range.start);
        let mut merged: Vec<(bool, SecretSpan)> = Vec::with_capacity(ordered.len());
        for (is_live, finding) in ordered {
            match merged.last_mut() {
                Some((last_is_live, last)) if finding.range.start < last.range.end => {
                    last.range.end = last.range.end.max(finding.range.end);
                    if is_live && !*last_is_live {
                        *last_is_live = true;
                        last.fingerprint = finding.fingerprint;
                    }
                }
                _ => merged.push((is_live, finding)),
            }
        }
        merged.into_iter().map(|(_, finding)| finding).collect()
    }

    fn number(&self, fingerprint: u64) -> usize {
        let mut numbers = self.shared.numbers.lock().unwrap_or_else(PoisonError::into_inner);
        let next = numbers.len() + 1;
        if next > NUMBERS_MAX {
            return numbers.get(&fingerprint).copied().unwrap_or(next);
        }
        *numbers.entry(fingerprint).or_insert(next)
    }
}

impl SharedSecrets {
    fn files(&self) -> std::sync::MutexGuard<'_, FileSecretsCache> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LearnedSecrets {
    /// Adds a text, or drops all texts if they are too many to search for.
    fn add(&mut self, text: &Secret, whole: u64) {
        self.live = None;
        self.bytes += text.expose().len();
        match self.bytes > LEARNED_BYTES_MAX {
            true => (self.texts, self.known) = (Vec::new(), HashSet::new()),
            false => self.texts.push((text.clone(), whole)),
        }
    }
}

/// True if the text contains a placeholder. Such a text differs from its original, and a patch of it does not
/// apply.
pub fn contains_placeholder(text: &str) -> bool {
    text.split(OPENING).skip(1).any(|rest| {
        rest.split_once(CLOSING)
            .is_some_and(|(number, _)| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
    })
}

#[cfg(test)]
mod tests;
