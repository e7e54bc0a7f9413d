//! The list of all commands, with the words and the descriptions that people see.

use super::Verb;

/// The description of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandSpec {
    /// The command.
    pub verb: Verb,
    /// The word that people type.
    pub word: &'static str,
    /// The required or optional arguments; empty if there are none.
    pub arguments: &'static str,
    /// The description in `/help`.
    pub what: &'static str,
}

const fn spec(verb: Verb, word: &'static str, arguments: &'static str, what: &'static str) -> CommandSpec {
    CommandSpec {
        verb,
        word,
        arguments,
        what,
    }
}

/// All commands, in the order of `/help`.
pub const ALL: [CommandSpec; 25] = [
    spec(Verb::Help, "help", "", "list what I can do here"),
    spec(
        Verb::Status,
        "status",
        "",
        "show what is running, waiting and prepared",
    ),
    spec(
        Verb::Diff,
        "diff",
        "[ENV]",
        "show the prepared change, or its effect on one environment or on all",
    ),
    spec(Verb::Risk, "risk", "", "show the risks of the prepared change"),
    spec(
        Verb::Patch,
        "patch",
        "",
        "send the prepared change as a patch file",
    ),
    spec(
        Verb::Envs,
        "envs",
        "",
        "list the environments, and which of them change",
    ),
    spec(
        Verb::Render,
        "render",
        "ENV",
        "show the objects of an environment as YAML",
    ),
    spec(
        Verb::WhoImports,
        "who-imports",
        "PATH",
        "list the entry points that a file affects",
    ),
    spec(Verb::Undo, "undo", "", "undo the edits of the last turn"),
    spec(Verb::Discard, "discard", "", "discard the prepared change"),
    spec(
        Verb::Clear,
        "clear",
        "",
        "clear the history; the prepared change stays",
    ),
    spec(
        Verb::Context,
        "context",
        "",
        "show how much of this conversation the model sees",
    ),
    spec(
        Verb::Export,
        "export",
        "[ID]",
        "send this conversation to you alone, as a file",
    ),
    spec(
        Verb::Usage,
        "usage",
        "[people]",
        "show the tokens and the money you used; for administrators, by person",
    ),
    spec(
        Verb::Budget,
        "budget",
        "[allow NAME AMOUNT]",
        "show what is used of the budgets; administrators allow more",
    ),
    spec(Verb::Stop, "stop", "", "stop what is running"),
    spec(
        Verb::Retry,
        "retry",
        "",
        "go on with the last message, if it failed or was stopped",
    ),
    spec(
        Verb::Accept,
        "accept",
        "NAME",
        "accept messages that a person sends you through me",
    ),
    spec(Verb::Block, "block", "NAME", "block the messages of a person"),
    spec(
        Verb::Schedule,
        "schedule",
        "[add NAME \"TIMES\" \"WORDS\"]",
        "list your schedules, or add one that asks me at set times",
    ),
    spec(
        Verb::Zone,
        "zone",
        "[NAME]",
        "show your time zone, or set it for the times of your schedules",
    ),
    spec(
        Verb::Run,
        "run",
        "[NAME] [PARAMETER=VALUE]",
        "start a pipeline, or list those you can start",
    ),
    spec(
        Verb::Runs,
        "runs",
        "[show NUMBER]",
        "list the runs of pipelines, or show, cancel or retry one",
    ),
    spec(
        Verb::Login,
        "login",
        "",
        "let your machine fetch changes; only you see the answer",
    ),
    spec(
        Verb::User,
        "user",
        "add ID NAME --role ROLE",
        "admit a person by the ID from the notice; for administrators",
    ),
];

impl CommandSpec {
    /// Returns the word with its arguments: `render ENV`.
    pub fn usage(&self) -> String {
        format!("{} {}", self.word, self.arguments).trim_end().to_owned()
    }
}
