//! Completion at the prompt: commands, environments and paths of the repository. Names come from the repository, so a
//! name with an invisible character or a space is left out.

use crate::base::model::{RepoPath, is_invisible};
use crate::rendering::tanka::{Listing, settings};
use crate::state::workspace::{Directory, Tree};
use reedline::{Completer, CompletionResult, Span, Suggestion};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The maximum number of suggestions.
const SUGGESTIONS_MAX: usize = 100;
/// The time after which the names are read again.
const NAMES_TIME_MAX: Duration = Duration::from_secs(3);

/// The kind of argument that a command takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) enum CommandArgument {
    /// There is none.
    None,
    /// An environment.
    Environment,
    /// A path of the repository.
    Path,
}

/// A command that can be completed.
#[derive(Clone, Copy, Debug)]
pub(in crate::cli) struct CompletedCommand {
    /// The word after the slash.
    pub(in crate::cli) word: &'static str,
    /// The kind of its argument.
    pub(in crate::cli) argument: CommandArgument,
    /// The description in the list of commands.
    pub(in crate::cli) description: &'static str,
}

/// A completer for one repository.
pub(in crate::cli) struct ChatCompleter {
    commands: Vec<CompletedCommand>,
    directory: Arc<Directory>,
    names: Option<(Instant, RepositoryNames)>,
}

impl ChatCompleter {
    /// Creates a completer. Files are listed only when they are needed.
    pub(in crate::cli) fn new(commands: Vec<CompletedCommand>, directory: Arc<Directory>) -> Self {
        Self {
            commands,
            directory,
            names: None,
        }
    }

    fn names(&mut self) -> &RepositoryNames {
        let is_fresh = |(read, _): &(Instant, RepositoryNames)| read.elapsed() < NAMES_TIME_MAX;
        let known = self.names.take().filter(is_fresh);
        let (_, names) = self.names.insert(known.unwrap_or_else(|| {
            // Without a list of files there is nothing to suggest; the next request reports the reason.
            let files = self.directory.files().unwrap_or_default();
            (Instant::now(), RepositoryNames::of(&files))
        }));
        names
    }
}

impl Completer for ChatCompleter {
    fn complete(&mut self, line: &str, pos: usize) -> CompletionResult {
        let before = line.get(..pos).unwrap_or_default();
        let start = before
            .rfind(char::is_whitespace)
            .map_or(0, |at| before.ceil_char_boundary(at + 1));
        let word = before.get(start..).unwrap_or_default();
        let found = match subject(before, start, &self.commands) {
            Subject::Command => commands(word, &self.commands),
            Subject::Nothing => Vec::new(),
            Subject::Argument(argument) => self.names().matching(word, argument),
        };
        let suggestions = found.into_iter().take(SUGGESTIONS_MAX).map(|found| Suggestion {
            append_whitespace: !found.value.ends_with('/'),
            value: found.value,
            description: found.description,
            span: Span::new(start, pos),
            ..Suggestion::default()
        });
        CompletionResult::fresh(suggestions.collect::<Vec<_>>())
    }
}

/// The kind of text that a word is completed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Subject {
    Command,
    /// The argument of a command, or a word of a request if it is `None`.
    Argument(Option<CommandArgument>),
    Nothing,
}

/// Returns the kind of text that the word at `start` is completed to.
fn subject(before: &str, start: usize, commands: &[CompletedCommand]) -> Subject {
    let Some(rest) = before.strip_prefix('/') else {
        return Subject::Argument(None);
    };
    if start == 0 {
        return Subject::Command;
    }
    let word = rest.split(char::is_whitespace).next().unwrap_or_default();
    let plain = word.to_lowercase().replace('_', "-");
    match commands.iter().find(|command| command.word == plain) {
        Some(command) if command.argument == CommandArgument::None => Subject::Nothing,
        Some(command) => Subject::Argument(Some(command.argument)),
        // A path such as `/etc/hosts` begins a request.
        None => Subject::Argument(None),
    }
}

/// A text that replaces a word.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Completion {
    value: String,
    description: Option<String>,
}

fn commands(word: &str, commands: &[CompletedCommand]) -> Vec<Completion> {
    let typed = word.trim_start_matches('/').to_lowercase();
    let found = commands.iter().filter(|command| command.word.starts_with(&typed));
    let found = found.map(|command| Completion {
        value: format!("/{}", command.word),
        description: Some(command.description.to_owned()),
    });
    found.collect()
}

/// The names in a repository.
#[derive(Debug, Default)]
struct RepositoryNames {
    paths: Vec<String>,
    environments: Vec<String>,
}

impl RepositoryNames {
    fn of(files: &[RepoPath]) -> Self {
        let listing = Listing::new(Arc::new(files.to_vec()));
        let directories = files.iter().filter_map(settings::spec_directory);
        let environments = directories.filter(|directory| settings::has_program(&listing, directory));
        Self {
            environments: environments
                .filter(|name| is_typed(name))
                .map(str::to_owned)
                .collect(),
            paths: files
                .iter()
                .map(RepoPath::as_str)
                .filter(|name| is_typed(name))
                .map(str::to_owned)
                .collect(),
        }
    }

    /// Returns the names that a word may become. A word of a request may become a path or an environment.
    fn matching(&self, word: &str, argument: Option<CommandArgument>) -> Vec<Completion> {
        let found: BTreeSet<String> = match argument {
            Some(CommandArgument::Environment) => self.environments_for(word).collect(),
            Some(CommandArgument::Path) => self.paths_for(word).collect(),
            None if word.is_empty() => BTreeSet::new(),
            Some(CommandArgument::None) | None => {
                self.environments_for(word).chain(self.paths_for(word)).collect()
            }
        };
        let found = found.into_iter().map(|value| Completion {
            value,
            description: None,
        });
        found.collect()
    }

    /// Returns the environments whose directory, or its last part, begins with the word.
    fn environments_for(&self, word: &str) -> impl Iterator<Item = String> {
        let last = |name: &str| name.rsplit('/').next().unwrap_or_default().to_owned();
        self.environments
            .iter()
            .filter(move |name| name.starts_with(word) || last(name).starts_with(word))
            .cloned()
    }

    /// Returns the files that begin with the word, and the next directories of those that are deeper.
    fn paths_for(&self, word: &str) -> impl Iterator<Item = String> {
        self.paths.iter().filter_map(move |path| {
            let rest = path.strip_prefix(word)?;
            let next = rest.find('/').map_or(rest.len(), |at| at + 1);
            Some(format!("{word}{}", rest.get(..next)?))
        })
    }
}

/// Returns true for a name that can be typed as one word and printed as it is.
fn is_typed(name: &str) -> bool {
    !name
        .chars()
        .any(|char| char.is_whitespace() || is_invisible(char))
}

#[cfg(test)]
mod tests {
    use super::{CommandArgument, CompletedCommand, Completion, RepositoryNames, Subject, commands, subject};
    use crate::base::model::RepoPath;

    const COMMANDS: [CompletedCommand; 3] = [
        CompletedCommand {
            word: "diff",
            argument: CommandArgument::Environment,
            description: "show the changes",
        },
        CompletedCommand {
            word: "who-imports",
            argument: CommandArgument::Path,
            description: "list importers",
        },
        CompletedCommand {
            word: "exit",
            argument: CommandArgument::None,
            description: "exit",
        },
    ];

    fn names() -> RepositoryNames {
        let files = [
            "environments/dev/main.jsonnet",
            "environments/dev/spec.json",
            "environments/docs/spec.json",
            "environments/prod/main.jsonnet",
            "environments/prod/spec.json",
            "lib/a b.libsonnet",
            "lib/web.libsonnet",
            "lib/\u{202e}web.libsonnet",
        ];
        let files: Vec<RepoPath> = files
            .iter()
            .filter_map(|file| RepoPath::parse(file).ok())
            .collect();
        RepositoryNames::of(&files)
    }

    fn values(found: Vec<Completion>) -> Vec<String> {
        found.into_iter().map(|found| found.value).collect()
    }

    #[test]
    fn the_kind_of_a_word_follows_from_the_line() {
        let kind = |before: &str| {
            let start = before.rfind(' ').map_or(0, |at| at + 1);
            subject(before, start, &COMMANDS)
        };
        assert_eq!(kind("/di"), Subject::Command);
        assert_eq!(
            kind("/diff d"),
            Subject::Argument(Some(CommandArgument::Environment))
        );
        assert_eq!(
            kind("/who_imports l"),
            Subject::Argument(Some(CommandArgument::Path))
        );
        assert_eq!(kind("/exit x"), Subject::Nothing);
        assert_eq!(kind("read lib"), Subject::Argument(None));
        assert_eq!(kind("/etc/hosts lib"), Subject::Argument(None));
    }

    #[test]
    fn commands_environments_and_paths_are_completed() {
        assert_eq!(values(commands("/w", &COMMANDS)), ["/who-imports"]);
        assert_eq!(
            values(commands("/", &COMMANDS)),
            ["/diff", "/who-imports", "/exit"]
        );
        let names = names();
        let environments = |word| values(names.matching(word, Some(CommandArgument::Environment)));
        assert_eq!(environments(""), ["environments/dev", "environments/prod"]);
        assert_eq!(environments("d"), ["environments/dev"]);
        assert_eq!(environments("environments/p"), ["environments/prod"]);
        let paths = |word| values(names.matching(word, Some(CommandArgument::Path)));
        assert_eq!(paths(""), ["environments/", "lib/"]);
        assert_eq!(paths("lib/"), ["lib/web.libsonnet"]);
        let words = |word| values(names.matching(word, None));
        assert_eq!(words(""), [""; 0]);
        assert_eq!(words("pr"), ["environments/prod"]);
        assert_eq!(words("li"), ["lib/"]);
    }
}
