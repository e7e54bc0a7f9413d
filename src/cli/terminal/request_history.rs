//! The file of earlier requests, which the prompt recalls and searches. It is private, has a bounded size, and never
//! contains a request with a secret.

use crate::base::redact::Redactor;
use crate::cli::user_directory::user_directory;
use reedline::{
    FileBackedHistory, History, HistoryItem, HistoryItemId, HistorySessionId, Result, SearchQuery,
};
use std::borrow::Cow;
use std::fs::{DirBuilder, OpenOptions, Permissions};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The maximum number of stored requests; older ones are removed.
const REQUESTS_MAX: usize = 1_000;
/// The maximum length of a stored request, in bytes. A longer one is not stored.
const REQUEST_BYTES_MAX: usize = 4_096;
/// The maximum size of the file, in bytes. A larger one was not written by this program.
const FILE_BYTES_MAX: u64 = 8 << 20;

/// Opens the history of this user.
pub(super) fn open(redactor: Arc<Redactor>) -> std::io::Result<Box<dyn History>> {
    let Some(path) = path() else {
        return Err(std::io::Error::other("neither XDG_STATE_HOME nor HOME is set"));
    };
    let history = RedactedHistory::open(&path, redactor)?;
    Ok(Box::new(history))
}

/// Returns a history of this session only.
pub(super) fn in_memory() -> Box<dyn History> {
    Box::new(FileBackedHistory::default())
}

/// Returns the path of the file: `drydock/requests` below `$XDG_STATE_HOME` or `~/.local/state`.
fn path() -> Option<PathBuf> {
    Some(user_directory("XDG_STATE_HOME", ".local/state")?.join("requests"))
}

/// A history that leaves out requests with secrets.
struct RedactedHistory {
    requests: FileBackedHistory,
    redactor: Arc<Redactor>,
}

impl RedactedHistory {
    /// Opens a file, and creates it with mode 0600 if it is missing.
    fn open(path: &Path, redactor: Arc<Redactor>) -> std::io::Result<Self> {
        if let Some(directory) = path.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        }
        let file = OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o600)
            .open(path)?;
        let metadata = file.metadata()?;
        if metadata.len() > FILE_BYTES_MAX {
            return Err(std::io::Error::other(format!(
                "{} has more than 8 MiB; remove it",
                path.display()
            )));
        }
        if metadata.permissions().mode() & 0o077 != 0 {
            file.set_permissions(Permissions::from_mode(0o600))?;
        }
        let requests =
            FileBackedHistory::with_file(REQUESTS_MAX, path.to_owned()).map_err(std::io::Error::other)?;
        Ok(Self { requests, redactor })
    }

    fn may_store(&self, request: &str) -> bool {
        request.len() <= REQUEST_BYTES_MAX && matches!(self.redactor.redact(request), Cow::Borrowed(_))
    }
}

impl History for RedactedHistory {
    fn save(&mut self, item: HistoryItem) -> Result<HistoryItem> {
        if !self.may_store(&item.command_line) {
            return Ok(item);
        }
        let saved = self.requests.save(item)?;
        // Each request is written at once, so that it survives a crash.
        self.requests.sync()?;
        Ok(saved)
    }

    fn load(&self, id: HistoryItemId) -> Result<HistoryItem> {
        self.requests.load(id)
    }

    fn count(&self, query: SearchQuery) -> Result<i64> {
        self.requests.count(query)
    }

    fn search(&self, query: SearchQuery) -> Result<Vec<HistoryItem>> {
        self.requests.search(query)
    }

    fn update(&mut self, id: HistoryItemId, updater: &dyn Fn(HistoryItem) -> HistoryItem) -> Result<()> {
        self.requests.update(id, updater)
    }

    fn clear(&mut self) -> Result<()> {
        self.requests.clear()
    }

    fn delete(&mut self, id: HistoryItemId) -> Result<()> {
        self.requests.delete(id)
    }

    fn sync(&mut self) -> std::io::Result<()> {
        self.requests.sync()
    }

    fn session(&self) -> Option<HistorySessionId> {
        self.requests.session()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
#[allow(clippy::disallowed_methods, reason = "tests read their own files")]
mod tests {
    use super::{REQUEST_BYTES_MAX, REQUESTS_MAX, RedactedHistory};
    use crate::base::redact::Redactor;
    use reedline::{History as _, HistoryItem};
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;
    use std::sync::Arc;

    fn save(path: &Path, requests: impl IntoIterator<Item = String>) {
        let mut history = RedactedHistory::open(path, Arc::new(Redactor::new([]))).unwrap();
        for request in requests {
            history.save(HistoryItem::from_command_line(request)).unwrap();
        }
    }

    /// TK-60
    #[test]
    fn requests_survive_the_session_in_a_private_file_without_secrets() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("state/drydock/requests");
        let secret = "use ghp_0123456789abcdefghijABCDEFGHIJ012345 for it";
        let long = "x".repeat(REQUEST_BYTES_MAX + 1);
        save(&path, ["first", secret, &long, "second\nline"].map(str::to_owned));
        save(&path, ["third".to_owned()]);
        assert_eq!(
            std::fs::read_to_string(&path).unwrap(),
            "first\nsecond<\\n>line\nthird\n"
        );
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        save(&path, []);
        assert_eq!(mode(&path), 0o600);
    }

    #[test]
    fn the_oldest_requests_are_removed_from_a_full_file() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("requests");
        save(
            &path,
            (0..REQUESTS_MAX + 5).map(|number| format!("request {number}")),
        );
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().count(), REQUESTS_MAX);
        assert_eq!(text.lines().next(), Some("request 5"));
    }

    #[test]
    fn a_history_file_that_is_too_large_is_left_alone() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("requests");
        std::fs::File::create(&path).unwrap().set_len(9 << 20).unwrap();
        let refused = RedactedHistory::open(&path, Arc::new(Redactor::new([])));
        assert!(refused.is_err_and(|why| why.to_string().contains("more than 8 MiB")));
        assert_eq!(path.metadata().unwrap().len(), 9 << 20);
    }
}
