//! The commands of `drydock chat`, and the meaning of a line.

use crate::cli::terminal::{CommandArgument, CompletedCommand};
use crate::engine::command::{self, MissingArgument};
use crate::rendering::inspect::Question;

/// The text before each command.
pub(super) const COMMAND_PREFIX: &str = "/";

/// A command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChatVerb {
    Help,
    Status,
    Diff,
    /// A question about environments, as in the chats of a server.
    Inspect(command::Verb),
    Undo,
    Retry,
    Attach,
    Model,
    Clear,
    Context,
    Usage,
    Exit,
}

/// The commands, each with its word, its arguments, and its text in `/help`.
pub(super) const VERBS: [(ChatVerb, &str, &str, &str); 15] = [
    (ChatVerb::Help, "help", "", "this list"),
    (
        ChatVerb::Status,
        "status",
        "",
        "show the model and the changes so far",
    ),
    (
        ChatVerb::Diff,
        "diff",
        "[ENV]",
        "show the changes of this session, or their effect on one environment",
    ),
    (
        ChatVerb::Inspect(command::Verb::Risk),
        "risk",
        "",
        "show the risks of the changes of this session",
    ),
    (
        ChatVerb::Inspect(command::Verb::Envs),
        "envs",
        "",
        "list the environments, and which of them change",
    ),
    (
        ChatVerb::Inspect(command::Verb::Render),
        "render",
        "ENV",
        "show the objects of an environment as YAML",
    ),
    (
        ChatVerb::Inspect(command::Verb::WhoImports),
        "who-imports",
        "PATH",
        "list the entry points that a file affects",
    ),
    (ChatVerb::Undo, "undo", "", "undo the last turn that edited files"),
    (
        ChatVerb::Retry,
        "retry",
        "",
        "continue the last request after a stop or a failure",
    ),
    (
        ChatVerb::Attach,
        "attach",
        "[FILE]",
        "attach an image, a PDF or a text to the next request, or list what is attached",
    ),
    (
        ChatVerb::Model,
        "model",
        "[NAME]",
        "show the model, or use another one",
    ),
    (
        ChatVerb::Clear,
        "clear",
        "",
        "clear the conversation; the files stay",
    ),
    (ChatVerb::Context, "context", "", "show what the model sees"),
    (
        ChatVerb::Usage,
        "usage",
        "",
        "show the tokens you used, and their cost",
    ),
    (ChatVerb::Exit, "exit", "", "exit (or Ctrl-D)"),
];

/// The meaning of a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ChatInput<'a> {
    Nothing,
    /// A command, with the rest of the line.
    Command(ChatVerb, &'a str),
    Unknown(&'a str),
    Request(&'a str),
}

/// Returns the commands for completion.
pub(super) fn completed_commands() -> Vec<CompletedCommand> {
    let commands = VERBS
        .iter()
        .map(|(_, word, arguments, description)| CompletedCommand {
            word,
            argument: match *arguments {
                "ENV" | "[ENV]" => CommandArgument::Environment,
                "PATH" | "[FILE]" => CommandArgument::Path,
                _ => CommandArgument::None,
            },
            description,
        });
    commands.collect()
}

/// Parses a line. `/word` is a command; a path such as `/etc/hosts` is part of a request.
pub(super) fn parse_line(line: &str) -> ChatInput<'_> {
    let line = line.trim();
    let Some(rest) = line.strip_prefix(COMMAND_PREFIX) else {
        return match line {
            "" => ChatInput::Nothing,
            request => ChatInput::Request(request),
        };
    };
    let (word, arguments) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let plain = word.to_lowercase().replace('_', "-");
    let found = VERBS.iter().find(|(_, known, ..)| plain == *known);
    match found {
        Some((verb, ..)) => ChatInput::Command(*verb, arguments.trim()),
        None if word == "quit" => ChatInput::Command(ChatVerb::Exit, ""),
        None if word.is_empty() || !word.chars().all(char::is_alphabetic) => ChatInput::Request(line),
        None => ChatInput::Unknown(word),
    }
}

/// Returns the command's question about environments, or the argument that is missing. `None` for a command without such
/// a question.
pub(super) fn question(verb: ChatVerb, arguments: &str) -> Option<Result<Question, MissingArgument>> {
    match verb {
        ChatVerb::Inspect(verb) => verb.question(arguments),
        ChatVerb::Diff => command::Verb::Diff.question(arguments),
        ChatVerb::Help
        | ChatVerb::Status
        | ChatVerb::Undo
        | ChatVerb::Retry
        | ChatVerb::Attach
        | ChatVerb::Model
        | ChatVerb::Clear
        | ChatVerb::Context
        | ChatVerb::Usage
        | ChatVerb::Exit => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{ChatInput, ChatVerb, parse_line};
    use crate::engine::command;

    #[test]
    fn a_path_is_no_command_and_a_mistyped_command_is_no_request() {
        assert_eq!(parse_line("  /diff "), ChatInput::Command(ChatVerb::Diff, ""));
        assert_eq!(parse_line("/EXIT"), ChatInput::Command(ChatVerb::Exit, ""));
        assert_eq!(parse_line("/quit"), ChatInput::Command(ChatVerb::Exit, ""));
        let importers = ChatVerb::Inspect(command::Verb::WhoImports);
        for line in ["/who-imports lib/a", "/who_imports  lib/a "] {
            assert_eq!(parse_line(line), ChatInput::Command(importers, "lib/a"));
        }
        assert_eq!(parse_line("/statsu now"), ChatInput::Unknown("statsu"));
        for request in [
            "/etc/hosts",
            "/",
            "diff",
            "/ help",
            "/x.jsonnet is broken",
            "/who-knows why",
        ] {
            assert_eq!(parse_line(request), ChatInput::Request(request));
        }
        assert_eq!(parse_line(" \t"), ChatInput::Nothing);
    }
}
