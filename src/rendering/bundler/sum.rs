//! The checksum of a package: SHA-256 of the contents of its files in walk order, in base64. Names are not part of
//! it. Links are followed. A link without a target file ends the walk, so that the checksum covers only the files
//! before it. This is unexpected, but every existing lock file depends on it.

use crate::base::model::{FileMode, FileVersion};
use base64::Engine as _;
use sha2::{Digest as _, Sha256};
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// Maximum number of links followed for one path, as in the kernel.
const LINKS_MAX: usize = 40;

/// Compares two paths in walk order: directory by directory, names as bytes.
pub(super) fn walk_order(one: &str, other: &str) -> Ordering {
    one.split('/').cmp(other.split('/'))
}

/// Returns the checksum of files by path.
pub(super) fn sum(files: &BTreeMap<&str, &FileVersion>) -> String {
    let mut order: Vec<&str> = files.keys().copied().collect();
    order.sort_by(|one, other| walk_order(one, other));
    let mut hash = Sha256::new();
    for path in order {
        let Some(content) = content(files, path) else {
            break;
        };
        hash.update(content);
    }
    base64::engine::general_purpose::STANDARD.encode(hash.finalize())
}

/// Returns the content that opening a path would read, or `None` if it leads to no file of the package.
fn content<'a>(files: &BTreeMap<&str, &'a FileVersion>, path: &str) -> Option<&'a [u8]> {
    // Components that remain to be resolved, next component last.
    let mut remaining: Vec<String> = path.rsplit('/').map(str::to_owned).collect();
    let mut walked: Vec<String> = Vec::new();
    let mut links = 0;
    loop {
        match remaining.pop()?.as_str() {
            "" | "." => {}
            ".." => drop(walked.pop()?),
            name => walked.push(name.to_owned()),
        }
        let Some(file) = files.get(walked.join("/").as_str()) else {
            continue;
        };
        if file.mode != FileMode::Symlink {
            return remaining.is_empty().then_some(&file.content);
        }
        links += 1;
        let target = std::str::from_utf8(&file.content).ok()?;
        if links > LINKS_MAX || target.starts_with('/') {
            return None;
        }
        walked.pop();
        remaining.extend(target.rsplit('/').map(str::to_owned));
    }
}
