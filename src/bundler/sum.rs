//! The sum of a package: SHA-256 over the bytes of its files in the order a walk visits them, in
//! base64. Names are not part of it. Links are followed, and a link that leads to no file ends the
//! walk, so that the sum is of what came before: odd, and recorded in every lock there is.

use crate::model::{FileMode, FileVersion};
use base64::Engine as _;
use sha2::{Digest as _, Sha256};
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// Links followed for one path, as the kernel does.
const LINKS_MAX: usize = 40;

/// The order of a walk: directory by directory, names as bytes.
pub(super) fn walk_order(one: &str, other: &str) -> Ordering {
    one.split('/').cmp(other.split('/'))
}

/// The sum of files by their paths.
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

/// The bytes that opening a path would read; `None` when it leads to no file of the package.
fn content<'a>(files: &BTreeMap<&str, &'a FileVersion>, path: &str) -> Option<&'a [u8]> {
    // What is still to be walked, next component last.
    let mut ahead: Vec<String> = path.rsplit('/').map(str::to_owned).collect();
    let mut walked: Vec<String> = Vec::new();
    let mut links = 0;
    loop {
        match ahead.pop()?.as_str() {
            "" | "." => {}
            ".." => drop(walked.pop()?),
            name => walked.push(name.to_owned()),
        }
        let Some(file) = files.get(walked.join("/").as_str()) else {
            continue;
        };
        if file.mode != FileMode::Symlink {
            return ahead.is_empty().then_some(&file.content);
        }
        links += 1;
        let target = std::str::from_utf8(&file.content).ok()?;
        if links > LINKS_MAX || target.starts_with('/') {
            return None;
        }
        walked.pop();
        ahead.extend(target.rsplit('/').map(str::to_owned));
    }
}
