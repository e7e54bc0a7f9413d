//! The properties of Slack.

use super::{ChatProperties, ResponseUrlUse};
use std::time::Duration;

/// The maximum number of characters of an id.
const ID_CHARS_MAX: usize = 32;

pub(super) const PROPERTIES: ChatProperties = ChatProperties {
    signature_header: "x-slack-signature",
    is_sender: |account, id| is_id(account, &['T', 'E']) && is_id(id, &['U', 'W']),
    sender_example: "slack:T0ACME:U0EVE",
    // Ids of direct messages begin with a `D`.
    is_group: |chat| chat.starts_with(['C', 'G']),
    has_ephemeral_notices: true,
    // See <https://docs.slack.dev/reference/methods/chat.postEphemeral>.
    hides_notices_in_new_threads: true,
    drops_threads_of_commands: true,
    threads_have_owners: true,
    confirms_presses: true,
    // See <https://docs.slack.dev/ai/agent-sessions>.
    shows_work: true,
    response_urls: ResponseUrlUse::OutsideThreads,
    thread_link: |place| {
        let thread = place.thread.as_ref()?;
        let (team, chat) = (&place.account.id, &place.chat);
        Some(format!(
            "https://app.slack.com/client/{team}/{chat}/thread/{chat}-{thread}"
        ))
    },
    command_form: "`/drydock word` in Slack",
    invite: |bot_name, token| match bot_name {
        Some(bot) => format!("send `join {token}` to @{bot} in a direct message"),
        None => format!("Slack: send `join {token}` to the app in a direct message"),
    },
    // Somewhat slower than the limit of `chat.update` in a workspace, so that each card has its turn and the last edits
    // of others do not delay it.
    card_edit_spacing: Duration::from_secs(2),
    // Of one message's blocks as JSON. Slack's limit is somewhat above 13,000.
    message_chars_max: 12_500,
};

/// True if the text is a Slack id. The first letter shows the kind of object.
fn is_id(id: &str, first: &[char]) -> bool {
    let chars = |char: char| char.is_ascii_uppercase() || char.is_ascii_digit();
    id.starts_with(first) && (2..=ID_CHARS_MAX).contains(&id.len()) && id.chars().all(chars)
}
