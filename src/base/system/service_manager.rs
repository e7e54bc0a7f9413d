//! The programs of systems that start services.

/// A program that starts services when the system starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServiceManager {
    Systemd,
    Launchd,
}
