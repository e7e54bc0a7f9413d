//! The errors of questions about charts.

use super::archive::ChartArchiveError;
use super::index::IndexError;
use crate::download::{DownloadError, RemoteRefused};
use crate::jsonnet::external_program::ExternalProgramError;

/// The reason a question about a chart has no answer.
#[derive(Debug, thiserror::Error)]
pub enum HelmError {
    /// The directory holds no chart, or none that may be read.
    #[error("chart `{chart}`: {why}")]
    Chart {
        /// The directory of the chart.
        chart: String,
        /// The reason.
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
        /// The file that declares the dependencies.
        declaration: &'static str,
    },
    /// A dependency cannot be had.
    #[error("chart `{chart}`: dependency `{name}`: {why}")]
    Dependency {
        /// The chart's directory.
        chart: String,
        /// The dependency.
        name: String,
        /// The reason.
        why: Box<DependencyError>,
    },
    /// Helm did not run.
    #[error("helm: {0}")]
    Program(#[from] ExternalProgramError),
    /// Helm ran and refuses.
    #[error("{0}")]
    Refused(String),
}

/// The reason a dependency cannot be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DependencyError {
    /// The dependency leads out of the repository.
    #[error("`{0}` is outside the repository")]
    OutsideRepository(String),
    /// The dependency's name cannot be that of a file.
    #[error("this is no name of a chart")]
    Name,
    /// The requested version is no version and no range of them.
    #[error("`{0}` is no version and no range of versions")]
    Constraint(String),
    /// The dependency names a repository of somebody's own settings.
    #[error("`{0}` names a repository of somebody's own settings; write the https address instead")]
    Alias(String),
    /// The dependency is in a registry.
    #[error(
        "charts of registries (`oci://`) are not fetched; name an https repository, put the chart into `charts/`, \
         or refer to one of this repository with `file://../NAME`"
    )]
    Registry,
    /// The network is off: nothing is fetched while no host is allowed.
    #[error(
        "the network is off for charts; an operator allows hosts with `[helm] hosts_allowed`, such as \
         [\"charts.example.com\"]"
    )]
    FetchDisabled,
    /// The dependency's repository has no address that can be read.
    #[error("its repository is no address")]
    Address,
    /// The address has no index below it.
    #[error("`{0}` is no repository of charts: it has no `index.yaml`")]
    NoIndex(String),
    /// The index is not what it should be.
    #[error("`{repository}`: {why}")]
    Index {
        /// The repository.
        repository: String,
        /// The reason.
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
        /// The version that was asked for.
        wanted: String,
        /// A few that there are.
        newest: Vec<String>,
    },
    /// The chart in `charts/` is missing.
    #[error("it names no repository, and there is no `{0}`")]
    MissingInCharts(String),
    /// The chart in `charts/` is of another version.
    #[error("`{place}` is version {found}, which does not fit `{wanted}`")]
    OtherVersionInCharts {
        /// The directory or archive of the chart that is there.
        place: String,
        /// The version that is there.
        found: String,
        /// The version that was asked for.
        wanted: String,
    },
    /// The index names an archive that is not there.
    #[error("the repository names an archive that is not there")]
    NoArchive,
    /// The digest of the downloaded archive is not the one in the index.
    #[error("checksum mismatch: the index says {expected}, and what came has {found}")]
    Digest {
        /// The digest in the index.
        expected: String,
        /// The digest of the download.
        found: String,
    },
    /// The download is no chart.
    #[error(transparent)]
    Archive(#[from] ChartArchiveError),
    /// The download is another chart.
    #[error("what came is chart `{name}` {version}")]
    OtherChart {
        /// The chart.
        name: String,
        /// The version of the downloaded chart.
        version: String,
    },
    /// Two different archives of one name.
    #[error("two dependencies would be `{0}`; they need different versions")]
    DuplicateArchive(String),
    /// The archives of a chart are too large.
    #[error("the archives of all dependencies have more than {0} bytes together")]
    TooLarge(usize),
    /// The download failed.
    #[error(transparent)]
    Download(#[from] DownloadError),
}

impl From<RemoteRefused> for DependencyError {
    fn from(refused: RemoteRefused) -> Self {
        Self::Download(refused.into())
    }
}
