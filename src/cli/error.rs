//! The error of a command: what the person reads, and the exit code.

use crate::base::config::EditError;
use std::io::ErrorKind;
use std::path::Path;

/// The error of a command, and its exit code.
#[derive(Debug)]
pub(super) struct CliError {
    pub(super) code: u8,
    pub(super) message: String,
}

impl CliError {
    pub(super) fn failed(message: impl std::fmt::Display) -> Self {
        Self {
            code: 1,
            message: message.to_string(),
        }
    }

    pub(super) fn usage(message: impl std::fmt::Display) -> Self {
        Self {
            code: 2,
            message: message.to_string(),
        }
    }

    pub(super) fn config(message: impl std::fmt::Display) -> Self {
        Self {
            code: 78,
            message: message.to_string(),
        }
    }

    /// Returns the error of an access to the data directory of a server.
    pub(super) fn of_data(data: &Path, error: &std::io::Error) -> Self {
        let advice = match error.kind() {
            ErrorKind::PermissionDenied => "; run the command as the user of the server",
            _ => "",
        };
        Self::failed(format!("{}: {error}{advice}", data.display()))
    }

    /// Returns true if the configuration, or what it names, has to be corrected.
    pub(super) fn is_configuration(&self) -> bool {
        self.code == 78
    }
}

impl From<EditError> for CliError {
    fn from(error: EditError) -> Self {
        match error {
            EditError::Invalid(_) => Self::config(error),
            EditError::Refused(_) => Self::usage(error),
            EditError::Unwritable(_) => Self::failed(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_not_read_the_data_of_a_server_learns_which_user_may() {
        let data = Path::new("/var/lib/drydock");
        let denied = CliError::of_data(data, &ErrorKind::PermissionDenied.into());
        assert_eq!(
            denied.message,
            "/var/lib/drydock: permission denied; run the command as the user of the server"
        );
        let other = CliError::of_data(data, &ErrorKind::StorageFull.into());
        assert_eq!(
            (other.code, other.message.as_str()),
            (1, "/var/lib/drydock: no storage space")
        );
    }
}
