//! The error of a command: what the person reads, and the exit code.

use crate::base::config::EditError;

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
