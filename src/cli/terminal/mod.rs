//! A session of one user in a terminal, on the files in the working directory: the same engine and tools as the
//! gateway, without a server.

mod attachments;
pub(super) mod banner;
mod checking;
mod completion;
mod display;
mod event_lines;
mod line_editor;
mod live_area;
mod live_turn;
mod markdown;
mod markdown_table;
mod question;
mod recording;
mod request_history;
mod review;
mod run_budget;
mod status_line;
mod termination;
mod turn_watch;
mod undo;
mod wrapping;

pub(super) use checking::ChangeCheck;
pub(super) use completion::{CommandArgument, CompletedCommand};
pub(super) use event_lines::EVENTS;
pub(super) use line_editor::{INDICATOR, LineEditor, PromptedLine, read_answer};
pub(super) use recording::SessionStart;
pub(super) use undo::UndoResult;

use super::failure_format::FailureFormatter;
use super::output::Output;
use super::{CliError, Global, sandbox_layers};
use crate::base::config::{Config, KNOWN_PROVIDERS, usual_model};
use crate::base::http_client;
use crate::base::model::{
    CheckState, FileChange, History, ModelPrice, Money, OutputNumber, Turn, Usage, Verdict, pluralize,
};
use crate::base::redact::Redactor;
use crate::engine::agent::context::{ContextParts, FixedParts, check_room};
use crate::engine::agent::prompt::{self, PromptFacts, RepositoryKind};
use crate::engine::agent::{self, ModelChain, Questions, TurnContext, TurnOutcome, VerdictRule};
use crate::interfaces::provider;
use crate::interfaces::tool::{self, MemoryOutputs, Outputs, ToolServices, Toolbox};
use crate::rendering::compare::BrokenEnvironment;
use crate::rendering::inspect::{InspectAnswer, InspectError, Inspector, Question};
use crate::state::access::{Access, Identity, Role};
use crate::state::workspace::{DeniedFiles, Directory, Repository, SecretGuard, Tree, Workspace, patch};
use attachments::PendingFiles;
use checking::ChangeChecker;
use completion::ChatCompleter;
use display::{CallFormat, Detail};
use recording::{TerminalJournal, TerminalRecording};
use run_budget::BudgetedJournal;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use turn_watch::{CountingJournal, TurnWatch};
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
    /// Works on a repository with uncommitted changes without asking first; a question of the model with a default is
    /// answered with it
    #[arg(short, long)]
    yes: bool,
    /// Shows what tools answer
    #[arg(short, long)]
    verbose: bool,
    /// The number of characters that are shown of the arguments and answers of tools
    #[arg(long, value_name = "CHARACTERS", default_value_t = 120, value_parser = clap::value_parser!(u16).range(20..))]
    tool_chars: u16,
}

impl TerminalOptions {
    /// Returns true if nobody is to be asked what has a default.
    pub(super) fn takes_defaults(&self) -> bool {
        self.yes
    }

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
    models: ModelChain,
    // The model that answered last, as `provider/model`.
    answered_by: Option<String>,
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
    // The files of the next request.
    pending: PendingFiles,
    usage: Usage,
    cost: Money,
    calls: CallFormat,
    // The options that `/model` reads again.
    global: Global,
    dirty: DirtyTree,
    // True if the last turn ended without an answer.
    may_retry: bool,
    // True if the display of the last turn has printed its answer.
    is_printed: bool,
    ended: CancellationToken,
    output: Output,
}

/// The handling of a repository that had uncommitted changes when the session began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DirtyTree {
    /// The user is asked before the first turn.
    Ask,
    /// The user agreed, or there were no changes.
    Confirmed,
}

/// The note for the model after `/undo`.
const UNDO_NOTICE: &str =
    "(The edits of the previous turn were undone; read a file again before you edit it.)\n\n";

impl Terminal {
    /// Opens the repository of the working directory.
    pub(super) fn open(
        options: &TerminalOptions,
        start: &SessionStart,
        global: &Global,
        output: Output,
    ) -> Result<Self, CliError> {
        #[allow(
            clippy::disallowed_methods,
            reason = "the shell is where the working directory is read"
        )]
        let here = std::env::current_dir().map_err(CliError::failed)?;
        let mut sources = global.personal_sources()?;
        sources.flags.extend(options.settings()?);
        let global = global.clone();
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
        let models = ModelChain::resolve(&config, &providers).map_err(CliError::config)?;
        let toolbox = Toolbox::new(tool::all(&services)).map_err(CliError::failed)?;
        check_room(&config, toolbox.specs()).map_err(CliError::config)?;
        let system = system(&repository, &directory, Role::Editor)?;
        let calls = CallFormat {
            detail: match options.verbose {
                true => Detail::Verbose,
                false => Detail::Usual,
            },
            chars_max: usize::from(options.tool_chars),
        };
        let (recording, history, resumed) =
            TerminalRecording::open(options.record.as_deref(), start, &redactor)?;
        if let Some(resumed) = resumed {
            output.message(&resumed);
        }
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
            models,
            answered_by: None,
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
            outputs: Arc::new(MemoryOutputs::in_directory(&config.sandbox.programs.scratch)),
            last_output: last_output(&history),
            bytes_per_1000_tokens: None,
            history,
            recording,
            redactor,
            undo: UndoStack::default(),
            effects_shown: String::new(),
            note: None,
            pending: PendingFiles::default(),
            usage: Usage::default(),
            cost: Money::default(),
            calls,
            global,
            dirty: match options.yes {
                true => DirtyTree::Confirmed,
                false => DirtyTree::Ask,
            },
            may_retry: false,
            is_printed: false,
            ended: termination::watch(&output)?,
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

    /// Returns true if a turn may begin: a person at a terminal is asked once before the first turn edits files among
    /// uncommitted changes. Scripts are not asked.
    pub(super) async fn may_begin(&mut self) -> Result<bool, CliError> {
        if self.dirty == DirtyTree::Confirmed || !self.output.is_interactive() {
            return Ok(true);
        }
        let head = self.workspace.base.as_deref();
        let uncommitted = self
            .workspace
            .repository
            .changes_to(head, self.directory.as_ref());
        let changed = uncommitted.map_err(CliError::failed)?.len();
        let may_begin = changed == 0 || {
            let files = pluralize(changed, "file", "files");
            let question =
                format!("{files} have uncommitted changes; edits are added to them. Continue? [y/N] ");
            line_editor::confirm(question.replace("1 file have", "1 file has"), self.ended.clone()).await?
        };
        if may_begin {
            self.dirty = DirtyTree::Confirmed;
        }
        Ok(may_begin)
    }

    /// Runs one turn, which may ask questions; Ctrl-C stops it and keeps its edits. On a terminal, the answer is printed as it arrives.
    pub(super) async fn turn(
        &mut self,
        request: &str,
        questions: Questions<'_>,
    ) -> Result<TurnOutcome, CliError> {
        let request = self.redactor.redact(request);
        let request = format!("{}{request}", self.note.take().unwrap_or_default());
        let (request, attachments) = std::mem::take(&mut self.pending).into_request(&request);
        self.recording
            .record_request(&request, &attachments)
            .map_err(CliError::failed)?;
        if self.output.prints_events() {
            let mut event = serde_json::json!({ "event": "turn_started", "request": request });
            if !attachments.is_empty() {
                event["attachments"] = serde_json::json!(attachments::described(&attachments));
            }
            self.output.value(&event);
        }
        self.history
            .begin_attached(request, attachments)
            .map_err(CliError::failed)?;
        self.run_turn(questions).await
    }

    /// Continues the last turn, if it was stopped or failed. Its finished steps are part of the conversation and are
    /// not paid again. `None` if there is no such turn.
    pub(super) async fn retry(&mut self, questions: Questions<'_>) -> Result<Option<TurnOutcome>, CliError> {
        if !self.may_retry || !self.history.reopen() {
            return Ok(None);
        }
        self.run_turn(questions).await.map(Some)
    }

    /// Runs the open turn.
    async fn run_turn(&mut self, questions: Questions<'_>) -> Result<TurnOutcome, CliError> {
        let cancel = self.ended.child_token();
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
        let models = self.models.models();
        let cx = TurnContext {
            identity: &self.identity,
            models: &models,
            system: &self.system,
            toolbox: &self.toolbox,
            workspace: &self.workspace,
            postconditions: &self.checking,
            verdict: self.verdict,
            questions,
            resumed_steps: 0,
            limits: &self.config.limits.turn,
            strategy: agent::context::strategy(self.config.limits.turn.context_strategy),
            redactor: &self.redactor,
            outputs: &(Arc::clone(&self.outputs) as Arc<dyn Outputs>),
            last_output: self.last_output,
            bytes_per_1000_tokens: self.bytes_per_1000_tokens,
            earlier_attempts: agent::EarlierAttempts::default(),
            began: Instant::now(),
            cancel: &cancel,
        };
        let mut watch = TurnWatch::start(self.output, self.calls, &self.redactor);
        let journal = TerminalJournal {
            recording: &self.recording,
            outputs: &self.outputs,
        };
        let mut journal = CountingJournal {
            journal: BudgetedJournal::new(journal, &self.config, &models),
            counter: watch.counter(),
            config: &self.config,
            cost: Money::default(),
        };
        let mut events = |event| watch.show(&event);
        let outcome = agent::run_turn(cx, &mut self.history, &mut journal, &mut events).await;
        let cost = journal.cost;
        stopper.abort();
        self.is_printed = watch.finish(outcome.as_ref().ok());
        self.undo.record_turn(&before, &self.changes()?);
        self.cost += cost;
        let outcome = outcome.map_err(CliError::failed)?;
        self.answered_by = Some(outcome.model.clone());
        self.usage += outcome.usage;
        self.last_output = outcome.last_output;
        self.bytes_per_1000_tokens = outcome.context.bytes_per_1000_tokens;
        self.may_retry = outcome.answer.is_empty();
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
        let stop = self.ended.child_token();
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
        let cancel = self.ended.child_token();
        let mut interrupts = signal(SignalKind::interrupt()).map_err(CliError::failed)?;
        let inspector = Inspector {
            workspace: &self.workspace,
            comparer: &self.checking.comparer,
            cancel: &cancel,
        };
        let answer = tokio::select! {
            answer = inspector.answer(question) => answer,
            _ = interrupts.recv() => Err(InspectError::Cancelled),
            () = self.ended.cancelled() => Err(InspectError::Cancelled),
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
            // The model would continue with edits that are gone.
            self.may_retry = false;
            self.note = Some(UNDO_NOTICE);
        }
        Ok(undone)
    }

    /// Clears the conversation; the files stay as they are.
    pub(super) fn clear(&mut self) -> Result<(), CliError> {
        self.recording.record_clear().map_err(CliError::failed)?;
        self.history = History::default();
        self.outputs.clear();
        self.may_retry = false;
        self.note = None;
        self.pending = PendingFiles::default();
        Ok(())
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
        self.models.default_facts().context_tokens
    }

    /// Returns the model that answered last, as `provider/model`; else the default model.
    pub(super) fn answered_by(&self) -> &str {
        self.answered_by.as_deref().unwrap_or(self.model())
    }

    /// Returns the tokens of all turns.
    pub(super) fn usage(&self) -> Usage {
        self.usage
    }

    /// Returns the cost of all turns; `None` if the prices of the model are not known.
    pub(super) fn cost(&self) -> Option<Money> {
        self.price().map(|_| self.cost)
    }

    fn price(&self) -> Option<ModelPrice> {
        self.models.default_facts().price
    }

    /// Uses another model for the rest of the session. The conversation goes on; an error changes nothing.
    pub(super) fn switch_model(&mut self, name: &str) -> Result<(), CliError> {
        let mut sources = self.global.personal_sources()?;
        sources.flags.push(("model.default".to_owned(), name.to_owned()));
        let config = Config::for_terminal(sources).map_err(CliError::config)?;
        let client = http_client::api_client().map_err(CliError::failed)?;
        let providers = provider::build(&config.providers, client, config.model.answer_mode);
        check_room(&config, self.toolbox.specs()).map_err(CliError::config)?;
        self.models = ModelChain::resolve(&config, &providers).map_err(CliError::config)?;
        self.answered_by = None;
        for secret in config.secrets() {
            let found = self.redactor.secrets_in_entry("api_key", secret.expose());
            self.redactor.learn(&found);
        }
        self.config.model = config.model;
        self.config.providers = config.providers;
        Ok(())
    }

    /// Returns the result of a turn as an object for scripts.
    pub(super) async fn result_value(&self, outcome: &TurnOutcome) -> Result<serde_json::Value, CliError> {
        let patch = self.patch()?;
        let ChangeCheck { checks, effects, .. } = self.check_changes().await?;
        Ok(serde_json::json!({
            "answer": outcome.answer,
            "notice": outcome.notice,
            "verdict": outcome.verdict,
            "source": outcome.source,
            "model": outcome.model,
            "fallback": outcome.fallback,
            "steps": outcome.steps,
            "tool_calls": outcome.tool_calls,
            "usage": outcome.usage,
            "files": patch.stats,
            "checks": checks,
            "environments": effects,
            "patch": String::from_utf8_lossy(&patch.text),
        }))
    }

    /// Prints the last event of a turn.
    pub(super) async fn print_turn_ended(&self, outcome: &TurnOutcome) -> Result<(), CliError> {
        let result = self.result_value(outcome).await?;
        self.output
            .value(&serde_json::json!({ "event": "turn_ended", "result": result }));
        Ok(())
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

    /// Returns a token that is cancelled when a signal ends the session.
    pub(super) fn ended(&self) -> &CancellationToken {
        &self.ended
    }

    /// Returns the maximum number of characters of a request.
    pub(super) fn request_chars_max(&self) -> usize {
        self.config.limits.inbound_text_chars_max
    }

    /// Prints an answer: as Markdown on a terminal, else as the model wrote it.
    fn print_answer(&self, answer: &str) {
        if !self.output.renders_data() {
            return self.output.line(&self.output.answer(answer));
        }
        let (columns, _) = live_area::screen_size();
        for row in markdown::render(answer, columns, &self.output) {
            self.output.line(&row.text);
        }
    }

    /// Prints the result of a turn: its answer, or the reason why there is none, and failed checks.
    pub(super) async fn print(&mut self, outcome: &TurnOutcome) -> Result<(), CliError> {
        if !outcome.answer.is_empty() && !self.is_printed {
            self.print_answer(&outcome.answer);
        }
        for line in outcome.notice.iter().chain(&outcome.fallback) {
            self.output.message(line);
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

/// Returns a number that no output of a conversation exceeds, so that new outputs get other numbers.
fn last_output(history: &History) -> OutputNumber {
    let steps = history.turns().iter().flat_map(Turn::steps);
    let results: usize = steps.map(|step| step.results().len()).sum();
    OutputNumber(i64::try_from(results).unwrap_or(i64::MAX))
}

/// Returns true if the turn's result means exit code 0.
pub(super) fn succeeded(outcome: &TurnOutcome) -> bool {
    matches!(outcome.verdict, Verdict::Pass | Verdict::NoChange)
}
