//! The user of a service that root installs.

use super::processes::ServiceScope;
use crate::base::system::{self, ServiceManager};
use crate::cli::CliError;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::Path;

/// The choice whether a service of the system may run as root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RootPermission {
    Refused,
    Allowed,
}

/// Returns the user and the group of a service of the system: those of the data directory or, if it is absent or belongs to
/// root, of the configuration. Returns `None` if they are those of the service manager.
pub(super) fn owner(
    scope: ServiceScope,
    data: &Path,
    configuration: &Path,
) -> Result<Option<(u32, u32)>, CliError> {
    if scope != ServiceScope::System {
        return Ok(None);
    }
    let of_configuration = std::fs::metadata(configuration).map_err(CliError::failed)?;
    let both = [std::fs::metadata(data).ok(), Some(of_configuration)];
    let owners = both.iter().flatten().map(|about| (about.uid(), about.gid()));
    Ok(first_not_root(owners))
}

fn first_not_root(mut owners: impl Iterator<Item = (u32, u32)>) -> Option<(u32, u32)> {
    owners.find(|(user, _)| *user != 0)
}

/// Checks that a service of the system has a user of its own, unless root is allowed, and that this user can read the
/// configuration.
pub(super) fn check_owner(
    scope: ServiceScope,
    owner: Option<(u32, u32)>,
    root: RootPermission,
    configuration: &Path,
) -> Result<(), CliError> {
    let shown = configuration.display();
    let Some(owner) = owner else {
        return match (scope, root) {
            (ServiceScope::System, RootPermission::Refused) => Err(CliError::usage(format!(
                "the service would run as root, to whom the configuration and the data directory belong; give the \
                 configuration to a user of its own (chown USER: {shown}), or allow root with --as-root"
            ))),
            _ => Ok(()),
        };
    };
    let about = std::fs::metadata(configuration).map_err(CliError::failed)?;
    match may_read(owner, (about.uid(), about.gid()), about.mode()) {
        true => Ok(()),
        false => Err(CliError::config(format!(
            "user {user}, to whom the data directory belongs, cannot read {shown}; run: chown {user}:{group} {shown}",
            user = owner.0,
            group = owner.1
        ))),
    }
}

/// Returns true if a user with a group may read a file.
fn may_read((user, group): (u32, u32), (of_user, of_group): (u32, u32), mode: u32) -> bool {
    let right = match (user == of_user, group == of_group) {
        (true, _) => 0o400,
        (false, true) => 0o040,
        (false, false) => 0o004,
    };
    mode & right != 0
}

/// Gives a new data directory to the user of the service. If `up` was killed before this, the directory still belongs to
/// root and is empty.
pub(super) fn give_directory(data: &Path, (user, group): (u32, u32)) -> Result<(), CliError> {
    if std::fs::metadata(data).map_err(CliError::failed)?.uid() != 0 {
        return Ok(());
    }
    if std::fs::read_dir(data)
        .map_err(CliError::failed)?
        .next()
        .is_some()
    {
        return Err(CliError::config(format!(
            "{data} belongs to root, and the configuration to user {user}; run: chown -R {user}:{group} {data}",
            data = data.display()
        )));
    }
    chown(data, Some(user), Some(group)).map_err(CliError::failed)
}

/// Returns the names of the user and the group of a service, if the manager needs them.
pub(super) fn owner_names(
    manager: ServiceManager,
    owner: Option<(u32, u32)>,
) -> Result<Option<(String, String)>, CliError> {
    let (ServiceManager::Launchd, Some((user, group))) = (manager, owner) else {
        return Ok(None);
    };
    let names = system::account_names(user, group);
    names.map(Some).ok_or_else(|| {
        CliError::usage(format!(
            "user {user} or group {group} has no name, which launchd needs; give the configuration to another user"
        ))
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::{RootPermission, check_owner, first_not_root, may_read};
    use crate::cli::service::processes::ServiceScope;

    /// STK-4
    #[test]
    fn a_service_of_the_system_runs_as_root_only_if_that_is_allowed() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let checked = |scope, root| check_owner(scope, None, root, file.path());
        let refused = checked(ServiceScope::System, RootPermission::Refused).unwrap_err();
        assert_eq!(refused.code, 2);
        assert!(refused.message.contains("--as-root"), "{}", refused.message);
        assert!(checked(ServiceScope::System, RootPermission::Allowed).is_ok());
        assert!(checked(ServiceScope::User(7), RootPermission::Refused).is_ok());
    }

    /// STK-4
    #[test]
    fn the_owner_of_the_data_comes_first_unless_it_is_root() {
        for (owners, found) in [
            ([(7, 8), (9, 9)], Some((7, 8))),
            ([(0, 0), (9, 9)], Some((9, 9))),
            ([(0, 9), (0, 0)], None),
        ] {
            assert_eq!(first_not_root(owners.into_iter()), found);
        }
    }

    /// STK-4
    #[test]
    fn the_user_of_a_service_can_read_its_configuration() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let nobody = Some((u32::MAX - 7, u32::MAX - 7));
        let refused = check_owner(ServiceScope::System, nobody, RootPermission::Allowed, file.path());
        let refused = refused.unwrap_err();
        assert_eq!(refused.code, 78);
        assert!(
            refused.message.contains("; run: chown 429"),
            "{}",
            refused.message
        );
        for (of, mode, may) in [
            ((7, 1), 0o400, true),
            ((7, 8), 0o044, false),
            ((1, 8), 0o640, true),
            ((1, 8), 0o604, false),
            ((1, 1), 0o644, true),
            ((1, 1), 0o640, false),
        ] {
            assert_eq!(may_read((7, 8), of, mode), may, "{of:?} {mode:o}");
        }
    }
}
