//! Names as they are on disk. Where a file system takes several spellings for one name, only the one that a listing shows is
//! taken: every rule about names is kept for that one.

use super::handle::{Handle, Stamp};
use crate::workspace::spelling::{join, last_name};
use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};

/// Directories whose names are remembered.
const LISTINGS_MAX: usize = 256;

/// Names of a tree, as far as they are known.
#[derive(Debug, Default)]
pub(super) struct DiskNames {
    /// Those that tell upper case from lower case. One that has files does not change in that.
    exact: RwLock<HashSet<String>>,
    /// The names in others, for as long as they stay as they are.
    listings: Mutex<HashMap<String, (Stamp, HashSet<String>)>>,
}

impl DiskNames {
    /// Returns true if each name of a path that is there is spelled as a listing shows it.
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

    /// Forgets what names there are: somebody changes them.
    pub(super) fn forget_listings(&self) {
        self.listings().clear();
    }

    fn is_name_as_on_disk(&self, handle: &Handle, directory: &str, name: &str) -> rustix::io::Result<bool> {
        let is_usual = is_usual(name);
        if is_usual && self.is_exact(directory) {
            return Ok(true);
        }
        // What is not there, or behind a link, has no spelling. Whoever asks next finds that out.
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

    /// True if a listing shows exactly this name. That one shows it not is never remembered.
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

/// True for a name that a file system can only take for another one by its case. Of all others it may drop what ends
/// them or cannot be seen, know several forms, or have made them up for a long one, as `MAIN~1.JSO`.
fn is_usual(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    name.bytes().all(is_plain) && name.bytes().any(|byte| byte.is_ascii_alphabetic()) && !name.ends_with('.')
}

/// A usual name with each letter in its other case.
fn swapped(name: &str) -> String {
    let letters = name.chars().map(|letter| match letter.is_ascii_lowercase() {
        true => letter.to_ascii_uppercase(),
        false => letter.to_ascii_lowercase(),
    });
    letters.collect()
}
