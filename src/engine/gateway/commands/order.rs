//! The order of commands within a conversation. A command that shows or changes the prepared change waits until the
//! previous command that may change it is answered.

use crate::base::model::ConversationId;
use std::collections::HashMap;
use std::future::Future;
use std::sync::{Mutex, PoisonError};
use tokio_util::sync::{CancellationToken, DropGuard};

/// The effect of a command on later commands that depend on the change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine::gateway) enum LaterCommands {
    /// They wait, because the command may change something.
    Wait,
    Continue,
}

/// The needs of one command, which may be known only after its button is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine::gateway) struct CommandNeeds {
    /// True if it starts after the earlier commands are answered.
    pub(in crate::engine::gateway) waits: bool,
    /// The effect on later commands while it runs.
    pub(in crate::engine::gateway) later: LaterCommands,
}

/// The last unanswered command of each conversation that may change something.
#[derive(Default)]
pub(in crate::engine::gateway) struct CommandOrder {
    last: Mutex<HashMap<ConversationId, CancellationToken>>,
}

/// The position of a command in its conversation.
pub(in crate::engine::gateway) struct CommandSlot {
    before: Option<CancellationToken>,
    /// Notifies later commands when this one ends, also after a panic.
    over: Option<DropGuard>,
}

impl CommandOrder {
    /// Takes the next position in a conversation.
    pub(in crate::engine::gateway) fn enter(
        &self,
        conversation: ConversationId,
        later: LaterCommands,
    ) -> CommandSlot {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.retain(|_, token| !token.is_cancelled());
        let before = last.get(&conversation).cloned();
        let over = (later == LaterCommands::Wait).then(|| {
            let token = CancellationToken::new();
            last.insert(conversation, token.clone());
            token.drop_guard()
        });
        CommandSlot { before, over }
    }
}

impl CommandSlot {
    /// Runs a command as it needs to. Later commands may start together with one for which they need not wait.
    pub(in crate::engine::gateway) async fn run(
        self,
        needs: impl Future<Output = CommandNeeds>,
        command: impl Future<Output = ()>,
    ) {
        let Self { before, mut over } = self;
        let CommandNeeds { waits, later } = needs.await;
        let is_next = async {
            if let Some(before) = &before {
                before.cancelled().await;
            }
        };
        if before.is_none() || waits {
            is_next.await;
            if later == LaterCommands::Continue {
                over.take();
            }
            command.await;
        } else if over.is_some() {
            // A command that waits for this one also waits for the ones before it.
            futures_util::future::join(is_next, command).await;
        } else {
            command.await;
        }
        drop(over);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::{CommandNeeds, CommandOrder, LaterCommands};
    use crate::base::model::ConversationId;
    use std::sync::{Arc, Mutex};
    use tokio::sync::oneshot;
    use tokio::task::JoinSet;

    struct TestCommand {
        conversation: i64,
        /// The effect on later commands as long as nothing else is known.
        later: LaterCommands,
        needs: CommandNeeds,
    }

    fn discard(conversation: i64) -> TestCommand {
        TestCommand {
            conversation,
            later: LaterCommands::Wait,
            needs: CommandNeeds {
                waits: true,
                later: LaterCommands::Wait,
            },
        }
    }

    /// The press of a button that shows something.
    fn press(conversation: i64) -> TestCommand {
        let later = LaterCommands::Continue;
        TestCommand {
            needs: CommandNeeds { waits: true, later },
            ..discard(conversation)
        }
    }

    fn stop(conversation: i64) -> TestCommand {
        let later = LaterCommands::Wait;
        TestCommand {
            needs: CommandNeeds { waits: false, later },
            ..discard(conversation)
        }
    }

    fn diff(conversation: i64) -> TestCommand {
        TestCommand {
            later: LaterCommands::Continue,
            ..press(conversation)
        }
    }

    fn help(conversation: i64) -> TestCommand {
        let later = LaterCommands::Continue;
        TestCommand {
            needs: CommandNeeds { waits: false, later },
            ..diff(conversation)
        }
    }

    /// Starts commands, lets them end in a given order, and returns the order in which they ended.
    async fn ended(commands: &[TestCommand], ends: &[usize]) -> Vec<usize> {
        let order = CommandOrder::default();
        let ended = Arc::new(Mutex::new(Vec::new()));
        let mut running = JoinSet::new();
        let mut may_end = Vec::new();
        for (number, command) in commands.iter().enumerate() {
            let in_order = order.enter(ConversationId(command.conversation), command.later);
            let (sender, receiver) = oneshot::channel::<()>();
            may_end.push(Some(sender));
            let (ended, needs) = (Arc::clone(&ended), command.needs);
            let command = async move {
                let _ = receiver.await;
                ended.lock().unwrap().push(number);
            };
            running.spawn(in_order.run(async move { needs }, command));
        }
        for number in ends {
            drop(may_end[*number].take());
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
        }
        while running.join_next().await.is_some() {}
        assert!(
            order
                .last
                .lock()
                .unwrap()
                .values()
                .all(|token| token.is_cancelled())
        );
        let ended = ended.lock().unwrap();
        ended.clone()
    }

    #[tokio::test]
    async fn commands_that_depend_on_an_earlier_change_wait_for_it_and_others_do_not() {
        let commands = [discard(1), diff(1), help(1), diff(2), discard(1)];
        assert_eq!(ended(&commands, &[4, 3, 2, 1, 0]).await, [3, 2, 0, 1, 4]);
    }

    #[tokio::test]
    async fn a_press_that_shows_something_waits_for_earlier_commands_and_holds_no_later_one() {
        let commands = [discard(1), press(1), discard(1), diff(1)];
        assert_eq!(ended(&commands, &[3, 0, 2, 1]).await, [0, 2, 3, 1]);
    }

    #[tokio::test]
    async fn a_stop_runs_at_once_and_later_commands_wait_for_all_earlier_ones() {
        let commands = [discard(1), stop(1), diff(1)];
        assert_eq!(ended(&commands, &[1, 2, 0]).await, [1, 0, 2]);
    }
}
