//! The kind of a message: whether it is a command, may change data or take long, and what a stop in it means.

use super::slash;
use crate::base::model::{Inbound, InboundKind, InboxId, ResponseUrlUse};
use crate::engine::command::{self, Command, Verb};

/// Returns the command in a typed message or slash command.
pub(super) fn written(kind: &InboundKind) -> Option<Command<'_>> {
    match kind {
        InboundKind::Command { verb, arguments } => Some(Command {
            verb: Verb::parse(verb)?,
            arguments,
        }),
        InboundKind::Text { text, .. } => command::find_in_text(text),
        InboundKind::Click { .. }
        | InboundKind::Unsupported { .. }
        | InboundKind::HomeOpened
        | InboundKind::Join { .. }
        | InboundKind::Schedule(_)
        | InboundKind::Pipeline(_)
        | InboundKind::Hook { .. } => None,
    }
}

/// True for a slash command that may come from a chat without the bot, such as the private chat of two people.
pub(super) fn may_be_without_bot(inbound: &Inbound) -> bool {
    let chat = inbound.place.account.platform.chat();
    let works_anywhere = chat.is_some_and(|chat| chat.response_urls == ResponseUrlUse::OutsideThreads);
    let is_slash = matches!(inbound.kind, InboundKind::Command { .. }) && inbound.message.is_none();
    is_slash && works_anywhere
}

/// True for commands that may change the workspace, the history or the running turn of their conversation. No turn of
/// that conversation begins before such a command has taken effect.
pub(in crate::engine::gateway) fn may_change(kind: &InboundKind) -> bool {
    let changes = |command: Command<'_>| {
        matches!(
            command.verb,
            Verb::Undo | Verb::Discard | Verb::Clear | Verb::Stop | Verb::Retry
        )
    };
    matches!(kind, InboundKind::Click { .. }) || written(kind).is_some_and(changes)
}

/// True for commands that start a run.
pub(super) fn starts_runs(kind: &InboundKind) -> bool {
    slash::of_pipelines(kind).is_some() || written(kind).is_some_and(|command| command.verb == Verb::Run)
}

/// True for a typed `stop`.
pub(super) fn is_stop(kind: &InboundKind) -> bool {
    written(kind).is_some_and(|command| command.verb == Verb::Stop)
}

/// True for a query about environments. It may take long and changes nothing.
pub(super) fn is_inspection(kind: &InboundKind) -> bool {
    let question = |command: Command<'_>| command.verb.question(command.arguments);
    written(kind).and_then(question).is_some()
}

/// Returns the message that a stop names by its number, such as `#7`.
pub(super) fn stopped_message(arguments: &str) -> Option<InboxId> {
    arguments.strip_prefix('#')?.parse().ok().map(InboxId)
}

/// Returns the time at which a stop was meant, such as `at 2026-11-24T10:00:00Z`. A platform may deliver it later.
pub(super) fn pressed_at(arguments: &str) -> Option<jiff::Timestamp> {
    arguments.strip_prefix("at ")?.parse().ok()
}
