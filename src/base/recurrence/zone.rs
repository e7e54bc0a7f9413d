//! The names of time zones, and times as people in a zone read them.

use super::RecurrenceError;
use crate::base::model::edit_distance_within;
use jiff::Timestamp;
use jiff::tz::TimeZone;

/// The most mistakes in a name whose meaning is guessed.
const MISTAKES_MAX: usize = 2;
/// One mistake is allowed for so many characters. A mistake in a short name makes another one.
const CHARS_OF_MISTAKE: usize = 4;
/// The most characters of a name whose meaning is guessed.
const COMPARED_CHARS_MAX: usize = 64;

/// Returns true if a text is the name of a known time zone.
pub fn is_zone(name: &str) -> bool {
    find(name).is_ok()
}

/// Returns the name of a known time zone as it is spelled.
pub fn spelled_zone(name: &str) -> Result<String, RecurrenceError> {
    let zone = find(name)?;
    Ok(zone.iana_name().unwrap_or(name).to_owned())
}

/// Returns the time zone that a mistyped name or the name of a city most likely means.
pub fn nearest_zone(name: &str) -> Option<String> {
    let meant: String = name.trim().chars().take(COMPARED_CHARS_MAX).collect();
    let meant = meant.to_lowercase().replace(' ', "_");
    let mistakes_max = (meant.chars().count() / CHARS_OF_MISTAKE).min(MISTAKES_MAX);
    let zones = jiff::tz::db().available();
    let near = zones.filter_map(|zone| {
        let known = zone.as_str().to_lowercase();
        // A number is an offset, and its sign is not the one that people mean.
        if known.chars().any(|char| char.is_ascii_digit()) {
            return None;
        }
        let city = known.rsplit('/').next().unwrap_or(&known);
        let mistakes = [known.as_str(), city].map(|known| edit_distance_within(&meant, known, mistakes_max));
        let fewest = mistakes.into_iter().flatten().min()?;
        Some((fewest, zone.as_str().to_owned()))
    });
    near.min().map(|(_, name)| name)
}

/// Returns a time as people in a zone read it, such as `Mon 30 Nov 2026 09:00`; `None` if the zone is not known.
pub fn shown_in(time: Timestamp, zone: &str) -> Option<String> {
    find(zone).ok().map(|zone| shown(time, zone))
}

pub(super) fn shown(time: Timestamp, zone: TimeZone) -> String {
    time.to_zoned(zone).strftime("%a %-d %b %Y %H:%M").to_string()
}

pub(super) fn find(name: &str) -> Result<TimeZone, RecurrenceError> {
    // The library reads a file of this name below its directory, and compares names without their case.
    let is_name = |char: char| char.is_ascii_alphanumeric() || matches!(char, '/' | '_' | '-' | '+');
    let unknown = || RecurrenceError::Zone(name.chars().take(40).collect());
    if name == "UTC" {
        return Ok(TimeZone::UTC);
    }
    if name.is_empty() || name.len() > 64 || !name.chars().all(is_name) {
        return Err(unknown());
    }
    TimeZone::get(name).map_err(|_| unknown())
}
