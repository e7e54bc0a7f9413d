//! The command `/drydock`. It is registered when a channel connects, and only if it differs: Discord limits the number
//! of new commands. It is offered in servers and in the own chats of people with the bot, and nowhere else, because an
//! answer in a private channel of other people would be read by them. See
//! <https://docs.discord.com/developers/interactions/application-commands#create-global-application-command>.

use super::api::{ApiError, DiscordApi};
use super::list;
use crate::base::model::Installation;
use serde_json::{Value, json};
use twilight_http::request::{Method, RequestBuilder};
use twilight_model::id::Id;
use twilight_model::id::marker::ApplicationMarker;

/// The name of the command.
pub(super) const COMMAND: &str = "drydock";
const DESCRIPTION: &str = "Asks Drydock for help, the status or the prepared change";
const OPTION: &str = "command";
const OPTION_DESCRIPTION: &str = "A command and its arguments, such as: status";
/// `CHAT_INPUT`, and a text as the option.
const CHAT_INPUT: u64 = 1;
const STRING: u64 = 3;
/// `GUILD` and `BOT_DM`, without `PRIVATE_CHANNEL`.
const CONTEXTS: [u64; 2] = [0, 1];
/// `GUILD_INSTALL`, without `USER_INSTALL`.
const INTEGRATION_TYPES: [u64; 1] = [0];

/// Registers the command.
pub(super) async fn register(api: &DiscordApi, installation: &Installation) -> Result<(), ApiError> {
    let application = installation.account.id.parse().ok().and_then(Id::new_checked);
    let Some(application): Option<Id<ApplicationMarker>> = application else {
        return Ok(());
    };
    let registered = api
        .call(api.requests().interaction(application).global_commands())
        .await?;
    if list(&registered).iter().any(is_ours) {
        return Ok(());
    }
    // The request builder of the library has no contexts.
    let path = format!("applications/{application}/commands");
    let request = RequestBuilder::raw(Method::Post, path).json(&command()).build();
    let request = request.map_err(|_| ApiError::refused("the command cannot be written"))?;
    api.send(request).await.map(|_| ())
}

fn command() -> Value {
    json!({
        "type": CHAT_INPUT,
        "name": COMMAND,
        "description": DESCRIPTION,
        "contexts": CONTEXTS,
        "integration_types": INTEGRATION_TYPES,
        "options": [{"type": STRING, "name": OPTION, "description": OPTION_DESCRIPTION, "required": false}],
    })
}

/// Returns true if a registered command is this one. Discord adds fields to what was sent.
fn is_ours(registered: &Value) -> bool {
    let ours = command();
    let is_same = |pointer: &str| registered.pointer(pointer) == ours.pointer(pointer);
    let fields = ["/name", "/description", "/contexts", "/integration_types"];
    let option = ["/options/0/type", "/options/0/name", "/options/0/description"];
    fields.iter().chain(&option).all(|pointer| is_same(pointer))
}

#[cfg(test)]
mod tests {
    use super::{command, is_ours};
    use serde_json::json;

    #[test]
    fn a_command_that_is_offered_elsewhere_is_registered_again() {
        let mut registered = command();
        registered["id"] = json!("7");
        registered["options"][0]["max_length"] = json!(100);
        assert!(is_ours(&registered));
        for contexts in [json!([0, 1, 2]), json!(null), json!([0])] {
            registered["contexts"] = contexts;
            assert!(!is_ours(&registered), "{registered}");
        }
    }
}
