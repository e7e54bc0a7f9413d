//! Commands: words that are answered without a model. This module defines the commands, their syntax on each surface
//! and the text of `/help`. The gateway executes them.

mod list;

pub use list::{ALL, CommandSpec};

use crate::base::model::{ChangeName, edit_distance};
use crate::rendering::inspect::Question;

/// A command that a person can give without using tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verb {
    /// Shows the commands that the person may use here.
    Help,
    /// Shows the running, waiting and prepared work.
    Status,
    /// Shows the prepared change, or its effect on one environment.
    Diff,
    /// Shows the risks of the prepared change.
    Risk,
    /// Sends the prepared change as a patch file.
    Patch,
    /// Lists the environments and marks those that change.
    Envs,
    /// Shows the rendered objects of an environment.
    Render,
    /// Shows the entry points that import a file.
    WhoImports,
    /// Reverts the last turn's edits.
    Undo,
    /// Discards the prepared change.
    Discard,
    /// Starts a new history. The workspace stays.
    Clear,
    /// Shows the part of this conversation that the model sees.
    Context,
    /// Sends a conversation of the person to them alone, as a file.
    Export,
    /// Shows the number of tokens used.
    Usage,
    /// Shows what is used of the budgets, or allows more.
    Budget,
    /// Stops the running turn.
    Stop,
    /// Runs the last message again, if its turn has failed.
    Retry,
    /// Accepts the messages of another person.
    Accept,
    /// Blocks the messages of another person.
    Block,
    /// Shows and changes the schedules of the person.
    Schedule,
    /// Shows and sets the time zone of the person.
    Zone,
    /// Starts a pipeline.
    Run,
    /// Shows, cancels and repeats runs of pipelines.
    Runs,
    /// Gives a code for `drydock login`.
    Login,
    /// Admits a person. For administrators only.
    User,
}

/// A command in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command<'a> {
    /// The command.
    pub verb: Verb,
    /// The text after the word, trimmed.
    pub arguments: &'a str,
}

impl Verb {
    /// Returns the word that people type.
    pub fn word(self) -> &'static str {
        ALL.iter()
            .find(|known| known.verb == self)
            .map_or("", |known| known.word)
    }

    /// True if the word alone is a command. Others are also what people answer, such as `accept`.
    fn is_found_alone(self) -> bool {
        !matches!(self, Self::Accept | Self::Block | Self::Zone | Self::Run)
    }

    /// True if only administrators can use it.
    pub fn is_for_administrators(self) -> bool {
        self == Self::User
    }

    /// True if the command shows, changes or stops what is in a conversation.
    pub fn is_about_a_conversation(self) -> bool {
        match self {
            Self::Help
            | Self::Usage
            | Self::Budget
            | Self::Accept
            | Self::Block
            | Self::User
            | Self::Schedule
            | Self::Zone
            | Self::Run
            | Self::Runs
            | Self::Login => false,
            Self::Status
            | Self::Diff
            | Self::Risk
            | Self::Patch
            | Self::Envs
            | Self::Render
            | Self::WhoImports
            | Self::Undo
            | Self::Discard
            | Self::Clear
            | Self::Context
            | Self::Export
            | Self::Stop
            | Self::Retry => true,
        }
    }

    /// Finds a command by its word. Telegram does not allow `-` in commands, so `_` is accepted as well.
    pub fn parse(word: &str) -> Option<Self> {
        let word = word.to_lowercase().replace('_', "-");
        ALL.iter()
            .find(|known| known.word == word)
            .map(|known| known.verb)
    }

    /// Returns the query about environments that the command makes, or the argument that is missing; `None` if the
    /// command makes no such query.
    pub fn question(self, arguments: &str) -> Option<Result<Question, MissingArgument>> {
        let given = arguments.trim().trim_matches('`').trim().to_owned();
        match (self, given.is_empty()) {
            (Self::Envs, _) => Some(Ok(Question::Environments)),
            (Self::Risk, _) => Some(Ok(Question::Risks)),
            (Self::Render, true) => Some(Err(MissingArgument::Environment)),
            (Self::WhoImports, true) => Some(Err(MissingArgument::Path)),
            (Self::Diff, false) if given.eq_ignore_ascii_case("all") => Some(Ok(Question::AllDifferences)),
            (Self::Diff, false) if given.parse::<ChangeName>().is_ok() => None,
            (Self::Render, false) => Some(Ok(Question::Objects { environment: given })),
            (Self::Diff, false) => Some(Ok(Question::Difference { environment: given })),
            (Self::WhoImports, false) => Some(Ok(Question::Importers { path: given })),
            (
                Self::Diff
                | Self::Help
                | Self::Status
                | Self::Patch
                | Self::Undo
                | Self::Discard
                | Self::Clear
                | Self::Context
                | Self::Export
                | Self::Usage
                | Self::Budget
                | Self::Stop
                | Self::Retry
                | Self::Accept
                | Self::Block
                | Self::Schedule
                | Self::Zone
                | Self::Run
                | Self::Runs
                | Self::Login
                | Self::User,
                _,
            ) => None,
        }
    }
}

/// Finds a command in a typed message. The message starts with `/verb` or `!verb`, or it is exactly one of the words
/// (`@drydock status`, which arrives without its mention), except `accept`, `block`, `zone` and `run`. A slash before another word is not a command, so that paths
/// reach the model. For `!`, see [`find_unknown_in_text`].
pub fn find_in_text(text: &str) -> Option<Command<'_>> {
    let text = text.trim();
    let Some(rest) = text.strip_prefix(['/', '!']) else {
        let verb = Verb::parse(text).filter(|verb| verb.is_found_alone())?;
        return Some(Command { verb, arguments: "" });
    };
    let (word, arguments) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    Some(Command {
        verb: Verb::parse(word)?,
        arguments: arguments.trim(),
    })
}

/// Returns the request of a message that waits for its own turn, trimmed: the text after `queue:`. Any other message
/// reaches the running turn of its conversation.
pub fn queued(text: &str) -> Option<&str> {
    let (word, request) = text.split_once(':')?;
    word.trim().eq_ignore_ascii_case("queue").then(|| request.trim())
}

/// Finds an unknown command in a typed message: the word after a leading `!`. A lone `!` gives an empty word.
pub fn find_unknown_in_text(text: &str) -> Option<&str> {
    let rest = text.trim().strip_prefix('!')?;
    if rest.trim_start_matches('!').is_empty() {
        return Some("");
    }
    let word = rest.split(char::is_whitespace).next().unwrap_or(rest);
    let is_word = word.starts_with(char::is_alphabetic)
        && word
            .chars()
            .all(|char| char.is_alphanumeric() || matches!(char, '-' | '_'));
    (is_word && Verb::parse(word).is_none()).then_some(word)
}

/// The argument of a command that is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissingArgument {
    /// An environment.
    Environment,
    /// A file or directory.
    Path,
}

impl MissingArgument {
    /// Returns a hint for a person who writes `prefix` before each command.
    pub fn hint(self, prefix: &str) -> String {
        match self {
            Self::Environment => format!(
                "Which environment? For instance `{prefix}render environments/dev`; `{prefix}envs` lists them."
            ),
            Self::Path => {
                format!("Which file or directory? For instance `{prefix}who-imports lib/app.libsonnet`.")
            }
        }
    }
}

/// Returns the answer to an unknown command.
pub fn unknown_reply(word: &str) -> String {
    unknown_reply_among("", word, &ALL.map(|known| known.word))
}

/// Returns the answer to a command that is not in `known`, for a person who writes `prefix` before each command: the
/// nearest known command, and a list of all.
pub fn unknown_reply_among(prefix: &str, word: &str, known: &[&str]) -> String {
    let shown: String = word.chars().take(40).collect();
    let nearest = known
        .iter()
        .map(|known| (edit_distance(&shown.to_lowercase(), known), known))
        .min()
        .filter(|(distance, _)| *distance <= 2)
        .map(|(_, known)| format!(" Did you mean `{prefix}{known}`?"))
        .unwrap_or_default();
    let words: Vec<String> = known.iter().map(|word| format!("`{prefix}{word}`")).collect();
    let words = words.join(", ");
    match shown.is_empty() {
        true => format!("Which command? I know {words}."),
        false => format!("I don't know the command `{prefix}{shown}`.{nearest} I know {words}."),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::{ALL, Verb, find_in_text, find_unknown_in_text, queued, unknown_reply};
    use crate::rendering::inspect::Question;

    #[test]
    fn every_verb_is_listed_once_and_found_by_its_word() {
        for known in ALL {
            assert_eq!(Verb::parse(known.word), Some(known.verb));
            assert_eq!(known.verb.word(), known.word);
        }
    }

    #[test]
    fn commands_are_found_however_people_write_them() {
        let found = |text| find_in_text(text).map(|command| command.verb);
        for text in ["/status", "!status", " /STATUS now ", "status", "Status"] {
            assert_eq!(found(text), Some(Verb::Status), "{text}");
        }
        for text in ["!accept alice", "/accept alice", "!accept"] {
            assert_eq!(found(text), Some(Verb::Accept), "{text}");
        }
        for text in [
            "",
            "/",
            "!",
            // The answer to a question.
            "accept",
            "Block",
            "zone",
            "zone Europe/Berlin",
            "run",
            "run the checks of dev again",
            "status of web in dev?",
            "diff between dev and prod",
            "render dev",
            "who-imports lib/app.libsonnet",
            "/etc/hosts",
            "/render/dev",
            "!important",
            "/statusx",
        ] {
            assert_eq!(found(text), None, "{text}");
        }
    }

    #[test]
    fn a_mistyped_word_after_an_exclamation_mark_is_no_request() {
        for (text, word) in [
            ("!staus", "staus"),
            (" !Important fix this", "Important"),
            ("!who-import lib/a", "who-import"),
            ("!", ""),
            (" !! ", ""),
        ] {
            assert_eq!(find_unknown_in_text(text), Some(word), "{text}");
        }
        for text in [
            "!status",
            "!Render dev",
            "staus",
            "/staus",
            "!= is no operator of Jsonnet?",
            "! is what I mean",
            "!/etc/hosts",
            "!3 replicas",
            "",
        ] {
            assert_eq!(find_unknown_in_text(text), None, "{text}");
        }
        assert!(unknown_reply("").starts_with("Which command? I know `help`, "));
    }

    #[test]
    fn a_request_after_queue_waits_for_its_own_turn() {
        for (text, request) in [
            ("queue: scale web", "scale web"),
            (" Queue :infra: scale web ", "infra: scale web"),
            ("queue:", ""),
        ] {
            assert_eq!(queued(text), Some(request), "{text}");
        }
        for text in [
            "",
            "queue",
            "scale the queue: it is slow",
            "queues: two",
            "infra: queue",
        ] {
            assert_eq!(queued(text), None, "{text}");
        }
    }

    #[test]
    fn what_follows_a_command_is_its_argument() {
        let asked = |text| find_in_text(text).and_then(|command| command.verb.question(command.arguments));
        let objects = |environment: &str| Question::Objects {
            environment: environment.to_owned(),
        };
        for text in [
            "/render environments/dev",
            "!Render  environments/dev ",
            "!render `environments/dev`",
        ] {
            assert_eq!(asked(text), Some(Ok(objects("environments/dev"))), "{text}");
        }
        for text in ["/who_imports lib/a b.libsonnet", "!who-imports lib/a b.libsonnet"] {
            let path = "lib/a b.libsonnet".to_owned();
            assert_eq!(asked(text), Some(Ok(Question::Importers { path })), "{text}");
        }
        let environment = "dev".to_owned();
        assert_eq!(asked("!diff dev"), Some(Ok(Question::Difference { environment })));
        assert_eq!(asked("envs"), Some(Ok(Question::Environments)));
        assert_eq!(asked("/risk of this"), Some(Ok(Question::Risks)));
        assert_eq!(asked("!diff"), None);
        for (text, says) in [
            ("render", "`render environments/dev`"),
            ("!who-imports ``", "`who-imports lib/"),
        ] {
            let missing = asked(text).and_then(Result::err).unwrap();
            let usage = missing.hint("");
            assert!(usage.contains(says), "{text}: {usage}");
        }
    }

    #[test]
    fn an_unknown_command_is_answered_with_the_nearest_and_all() {
        let answer = unknown_reply("statsu");
        assert!(
            answer.starts_with("I don't know the command `statsu`. Did you mean `status`? I know `help`"),
            "{answer}"
        );
        assert!(unknown_reply("who_import").contains("Did you mean `who-imports`?"));
        assert!(!unknown_reply("scale").contains("Did you mean"));
    }
}
