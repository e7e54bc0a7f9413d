//! Names as they are on disk. Where a file system takes several spellings for one name, only the one that a listing shows is
//! taken: every rule about names is kept for that one.

use super::handle::Handle;
use crate::model::{composed, respelled};
use crate::workspace::spelling::{below, last};
use std::collections::HashSet;
use std::sync::{PoisonError, RwLock};

/// The character before the number of a short name, which some file systems have for each long one.
const SHORT: char = '~';

/// Directories of a tree that are known to tell upper case from lower case. One that has files does not change in that.
#[derive(Debug, Default)]
pub(super) struct Spelled {
    exact: RwLock<HashSet<String>>,
}

impl Spelled {
    /// Returns true if each name of a path that is there is spelled as a listing shows it.
    pub(super) fn is_as_on_disk(&self, handle: &Handle, path: &str) -> rustix::io::Result<bool> {
        let ends = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
        let mut directory = "";
        for end in ends {
            let here = path.get(..end).unwrap_or(path);
            if !self.is_name_as_on_disk(handle, directory, last(here))? {
                return Ok(false);
            }
            directory = here;
        }
        Ok(true)
    }

    fn is_name_as_on_disk(&self, handle: &Handle, directory: &str, name: &str) -> rustix::io::Result<bool> {
        let is_usual = name.is_ascii() && !name.contains(SHORT);
        if is_usual && self.is_exact(directory) {
            return Ok(true);
        }
        // What is not there, or behind a link, has no spelling. Whoever asks next finds that out.
        let Ok(Some(this)) = handle.identity(&below(directory, name)) else {
            return Ok(true);
        };
        let others = respelled(name);
        let is_same = |other: &String| handle.identity(&below(directory, other)).ok().flatten() == Some(this);
        if !name.contains(SHORT) && !others.iter().any(is_same) {
            if is_usual && !others.is_empty() {
                let mut exact = self.exact.write().unwrap_or_else(PoisonError::into_inner);
                exact.insert(directory.to_owned());
            }
            return Ok(true);
        }
        // One form of Unicode is another file system's way to write the same: it is judged in one form.
        let wanted = composed(name);
        let mut names = handle.list(directory)?.into_iter();
        Ok(names.any(|present| composed(&present) == wanted))
    }

    fn is_exact(&self, directory: &str) -> bool {
        let exact = self.exact.read().unwrap_or_else(PoisonError::into_inner);
        exact.contains(directory)
    }
}
