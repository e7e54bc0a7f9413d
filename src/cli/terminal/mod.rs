//! One person at a terminal, on the files around them: the same engine, the same tools, no server.

use super::output::Output;
use super::serve::world;
use super::{Failure, Global};
use crate::access::{Access, Identity, Role};
use crate::agent::{self, Event, Journal, Outcome, TurnContext};
use crate::config::Config;
use crate::model::{FileChange, History, Step, Verdict};
use crate::prompt::{self, PromptFacts, RepositoryKind};
use crate::provider::{self, Provider};
use crate::redact::Redactor;
use crate::session::{self, Record, Recorder};
use crate::tool::{self, Toolbox};
use crate::workspace::{Directory, Repository, Tree, Workspace, patch};
use async_trait::async_trait;
use std::path::PathBuf;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Characters of a tool's arguments or answer that are shown.
const SUMMARY_CHARS_MAX: usize = 120;

/// How the terminal was started.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Options {
    /// The model, as `provider/model`
    #[arg(long)]
    pub(super) model: Option<String>,
    /// Records the session below this directory
    #[arg(long, value_name = "DIRECTORY")]
    pub(super) record: Option<PathBuf>,
    /// Shows what tools answer
    #[arg(short, long)]
    pub(super) verbose: bool,
}

/// A conversation in a terminal.
pub(super) struct Terminal {
    config: Config,
    provider: Arc<dyn Provider>,
    model: String,
    identity: Identity,
    workspace: Workspace,
    directory: Arc<Directory>,
    toolbox: Toolbox,
    redactor: Arc<Redactor>,
    system: String,
    history: History,
    recorder: Option<Recorder>,
    /// What differed before each turn, newest last: for undo.
    before: Vec<Vec<FileChange>>,
    /// Tokens of all turns.
    pub(super) tokens: u64,
    verbose: bool,
    output: Output,
}

/// Undo steps that are kept.
const UNDO_MAX: usize = 20;

impl Terminal {
    /// Opens the repository around the working directory.
    pub(super) fn open(options: &Options, global: &Global, output: Output) -> Result<Self, Failure> {
        let mut sources = global.sources()?;
        if let Some(model) = &options.model {
            sources.flags.push(("model.default".to_owned(), model.clone()));
        }
        #[allow(
            clippy::disallowed_methods,
            reason = "the shell is where the working directory is read"
        )]
        let here = std::env::current_dir().map_err(Failure::failed)?;
        let directory = Arc::new(Directory::open(&here).map_err(Failure::failed)?);
        let name = directory
            .root()
            .file_name()
            .map_or_else(|| "repository".into(), |name| name.to_string_lossy());
        // Nothing is packed in a terminal: the files themselves are read.
        let unused = directory.root().join(".git/drydock");
        let repository =
            Repository::local(&name, directory.root(), None, &unused).map_err(Failure::failed)?;
        let config = Config::for_terminal(sources).map_err(Failure::config)?;
        let redactor = Arc::new(Redactor::new(config.secrets()));
        let client = provider::http_client().map_err(Failure::failed)?;
        let providers = provider::build(&config.providers, client, config.model.stream);
        let (provider, model) = providers
            .resolve(&config.model.default)
            .map_err(Failure::config)?;
        let identity = Access::terminal("you");
        let base = repository.head().map_err(Failure::failed)?;
        let files = directory.files().map_err(Failure::failed)?;
        let everywhere = ["**".to_owned()];
        let facts = PromptFacts {
            repository: repository.name(),
            branch: "HEAD",
            role: Some(Role::Editor),
            environments: &everywhere,
        };
        let system = prompt::system(RepositoryKind::of_files(&files), &facts);
        let redact = {
            let redactor = Arc::clone(&redactor);
            Arc::new(move |text: &str| redactor.redact(text).into_owned())
        };
        let open = |at: &std::path::Path| Recorder::open(at, &session_name(), redact, (world().now)());
        let recorder = options.record.as_deref().map(open).transpose();
        let tree = Arc::clone(&directory) as Arc<dyn Tree>;
        Ok(Self {
            provider,
            model,
            identity,
            workspace: Workspace {
                repository,
                base,
                tree,
            },
            directory,
            toolbox: Toolbox::new(tool::all()).map_err(Failure::failed)?,
            redactor,
            system,
            history: History::default(),
            recorder: recorder.map_err(Failure::failed)?,
            before: Vec::new(),
            tokens: 0,
            verbose: options.verbose,
            output,
            config,
        })
    }

    /// Runs one turn; Ctrl-C stops it and keeps what was edited.
    pub(super) async fn turn(&mut self, request: &str) -> Result<Outcome, Failure> {
        let cancel = CancellationToken::new();
        let stopper = tokio::spawn(stop_on_interrupt(cancel.clone()));
        self.before.push(self.changes()?);
        if self.before.len() > UNDO_MAX {
            self.before.remove(0);
        }
        let request = self.redactor.redact(request).into_owned();
        self.history.begin(request.clone()).map_err(Failure::failed)?;
        let now = world().now;
        if let Some(recorder) = &self.recorder {
            let event = session::Event::Began {
                user: request.clone(),
            };
            recorder
                .append(&Record {
                    at: now(),
                    turn: None,
                    event,
                })
                .map_err(Failure::failed)?;
        }
        let cx = TurnContext {
            identity: &self.identity,
            provider: self.provider.as_ref(),
            model: &self.model,
            system: &self.system,
            toolbox: &self.toolbox,
            workspace: &self.workspace,
            limits: &self.config.limits.turn,
            redactor: &self.redactor,
            cancel: &cancel,
        };
        let (output, verbose) = (self.output, self.verbose);
        let mut events = move |event: Event| show(&output, verbose, &event);
        let mut journal = Recording {
            recorder: self.recorder.as_ref(),
            now,
        };
        let outcome = agent::run_turn(cx, &mut self.history, &mut journal, &mut events).await;
        stopper.abort();
        let outcome = outcome.map_err(Failure::failed)?;
        self.tokens += outcome.usage.total();
        Ok(outcome)
    }

    /// What this session changed in the working directory.
    pub(super) fn changes(&self) -> Result<Vec<FileChange>, Failure> {
        self.directory.changes().map_err(Failure::failed)
    }

    /// The session's changes as a patch.
    pub(super) fn patch(&self) -> Result<patch::Patch, Failure> {
        Ok(patch::write(&self.changes()?))
    }

    /// Puts every file back to what it was before the last turn; `None` when there is no turn left.
    pub(super) fn undo(&mut self) -> Result<Option<usize>, Failure> {
        let Some(before) = self.before.pop() else {
            return Ok(None);
        };
        let mut restored = 0;
        for change in self.changes()? {
            let earlier = before.iter().find(|earlier| earlier.path == change.path);
            let wanted = earlier.map_or(&change.before, |earlier| &earlier.after);
            if *wanted == change.after {
                continue;
            }
            match wanted {
                Some(version) => self.directory.write(&change.path, version.content.clone()),
                None => self.directory.delete(&change.path),
            }
            .map_err(Failure::failed)?;
            restored += 1;
        }
        Ok(Some(restored))
    }

    /// Forgets the conversation; the files stay.
    pub(super) fn clear(&mut self) {
        self.history = History::default();
    }

    /// The conversation so far.
    pub(super) fn history(&self) -> &History {
        &self.history
    }

    /// Prints how a turn ended: its answer, or why there is none.
    pub(super) fn print(&self, outcome: &Outcome) {
        if !outcome.answer.is_empty() {
            self.output.line(&outcome.answer);
        }
        if let Some(notice) = &outcome.notice {
            self.output.message(notice);
        }
    }
}

/// Did the turn end well enough for exit code 0?
pub(super) fn succeeded(outcome: &Outcome) -> bool {
    matches!(outcome.verdict, Verdict::Pass | Verdict::NoChange)
}

async fn stop_on_interrupt(cancel: CancellationToken) {
    if tokio::signal::ctrl_c().await.is_ok() {
        cancel.cancel();
    }
}

fn show(output: &Output, verbose: bool, event: &Event) {
    match event {
        Event::ToolStarted { name, arguments } => {
            output.message(&output.dim(&format!("[tool: {name}] {}", one_line(arguments))));
        }
        Event::ToolFinished {
            name,
            content,
            is_error,
        } if verbose || *is_error => {
            let sign = if *is_error { "failed" } else { "answered" };
            output.message(&output.dim(&format!("[{name} {sign}] {}", one_line(content))));
        }
        Event::Waiting { why, wait } => {
            output.message(&output.dim(&format!("{why}, retrying in {} s", wait.as_secs().max(1))));
        }
        Event::StepStarted { .. } | Event::Text(_) | Event::ToolFinished { .. } => {}
    }
}

/// A text on one line, cut to what fits beside a tool's name.
fn one_line(text: &str) -> String {
    let mut line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() > SUMMARY_CHARS_MAX {
        line = line.chars().take(SUMMARY_CHARS_MAX - 1).chain(['…']).collect();
    }
    line
}

fn session_name() -> String {
    (world().random)()[..16]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// The terminal keeps nothing unless it is asked to record.
struct Recording<'a> {
    recorder: Option<&'a Recorder>,
    now: fn() -> jiff::Timestamp,
}

#[async_trait]
impl Journal for Recording<'_> {
    async fn model_call(&mut self, _step: u32) -> anyhow::Result<()> {
        Ok(())
    }

    async fn step(&mut self, step: &Step, model: &str) -> anyhow::Result<()> {
        if let Some(recorder) = self.recorder {
            for event in session::Event::of_step(step, model) {
                recorder.append(&Record {
                    at: (self.now)(),
                    turn: None,
                    event,
                })?;
            }
        }
        Ok(())
    }
}

/// Lines added and removed, and how many files: `2 files, +4 −2`.
pub(super) fn totals(patch: &patch::Patch) -> String {
    let added: u64 = patch.stats.iter().map(|stats| stats.added).sum();
    let removed: u64 = patch.stats.iter().map(|stats| stats.removed).sum();
    let plural = if patch.stats.len() == 1 { "file" } else { "files" };
    format!("{} {plural}, +{added} −{removed}", patch.stats.len())
}

#[cfg(test)]
mod tests {
    use super::one_line;

    /// TK-68 TK-71
    #[test]
    fn arguments_are_shown_on_one_line_of_at_most_120_characters() {
        assert_eq!(one_line("{\n  \"path\": \"a\"\n}"), "{ \"path\": \"a\" }");
        assert_eq!(one_line(&"ä ".repeat(200)).chars().count(), 120);
    }
}
