//! The messages of the program in the emulated Slack, and which of them are results.

use drydock::simulation::emulator::slack::{SlackMessage, SlackState};

pub(crate) fn bot_messages(state: &SlackState) -> impl Iterator<Item = &SlackMessage> {
    state
        .messages
        .iter()
        .filter(|message| message.user == "U0DRYDOCK")
}

pub(crate) fn is_result(message: &SlackMessage) -> bool {
    let text = message.visible().join("\n");
    // A turn that wrote the existing content prepares nothing new.
    [
        "Nothing was applied, committed or pushed.",
        "CHG-1 stays as it was;",
    ]
    .iter()
    .any(|words| text.contains(words))
}

pub(crate) fn results(state: &SlackState) -> Vec<&SlackMessage> {
    bot_messages(state).filter(|message| is_result(message)).collect()
}

pub(crate) fn texts(state: &SlackState) -> String {
    let texts: Vec<String> = bot_messages(state)
        .map(|message| message.visible().join("\n"))
        .collect();
    texts.join("\n---\n")
}
