//! A session of one user in a terminal, on the files in the working directory: the same engine and tools as the
//! gateway, without a server.

mod checking;
mod completion;
mod line_editor;
mod request_history;
mod recording;
mod review;
mod run_budget;
mod undo;
mod display;

pub(super) use checking::ChangeCheck;
pub(super) use completion::{CommandArgument, CompletedCommand};
pub(super) use line_editor::{INDICATOR, LineEditor, PromptedLine};
pub(super) use undo::UndoResult;

use super::failure_format::FailureFormatter;
use super::output::Output;
use super::{CliError, Global, sandbox_layers};
use crate::base::config::{Config, KNOWN_PROVIDERS, usual_model};
use crate::base::http_client;
use crate::base::model::{CheckState, FileChange, History, OutputNumber, Usage, Verdict};
use crate::base::redact::Redactor;
use crate::engine::agent::context::{ContextParts, FixedParts, check_room};
use crate::engine::agent::prompt::{self, PromptFacts, RepositoryKind};
use crate::engine::agent::{self, TurnContext, TurnOutcome, VerdictRule};
use crate::interfaces::provider::{self, Provider};
use crate::interfaces::tool::{self, MemoryOutputs, Outputs, ToolServices, Toolbox};
use crate::rendering::compare::BrokenEnvironment;
use crate::rendering::inspect::{InspectAnswer, InspectError, Inspector, Question};
use crate::state::access::{Access, Identity, Role};
use crate::state::workspace::{DeniedFiles, Directory, Repository, SecretGuard, Tree, Workspace, patch};
use checking::ChangeChecker;
use completion::ChatCompleter;
use display::{Detail, TurnDisplay};
use recording::{TerminalJournal, TerminalRecording};
use run_budget::BudgetedJournal;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use undo::UndoStack;

/// The options the terminal was started with.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct TerminalOptions {
    /// The model, as `provider/model`, or its name: `gpt-4o`, or any beside --provider
    #[arg(long)]
    model: Option<String>,
    /// The provider, such as `openai` or `gemini`; without --model, its default model
    #[arg(long)]
    provider: Option<String>,
    /// Records the session below this directory
    #[arg(long, value_name = "DIRECTORY")]
    record: Option<PathBuf>,
    /// Shows what tools answer
    #[arg(short, long)]
    verbose: bool,
}

impl TerminalOptions {
    /// Returns the keys that the command line sets.
    fn settings(&self) -> Result<Vec<(String, String)>, CliError> {
        if let (Some(provider), None) = (&self.provider, &self.model)
            && usual_model(provider).is_none()
        {
            let known: Vec<&str> = KNOWN_PROVIDERS.iter().map(|known| known.name).collect();
            return Err(CliError::usage(format!(
                "--provider {provider}: it has no known default model; check the name ({}), or add --model NAME",
                known.join(", ")
            )));
        }
        let keys = [("model.provider", &self.provider), ("model.default", &self.model)];
        let given = keys
            .into_iter()
            .filter_map(|(key, value)| Some((key.to_owned(), value.clone()?)));
        Ok(given.collect())
    }
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
    verdict: VerdictRule,
    redactor: Arc<Redactor>,
    checking: ChangeChecker,
    system: String,
    history: History,
    outputs: Arc<MemoryOutputs>,
    last_output: OutputNumber,
    bytes_per_1000_tokens: Option<u32>,
    recording: TerminalRecording,
    undo: UndoStack,
    // The effects on environments as they were last shown.
    effects_shown: String,
    // A note before the next request, about changes that the model cannot see.
    note: Option<&'static str>,
    usage: Usage,
    detail: Detail,
    output: Output,
}

/// The note for the model after `/undo`.
const UNDO_NOTICE: &str =
    "(The edits of the previous turn were undone; read a file again before you edit it.)\n\n";

impl Terminal {
    /// Opens the repository of the working directory.
    pub(super) fn open(options: &TerminalOptions, global: &Global, output: Output) -> Result<Self, CliError> {
        #[allow(
            clippy::disallowed_methods,
            reason = "the shell is where the working directory is read"
        )]
        let here = std::env::current_dir().map_err(CliError::failed)?;
        let mut sources = global.personal_sources()?;
        sources.flags.extend(options.settings()?);
        // A missing repository is reported before problems of the configuration.
        let config = Config::for_terminal(sources).map_err(CliError::config);
        if let Ok(config) = &config {
            sandbox_layers::check_layers(&config.sandbox.layers_missing)?;
        }
        let directory = Directory::open(&here).map_err(CliError::failed)?;
        let config = config?;
        let directory = Arc::new(directory.bounded(config.sandbox.file_bytes_max));
        let name = directory
            .root()
            .file_name()
            .map_or_else(|| "repository".into(), |name| name.to_string_lossy());
        let repository = Repository::open_personal(&name, directory.root()).map_err(CliError::failed)?;
        let redactor = Arc::new(Redactor::new(config.secrets()));
        let client = http_client::api_client().map_err(CliError::failed)?;
        let downloads = http_client::download_client().map_err(CliError::failed)?;
        let evaluator = super::evaluator(&config.sandbox);
        let services = ToolServices {
            packages: super::jb::fetch(&config.bundler.hosts_allowed, downloads.clone()),
            comparer: super::comparer(Arc::clone(&evaluator), Arc::clone(&redactor)),
            evaluator,
            helm: super::helm(&config.sandbox, downloads),
        };
        let comparer = Arc::clone(&services.comparer);
        let providers = provider::build(&config.providers, client, config.model.answer_mode);
        let (provider, model) = providers
            .resolve(&config.model.default)
            .map_err(CliError::config)?;
        let toolbox = Toolbox::new(tool::all(&services)).map_err(CliError::failed)?;
        check_room(&config, toolbox.specs()).map_err(CliError::config)?;
        let system = system(&repository, &directory, Role::Editor)?;
        let detail = match options.verbose {
            true => Detail::Verbose,
            false => Detail::Usual,
        };
        let base = repository.head().map_err(CliError::failed)?;
        let tree = Arc::clone(&directory) as Arc<dyn Tree>;
        let workspace = Workspace {
            repository,
            base,
            tree,
            guard: SecretGuard {
                denied: Arc::new(DeniedFiles::from_config(&config.sandbox.secrets_denied)),
                redactor: Arc::clone(&redactor),
            },
        };
        Ok(Self {
            provider,
            model,
            identity: Access::terminal_identity("you"),
            checking: ChangeChecker {
                workspace: workspace.clone(),
                comparer,
                redactor: Arc::clone(&redactor),
                latest: Mutex::default(),
            },
            workspace,
            directory,
            toolbox,
            verdict: VerdictRule::Computed,
            system,
            history: History::default(),
            outputs: Arc::new(MemoryOutputs::in_directory(&config.sandbox.programs.scratch)),
            last_output: OutputNumber(0),
            bytes_per_1000_tokens: None,
            recording: TerminalRecording::open(options.record.as_deref(), &redactor)?,
            redactor,
            undo: UndoStack::default(),
            effects_shown: String::new(),
            note: None,
            usage: Usage::default(),
            detail,
            output,
            config,
        })
    }

    /// Makes turns read-only, and asks the model for their verdict.
    pub(super) fn ask_for_verdicts(&mut self) -> Result<(), CliError> {
        self.toolbox = self.toolbox.reading().map_err(CliError::failed)?;
        self.system = system(&self.workspace.repository, &self.directory, Role::Viewer)?;
        self.verdict = VerdictRule::Asked;
        Ok(())
    }

    /// Runs one turn; Ctrl-C stops it and keeps its edits.
    pub(super) async fn turn(&mut self, request: &str) -> Result<TurnOutcome, CliError> {
        let cancel = CancellationToken::new();
        // The signal handler is installed here, not when the task first runs, so that no Ctrl-C is missed.
        let mut interrupts = signal(SignalKind::interrupt()).map_err(CliError::failed)?;
        let stopper = tokio::spawn({
            let cancel = cancel.clone();
            async move {
                if interrupts.recv().await.is_some() {
                    cancel.cancel();
                }
            }
        });
        let before = self.changes()?;
        self.checking.forget();
        let request = self.redactor.redact(request);
        let request = format!("{}{request}", self.note.take().unwrap_or_default());
        self.recording
            .record_request(&request)
            .map_err(CliError::failed)?;
        self.history.begin(request).map_err(CliError::failed)?;
        let cx = TurnContext {
            identity: &self.identity,
            provider: self.provider.as_ref(),
            model: &self.model,
            context_tokens: self.context_tokens(),
            system: &self.system,
            toolbox: &self.toolbox,
            workspace: &self.workspace,
            postconditions: &self.checking,
            verdict: self.verdict,
            limits: &self.config.limits.turn,
            redactor: &self.redactor,
            outputs: &(Arc::clone(&self.outputs) as Arc<dyn Outputs>),
            last_output: self.last_output,
            bytes_per_1000_tokens: self.bytes_per_1000_tokens,
            earlier_attempts: agent::EarlierAttempts::default(),
            began: Instant::now(),
            cancel: &cancel,
        };
        let mut watch = TurnDisplay::new(self.output, self.detail, Arc::clone(&self.redactor));
        let mut events = move |event| watch.show(&event);
        let journal = TerminalJournal {
            recording: &self.recording,
            outputs: &self.outputs,
        };
        let mut journal = BudgetedJournal::new(journal, &self.config, (self.provider.id(), &self.model));
        let outcome = agent::run_turn(cx, &mut self.history, &mut journal, &mut events).await;
        stopper.abort();
        self.undo.record_turn(&before, &self.changes()?);
        let outcome = outcome.map_err(CliError::failed)?;
        self.usage += outcome.usage;
        self.last_output = outcome.last_output;
        self.bytes_per_1000_tokens = outcome.context.bytes_per_1000_tokens;
        Ok(outcome)
    }

    /// Returns the changes of this session in the working directory.
    fn changes(&self) -> Result<Vec<FileChange>, CliError> {
        self.directory.changes().map_err(CliError::failed)
    }

    /// Returns the session's changes as a patch.
    pub(super) fn patch(&self) -> Result<patch::Patch, CliError> {
        let base = self.workspace.base.as_deref().unwrap_or_default();
        Ok(patch::write_onto(base, &self.changes()?))
    }

    /// Checks the session's changes and their effects on environments; the result is empty without changes. Ctrl-C
    /// cancels it.
    pub(super) async fn check_changes(&self) -> Result<ChangeCheck, CliError> {
        let stop = CancellationToken::new();
        let mut nobody = |_| {};
        let checking = self.checking.check(&mut nobody, &stop);
        tokio::pin!(checking);
        let checked = tokio::select! {
            checked = &mut checking => checked,
            _ = tokio::signal::ctrl_c() => {
                stop.cancel();
                checking.await
            }
        };
        checked.map_err(CliError::failed)
    }

    /// Answers a question about environments; Ctrl-C cancels it.
    pub(super) async fn inspect(&self, question: &Question) -> Result<(), CliError> {
        let cancel = CancellationToken::new();
        let mut interrupts = signal(SignalKind::interrupt()).map_err(CliError::failed)?;
        let inspector = Inspector {
            workspace: &self.workspace,
            comparer: &self.checking.comparer,
            cancel: &cancel,
        };
        let answer = tokio::select! {
            answer = inspector.answer(question) => answer,
            _ = interrupts.recv() => Err(InspectError::Cancelled),
        };
        cancel.cancel();
        match answer {
            Ok(InspectAnswer {
                summary,
                document,
                broken,
            }) => {
                self.output.line(&summary);
                if let Some(document) = document {
                    self.output.line(&match document.language {
                        "diff" => self.output.diff(&document.text),
                        _ => document.text.trim_end().to_owned(),
                    });
                }
                self.show_failures(&broken);
            }
            Err(InspectError::Fails { why, broken }) => {
                let places = self.sources().format_trace(&broken.trace);
                self.output.message(&format!("{why}{places}"));
            }
            Err(why) => self.output.message(&why.to_string()),
        }
        Ok(())
    }

    fn sources(&self) -> FailureFormatter<'_> {
        FailureFormatter {
            tree: self.directory.as_ref(),
            redactor: &self.redactor,
        }
    }

    /// Shows the locations where environments fail.
    fn show_failures(&self, broken: &[BrokenEnvironment]) {
        for place in self.sources().format_failures(broken) {
            self.output.message(&place);
        }
    }

    /// Restores every file to its state before the last turn that edited files.
    pub(super) fn undo(&mut self) -> Result<Option<UndoResult>, CliError> {
        let undone = self.undo.undo(&self.directory)?;
        if undone.is_some() {
            self.note = Some(UNDO_NOTICE);
        }
        Ok(undone)
    }

    /// Clears the conversation; the files stay as they are.
    pub(super) fn clear(&mut self) {
        self.history = History::default();
        self.outputs.clear();
        self.note = None;
    }

    /// Returns the conversation so far.
    pub(super) fn history(&self) -> &History {
        &self.history
    }

    /// Returns the parts of what the model sees.
    pub(super) fn context_parts(&self) -> ContextParts {
        let fixed = FixedParts::of(&self.system, self.toolbox.specs());
        let limits = (&self.config.limits.turn, self.context_tokens());
        ContextParts::measure(&self.history, fixed, limits, self.bytes_per_1000_tokens)
    }

    fn context_tokens(&self) -> Option<u32> {
        self.config
            .model_facts(self.provider.id(), &self.model)
            .context_tokens
    }

    /// Returns the tokens of all turns.
    pub(super) fn usage(&self) -> Usage {
        self.usage
    }

    /// Returns the model, as `provider/model`.
    pub(super) fn model(&self) -> &str {
        &self.config.model.default
    }

    /// Returns an editor for the requests of this session.
    pub(super) fn line_editor(&self, commands: Vec<CompletedCommand>) -> LineEditor {
        let completer = ChatCompleter::new(commands, Arc::clone(&self.directory));
        LineEditor::new(completer, Arc::clone(&self.redactor), &self.output)
    }

    /// Returns the maximum number of characters of a request.
    pub(super) fn request_chars_max(&self) -> usize {
        self.config.limits.inbound_text_chars_max
    }

    /// Prints the result of a turn: its answer, or the reason why there is none, and failed checks.
    pub(super) async fn print(&mut self, outcome: &TurnOutcome) -> Result<(), CliError> {
        if !outcome.answer.is_empty() {
            self.output.line(&self.output.answer(&outcome.answer));
        }
        if let Some(notice) = &outcome.notice {
            self.output.message(notice);
        }
        let ChangeCheck {
            checks,
            effects,
            broken,
            ..
        } = self.check_changes().await?;
        if !effects.is_empty() && effects != self.effects_shown {
            self.output.message(&effects);
        }
        self.effects_shown = effects;
        for check in checks.iter().filter(|check| check.state == CheckState::Fail) {
            let text = format!("Check failed: {}: {}", check.name, check.detail);
            self.output.message(&text);
        }
        self.show_failures(&broken);
        Ok(())
    }
}

fn system(repository: &Repository, directory: &Directory, role: Role) -> Result<String, CliError> {
    let everywhere = ["**".to_owned()];
    let facts = PromptFacts {
        repository: repository.name(),
        branch: "HEAD",
        role: Some(role),
        environments: &everywhere,
    };
    let files = directory.files().map_err(CliError::failed)?;
    Ok(prompt::system(RepositoryKind::of_files(&files), &facts))
}

/// Returns true if the turn's result means exit code 0.
pub(super) fn succeeded(outcome: &TurnOutcome) -> bool {
    matches!(outcome.verdict, Verdict::Pass | Verdict::NoChange)
}
