//! Durations that are stored as whole seconds.

use serde::{Deserialize, Deserializer, Serializer};
use std::time::Duration;

/// Writes a duration in whole seconds.
pub fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(duration.as_secs())
}

/// Reads a duration from whole seconds.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    u64::deserialize(deserializer).map(Duration::from_secs)
}
