//! Disk cache of packages, so that a restart downloads nothing again. A package is stored in a file named after the
//! hash of its bytes. A small record file maps a commit to its package. A file with a wrong hash, or one that fails
//! the checks for downloads, counts as missing.
//!
//! Several processes may share the directory: a file is written under a temporary name and moved into place, and
//! its content is checked at each read. A package that cannot be cached is fetched again next time. This is not an
//! error.
#![allow(
    clippy::disallowed_methods,
    reason = "packages that were fetched are kept below the data directory"
)]

use super::fetch::FetchMethod;
use super::snapshot::{BYTES_MAX, EntryContent, FILES_MAX, PackageId, PackageSnapshot, SnapshotBuilder};
use crate::base::model::{FileMode, is_hex};
use bytes::Bytes;
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_NOW};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Maximum size of the file list of a package in bytes.
const HEADER_BYTES_MAX: u64 = 32 << 20;
/// Maximum size of a record file in bytes.
const NAME_BYTES_MAX: u64 = 64 << 10;

/// The cache directory and its maximum size.
#[derive(Debug)]
pub(super) struct PackageCache {
    packages: PathBuf,
    names: PathBuf,
    bytes_max: u64,
}

/// Maps a commit to its package.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct CacheRecord {
    remote: String,
    commit: String,
    subdir: String,
    form: String,
    /// The hash of the package, which is the name of its file.
    package: String,
}

/// A file of a package, as listed in the first line of the package file. The contents follow in the same order.
#[derive(Debug, Serialize, Deserialize)]
struct CachedFile {
    path: String,
    mode: FileMode,
    bytes: usize,
}

impl PackageCache {
    pub(super) fn new(directory: PathBuf, bytes_max: u64) -> Self {
        Self {
            packages: directory.join("packages"),
            names: directory.join("names"),
            bytes_max,
        }
    }

    /// Returns the package if it is cached and intact.
    pub(super) fn get(&self, id: &PackageId, form: FetchMethod) -> Option<PackageSnapshot> {
        let name = read(&self.names.join(record_file_name(id, form)), NAME_BYTES_MAX).ok()?;
        let name: CacheRecord = serde_json::from_slice(&name).ok()?;
        let is_hash = name.package.len() == 64 && is_hex(&name.package);
        if !is_hash || name != cache_record(id, form, name.package.clone()) {
            return None;
        }
        let file = self.packages.join(&name.package);
        let content = read(&file, BYTES_MAX + HEADER_BYTES_MAX).ok()?;
        if hash(&content) != name.package {
            // A damaged file would prevent the storage of the correct one.
            let _ = fs::remove_file(&file);
            return None;
        }
        let layer = decode(id, &content.into())?;
        // Updates the time of use. The least recently used package is evicted first.
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: UTIME_NOW,
        };
        let times = Timestamps {
            last_access: now,
            last_modification: now,
        };
        let _ = rustix::fs::utimensat(CWD, &file, &times, AtFlags::empty());
        Some(layer)
    }

    /// Stores a fetched package and evicts others if necessary.
    pub(super) fn put(&self, layer: &PackageSnapshot, form: FetchMethod) {
        let Some(content) = encode(layer) else { return };
        if content.len() as u64 > self.bytes_max {
            return;
        }
        let package = hash(&content);
        let name = cache_record(layer.id(), form, package.clone());
        let Ok(name) = serde_json::to_vec(&name) else {
            return;
        };
        // The package is written first, so that a record never points to a missing package.
        let kept = write(&self.packages, &package, &content)
            .and_then(|()| write(&self.names, &record_file_name(layer.id(), form), &name));
        if kept.is_ok() {
            self.evict(&package);
        }
    }

    /// Evicts the least recently used packages until the rest fits, and the records of missing packages.
    fn evict(&self, newest: &str) {
        let mut packages = list_files(&self.packages);
        let mut bytes: u64 = packages.iter().map(|(_, _, bytes)| bytes).sum();
        packages.sort();
        let mut removed = false;
        for (_, file, length) in packages {
            if bytes <= self.bytes_max {
                break;
            }
            if !file.ends_with(newest) && fs::remove_file(&file).is_ok() {
                bytes = bytes.saturating_sub(length);
                removed = true;
            }
        }
        if !removed {
            return;
        }
        for (_, file, _) in list_files(&self.names) {
            let name = read(&file, NAME_BYTES_MAX).ok();
            let name = name.and_then(|name| serde_json::from_slice::<CacheRecord>(&name).ok());
            if !name.is_some_and(|name| self.packages.join(&name.package).exists()) {
                let _ = fs::remove_file(&file);
            }
        }
    }
}

fn cache_record(id: &PackageId, form: FetchMethod, package: String) -> CacheRecord {
    CacheRecord {
        remote: id.remote.clone(),
        commit: id.commit.clone(),
        subdir: id.subdir.clone(),
        form: method_name(form).to_owned(),
        package,
    }
}

fn method_name(form: FetchMethod) -> &'static str {
    match form {
        FetchMethod::Preferred => "usual",
        FetchMethod::Alternative => "other",
    }
}

fn record_file_name(id: &PackageId, form: FetchMethod) -> String {
    hash(
        [&id.remote, &id.commit, &id.subdir, method_name(form)]
            .join("\0")
            .as_bytes(),
    )
}

fn hash(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

/// Encodes a package as the content of its file.
fn encode(layer: &PackageSnapshot) -> Option<Vec<u8>> {
    let listed = |entry: &super::snapshot::PackageFile| CachedFile {
        path: entry.path.to_string(),
        mode: entry.file.mode,
        bytes: entry.file.content.len(),
    };
    let list: Vec<CachedFile> = layer.entries().iter().map(listed).collect();
    let mut bytes = serde_json::to_vec(&list).ok()?;
    bytes.push(b'\n');
    for entry in layer.entries() {
        bytes.extend_from_slice(&entry.file.content);
    }
    Some(bytes)
}

/// Decodes a package from the content of its file, with the same checks as for a download.
fn decode(id: &PackageId, bytes: &Bytes) -> Option<PackageSnapshot> {
    let end = memchr::memchr(b'\n', bytes)?;
    let list: Vec<CachedFile> = serde_json::from_slice(bytes.get(..end)?).ok()?;
    let mut builder = SnapshotBuilder::new(&id.subdir, FILES_MAX, BYTES_MAX);
    let mut at = end + 1;
    for CachedFile {
        path,
        mode,
        bytes: length,
    } in list
    {
        let next = at.checked_add(length).filter(|next| *next <= bytes.len())?;
        let content = bytes.slice(at..next);
        at = next;
        let path = match id.subdir.as_str() {
            "" => path,
            subdir => format!("{subdir}/{path}"),
        };
        let found = match mode {
            FileMode::Symlink => EntryContent::Link(content.to_vec()),
            FileMode::Regular | FileMode::Executable => EntryContent::File(mode, content),
        };
        builder.add(path.as_bytes(), found).ok()?;
    }
    (at == bytes.len()).then(|| builder.finish(id.clone()).ok())?
}

/// Reads a file of at most this many bytes.
fn read(file: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    File::open(file)?
        .take(bytes_max.saturating_add(1))
        .read_to_end(&mut content)?;
    match content.len() as u64 > bytes_max {
        true => Err(io::ErrorKind::FileTooLarge.into()),
        false => Ok(content),
    }
}

/// Writes a file under a temporary name and moves it into place, so that readers see all of it or nothing.
fn write(directory: &Path, name: &str, content: &[u8]) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    let mut file = tempfile::Builder::new().prefix(".").tempfile_in(directory)?;
    file.write_all(content)?;
    file.persist(directory.join(name))?;
    Ok(())
}

/// Lists the files of a directory with the time of use, path and size, without temporary files.
fn list_files(directory: &Path) -> Vec<(SystemTime, PathBuf, u64)> {
    let Ok(entries) = fs::read_dir(directory) else {
        return Vec::new();
    };
    let file = |entry: fs::DirEntry| {
        let about = entry.metadata().ok()?;
        let is_whole = !entry.file_name().as_encoded_bytes().starts_with(b".");
        (about.is_file() && is_whole).then_some(())?;
        Some((about.modified().ok()?, entry.path(), about.len()))
    };
    entries.filter_map(|entry| file(entry.ok()?)).collect()
}
