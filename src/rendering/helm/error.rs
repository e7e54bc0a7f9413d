//! The errors of chart operations.

use super::archive::ChartArchiveError;
use super::index::IndexError;
use crate::rendering::jsonnet::external_program::ExternalProgramError;
use crate::state::download::{DownloadError, RemoteRefused};

/// The reason why a chart operation fails.
#[derive(Debug, thiserror::Error)]
pub enum HelmError {
    /// The directory contains no readable chart.
    #[error("chart `{chart}`: {why}")]
    Chart {
        /// The directory of the chart.
        chart: String,
        /// The reason.
        why: String,
    },
    /// The lock file does not match the declared dependencies.
    #[error(
        "chart `{chart}`: `{lock}` is out of sync with the dependencies in `{declaration}`; update the dependencies"
    )]
    OutOfSync {
        /// The directory of the chart.
        chart: String,
        /// The lock file.
        lock: &'static str,
        /// The file that declares the dependencies.
        declaration: &'static str,
    },
    /// A dependency cannot be obtained.
    #[error("chart `{chart}`: dependency `{name}`: {why}")]
    Dependency {
        /// The directory of the chart.
        chart: String,
        /// The dependency.
        name: String,
        /// The reason.
        why: Box<DependencyError>,
    },
    /// Helm could not be run.
    #[error("helm: {0}")]
    Program(#[from] ExternalProgramError),
    /// Helm ran and reported an error.
    #[error("{0}")]
    Refused(String),
}

/// The reason why a dependency cannot be obtained.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DependencyError {
    /// The dependency is outside the repository.
    #[error("`{0}` is outside the repository")]
    OutsideRepository(String),
    /// The name of the dependency cannot be a file name.
    #[error("this is not a valid name of a chart")]
    Name,
    /// The requested version is not a valid version or range.
    #[error("`{0}` is neither a version nor a range of versions")]
    Constraint(String),
    /// The dependency refers to a repository alias in a person's own helm settings.
    #[error("`{0}` is an alias from a local helm configuration; write the https address instead")]
    Alias(String),
    /// The dependency is in an OCI registry.
    #[error(
        "charts of registries (`oci://`) are not fetched; name an https repository, put the chart into `charts/`, \
         or refer to one of this repository with `file://../NAME`"
    )]
    Registry,
    /// The network is off, because no host is allowed.
    #[error(
        "downloads of charts are disabled; an operator allows hosts with `[helm] hosts_allowed`, such as \
         [\"charts.example.com\"]"
    )]
    FetchDisabled,
    /// The repository address of the dependency is invalid.
    #[error("its repository is not a valid address")]
    Address,
    /// The address has no chart index.
    #[error("`{0}` is not a repository of charts: it has no `index.yaml`")]
    NoIndex(String),
    /// The chart index is invalid.
    #[error("`{repository}`: {why}")]
    Index {
        /// The repository.
        repository: String,
        /// The reason.
        why: IndexError,
    },
    /// The repository does not have this chart.
    #[error("`{0}` has no chart of that name")]
    NoChart(String),
    /// The repository has no matching version.
    #[error("`{repository}` has no version of it that fits `{wanted}`; the newest are {}", .newest.join(", "))]
    NoVersion {
        /// The repository.
        repository: String,
        /// The requested version.
        wanted: String,
        /// Some of the newest versions.
        newest: Vec<String>,
    },
    /// The chart in `charts/` is missing.
    #[error("it names no repository, and there is no `{0}`")]
    MissingInCharts(String),
    /// The chart in `charts/` has another version.
    #[error("`{place}` is version {found}, which does not fit `{wanted}`")]
    OtherVersionInCharts {
        /// The directory or archive of the present chart.
        place: String,
        /// The present version.
        found: String,
        /// The requested version.
        wanted: String,
    },
    /// The archive that the index names does not exist.
    #[error("the repository names an archive that does not exist")]
    NoArchive,
    /// The digest of the downloaded archive differs from the one in the index.
    #[error("checksum mismatch: the index states {expected}, and the download has {found}")]
    Digest {
        /// The digest in the index.
        expected: String,
        /// The digest of the download.
        found: String,
    },
    /// The download is not a valid chart.
    #[error(transparent)]
    Archive(#[from] ChartArchiveError),
    /// The download is a different chart.
    #[error("the downloaded archive is chart `{name}` {version}")]
    OtherChart {
        /// The name of the downloaded chart.
        name: String,
        /// The version of the downloaded chart.
        version: String,
    },
    /// Two different archives have the same name.
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
