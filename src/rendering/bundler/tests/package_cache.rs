//! The disk cache of packages.

use crate::base::model::FileMode;
use crate::rendering::bundler::fetch::FetchMethod;
use crate::rendering::bundler::package_cache::PackageCache;
use crate::rendering::bundler::snapshot::{EntryContent, PackageId, PackageSnapshot, SnapshotBuilder};
use std::path::{Path, PathBuf};

fn id(number: u32, subdir: &str) -> PackageId {
    PackageId {
        remote: "https://github.com/org/c".to_owned(),
        commit: format!("{number:040x}"),
        subdir: subdir.to_owned(),
    }
}

/// Builds a package with a file of this many bytes, a program, and a link.
fn snapshot(id: PackageId, bytes: usize) -> PackageSnapshot {
    let mut builder = SnapshotBuilder::new(&id.subdir, 100, 1 << 30);
    let place = |name: &str| match id.subdir.as_str() {
        "" => name.to_owned(),
        subdir => format!("{subdir}/{name}"),
    };
    let main = vec![b'x'; bytes].into();
    for (name, found) in [
        ("main.libsonnet", EntryContent::File(FileMode::Regular, main)),
        (
            "bin/run",
            EntryContent::File(FileMode::Executable, "#!/bin/sh\n".into()),
        ),
        ("link", EntryContent::Link(b"main.libsonnet".to_vec())),
    ] {
        builder.add(place(name).as_bytes(), found).unwrap();
    }
    builder.finish(id).unwrap()
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// Sets the time of use of a file in seconds since the epoch.
fn used(file: &Path, seconds: u64) {
    let at = std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
    let file = std::fs::File::options().write(true).open(file).unwrap();
    file.set_modified(at).unwrap();
}

#[test]
fn a_cached_package_survives_a_restart_and_is_keyed_by_its_form() {
    let room = tempfile::tempdir().unwrap();
    let cache = PackageCache::new(room.path().join("kept"), 1 << 20);
    for subdir in ["", "lib/inner"] {
        let kept = snapshot(id(1, subdir), 10);
        assert_eq!(cache.get(kept.id(), FetchMethod::Preferred), None);
        cache.put(&kept, FetchMethod::Preferred);
        let again = PackageCache::new(room.path().join("kept"), 1 << 20);
        assert_eq!(again.get(kept.id(), FetchMethod::Preferred), Some(kept.clone()));
        assert_eq!(again.get(kept.id(), FetchMethod::Alternative), None);
        assert_eq!(again.get(&id(2, subdir), FetchMethod::Preferred), None);
    }
    // Both have the same files, so they share one copy.
    assert_eq!(files(&room.path().join("kept/packages")).len(), 1);
    assert_eq!(files(&room.path().join("kept/names")).len(), 2);
}

#[test]
fn a_cached_package_changed_on_disk_is_a_miss() {
    let room = tempfile::tempdir().unwrap();
    let cache = PackageCache::new(room.path().to_owned(), 1 << 20);
    let kept = snapshot(id(1, ""), 10);
    cache.put(&kept, FetchMethod::Preferred);
    let file = files(&room.path().join("packages")).remove(0);
    let good = std::fs::read(&file).unwrap();
    for bad in [
        good.iter()
            .map(|byte| if *byte == b'x' { b'y' } else { *byte })
            .collect(),
        good[..good.len() - 1].to_vec(),
        Vec::new(),
    ] {
        std::fs::write(&file, bad).unwrap();
        assert_eq!(cache.get(kept.id(), FetchMethod::Preferred), None);
        assert!(!file.exists(), "it is out of the way");
        cache.put(&kept, FetchMethod::Preferred);
        assert_eq!(cache.get(kept.id(), FetchMethod::Preferred), Some(kept.clone()));
    }
    let name = files(&room.path().join("names")).remove(0);
    for bad in [
        "{}",
        "no JSON",
        r#"{"remote":"","commit":"","subdir":"","form":"usual","package":"../../x"}"#,
    ] {
        std::fs::write(&name, bad).unwrap();
        assert_eq!(cache.get(kept.id(), FetchMethod::Preferred), None, "{bad}");
    }
}

#[test]
fn the_least_recently_used_package_is_evicted_first() {
    let room = tempfile::tempdir().unwrap();
    let cache = PackageCache::new(room.path().to_owned(), 10_000);
    let packages = room.path().join("packages");
    let mut known = Vec::new();
    for number in 1..=3 {
        cache.put(
            &snapshot(id(number, ""), 2_800 + number as usize),
            FetchMethod::Preferred,
        );
        let file = files(&packages)
            .into_iter()
            .find(|file| !known.contains(file))
            .unwrap();
        used(&file, u64::from(number));
        known.push(file);
    }
    // The first one was used again, so the second one is evicted.
    assert!(cache.get(&id(1, ""), FetchMethod::Preferred).is_some());
    cache.put(&snapshot(id(4, ""), 2_804), FetchMethod::Preferred);
    let there: Vec<u32> = (1..=4)
        .filter(|number| cache.get(&id(*number, ""), FetchMethod::Preferred).is_some())
        .collect();
    assert_eq!(there, [1, 3, 4]);
    assert_eq!(files(&room.path().join("names")).len(), 3);
    // A package larger than the whole cache is not stored and evicts nothing.
    cache.put(&snapshot(id(5, ""), 20_000), FetchMethod::Preferred);
    assert!(cache.get(&id(5, ""), FetchMethod::Preferred).is_none());
    assert_eq!(files(&packages).len(), 3);
}

#[test]
fn two_that_write_at_once_leave_one_whole_package() {
    let room = tempfile::tempdir().unwrap();
    let kept = snapshot(id(1, ""), 100_000);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let cache = PackageCache::new(room.path().to_owned(), 1 << 20);
                for _ in 0..20 {
                    cache.put(&kept, FetchMethod::Preferred);
                    assert_eq!(cache.get(kept.id(), FetchMethod::Preferred).as_ref(), Some(&kept));
                }
            });
        }
    });
    assert_eq!(
        files(&room.path().join("packages")).len(),
        1,
        "no half of one is left"
    );
}
