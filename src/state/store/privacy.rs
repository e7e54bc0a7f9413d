//! Access permissions of the data directory. Only its owner may read it, unless an operator allows its group.

use super::OpenError;
use super::open::directory_error;
use std::fs::{DirBuilder, File};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::Path;

/// Permission bits of other users.
const EVERYBODY: u32 = 0o007;
/// Permission bits of the group.
const GROUP: u32 = 0o070;

/// The access that the group has to the data directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupAccess {
    /// Only the owner has access.
    Refused,
    /// The group has access too. An orchestrator prepared the directory and gives the group only to this process.
    Accepted,
}

impl GroupAccess {
    /// Converts the setting `data.group_access`.
    pub fn from_setting(is_accepted: bool) -> Self {
        match is_accepted {
            true => Self::Accepted,
            false => Self::Refused,
        }
    }
}

/// Creates the data directory, or checks that other users cannot read an existing one. It changes no mode: the tool
/// that prepares the directory would only open it again before the next start.
pub fn prepare_directory(directory: &Path, group: GroupAccess) -> Result<(), OpenError> {
    let failed = |err: std::io::Error| directory_error(directory, &err);
    let mut builder = DirBuilder::new();
    let made = builder.recursive(true).mode(0o700).create(directory);
    made.map_err(failed)?;
    checked(directory, mode_of(directory).map_err(failed)?, group).map(|_| ())
}

/// Returns the mode of a data directory that other users cannot read; `None` if there is none yet. Changes nothing.
pub fn check_directory(directory: &Path, group: GroupAccess) -> Result<Option<u32>, OpenError> {
    match mode_of(directory) {
        Ok(mode) => checked(directory, mode, group).map(Some),
        Err(err) if err.kind() == ErrorKind::NotFound => Ok(None),
        Err(err) => Err(directory_error(directory, &err)),
    }
}

#[allow(clippy::disallowed_methods, reason = "the store owns its directory")]
fn mode_of(directory: &Path) -> std::io::Result<u32> {
    let about = File::open(directory)?.metadata()?;
    match about.is_dir() {
        true => Ok(about.mode() & 0o777),
        false => Err(ErrorKind::NotADirectory.into()),
    }
}

fn checked(directory: &Path, mode: u32, group: GroupAccess) -> Result<u32, OpenError> {
    match others(mode, group) {
        0 => Ok(mode),
        _ => Err(exposed(directory, mode)),
    }
}

fn exposed(directory: &Path, mode: u32) -> OpenError {
    OpenError::Exposed {
        directory: directory.to_owned(),
        mode,
        advice: advice(directory, mode),
    }
}

/// Returns the permission bits that must not be set.
fn others(mode: u32, group: GroupAccess) -> u32 {
    mode & match group {
        GroupAccess::Refused => EVERYBODY | GROUP,
        GroupAccess::Accepted => EVERYBODY,
    }
}

/// Returns advice for a directory that other users can read.
fn advice(directory: &Path, mode: u32) -> String {
    let close = format!("run `chmod 700 {}`", directory.display());
    match mode & EVERYBODY {
        0 => format!(
            "{close}, or set `data.group_access` to true where an orchestrator prepared it for the group of this process"
        ),
        _ => format!(
            "{close}, or set `data.directory` to a directory below it, which is created for this user only"
        ),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
#[allow(clippy::disallowed_methods, reason = "tests build their own files")]
mod tests {
    use super::{GroupAccess, check_directory, prepare_directory};
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    fn mode(directory: &Path) -> u32 {
        std::fs::metadata(directory).unwrap().permissions().mode() & 0o777
    }

    fn open_to(directory: &Path, mode: u32) {
        std::fs::set_permissions(directory, Permissions::from_mode(mode)).unwrap();
    }

    /// T96
    #[test]
    fn a_directory_that_others_can_read_is_refused_with_what_to_run() {
        let room = tempfile::tempdir().unwrap();
        let data = room.path().join("data");
        prepare_directory(&data, GroupAccess::Refused).unwrap();
        assert_eq!(mode(&data), 0o700);
        std::fs::write(data.join("drydock.db"), "").unwrap();
        for (bits, is_refused, with_group) in [
            (0o700, false, false),
            (0o750, true, false),
            (0o770, true, false),
            (0o755, true, true),
            (0o701, true, true),
            (0o777, true, true),
        ] {
            open_to(&data, bits);
            for (group, refused) in [
                (GroupAccess::Refused, is_refused),
                (GroupAccess::Accepted, with_group),
            ] {
                let said = prepare_directory(&data, group).map_err(|err| err.to_string());
                let looked = check_directory(&data, group).map_err(|err| err.to_string());
                assert_eq!(said.is_err(), refused, "{bits:o} {group:?}: {said:?}");
                assert_eq!(looked.is_err(), refused, "{bits:o} {group:?}");
                if let Err(why) = said {
                    assert!(why.contains(&format!("chmod 700 {}", data.display())), "{why}");
                    assert!(why.contains(&format!("mode {bits:04o}")), "{why}");
                }
            }
            assert_eq!(mode(&data), bits, "what holds files is the operator's to change");
        }
    }

    /// T96: a tool that prepares a directory for a service sets the mode again at each start.
    #[test]
    fn an_empty_directory_is_judged_like_any_other() {
        let room = tempfile::tempdir().unwrap();
        open_to(room.path(), 0o755);
        assert!(check_directory(room.path(), GroupAccess::Refused).is_err());
        assert!(prepare_directory(room.path(), GroupAccess::Refused).is_err());
        assert_eq!(mode(room.path()), 0o755);
        open_to(room.path(), 0o770);
        prepare_directory(room.path(), GroupAccess::Accepted).unwrap();
        let missing = room.path().join("none");
        assert_eq!(check_directory(&missing, GroupAccess::Refused).unwrap(), None);
        assert!(!missing.exists());
    }
}
