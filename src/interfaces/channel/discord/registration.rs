//! The command `/drydock`. It is registered when a channel connects, and only if it differs: Discord limits the number
//! of new commands. See
//! <https://docs.discord.com/developers/interactions/application-commands#create-global-application-command>.

use super::api::{DiscordApi, DiscordError};
use crate::base::model::Installation;
use serde_json::Value;
use twilight_model::application::command::{CommandOption, CommandOptionType};
use twilight_model::id::Id;

/// The name of the command.
pub(super) const COMMAND: &str = "drydock";
const DESCRIPTION: &str = "Asks Drydock for help, the status or the prepared change";
const OPTION: &str = "command";
const OPTION_DESCRIPTION: &str = "A command and its arguments, such as: status";

/// Registers the command.
pub(super) async fn register(api: &DiscordApi, installation: &Installation) -> Result<(), DiscordError> {
    let Some(application) = installation.account.id.parse().ok().and_then(Id::new_checked) else {
        return Ok(());
    };
    let requests = api.requests().interaction(application);
    let registered = api.call(requests.global_commands()).await?;
    let registered = registered.as_array().map(Vec::as_slice).unwrap_or_default();
    if registered.iter().any(is_ours) {
        return Ok(());
    }
    let options = [option()];
    let command = requests.create_global_command().chat_input(COMMAND, DESCRIPTION);
    api.call(command.command_options(&options)).await.map(|_| ())
}

fn is_ours(command: &Value) -> bool {
    let option = &command["options"][0];
    command["name"] == COMMAND
        && command["description"] == DESCRIPTION
        && option["name"] == OPTION
        && option["description"] == OPTION_DESCRIPTION
}

fn option() -> CommandOption {
    CommandOption {
        autocomplete: None,
        channel_types: None,
        choices: None,
        description: OPTION_DESCRIPTION.to_owned(),
        description_localizations: None,
        kind: CommandOptionType::String,
        max_length: None,
        max_value: None,
        min_length: None,
        min_value: None,
        file_types: None,
        name: OPTION.to_owned(),
        name_localizations: None,
        options: None,
        required: Some(false),
    }
}
