//! Why there is no answer about a chart.

use super::archive::ArchiveError;
use super::index::IndexError;
use crate::download::{DownloadError, RemoteRefused};
use crate::jsonnet::foreign::ForeignError;

/// Why there is no answer about a chart.
#[derive(Debug, thiserror::Error)]
pub enum HelmError {
    /// It is no chart, or none that may be read.
    #[error("chart `{chart}`: {why}")]
    Chart {
        /// Its directory.
        chart: String,
        /// What is wrong with it.
        why: String,
    },
    /// The lock was made for other dependencies.
    #[error(
        "chart `{chart}`: `{lock}` is out of sync with the dependencies in `{declaration}`; update the dependencies"
    )]
    OutOfSync {
        /// The chart's directory.
        chart: String,
        /// The lock.
        lock: &'static str,
        /// Where the dependencies are declared.
        declaration: &'static str,
    },
    /// A dependency cannot be had.
    #[error("chart `{chart}`: dependency `{name}`: {why}")]
    Dependency {
        /// The chart's directory.
        chart: String,
        /// The dependency.
        name: String,
        /// Why it cannot be had.
        why: Box<DependencyError>,
    },
    /// Helm did not run.
    #[error("helm: {0}")]
    Program(#[from] ForeignError),
    /// Helm ran and refuses.
    #[error("{0}")]
    Said(String),
}

/// Why a dependency cannot be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DependencyError {
    /// It leads out of the repository.
    #[error("`{0}` is outside the repository")]
    Outside(String),
    /// Its name cannot be that of a file.
    #[error("this is no name of a chart")]
    Name,
    /// What it asks for is no version and no range of them.
    #[error("`{0}` is no version and no range of versions")]
    Constraint(String),
    /// It names a repository of somebody's own settings.
    #[error("`{0}` names a repository of somebody's own settings; write the https address instead")]
    Alias(String),
    /// It is in a registry.
    #[error(
        "charts of registries (`oci://`) are not fetched; name an https repository, put the chart into `charts/`, \
         or refer to one of this repository with `file://../NAME`"
    )]
    Registry,
    /// Nothing is fetched while no host is allowed.
    #[error(
        "the network is off for charts; an operator allows hosts with `[helm] hosts_allowed`, such as \
         [\"charts.example.com\"]"
    )]
    Off,
    /// Its repository has no address that can be read.
    #[error("its repository is no address")]
    Address,
    /// There is no index below the address.
    #[error("`{0}` is no repository of charts: it has no `index.yaml`")]
    NoIndex(String),
    /// The index is not what it should be.
    #[error("`{repository}`: {why}")]
    Index {
        /// The repository.
        repository: String,
        /// What is wrong.
        why: IndexError,
    },
    /// The repository has no such chart.
    #[error("`{0}` has no chart of that name")]
    NoChart(String),
    /// The repository has no version that fits.
    #[error("`{repository}` has no version of it that fits `{wanted}`; the newest are {}", .newest.join(", "))]
    NoVersion {
        /// The repository.
        repository: String,
        /// What was asked for.
        wanted: String,
        /// A few that there are.
        newest: Vec<String>,
    },
    /// The chart in `charts/` is missing.
    #[error("it names no repository, and there is no `{0}`")]
    NotInside(String),
    /// The chart in `charts/` is of another version.
    #[error("`{place}` is version {found}, which does not fit `{wanted}`")]
    OtherInside {
        /// Where it is.
        place: String,
        /// Its version.
        found: String,
        /// What was asked for.
        wanted: String,
    },
    /// The index names an archive that is not there.
    #[error("the repository names an archive that is not there")]
    NoArchive,
    /// What came is not what the index says.
    #[error("checksum mismatch: the index says {expected}, and what came has {found}")]
    Digest {
        /// What the index says.
        expected: String,
        /// What came.
        found: String,
    },
    /// What came is no chart.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// What came is another chart.
    #[error("what came is chart `{name}` {version}")]
    Other {
        /// The chart.
        name: String,
        /// Its version.
        version: String,
    },
    /// Two different archives of one name.
    #[error("two dependencies would be `{0}`; they need different versions")]
    Twice(String),
    /// The archives of a chart are too large.
    #[error("the archives of all dependencies have more than {0} bytes together")]
    TooMuch(usize),
    /// It could not be downloaded.
    #[error(transparent)]
    Download(#[from] DownloadError),
}

impl From<RemoteRefused> for DependencyError {
    fn from(refused: RemoteRefused) -> Self {
        Self::Download(refused.into())
    }
}
