//! Packed charts: reads the identity of a chart after a check of the whole archive, and compares the files of two
//! archives. Helm writes timestamps into archives, so their bytes differ each time.

use crate::rendering::jsonnet::yaml_documents;
use crate::state::download::{BoundedGzip, ExceededBound};
use std::io::Read;
use tar::EntryType;

/// Maximum unpacked size of an archive in bytes.
const UNPACKED_BYTES_MAX: u64 = 100 << 20;
/// Maximum ratio of unpacked to packed bytes.
const RATIO_MAX: u64 = 100;
/// Maximum number of entries in an archive.
const ENTRIES_MAX: usize = 10_000;
/// Maximum size of the `Chart.yaml` in bytes.
const CHART_BYTES_MAX: u64 = 1 << 20;

/// The name and the version in the archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ChartIdentity {
    pub(super) name: String,
    pub(super) version: String,
}

struct ArchiveEntry<'e> {
    path: &'e [u8],
    kind: EntryType,
    content: &'e mut dyn Read,
}

/// The reason why an archive is not accepted as a chart.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChartArchiveError {
    /// The bytes are not a valid archive.
    #[error("archive cannot be read: {0}")]
    Unreadable(String),
    /// A path leads out of the archive.
    #[error("archive entry escapes: {0}")]
    Escapes(String),
    /// An entry is a link, a device or similar.
    #[error("archive entry is neither a file nor a directory: {0}")]
    Special(String),
    /// The archive has too many entries for a chart.
    #[error("archive has more than {0} entries")]
    TooMany(usize),
    /// The archive unpacks to too many bytes.
    #[error("archive {0}")]
    Unpacks(#[from] ExceededBound),
    /// The archive does not contain exactly one valid `Chart.yaml`.
    #[error("archive is not a chart: {0}")]
    NoChart(String),
}

/// Checks every entry and returns the identity of the chart.
pub(super) fn read(packed: &[u8]) -> Result<ChartIdentity, ChartArchiveError> {
    let mut chart = None;
    let found = entries(packed, &mut |entry| {
        let path = check_inside(entry.path)?;
        match entry.kind {
            EntryType::Directory | EntryType::XGlobalHeader => return Ok(()),
            EntryType::Regular | EntryType::Continuous => {}
            _ => return Err(ChartArchiveError::Special(path.to_owned())),
        }
        if path.split('/').count() == 2 && path.ends_with("/Chart.yaml") {
            let mut content = String::new();
            let read = entry.content.take(CHART_BYTES_MAX).read_to_string(&mut content);
            read.map_err(|why| ChartArchiveError::NoChart(why.to_string()))?;
            if chart.replace(content).is_some() {
                return Err(ChartArchiveError::NoChart(
                    "it has two of `Chart.yaml`".to_owned(),
                ));
            }
        }
        Ok(())
    });
    found?;
    let chart = chart.ok_or_else(|| ChartArchiveError::NoChart("it has no `Chart.yaml`".to_owned()))?;
    parse_identity(&chart)
        .ok_or_else(|| ChartArchiveError::NoChart("its `Chart.yaml` names no chart".to_owned()))
}

/// Parses the name and the version in a `Chart.yaml`.
pub(super) fn parse_identity(chart: &str) -> Option<ChartIdentity> {
    let documents = yaml_documents(chart).ok()?;
    let field = |name: &str| documents.first()?.get(name)?.as_str().map(str::to_owned);
    Some(ChartIdentity {
        name: field("name")?,
        version: field("version")?,
    })
}

/// True if both archives are readable and contain the same entries in the same order.
pub(super) fn has_same_files(one: &[u8], other: &[u8]) -> bool {
    let contents = |packed: &[u8]| {
        let mut contents = Vec::new();
        let read = entries(packed, &mut |entry| {
            let mut content = Vec::new();
            let read = entry.content.read_to_end(&mut content);
            read.map_err(|why| ChartArchiveError::Unreadable(why.to_string()))?;
            contents.push((entry.path.to_vec(), content));
            Ok(())
        });
        read.ok().map(|()| contents)
    };
    match (contents(one), contents(other)) {
        (Some(one), Some(other)) => one == other,
        (None, _) | (_, None) => false,
    }
}

/// Visits the entries of an archive within the limits.
fn entries(
    packed: &[u8],
    look: &mut dyn FnMut(ArchiveEntry<'_>) -> Result<(), ChartArchiveError>,
) -> Result<(), ChartArchiveError> {
    let mut unpacked = BoundedGzip::new(packed, UNPACKED_BYTES_MAX, RATIO_MAX);
    let looked = unpacked.each_entry(|position, entry| {
        if position >= ENTRIES_MAX {
            return Err(ChartArchiveError::TooMany(ENTRIES_MAX));
        }
        let (path, kind) = (entry.path_bytes().into_owned(), entry.header().entry_type());
        look(ArchiveEntry {
            path: &path,
            kind,
            content: entry,
        })
    });
    match unpacked.exceeded() {
        Some(exceeded) => Err(exceeded.into()),
        None => looked,
    }
}

impl From<std::io::Error> for ChartArchiveError {
    fn from(why: std::io::Error) -> Self {
        Self::Unreadable(why.to_string())
    }
}

/// Checks that a path stays inside the archive.
fn check_inside(path: &[u8]) -> Result<&str, ChartArchiveError> {
    let shown = || String::from_utf8_lossy(path).chars().take(200).collect();
    let text = std::str::from_utf8(path).map_err(|_| ChartArchiveError::Escapes(shown()))?;
    let leaves = |part: &str| matches!(part, "" | "." | "..") || part.contains(['\\', '\0', ':']);
    match text.strip_suffix('/').unwrap_or(text).split('/').any(leaves) {
        true => Err(ChartArchiveError::Escapes(shown())),
        false => Ok(text),
    }
}

#[cfg(test)]
pub(super) mod tests {
    #![allow(clippy::unwrap_used)]

    use super::{ChartArchiveError, ChartIdentity, ENTRIES_MAX, RATIO_MAX, has_same_files, read};
    use crate::state::download::ExceededBound;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use proptest::prelude::*;
    use std::io::Write;
    use tar::{EntryType, Header};

    const CHART: &str = "apiVersion: v2\nname: redis\nversion: 1.2.3\n";

    /// Builds an archive of these files with arbitrary names and kinds.
    pub(in crate::rendering::helm) fn archive(entries: &[(&str, EntryType, &str)], at: u64) -> Vec<u8> {
        let mut archive = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::none()));
        for (path, kind, content) in entries {
            let mut header = Header::new_gnu();
            header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
            header.set_entry_type(*kind);
            header.set_mode(0o644);
            header.set_mtime(at);
            let content = if *kind == EntryType::Regular {
                *content
            } else {
                header.set_link_name_literal(content).unwrap();
                ""
            };
            header.set_size(content.len() as u64);
            header.set_cksum();
            archive.append(&header, content.as_bytes()).unwrap();
        }
        archive.into_inner().unwrap().finish().unwrap()
    }

    fn file<'a>(path: &'a str, content: &'a str) -> (&'a str, EntryType, &'a str) {
        (path, EntryType::Regular, content)
    }

    #[test]
    fn a_chart_says_what_it_is() {
        let chart = [
            file("redis/Chart.yaml", CHART),
            file("redis/charts/x/Chart.yaml", ""),
        ];
        let expected = ChartIdentity {
            name: "redis".to_owned(),
            version: "1.2.3".to_owned(),
        };
        assert_eq!(read(&archive(&chart, 1)), Ok(expected));
    }

    /// T52
    #[test]
    fn an_archive_that_is_no_chart_or_leads_out_is_refused() {
        let chart = file("redis/Chart.yaml", CHART);
        let escapes = |path: &str| ChartArchiveError::Escapes(path.to_owned());
        for path in [
            "../x",
            "redis/../../x",
            "/etc/passwd",
            "redis//x",
            "./redis/x",
            "redis/.",
            "redis/..",
            "redis\\..\\x",
            "C:/x",
        ] {
            let refused = read(&archive(&[chart, file(path, "x")], 1));
            assert_eq!(refused, Err(escapes(path)), "{path}");
        }
        for kind in [
            EntryType::Symlink,
            EntryType::Link,
            EntryType::Char,
            EntryType::Fifo,
        ] {
            let refused = read(&archive(&[chart, ("redis/x", kind, "/etc")], 1));
            assert_eq!(refused, Err(ChartArchiveError::Special("redis/x".to_owned())));
        }
        for (entries, why) in [
            (vec![file("redis/values.yaml", "")], "it has no `Chart.yaml`"),
            (vec![file("Chart.yaml", CHART)], "it has no `Chart.yaml`"),
            (
                vec![chart, file("other/Chart.yaml", CHART)],
                "it has two of `Chart.yaml`",
            ),
            (
                vec![file("redis/Chart.yaml", "name: redis\n")],
                "its `Chart.yaml` names no chart",
            ),
            (
                vec![file("redis/Chart.yaml", "[")],
                "its `Chart.yaml` names no chart",
            ),
        ] {
            let refused = read(&archive(&entries, 1));
            assert_eq!(refused, Err(ChartArchiveError::NoChart(why.to_owned())));
        }
        let many = vec![file("redis/x", ""); ENTRIES_MAX + 1];
        let refused = read(&archive(&many, 1));
        assert_eq!(refused, Err(ChartArchiveError::TooMany(ENTRIES_MAX)));
        let nothing = read(b"no archive");
        assert!(
            matches!(nothing, Err(ChartArchiveError::Unreadable(_))),
            "{nothing:?}"
        );
        let whole = archive(&[chart], 1);
        let torn = read(&whole[..whole.len() / 2]);
        assert!(matches!(torn, Err(ChartArchiveError::Unreadable(_))), "{torn:?}");
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_bytes_are_a_chart_or_refused(
            mut bytes in proptest::collection::vec(any::<u8>(), 0..2_000),
            at in 0_usize..600,
        ) {
            let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
            packed.write_all(&bytes).unwrap();
            let _ = read(&packed.finish().unwrap());
            let mut damaged = archive(&[file("redis/Chart.yaml", CHART)], 1);
            let at = at.min(damaged.len() - 1);
            damaged[at] = bytes.pop().unwrap_or_default();
            let _ = read(&damaged);
            let _ = read(&bytes);
        }
    }

    #[test]
    fn chart_archives_with_equal_files_are_equal_whatever_their_times() {
        let packed = |content: &str, at: u64| archive(&[file("web/Chart.yaml", content)], at);
        assert!(has_same_files(&packed("a", 1), &packed("a", 2)));
        assert!(!has_same_files(&packed("a", 1), &packed("b", 1)));
        assert!(!has_same_files(b"no archive", b"no archive"));
    }

    /// T52
    #[test]
    fn a_bomb_is_not_unpacked() {
        let mut bomb = GzEncoder::new(Vec::new(), Compression::best());
        let mut header = Header::new_gnu();
        header.set_path("redis/bomb").unwrap();
        header.set_size(1 << 33);
        header.set_cksum();
        bomb.write_all(header.as_bytes()).unwrap();
        for _ in 0..80 {
            bomb.write_all(&vec![0; 1 << 20]).unwrap();
        }
        let bomb = bomb.finish().unwrap();
        assert!(!has_same_files(&bomb, &bomb));
        assert_eq!(read(&bomb), Err(ExceededBound::Ratio(RATIO_MAX).into()));
    }
}
