//! In-process git access to remotes: the commit of a name, and the files of one commit without its history. Fetched
//! data is stored in a temporary directory that is removed after the call.

use super::export::{ATTRIBUTES, ExportAttributes};
use super::fetch::FetchError;
use super::snapshot::{
    BYTES_MAX, EntryContent, FILES_MAX, PackageError, PackageId, PackageSnapshot, SnapshotBuilder,
};
use crate::base::model::FileMode;
use crate::state::download::DownloadObserver;
use crate::state::workspace::{Meter, OnFetch, objects_bounded, transport};
use gix::ObjectId;
use gix::objs::tree::EntryKind;
use gix::protocol::handshake::Ref;
use gix::remote::Direction;
use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;

const FETCH_BYTES_MAX: usize = 512 << 20;
/// Maximum unpacked size of one object in bytes, equal to that of a whole package. The error text in [`failure`]
/// repeats it.
const OBJECT_BYTES_MAX: usize = BYTES_MAX as usize;
/// Maximum number of branches and tags that are examined.
const REFERENCES_MAX: usize = 100_000;
/// Maximum depth of nested directories.
const DEPTH_MAX: usize = 100;
/// Maximum number of directories that are visited. One directory can occur at many places in a repository.
const DIRECTORIES_MAX: usize = 100_000;

/// The files of a commit that belong to a package.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IncludedFiles {
    /// All files, as stored in git.
    All,
    /// The files that an archive of the commit contains.
    Exported,
}

/// Returns the commit of the tag, or else the branch, with exactly this name.
pub(super) fn resolve(
    url: &str,
    version: &str,
    scratch: &Path,
    watch: &DownloadObserver,
) -> Result<Option<String>, FetchError> {
    let place = TempRepository::new(scratch)?;
    let specs = [
        "+refs/heads/*:refs/heads/*".to_owned(),
        "+refs/tags/*:refs/tags/*".to_owned(),
    ];
    let remote = place.remote(url, &specs)?;
    let mut connection = remote
        .connect(Direction::Fetch)
        .map_err(|err| failure(&err, watch))?;
    connection.set_transport_options(Box::new(transport(None)));
    connection.set_credentials(|_| Ok(None));
    let meter = Meter::new(limit_fetch(watch));
    let (map, _) = connection
        .ref_map(meter, gix::remote::ref_map::Options::default())
        .map_err(|err| failure(&err, watch))?;
    let named = |wanted: &str| {
        map.remote_refs
            .iter()
            .take(REFERENCES_MAX)
            .find_map(|reference| match reference {
                // An annotated tag is an object of its own, separate from its commit.
                Ref::Peeled {
                    full_ref_name,
                    object,
                    ..
                }
                | Ref::Direct {
                    full_ref_name,
                    object,
                }
                | Ref::Symbolic {
                    full_ref_name,
                    object,
                    ..
                } => (full_ref_name == wanted).then(|| object.to_string()),
                Ref::Unborn { .. } => None,
            })
    };
    Ok(named(&format!("refs/tags/{version}")).or_else(|| named(&format!("refs/heads/{version}"))))
}

/// Returns the files of the package `id`.
pub(super) fn fetch(
    url: &str,
    id: PackageId,
    which: IncludedFiles,
    scratch: &Path,
    watch: &DownloadObserver,
) -> Result<PackageSnapshot, FetchError> {
    let place = TempRepository::new(scratch)?;
    let commit =
        ObjectId::from_hex(id.commit.as_bytes()).map_err(|_| FetchError::NoVersion(id.commit.clone()))?;
    let remote = place.remote(url, &[format!("{commit}:refs/drydock/package")])?;
    let mut connection = remote
        .connect(Direction::Fetch)
        .map_err(|err| failure(&err, watch))?;
    connection.set_transport_options(Box::new(transport(None)));
    connection.set_credentials(|_| Ok(None));
    connection
        .prepare_fetch(
            Meter::new(limit_fetch(watch)),
            gix::remote::ref_map::Options::default(),
        )
        .map_err(|err| failure(&err, watch))?
        .with_write_packed_refs_only(true)
        .with_shallow(gix::remote::fetch::Shallow::DepthAtRemote(NonZeroU32::MIN))
        .receive(Meter::new(limit_fetch(watch)), watch.flag())
        .map_err(|err| failure(&err, watch))?;
    files(&place.repository, commit, id, which)
}

/// A temporary repository for one call.
struct TempRepository {
    repository: gix::Repository,
    // The directory is removed after the call.
    _directory: tempfile::TempDir,
}

impl TempRepository {
    fn new(scratch: &Path) -> Result<Self, FetchError> {
        let disk = |err: std::io::Error| {
            FetchError::Remote(format!("not enough disk space for the download: {}", err.kind()))
        };
        std::fs::create_dir_all(scratch).map_err(disk)?;
        let directory = tempfile::tempdir_in(scratch).map_err(disk)?;
        let repository = gix::ThreadSafeRepository::init_opts(
            directory.path(),
            gix::create::Kind::Bare,
            gix::create::Options::default(),
            gix::open::Options::isolated().config_overrides(objects_bounded(OBJECT_BYTES_MAX)),
        )
        .map_err(|_| FetchError::Remote("not enough disk space for the download".to_owned()))?;
        Ok(Self {
            repository: repository.into(),
            _directory: directory,
        })
    }

    fn remote(&self, url: &str, specs: &[String]) -> Result<gix::Remote<'_>, FetchError> {
        // The client would panic without a provider. The program normally installs it at start.
        if rustls::crypto::CryptoProvider::get_default().is_none() {
            return Err(FetchError::Remote("no TLS provider is installed".to_owned()));
        }
        let refused = |_| FetchError::Remote("the address of the remote is not valid".to_owned());
        let remote = self
            .repository
            .remote_at_without_url_rewrite(url)
            .map_err(refused)?;
        let specs = specs.iter().map(String::as_str);
        let remote = remote.with_refspecs(specs, Direction::Fetch).map_err(refused)?;
        Ok(remote.with_fetch_tags(gix::remote::fetch::Tags::None))
    }
}

/// Forwards the progress to the observer, and stops a remote that sends too much.
fn limit_fetch(watch: &DownloadObserver) -> OnFetch {
    let watch = watch.clone();
    Arc::new(move |step| {
        if step.bytes && step.done > FETCH_BYTES_MAX {
            watch.stop();
        }
        watch.report(step);
    })
}

fn files(
    repository: &gix::Repository,
    commit: ObjectId,
    id: PackageId,
    which: IncludedFiles,
) -> Result<PackageSnapshot, FetchError> {
    let mut exported = match which {
        IncludedFiles::All => None,
        IncludedFiles::Exported => Some(ExportAttributes::new()),
    };
    let commit = repository.find_commit(commit).map_err(invalid_repository)?;
    let root = commit.tree().map_err(invalid_repository)?;
    let tree = directory_of(repository, root, &id.subdir, &mut exported)?;
    let mut builder = SnapshotBuilder::new(&id.subdir, FILES_MAX, BYTES_MAX);
    let mut open = vec![(id.subdir.clone().into_bytes(), tree.id, 0)];
    let mut looked_into = 0;
    while let Some((directory, tree, depth)) = open.pop() {
        looked_into += 1;
        if depth > DEPTH_MAX || open.len() > FILES_MAX || looked_into > DIRECTORIES_MAX {
            return Err(FetchError::Repository(PackageError::TooMany(FILES_MAX)));
        }
        let tree = repository.find_tree(tree).map_err(invalid_repository)?;
        if let Some(exported) = &mut exported {
            read_attributes(repository, &tree, &directory, exported)?;
        }
        let decoded = tree.decode().map_err(invalid_repository)?;
        for entry in &decoded.entries {
            let path = beneath(&directory, entry.filename);
            let kind = entry.mode.kind();
            let is_left_out = |exported: &ExportAttributes| exported.is_ignored(&path, kind);
            if exported.as_ref().is_some_and(is_left_out) {
                continue;
            }
            let oid = entry.oid.to_owned();
            let found = match kind {
                EntryKind::Tree => {
                    open.push((path.clone(), oid, depth + 1));
                    EntryContent::Directory
                }
                // A submodule is not part of the repository.
                EntryKind::Commit => EntryContent::Directory,
                EntryKind::Link => EntryContent::Link(blob(repository, oid, &builder)?),
                EntryKind::Blob => {
                    EntryContent::File(FileMode::Regular, blob(repository, oid, &builder)?.into())
                }
                EntryKind::BlobExecutable => {
                    EntryContent::File(FileMode::Executable, blob(repository, oid, &builder)?.into())
                }
            };
            builder.add(&path, found).map_err(FetchError::Repository)?;
        }
    }
    builder.finish(id).map_err(FetchError::Repository)
}

/// Finds the directory of a package and reads the attribute files on the way.
fn directory_of<'r>(
    repository: &'r gix::Repository,
    root: gix::Tree<'r>,
    subdir: &str,
    exported: &mut Option<ExportAttributes>,
) -> Result<gix::Tree<'r>, FetchError> {
    let empty = || FetchError::Repository(PackageError::Empty(subdir.to_owned()));
    let (mut tree, mut walked) = (root, Vec::new());
    for name in subdir.split('/').filter(|name| !name.is_empty()) {
        if let Some(exported) = exported {
            read_attributes(repository, &tree, &walked, exported)?;
        }
        walked = beneath(&walked, name.as_bytes());
        let entry = tree.lookup_entry_by_path(name).map_err(invalid_repository)?;
        let entry = entry.filter(|entry| entry.mode().is_tree()).ok_or_else(empty)?;
        if exported
            .as_ref()
            .is_some_and(|exported| exported.is_ignored(&walked, EntryKind::Tree))
        {
            return Err(empty());
        }
        tree = repository
            .find_tree(entry.object_id())
            .map_err(invalid_repository)?;
    }
    Ok(tree)
}

/// Reads the attribute file of a directory. A file that is too large is ignored.
fn read_attributes(
    repository: &gix::Repository,
    tree: &gix::Tree<'_>,
    directory: &[u8],
    exported: &mut ExportAttributes,
) -> Result<(), FetchError> {
    let decoded = tree.decode().map_err(invalid_repository)?;
    let is_attributes = |entry: &&gix::objs::tree::EntryRef<'_>| {
        entry.filename == ATTRIBUTES
            && matches!(entry.mode.kind(), EntryKind::Blob | EntryKind::BlobExecutable)
    };
    let Some(entry) = decoded.entries.iter().find(is_attributes) else {
        return Ok(());
    };
    let bytes = repository
        .find_header(entry.oid.to_owned())
        .map_err(invalid_repository)?
        .size();
    if bytes <= exported.bytes_left() as u64 {
        let content = repository
            .find_object(entry.oid.to_owned())
            .map_err(invalid_repository)?;
        exported.read(directory, &content.data);
    }
    Ok(())
}

fn beneath(directory: &[u8], name: &[u8]) -> Vec<u8> {
    match directory {
        [] => name.to_vec(),
        directory => [directory, name].join(&b'/'),
    }
}

/// Returns the error for an invalid response of the remote.
fn invalid_repository<E>(_: E) -> FetchError {
    FetchError::Remote("the remote sent a broken repository".to_owned())
}

fn blob(
    repository: &gix::Repository,
    id: ObjectId,
    builder: &SnapshotBuilder,
) -> Result<Vec<u8>, FetchError> {
    // The size is checked first, because a blob may unpack to far more than was sent.
    let bytes = repository.find_header(id).map_err(invalid_repository)?.size();
    if bytes > builder.bytes_left() {
        return Err(FetchError::Repository(PackageError::TooLarge(BYTES_MAX)));
    }
    Ok(repository
        .find_object(id)
        .map_err(invalid_repository)?
        .detach()
        .data)
}

/// Classifies an error. Transport errors may quote requests, so their text is examined but never shown.
fn failure(err: &gix::Error, watch: &DownloadObserver) -> FetchError {
    if watch.is_stopped() {
        return FetchError::Stopped;
    }
    let text = format!("{err:?}").to_ascii_lowercase();
    let says = |signs: &[&str]| signs.iter().any(|sign| text.contains(sign));
    let why = if says(&["too large to fit in memory"]) {
        "the repository has an object that unpacks to more than 100 MiB"
    } else if says(&[
        "401",
        "403",
        "credential",
        "unauthorized",
        "permissiondenied",
        "identity",
    ]) {
        "the remote requires a password, or there is no such repository"
    } else if says(&["404", "not found", "not our ref", "couldn't find"]) {
        "there is no such repository or commit"
    } else if says(&["redirect"]) {
        "the remote has moved; use its new address"
    } else if says(&["connect", "dns", "timed out", "timeout"]) {
        "the remote could not be reached"
    } else {
        "the remote did not answer as a git server"
    };
    FetchError::Remote(why.to_owned())
}
