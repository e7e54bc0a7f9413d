//! Archives that are accepted as packages, and archives that are refused.

use super::{COMMIT, Raw, archive, id, zipped};
use crate::base::model::FileMode;
use crate::rendering::bundler::archive::read;
use crate::rendering::bundler::{ArchiveLimits, PackageSnapshot};
use tar::EntryType::{
    Block, Char, Directory, Fifo, GNULongLink, GNULongName, Link, Regular, Symlink, XGlobalHeader, XHeader,
};

fn package(sent: &[u8], subdir: &str) -> Result<PackageSnapshot, String> {
    let id = crate::rendering::bundler::PackageId {
        subdir: subdir.to_owned(),
        ..id(COMMIT)
    };
    let limits = ArchiveLimits {
        entries_max: 20,
        unpacked_bytes_max: 64 << 20,
        files_max: 10,
        bytes_max: 100_000,
        ..ArchiveLimits::default()
    };
    read(sent, id, limits).map_err(|err| err.to_string())
}

fn names(layer: &PackageSnapshot) -> Vec<&str> {
    layer.entries().iter().map(|entry| entry.path.as_str()).collect()
}

#[test]
fn the_package_is_what_lies_in_its_directory() {
    let sent = archive(&[
        Raw(
            XGlobalHeader,
            "pax_global_header",
            "52 comment=788c0b7678709166b21237de039dcfdef7ead946\n",
        ),
        Raw(Directory, "c-1/", ""),
        Raw(Regular, "c-1/README.md", "x"),
        Raw(Directory, "c-1/lib/", ""),
        Raw(Regular, "c-1/lib/a.libsonnet", "{}"),
        Raw(Symlink, "c-1/lib/b.libsonnet", "a.libsonnet"),
        Raw(Symlink, "c-1/lib/out", "../README.md"),
        Raw(Regular, "c-1/lib-2/y", "y"),
    ]);
    let whole = package(&sent, "").unwrap();
    assert_eq!(
        names(&whole),
        [
            "README.md",
            "lib-2/y",
            "lib/a.libsonnet",
            "lib/b.libsonnet",
            "lib/out"
        ]
    );
    let lib = package(&sent, "lib").unwrap();
    assert_eq!(names(&lib), ["a.libsonnet", "b.libsonnet", "out"]);
    let blobs = lib.blobs();
    assert_eq!(blobs[0].1, FileMode::Regular);
    assert_eq!(
        blobs[0].2,
        "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
    );
    assert_eq!(
        package(&sent, "li").unwrap_err(),
        "archive has no files below `li`"
    );
}

/// T52
#[test]
fn an_archive_that_is_a_trick_is_refused_with_its_entry() {
    let many: Vec<String> = (0..11).map(|number| format!("c-1/{number}")).collect();
    let many: Vec<Raw<'_>> = many.iter().map(|name| Raw(Regular, name, "")).collect();
    let long = "x".repeat(100_001);
    let file = |name: &'static str| archive(&[Raw(Regular, name, "x")]);
    let entry = |kind, name: &'static str, rest: &'static str| archive(&[Raw(kind, name, rest)]);
    for (sent, why) in [
        (file("../../x"), "archive entry escapes: ../../x"),
        (file("c-1/../../x"), "archive entry escapes: c-1/../../x"),
        (file("/etc/passwd"), "archive entry escapes: /etc/passwd"),
        (file("c-1//etc/passwd"), "archive entry escapes: c-1//etc/passwd"),
        (file("."), "archive entry escapes: ."),
        (file("c-1/.."), "archive entry escapes: c-1/.."),
        (file("c-1/..\\x"), "archive entry escapes: c-1/..\\x"),
        (
            entry(Symlink, "c-1/etc", "/etc"),
            "archive entry escapes: etc -> /etc",
        ),
        (
            entry(Symlink, "c-1/a/b", "../../../x"),
            "archive entry escapes: a/b -> ../../../x",
        ),
        (
            archive(&[Raw(Symlink, "c-1/a", "b"), Raw(Regular, "c-1/a/x", "through")]),
            "archive entry is below a link or a file: a/x",
        ),
        (
            entry(Link, "c-1/a", "/etc/passwd"),
            "archive entry is not a file, directory or symlink: a",
        ),
        (
            entry(Char, "c-1/null", ""),
            "archive entry is not a file, directory or symlink: null",
        ),
        (
            entry(Block, "c-1/sda", ""),
            "archive entry is not a file, directory or symlink: sda",
        ),
        (
            entry(Fifo, "c-1/wait", ""),
            "archive entry is not a file, directory or symlink: wait",
        ),
        (
            archive(&[Raw(Regular, "c-1/a", "1"), Raw(Regular, "c-1/a", "2")]),
            "archive duplicate entry: a",
        ),
        (
            file("c-1/.git/hooks/pre-commit"),
            "archive entry has a name that cannot be stored: .git/hooks/pre-commit",
        ),
        (file("x"), "archive entry has a name that cannot be stored: x"),
        (archive(&many), "archive has more than 10 files"),
        (
            archive(&[Raw(Regular, "c-1/a", &long)]),
            "archive has more than 100000 bytes",
        ),
        (zipped(&vec![0; 8 << 20]), "archive has no files below ``"),
        (archive(&[]), "archive has no files below ``"),
    ] {
        assert_eq!(package(&sent, "").unwrap_err(), why);
    }
    assert!(
        package(b"<html>", "")
            .unwrap_err()
            .starts_with("archive cannot be read: ")
    );
    let torn = archive(&[Raw(Regular, "c-1/a", &"y".repeat(50_000))]);
    assert!(
        package(&torn[..torn.len() / 2], "")
            .unwrap_err()
            .starts_with("archive cannot be read: ")
    );
}

/// T52
#[test]
fn a_bomb_is_noticed_before_it_is_unpacked() {
    // A directory outside the package counts as well, because it is unpacked on the way.
    let mut bomb = Vec::new();
    let mut header = tar::Header::new_ustar();
    header.set_path("c-1/other/zeros").unwrap();
    header.set_size(48 << 20);
    header.set_mode(0o644);
    header.set_cksum();
    bomb.extend_from_slice(header.as_bytes());
    bomb.resize(bomb.len() + (48 << 20) + 1_024, 0);
    let sent = zipped(&bomb);
    assert!(sent.len() * 100 < bomb.len());
    assert_eq!(
        package(&sent, "lib").unwrap_err(),
        "archive unpacks to more than 100 times its size"
    );
    let limits = ArchiveLimits {
        unpacked_bytes_max: 1 << 20,
        ratio_max: u64::MAX,
        ..ArchiveLimits::default()
    };
    let refused = read(&sent, id(COMMIT), limits).unwrap_err().to_string();
    assert_eq!(refused, "archive unpacks to more than 1048576 bytes");
}

/// T52
#[test]
fn a_name_may_be_long_but_not_without_end() {
    let record = |name: &str| {
        // The length of a record includes its own digits.
        let rest = format!(" path={name}\n");
        let digits = (rest.len() + 5).to_string().len();
        format!("{}{rest}", rest.len() + digits)
    };
    let long = format!("c-1/{}/x", vec!["d".repeat(90); 3].join("/"));
    for (kind, text) in [(GNULongName, long.clone()), (XHeader, record(&long))] {
        let sent = archive(&[Raw(kind, "long", &text), Raw(Regular, "c-1/short", "x")]);
        assert_eq!(
            names(&package(&sent, "").unwrap()),
            [long.trim_start_matches("c-1/")]
        );
    }
    let endless = format!("c-1/{}", "x".repeat(70_000));
    let content = "y".repeat(90_000);
    for (kind, text) in [
        (GNULongName, endless.clone()),
        (GNULongLink, endless.clone()),
        (XHeader, record(&endless)),
    ] {
        let sent = archive(&[
            // The content of a file is not read as a name.
            Raw(Regular, "c-1/large", &content),
            Raw(kind, "long", &text),
            Raw(Regular, "c-1/short", "x"),
        ]);
        assert_eq!(
            package(&sent, "").unwrap_err(),
            "archive has an entry with more than 65536 bytes of names"
        );
        assert_eq!(
            package(&sent, "lib").unwrap_err(),
            "archive has an entry with more than 65536 bytes of names"
        );
    }
}
