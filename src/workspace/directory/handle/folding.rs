//! A file system that folds: it looks a name up in any spelling, as those of Macs and of Windows do, and keeps the one a file
//! was made with. This machine may have none.

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Dir, Mode, OFlags};
use unicode_normalization::UnicodeNormalization as _;

/// The path that such a file system finds for another one.
pub(super) fn find_folded(directory: BorrowedFd<'_>, path: &str) -> String {
    let mut reached: Option<OwnedFd> = None;
    let mut found: Vec<String> = Vec::new();
    for name in path.split('/') {
        let here = reached.as_ref().map_or(directory, AsFd::as_fd);
        let name = in_directory(here, name);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
        let next = rustix::fs::openat(here, name.as_str(), flags, Mode::empty());
        found.push(name);
        // What is below something else is looked for as it is written.
        if let Ok(next) = next {
            reached = Some(next);
        }
    }
    found.join("/")
}

fn in_directory(directory: BorrowedFd<'_>, name: &str) -> String {
    // The handle may be a place only, which lists nothing.
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

/// The form by which it keeps names, without a look at what the product makes of them.
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
