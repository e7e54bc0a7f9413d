//! The search for an order of events that explains the state of a thread. The order is known, except for commands that
//! arrived while messages waited. Each of those may have taken effect before or after any of the waiting messages. If
//! no order leads to a state, a promise was broken.

use crate::task::{FileContents, Task, files_of_patch};
use std::collections::BTreeSet;

/// The most states that are followed at a time. A thread that needs more stays undecided.
const STATES_MAX: usize = 512;

/// The outcome of a message for a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MessageEnd {
    /// The model carried out the task.
    Done,
    /// The person stopped the message after some of its steps.
    Stopped,
    /// The message was given up, or stopped before it began. None of its edits remain.
    Refused,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommandKind {
    Undo,
    Discard,
    Clear,
    Patch,
    Status,
    Diff,
    Stop,
}

impl CommandKind {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Undo => "!undo",
            Self::Discard => "!discard",
            Self::Clear => "!clear",
            Self::Patch => "!patch",
            Self::Status => "!status",
            Self::Diff => "!diff",
            Self::Stop => "!stop",
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct AnsweredCommand {
    pub(crate) verb: CommandKind,
    pub(crate) answer: String,
    /// The patch that came with it.
    pub(crate) patch: Option<String>,
    /// The least and the greatest number of messages after which it took effect.
    pub(crate) after: (usize, usize),
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct State {
    files: FileContents,
    /// The prepared change, as `patch` sends it.
    prepared: Option<FileContents>,
    /// The edits that an undo may revert: the files before and after each message.
    edits: Vec<(FileContents, FileContents)>,
}

/// Checks that some order explains the thread. Fails with the part that no order explains.
pub(crate) fn explain(messages: &[(Task, MessageEnd)], commands: &[AnsweredCommand]) -> Result<(), String> {
    let mut states = BTreeSet::from([(0, State::default())]);
    for command in commands {
        let mut next = BTreeSet::new();
        for (position, state) in &states {
            let (least, most) = command.after;
            for target in least.max(*position)..=most.max(*position).min(messages.len()) {
                let later = match target < most {
                    true => LaterMessages::Some,
                    false => LaterMessages::None,
                };
                for before in run(state, &messages[*position..target]) {
                    next.extend(
                        carry_out(before, command, later)
                            .into_iter()
                            .map(|state| (target, state)),
                    );
                }
            }
        }
        if next.is_empty() {
            return Err(unexplained(command, &states, messages));
        }
        if next.len() > STATES_MAX {
            return Ok(());
        }
        states = next;
    }
    Ok(())
}

fn unexplained(
    command: &AnsweredCommand,
    states: &BTreeSet<(usize, State)>,
    messages: &[(Task, MessageEnd)],
) -> String {
    let shown = match command.patch.as_deref().map(files_of_patch) {
        Some(Ok(files)) => format!("the patch holds {}", summarize_files(&files)),
        Some(Err(why)) => format!("the patch cannot be read: {why}"),
        None => "no patch came with it".to_owned(),
    };
    let expected = states.iter().take(6).map(|(position, state)| {
        let after: Vec<String> = run(state, &messages[*position..])
            .iter()
            .map(|state| {
                let prepared = state
                    .prepared
                    .as_ref()
                    .map_or_else(|| "nothing".to_owned(), summarize_files);
                format!("files {}, prepared {prepared}", summarize_files(&state.files))
            })
            .collect();
        after.join(" or ")
    });
    format!(
        "`{}` was answered \"{}\" and {shown}, which no order of events explains; expected was one of: {}",
        command.verb.word(),
        command
            .answer
            .chars()
            .take(200)
            .collect::<String>()
            .replace('\n', " "),
        expected.collect::<Vec<_>>().join("; ")
    )
}

/// Describes files with the task and the step that wrote each.
fn summarize_files(files: &FileContents) -> String {
    let files = files.iter().map(|(path, content)| {
        let name = path.rsplit('/').next().unwrap_or_default();
        format!("{name}={}", content.lines().next().unwrap_or_default())
    });
    format!("{{{}}}", files.collect::<Vec<_>>().join(", "))
}

/// Returns the states that messages may lead to.
fn run(state: &State, messages: &[(Task, MessageEnd)]) -> BTreeSet<State> {
    let mut states = BTreeSet::from([state.clone()]);
    for (task, ended) in messages {
        let steps = match ended {
            MessageEnd::Done => task.steps..=task.steps,
            MessageEnd::Stopped => 0..=task.steps,
            MessageEnd::Refused => continue,
        };
        states = states
            .into_iter()
            .flat_map(|state| {
                steps
                    .clone()
                    .map(move |steps| state.clone().after_task(task, steps))
            })
            .collect();
    }
    states
}

impl State {
    fn after_task(mut self, task: &Task, steps: usize) -> Self {
        let before = self.files.clone();
        task.apply(steps, &mut self.files);
        if !self.files.is_empty() {
            self.prepared = Some(self.files.clone());
        }
        if before != self.files {
            self.edits.push((before, self.files.clone()));
        }
        self
    }

    /// Returns the state after an undo whose files were not rendered.
    fn after_undo(mut self) -> Option<Self> {
        let (before, _) = self.edits.pop()?;
        if before.is_empty() {
            return Some(Self::default());
        }
        self.files = before;
        Some(self)
    }

    fn after_rendered_undo(self) -> Option<Self> {
        let mut after = self.after_undo()?;
        if !after.files.is_empty() {
            after.prepared = Some(after.files.clone());
        }
        Some(after)
    }
}

/// The messages that a command did not wait for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LaterMessages {
    Some,
    None,
}

/// Returns the states a command may lead to, or none if its answer does not fit.
fn carry_out(state: State, command: &AnsweredCommand, later: LaterMessages) -> Vec<State> {
    let answer = command.answer.as_str();
    let one = |state: Option<State>| state.into_iter().collect();
    // The command was given up after too many restarts. It may have taken effect before that.
    if answer.contains("I gave it up") || answer.contains("I failed with an internal error") {
        return match command.verb {
            CommandKind::Undo => [
                Some(state.clone()),
                state.clone().after_undo(),
                state.after_rendered_undo(),
            ]
            .into_iter()
            .flatten()
            .collect(),
            CommandKind::Discard => vec![state, State::default()],
            CommandKind::Clear
            | CommandKind::Patch
            | CommandKind::Status
            | CommandKind::Diff
            | CommandKind::Stop => vec![state],
        };
    }
    if answer.contains("so I did nothing") || answer.starts_with("A turn is running") {
        let fits = later == LaterMessages::Some || answer.contains("so I did nothing");
        return one(fits.then_some(state));
    }
    // A button of an earlier revision does nothing.
    if answer.contains("so nothing was done") || answer.contains("is not prepared here any more") {
        return one(Some(state));
    }
    match command.verb {
        CommandKind::Undo => undo(state, answer),
        CommandKind::Discard if answer.contains("discarded; the workspace equals the base again") => {
            one((state.prepared.is_some() || !state.files.is_empty()).then(State::default))
        }
        CommandKind::Discard | CommandKind::Diff if answer.starts_with("Nothing is prepared here") => {
            one(state.prepared.is_none().then_some(state))
        }
        CommandKind::Diff => one((answer.contains("CHG-") && state.prepared.is_some()).then_some(state)),
        CommandKind::Clear => one(answer.starts_with("I cleared our conversation").then_some(state)),
        CommandKind::Status => one(answer.contains("Delivery").then_some(state)),
        CommandKind::Stop => one(is_stop(answer).then_some(state)),
        CommandKind::Patch => {
            let fits = match &command.patch {
                None => answer.starts_with("Nothing is prepared here") && state.prepared.is_none(),
                Some(patch) => answer.starts_with("CHG-") && files_of_patch(patch).ok() == state.prepared,
            };
            one(fits.then_some(state))
        }
        CommandKind::Discard => Vec::new(),
    }
}

fn undo(state: State, answer: &str) -> Vec<State> {
    let after = match answer {
        _ if answer.starts_with("There is nothing to undo") => state.edits.is_empty().then_some(state),
        _ if answer.starts_with("Undone; the workspace equals the base again, and nothing") => {
            let after = state.after_rendered_undo();
            after.filter(|state| state.files.is_empty())
        }
        _ if answer.starts_with("Undone. CHG-") => {
            let after = state.after_rendered_undo();
            after.filter(|state| !state.files.is_empty())
        }
        _ if answer.starts_with("Undone.") => state.after_undo(),
        _ => None,
    };
    after.into_iter().collect()
}

fn is_stop(answer: &str) -> bool {
    [
        "Stopping.",
        "Nothing is running.",
        "That work has ended",
        "That turn has ended.",
    ]
    .iter()
    .any(|known| answer.starts_with(known))
}

#[cfg(test)]
mod tests {
    use super::{AnsweredCommand, CommandKind, MessageEnd, explain};
    use crate::task::{FileContents, Task};

    fn task(id: u32) -> Task {
        Task {
            id,
            conversation: 1,
            steps: 2,
        }
    }

    fn patch_of(tasks: &[(u32, usize)]) -> String {
        let mut files = FileContents::new();
        for (id, steps) in tasks {
            task(*id).apply(*steps, &mut files);
        }
        let sections = files.iter().map(|(path, content)| {
            let mut lines: Vec<String> = content.lines().map(|line| format!("+{line}\n")).collect();
            if !content.ends_with('\n') {
                lines.push("\\ No newline at end of file\n".to_owned());
            }
            format!(
                "diff --git a/{path} b/{path}\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n{}",
                lines.concat()
            )
        });
        sections.collect()
    }

    fn answered(
        verb: CommandKind,
        answer: &str,
        patch: Option<String>,
        after: (usize, usize),
    ) -> AnsweredCommand {
        AnsweredCommand {
            verb,
            answer: answer.to_owned(),
            patch,
            after,
        }
    }

    const DONE: [(u32, usize); 2] = [(1, 2), (2, 2)];

    fn messages() -> Vec<(Task, MessageEnd)> {
        DONE.iter().map(|(id, _)| (task(*id), MessageEnd::Done)).collect()
    }

    #[test]
    fn what_was_prepared_is_explained_byte_for_byte() {
        let sent = |patch| {
            [answered(
                CommandKind::Patch,
                "CHG-1 rev 2, against",
                Some(patch),
                (2, 2),
            )]
        };
        assert_eq!(explain(&messages(), &sent(patch_of(&DONE))), Ok(()));
        assert!(explain(&messages(), &sent(patch_of(&DONE[..1]))).is_err());
        assert!(explain(&messages(), &sent(patch_of(&[(1, 2), (2, 1)]))).is_err());
    }

    #[test]
    fn an_undo_takes_back_one_message_and_all_of_it() {
        let with = |patch| {
            [
                answered(CommandKind::Undo, "Undone. CHG-1 rev 3 is now", None, (2, 2)),
                answered(CommandKind::Patch, "CHG-1 rev 3, against", Some(patch), (2, 2)),
            ]
        };
        assert_eq!(explain(&messages(), &with(patch_of(&DONE[..1]))), Ok(()));
        assert!(explain(&messages(), &with(patch_of(&DONE))).is_err());
        assert!(explain(&messages(), &with(patch_of(&[(1, 2), (2, 1)]))).is_err());
        let twice = [
            answered(CommandKind::Undo, "Undone. CHG-1 rev 3 is now", None, (2, 2)),
            answered(CommandKind::Patch, "Nothing is prepared here.", None, (2, 2)),
        ];
        assert!(explain(&messages(), &twice).is_err());
    }

    #[test]
    fn a_command_among_waiting_messages_may_come_at_any_place_but_no_other() {
        let discarded = "CHG-1 is discarded; the workspace equals the base again.";
        let with = |after| {
            [
                answered(CommandKind::Discard, discarded, None, after),
                answered(
                    CommandKind::Patch,
                    "CHG-2 rev 1, against",
                    Some(patch_of(&DONE[1..])),
                    (2, 2),
                ),
            ]
        };
        assert_eq!(explain(&messages(), &with((1, 2))), Ok(()));
        assert!(explain(&messages(), &with((2, 2))).is_err());
        let busy = |after| {
            [answered(
                CommandKind::Undo,
                "A turn is running; `stop` it first.",
                None,
                after,
            )]
        };
        assert_eq!(explain(&messages(), &busy((1, 2))), Ok(()));
        assert!(explain(&messages(), &busy((2, 2))).is_err());
    }

    #[test]
    fn a_stopped_message_leaves_its_first_steps_and_a_refused_one_nothing() {
        let with = |ended, patch| {
            explain(
                &[(task(1), MessageEnd::Done), (task(2), ended)],
                &[answered(
                    CommandKind::Patch,
                    "CHG-1 rev 1, against",
                    Some(patch),
                    (2, 2),
                )],
            )
        };
        for steps in 0..=2 {
            assert_eq!(
                with(MessageEnd::Stopped, patch_of(&[(1, 2), (2, steps)])),
                Ok(()),
                "{steps}"
            );
        }
        assert_eq!(with(MessageEnd::Refused, patch_of(&DONE[..1])), Ok(()));
        assert!(with(MessageEnd::Refused, patch_of(&[(1, 2), (2, 1)])).is_err());
    }
}
