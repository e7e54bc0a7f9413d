//! The choice of one configured channel, by name or because there is no other.

use super::CliError;
use crate::base::config::{ChannelOutline, ConfiguredChannels};
use crate::base::model::Platform;

/// Returns the channel of a platform with the given name, or the only one. `None` if there is no channel of the platform.
pub(super) fn choose_channel(
    given: Option<String>,
    platform: Platform,
    configured: &ConfiguredChannels,
) -> Result<Option<String>, CliError> {
    let is_of_platform = |channel: &ChannelOutline| channel.platform == platform;
    let channels = configured
        .channels
        .iter()
        .filter(|(_, channel)| is_of_platform(channel));
    let names: Vec<&str> = channels.map(|(name, _)| name.as_str()).collect();
    match (given, names.as_slice()) {
        (given, []) => Ok(given),
        (None, [name]) => Ok(Some((*name).to_owned())),
        (Some(name), names) if names.contains(&name.as_str()) => Ok(Some(name)),
        (Some(_) | None, names) => Err(CliError::usage(format!(
            "name a channel of {} with --channel: {}",
            platform.as_str(),
            names.join(", ")
        ))),
    }
}
