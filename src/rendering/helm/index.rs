//! The `index.yaml` of a chart repository: the versions of each chart and their addresses. Such a file can have
//! tens of MiB and thousands of versions, so it is parsed event by event, and only the requested charts are kept.

use super::constraint::Constraint;
use super::version::ChartVersion;
use crate::rendering::jsonnet::yaml_event;
use libyaml_safer::{EventData, Parser};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum size of an index in bytes.
pub(super) const BYTES_MAX: u64 = 48 << 20;
/// Maximum number of versions of all charts in an index.
const RELEASES_MAX: usize = 100_000;
/// Maximum nesting depth of an index.
const DEPTH_MAX: usize = 100;
/// Maximum number of versions listed in the error for no match.
const NEWEST: usize = 5;

/// The versions of the requested charts, newest first.
#[derive(Clone, Debug, Default)]
pub(super) struct Index {
    charts: BTreeMap<String, Vec<Release>>,
}

/// One version of a chart.
#[derive(Clone, Debug)]
pub(super) struct Release {
    pub(super) version: ChartVersion,
    /// The address of the archive, relative to the address of the repository.
    pub(super) url: String,
    /// The SHA-256 of the archive in hex. Empty if the index has none.
    pub(super) digest: String,
}

/// The reason why an index cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IndexError {
    /// The index is malformed.
    #[error("its `index.yaml` cannot be read: {0}")]
    Malformed(String),
    /// The index has no `apiVersion`, which is required.
    #[error("its `index.yaml` has no `apiVersion`, so this is not a repository of charts")]
    NoIndex,
    /// The index has too many versions.
    #[error("its `index.yaml` has more than {0} versions of charts")]
    TooMany(usize),
    /// The reading was stopped.
    #[error("the download was stopped")]
    Stopped,
}

impl Index {
    /// Reads the entries of the requested charts from an index.
    pub(super) fn read(
        sent: &[u8],
        charts: &BTreeSet<&str>,
        stopped: &dyn Fn() -> bool,
    ) -> Result<Self, IndexError> {
        let mut sent = sent;
        let mut parser = Parser::new();
        parser.set_input_string(&mut sent);
        let mut reader = IndexReader {
            parser,
            charts,
            stopped,
            releases: 0,
        };
        let mut index = reader.index()?;
        for releases in index.charts.values_mut() {
            releases.sort_by(|one, other| other.version.precedence(&one.version));
        }
        Ok(index)
    }

    /// Returns the newest matching version of a chart. An unknown chart has no versions.
    pub(super) fn newest(&self, chart: &str, wanted: &Constraint) -> Option<&Release> {
        let mut releases = self.releases(chart).iter();
        releases.find(|release| wanted.matches(&release.version))
    }

    /// Returns the version of a chart with the same text or the same value.
    pub(super) fn find_version(&self, chart: &str, version: &str) -> Option<&Release> {
        let mut releases = self.releases(chart).iter();
        let written = releases.find(|release| release.version.written() == version);
        written.or_else(|| self.newest(chart, &Constraint::parse(version)?))
    }

    /// Returns some of the newest versions of a chart, or `None` if it has none.
    pub(super) fn newest_few(&self, chart: &str) -> Option<Vec<String>> {
        let few = self.releases(chart).iter().take(NEWEST);
        let few: Vec<String> = few.map(|release| release.version.written().to_owned()).collect();
        (!few.is_empty()).then_some(few)
    }

    fn releases(&self, chart: &str) -> &[Release] {
        self.charts.get(chart).map_or(&[], Vec::as_slice)
    }
}

struct IndexReader<'a, 'b, 'c> {
    parser: Parser<&'a mut &'b [u8]>,
    charts: &'c BTreeSet<&'c str>,
    stopped: &'c dyn Fn() -> bool,
    releases: usize,
}

impl IndexReader<'_, '_, '_> {
    fn index(&mut self) -> Result<Index, IndexError> {
        let mut index = Index::default();
        let mut is_index = false;
        loop {
            match self.event()? {
                EventData::MappingStart { .. } => break,
                EventData::StreamStart { .. } | EventData::DocumentStart { .. } => {}
                _ => return Err(malformed("it is not a mapping")),
            }
        }
        while let Some(key) = self.key()? {
            let value = self.event()?;
            match (key.as_str(), value) {
                ("apiVersion", EventData::Scalar { value, .. }) => is_index = !value.is_empty(),
                ("entries", EventData::MappingStart { .. }) => self.charts(&mut index)?,
                (_, value) => self.skip(value)?,
            }
        }
        match is_index {
            true => Ok(index),
            false => Err(IndexError::NoIndex),
        }
    }

    fn charts(&mut self, index: &mut Index) -> Result<(), IndexError> {
        while let Some(chart) = self.key()? {
            match self.event()? {
                EventData::SequenceStart { .. } => {
                    let releases = self.chart(&chart)?;
                    if self.charts.contains(chart.as_str()) {
                        index.charts.insert(chart, releases);
                    }
                }
                value => self.skip(value)?,
            }
        }
        Ok(())
    }

    fn chart(&mut self, chart: &str) -> Result<Vec<Release>, IndexError> {
        let wanted = self.charts.contains(chart);
        let mut releases = Vec::new();
        loop {
            let event = self.event()?;
            if matches!(event, EventData::SequenceEnd) {
                return Ok(releases);
            }
            self.releases += 1;
            if self.releases > RELEASES_MAX {
                return Err(IndexError::TooMany(RELEASES_MAX));
            }
            if (self.stopped)() {
                return Err(IndexError::Stopped);
            }
            match event {
                EventData::MappingStart { .. } if wanted => releases.extend(self.release()?),
                event => self.skip(event)?,
            }
        }
    }

    /// Parses one version. Returns `None` without a valid version or address, because helm ignores such an entry.
    fn release(&mut self) -> Result<Option<Release>, IndexError> {
        let (mut version, mut url, mut digest) = (None, None, String::new());
        while let Some(key) = self.key()? {
            match (key.as_str(), self.event()?) {
                ("version", EventData::Scalar { value, .. }) => version = ChartVersion::parse(&value),
                ("digest", EventData::Scalar { value, .. }) => digest = value,
                ("urls", EventData::SequenceStart { .. }) => url = self.first()?,
                (_, value) => self.skip(value)?,
            }
        }
        let (Some(version), Some(url)) = (version, url) else {
            return Ok(None);
        };
        Ok(Some(Release { version, url, digest }))
    }

    /// Returns the first text in a list.
    fn first(&mut self) -> Result<Option<String>, IndexError> {
        let mut first = None;
        loop {
            match self.event()? {
                EventData::SequenceEnd => return Ok(first),
                EventData::Scalar { value, .. } => first = first.or(Some(value)),
                other => self.skip(other)?,
            }
        }
    }

    /// Returns the next key of a mapping, or `None` at its end.
    fn key(&mut self) -> Result<Option<String>, IndexError> {
        match self.event()? {
            EventData::MappingEnd => Ok(None),
            EventData::Scalar { value, .. } => Ok(Some(value)),
            _ => Err(malformed("a key is not text")),
        }
    }

    /// Skips the rest of a value that was started.
    fn skip(&mut self, begun: EventData) -> Result<(), IndexError> {
        let mut depth = usize::from(opens(&begun));
        while depth > 0 {
            match self.event()? {
                EventData::MappingEnd | EventData::SequenceEnd => depth -= 1,
                event if opens(&event) => depth += 1,
                _ => {}
            }
            if depth > DEPTH_MAX {
                return Err(malformed("it nests too deeply"));
            }
        }
        Ok(())
    }

    fn event(&mut self) -> Result<EventData, IndexError> {
        let event = yaml_event(&mut self.parser).map_err(|why| malformed(&why))?;
        match event.data {
            EventData::StreamEnd | EventData::DocumentEnd { .. } => Err(malformed("it is not a mapping")),
            data => Ok(data),
        }
    }
}

fn opens(event: &EventData) -> bool {
    matches!(
        event,
        EventData::MappingStart { .. } | EventData::SequenceStart { .. }
    )
}

fn malformed(why: &str) -> IndexError {
    IndexError::Malformed(why.to_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::{DEPTH_MAX, Index, IndexError, RELEASES_MAX};
    use crate::rendering::helm::constraint::Constraint;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const INDEX: &str = "apiVersion: v1\nentries:\n  other:\n  - {version: 9.0.0, urls: [x]}\n  redis:\n  \
                         - urls: []\n    version: 3.0.0\n  - version: 1.2.0\n    digest: ab\n    urls:\n    - a.tgz\n    \
                         - b.tgz\n    annotations:\n      text: |\n        - version: 8.0.0\n  - version: nonsense\n    \
                         urls: [x]\n  - version: 1.10.0\n    urls: [c.tgz]\n    digest:\n  - ~\n  - version: \
                         2.0.0-rc.1\n    urls: [d.tgz]\n  empty:\ngenerated: now\n";

    fn read(text: &str) -> Result<Index, IndexError> {
        Index::read(text.as_bytes(), &BTreeSet::from(["redis", "empty"]), &|| false)
    }

    fn newest(index: &Index, constraint: &str) -> Option<(String, String, String)> {
        let release = index.newest("redis", &Constraint::parse(constraint).unwrap())?;
        let version = release.version.written().to_owned();
        Some((version, release.url.clone(), release.digest.clone()))
    }

    #[test]
    fn the_newest_version_that_fits_is_found() {
        let index = read(INDEX).unwrap();
        let found = |version: &str, url: &str, digest: &str| {
            Some((version.to_owned(), url.to_owned(), digest.to_owned()))
        };
        assert_eq!(newest(&index, "^1"), found("1.10.0", "c.tgz", ""));
        assert_eq!(newest(&index, "~1.2"), found("1.2.0", "a.tgz", "ab"));
        assert_eq!(newest(&index, ">1-0"), found("2.0.0-rc.1", "d.tgz", ""));
        // These have no address or were not requested.
        assert_eq!(newest(&index, "3"), None);
        assert_eq!(newest(&index, "9"), None);
        assert_eq!(
            index.newest_few("redis").unwrap(),
            ["2.0.0-rc.1", "1.10.0", "1.2.0"]
        );
        assert_eq!(index.newest_few("empty"), None);
        assert_eq!(index.find_version("redis", "1.2").unwrap().url, "a.tgz");
        assert_eq!(index.find_version("redis", "2.0.0-rc.1").unwrap().url, "d.tgz");
    }

    #[test]
    fn an_index_may_be_json() {
        let text =
            r#"{"entries":{"redis":[{"urls":["http:\/\/x/a.tgz"],"version":"1.2.0"}]},"apiVersion":"v1"}"#;
        let index = read(text).unwrap();
        assert_eq!(newest(&index, "*").unwrap().1, "http://x/a.tgz");
    }

    #[test]
    fn an_invalid_chart_index_is_refused_with_its_reason() {
        assert_eq!(read("entries: {}\n").unwrap_err(), IndexError::NoIndex);
        for damaged in [
            "",
            "text",
            "- a\n",
            "<html><body>not found</body></html>",
            "apiVersion: v1\nentries:\n  redis:\n  - version: 1.0.0\n    urls: [a.tgz\n",
            "apiVersion: v1\nentries:\n\tredis: []\n",
            "apiVersion: v1\nentries: {redis: [{? [a] : b}]}\n",
            "apiVersion: v1\nentries: {redis: \"\u{7}\"}\n",
        ] {
            let refused = read(damaged);
            assert!(
                matches!(refused, Err(IndexError::Malformed(_))),
                "{damaged}: {refused:?}"
            );
        }
        for panics in ["{!,", "apiVersion: v1\nentries: {!,"] {
            assert!(matches!(read(panics), Err(IndexError::Malformed(_))), "{panics}");
        }
        let deep = format!("apiVersion: v1\nx: {}\n", "[".repeat(DEPTH_MAX + 2));
        assert!(matches!(read(&deep), Err(IndexError::Malformed(_))));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1_000) })]

        #[test]
        fn no_index_is_a_panic(text in "[ \\-\\[\\]{}:,&*!|>'\"%@`a-c0-9.\\n\\tredisntvuly]{0,200}") {
            let begun = format!("apiVersion: v1\nentries:\n  redis:\n{text}");
            for text in [text, begun] {
                let _ = read(&text);
            }
        }

        #[test]
        fn bytes_that_are_no_text_are_an_error_of_the_index(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = Index::read(&bytes, &BTreeSet::from(["redis"]), &|| false);
        }
    }

    #[test]
    fn an_index_of_very_many_versions_is_given_up() {
        let many = |count: usize| format!("apiVersion: v1\nentries:\n  x:\n{}", "  - {}\n".repeat(count));
        assert!(read(&many(RELEASES_MAX)).is_ok());
        assert_eq!(
            read(&many(RELEASES_MAX + 1)).unwrap_err(),
            IndexError::TooMany(RELEASES_MAX)
        );
        let stopped = Index::read(many(1).as_bytes(), &BTreeSet::new(), &|| true);
        assert_eq!(stopped.unwrap_err(), IndexError::Stopped);
    }
}
