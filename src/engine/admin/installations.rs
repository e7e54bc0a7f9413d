//! The connected channels, as operator commands see them.

use crate::base::model::Installation;

/// The connected channels, and what the server waits for.
pub trait Installations: Send + Sync {
    /// Returns the connected channels by configured name.
    fn installations(&self) -> Vec<(String, Installation)>;

    /// Returns the reasons why the server is not ready, one line each.
    fn waiting_for(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns the problems that do not keep the server from being ready, one line each.
    fn degraded(&self) -> Vec<String> {
        Vec::new()
    }
}

/// An empty source, for a command line without a running server.
#[derive(Debug)]
pub struct NoInstallations;

impl Installations for NoInstallations {
    fn installations(&self) -> Vec<(String, Installation)> {
        Vec::new()
    }
}
