//! The frame that opens a session.

use serde_json::{Value, json};
use twilight_model::gateway::payload::outgoing::Identify;
use twilight_model::gateway::payload::outgoing::identify::{IdentifyInfo, IdentifyProperties};
use twilight_model::gateway::{Capabilities, Intents};

/// The number of members above which Discord leaves some out of an event that Drydock does not request.
const LARGE_THRESHOLD: u64 = 50;

/// Returns the frame that opens a session. Discord documents its optional fields as absent and not as null.
pub(super) fn identification(token: String) -> Value {
    let mut frame = json!(identify(token));
    if let Some(fields) = frame["d"].as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    frame
}

fn identify(token: String) -> Identify {
    Identify::new(IdentifyInfo {
        capabilities: Capabilities::empty(),
        compress: false,
        intents: Intents::GUILD_MESSAGES | Intents::DIRECT_MESSAGES | Intents::MESSAGE_CONTENT,
        large_threshold: LARGE_THRESHOLD,
        presence: None,
        properties: IdentifyProperties::new("drydock", "drydock", "drydock"),
        shard: None,
        token,
    })
}
