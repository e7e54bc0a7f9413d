//! A simulated file system that folds names: it finds a name in any spelling, as on macOS and Windows, and keeps
//! the spelling of the creation. The test machine may have no such file system.

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Dir, Mode, OFlags};
use unicode_normalization::UnicodeNormalization as _;

/// Returns the existing path that such a file system finds for a path.
pub(super) fn find_folded(directory: BorrowedFd<'_>, path: &str) -> String {
    let mut reached: Option<OwnedFd> = None;
    let mut found: Vec<String> = Vec::new();
    for name in path.split('/') {
        let here = reached.as_ref().map_or(directory, AsFd::as_fd);
        let name = in_directory(here, name);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
        let next = rustix::fs::openat(here, name.as_str(), flags, Mode::empty());
        found.push(name);
        // Components below an entry that is no directory stay as written.
        if let Ok(next) = next {
            reached = Some(next);
        }
    }
    found.join("/")
}

fn in_directory(directory: BorrowedFd<'_>, name: &str) -> String {
    // The handle may be opened with `O_PATH`, which allows no listing.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    let listed = rustix::fs::openat(directory, ".", flags, Mode::empty()).unwrap();
    let names = Dir::new(listed).unwrap().map(|entry| {
        let entry = entry.unwrap();
        entry.file_name().to_string_lossy().into_owned()
    });
    let mut alike: Vec<String> = names.filter(|other| fold_key(other) == fold_key(name)).collect();
    match alike.iter().any(|other| other == name) {
        true => name.to_owned(),
        false => alike.pop().unwrap_or_else(|| name.to_owned()),
    }
}

/// Returns the comparison form of a name. It is independent of the normalization in the product.
fn fold_key(name: &str) -> String {
    let whole = name.trim_end_matches(['.', ' ']).nfd();
    let seen = whole.filter(|character| !['\u{200b}', '\u{200d}', '\u{feff}'].contains(character));
    let mut key = String::new();
    for character in seen {
        match character {
            '\u{df}' | '\u{1e9e}' => key.push_str("ss"),
            '\u{17f}' => key.push('s'),
            '\u{3c2}' => key.push('\u{3c3}'),
            other => key.extend(other.to_lowercase()),
        }
    }
    key
}
