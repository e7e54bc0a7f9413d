//! The memory of methods that the server does not know: it is asked again after a day, because it may be a newer one
//! by then.

use super::api::ApiError;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// The time for which it is remembered that the server does not know a method.
const REMEMBERED: Duration = Duration::from_hours(24);
/// The code with which a server refuses a method that it does not know.
const UNKNOWN_METHOD: u16 = 404;

/// The last refusal of a method by a server that does not know it.
#[derive(Debug, Default)]
pub(super) struct MethodSupport {
    refused_at: Mutex<Option<Instant>>,
}

impl MethodSupport {
    /// Returns true unless the server refused the method within the last day.
    pub(super) fn is_there(&self) -> bool {
        let refused_at = self.refused_at.lock().unwrap_or_else(PoisonError::into_inner);
        refused_at.is_none_or(|at| at.elapsed() >= REMEMBERED)
    }

    /// Remembers that the server does not know the method.
    pub(super) fn remember_refusal(&self) {
        let mut refused_at = self.refused_at.lock().unwrap_or_else(PoisonError::into_inner);
        *refused_at = Some(Instant::now());
    }
}

/// Returns true if the server does not know the method of a call.
pub(super) fn is_unknown_method(error: &ApiError) -> bool {
    matches!(error, ApiError::Refused { code, .. } if *code == UNKNOWN_METHOD)
}
