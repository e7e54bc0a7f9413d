//! Names as they are on disk. Where a file system accepts several spellings of one name, only the spelling from the
//! directory listing is accepted, because every rule about names applies to that one.

use super::handle::{Handle, Stamp};
use crate::state::workspace::spelling::{join, last_name};
use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};

/// Maximum number of directories whose names are cached.
const LISTINGS_MAX: usize = 256;

/// Cache of the names in a tree.
#[derive(Debug, Default)]
pub(super) struct DiskNames {
    /// Directories that are case-sensitive. A directory with files does not change that property.
    exact: RwLock<HashSet<String>>,
    /// The names in other directories, valid while the stamp of the directory stays the same.
    listings: Mutex<HashMap<String, (Stamp, HashSet<String>)>>,
}

impl DiskNames {
    /// True if each existing component of a path is spelled as in its directory listing.
    pub(super) fn is_as_on_disk(&self, handle: &Handle, path: &str) -> rustix::io::Result<bool> {
        let ends = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
        let mut directory = "";
        for end in ends {
            let here = path.get(..end).unwrap_or(path);
            if !self.is_name_as_on_disk(handle, directory, last_name(here))? {
                return Ok(false);
            }
            directory = here;
        }
        Ok(true)
    }

    /// Clears the cached names before a change.
    pub(super) fn forget_listings(&self) {
        self.listings().clear();
    }

    fn is_name_as_on_disk(&self, handle: &Handle, directory: &str, name: &str) -> rustix::io::Result<bool> {
        let is_usual = is_usual(name);
        if is_usual && self.is_exact(directory) {
            return Ok(true);
        }
        // An entry that is missing or behind a link has no spelling. The following operation reports the error.
        let Ok(Some(this)) = handle.identity(&join(directory, name)) else {
            return Ok(true);
        };
        if is_usual && handle.identity(&join(directory, &swapped(name))).ok().flatten() != Some(this) {
            let mut exact = self.exact.write().unwrap_or_else(PoisonError::into_inner);
            exact.insert(directory.to_owned());
            return Ok(true);
        }
        self.is_listed(handle, directory, name)
    }

    /// True if a listing contains exactly this name. A negative result is never cached.
    fn is_listed(&self, handle: &Handle, directory: &str, name: &str) -> rustix::io::Result<bool> {
        let stamp = handle.stamp(directory)?;
        if let Some((of, names)) = self.listings().get(directory)
            && of.is_same(&stamp)
            && names.contains(name)
        {
            return Ok(true);
        }
        let names: HashSet<String> = handle.list(directory)?.into_iter().collect();
        let is_listed = names.contains(name);
        let mut listings = self.listings();
        if listings.len() >= LISTINGS_MAX {
            listings.clear();
        }
        listings.insert(directory.to_owned(), (stamp, names));
        Ok(is_listed)
    }

    fn is_exact(&self, directory: &str) -> bool {
        let exact = self.exact.read().unwrap_or_else(PoisonError::into_inner);
        exact.contains(directory)
    }

    fn listings(&self) -> MutexGuard<'_, HashMap<String, (Stamp, HashSet<String>)>> {
        self.listings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// True for a name that a file system can confuse with another one only by case. For other names, a file system may
/// ignore trailing or invisible characters, accept several Unicode forms, or generate a short alias such as
/// `MAIN~1.JSO`.
fn is_usual(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    name.bytes().all(is_plain) && name.bytes().any(|byte| byte.is_ascii_alphabetic()) && !name.ends_with('.')
}

/// Returns a usual name with the case of each letter swapped.
fn swapped(name: &str) -> String {
    let letters = name.chars().map(|letter| match letter.is_ascii_lowercase() {
        true => letter.to_ascii_uppercase(),
        false => letter.to_ascii_lowercase(),
    });
    letters.collect()
}
