//! The privacy of the data directory: only its owner can read it, unless an operator says that its group may.

use super::OpenError;
use super::open::directory_error;
use std::fs::{DirBuilder, File};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::Path;

/// The bits of everybody.
const EVERYBODY: u32 = 0o007;
/// The bits of the group.
const GROUP: u32 = 0o070;

/// The access that the group of the data directory may have to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupAccess {
    /// The owner alone has access.
    Refused,
    /// The group has access as well: an orchestrator has prepared the directory, and gives the group to this process
    /// alone.
    Accepted,
}

impl GroupAccess {
    /// Returns what `data.group_access` says.
    pub fn from_setting(is_accepted: bool) -> Self {
        match is_accepted {
            true => Self::Accepted,
            false => Self::Refused,
        }
    }
}

/// Makes the data directory, or looks whether others can read the one that is there. It changes no mode: what is open
/// at one start would be opened again before the next by whoever prepares it.
pub fn prepare_directory(directory: &Path, group: GroupAccess) -> Result<(), OpenError> {
    let failed = |err: std::io::Error| directory_error(directory, &err);
    let mut builder = DirBuilder::new();
    let made = builder.recursive(true).mode(0o700).create(directory);
    made.map_err(failed)?;
    checked(directory, mode_of(directory).map_err(failed)?, group).map(|_| ())
}

/// Returns the mode of a data directory that nobody else can read; `None` where there is none yet. Changes nothing.
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

/// The bits that let others in and must not be there.
fn others(mode: u32, group: GroupAccess) -> u32 {
    mode & match group {
        GroupAccess::Refused => EVERYBODY | GROUP,
        GroupAccess::Accepted => EVERYBODY,
    }
}

/// Returns advice about a directory that is open to others.
fn advice(directory: &Path, mode: u32) -> String {
    let close = format!("run `chmod 700 {}`", directory.display());
    match mode & EVERYBODY {
        0 => format!(
            "{close}, or set `data.group_access` to true where an orchestrator prepared it for the group of this process"
        ),
        _ => format!(
            "{close}, or set `data.directory` to a directory below it, which is made for this user alone"
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

    /// T96: what prepares a directory for a service opens it again at each start.
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
