//! A session of one user in a terminal, on the files in the working directory: the same engine and tools as the
//! gateway, without a server.

mod attachments;
pub(super) mod banner;
mod checking;
mod completion;
mod continued_lines;
mod display;
mod entered_lines;
mod event_lines;
mod inspection;
mod kept_calls;
mod line_editor;
mod live_area;
mod live_turn;
mod markdown;
mod markdown_table;
mod opening;
mod options;
mod pipeline_session;
mod question;
#[cfg(test)]
mod tests;
mod recording;
mod request_history;
mod results;
mod review;
mod reviewed_packages;
mod run_budget;
mod running;
mod session_model;
mod status_line;
pub(super) mod termination;
mod turn_watch;
mod typed_line;
mod undo;
mod wrapping;

pub(super) use checking::ChangeCheck;
pub(super) use completion::{CommandArgument, CompletedCommand};
pub(super) use event_lines::EVENTS;
pub(super) use kept_calls::KeptCalls;
pub(super) use line_editor::{INDICATOR, LineEditor, PromptedLine, read_answer};
pub(super) use live_area::screen_size;
pub(super) use options::{CommonTerminalOptions, TerminalOptions};
pub(super) use pipeline_session::{PipelineSession, SessionStep, SessionWork};
pub(super) use recording::SessionStart;
pub(super) use results::succeeded;
pub(super) use undo::UndoResult;

use super::output::Output;
use super::{CliError, Global};
use crate::base::config::Config;
use crate::base::model::{FileChange, History, OutputNumber};
use crate::base::redact::Redactor;
use crate::engine::agent::context::{self, ContextParts, FixedParts};
use crate::engine::agent::{ModelChain, Questions, Recipients, ToolOffer, VerdictRule};
use crate::interfaces::tool::{MemoryOutputs, Toolbox};
use crate::state::access::Identity;
use crate::state::recording::{DueNotes, MeasuredTokens, SessionUsage};
use crate::state::workspace::{Directory, Tree, Workspace, patch};
use attachments::PendingFiles;
use checking::ChangeChecker;
use completion::ChatCompleter;
use display::CallFormat;
use entered_lines::{EnteredLines, EntryRules};
use recording::TerminalRecording;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use undo::UndoStack;

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
    // The bytes of requests in a thousand tokens, of the model that counted them.
    measured: Option<MeasuredTokens>,
    recording: TerminalRecording,
    undo: UndoStack,
    // The effects on environments as they were last shown.
    effects_shown: String,
    // The notes before the next request, about changes that the model cannot see.
    due: DueNotes,
    // The files of the next request.
    pending: PendingFiles,
    used: SessionUsage,
    calls: CallFormat,
    // The options that `/model` reads again.
    global: Global,
    // The provider that the command line names.
    provider: Option<String>,
    // The profile that the command line names.
    profile: Option<String>,
    dirty: DirtyTree,
    // What the person enters while a turn runs, if it is read.
    entered: Option<Arc<EnteredLines>>,
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

/// The key of the profile.
const PROFILE_KEY: &str = "profile";
/// The key of the provider, and the variable that sets it.
const PROVIDER_KEY: &str = "model.provider";
const PROVIDER_VARIABLE: &str = "DRYDOCK_MODEL__PROVIDER";

/// The note for the model in a session that goes on after an interruption.
const LOSS_NOTICE: &str = "(This conversation was interrupted: its last step may be missing, and the files may have \
                           changed since. Read a file again before you edit it.)\n\n";

/// The note for the model after `/undo`.
const UNDO_NOTICE: &str =
    "(The edits of the previous turn were undone; read a file again before you edit it.)\n\n";

impl Terminal {
    /// Returns the changes of this session in the working directory.
    fn changes(&self) -> Result<Vec<FileChange>, CliError> {
        self.directory.changes().map_err(CliError::failed)
    }

    /// Returns the session's changes as a patch.
    pub(super) fn patch(&self) -> Result<patch::Patch, CliError> {
        let base = self.workspace.base.as_deref().unwrap_or_default();
        Ok(patch::write_onto(base, &self.changes()?))
    }

    /// Restores every file to its state before the last turn that edited files; `None` if there is no such turn. If that
    /// cannot be recorded, nothing is restored.
    pub(super) fn undo(&mut self) -> Result<Option<UndoResult>, CliError> {
        let Some(files) = self.undo.next_files() else {
            return Ok(None);
        };
        self.recording
            .record_undo_began(&files)
            .map_err(CliError::failed)?;
        let Some(undone) = self.undo.undo(&self.directory) else {
            return Ok(None);
        };
        let recorded = self.recording.record_undone(&undone.restored);
        if !undone.restored.is_empty() {
            // The model would continue with edits that are gone.
            self.may_retry = false;
            self.due.undone = true;
        }
        // The person learns what was restored. Without its end, a recorded undo counts as a possible change of files.
        if let Err(error) = recorded {
            tracing::warn!("the end of an undo is not recorded: {error:#}");
        }
        Ok(Some(undone))
    }

    /// Returns the notes before the next request.
    fn notes(&self) -> String {
        let lost = self.due.lost.then_some(LOSS_NOTICE);
        let undone = self.due.undone.then_some(UNDO_NOTICE);
        lost.into_iter().chain(undone).collect()
    }

    /// Clears the conversation; the files stay as they are.
    pub(super) fn clear(&mut self) -> Result<(), CliError> {
        self.recording.record_clear().map_err(CliError::failed)?;
        self.history = History::default();
        self.outputs.clear();
        self.may_retry = false;
        self.due = DueNotes::default();
        self.pending = PendingFiles::default();
        Ok(())
    }

    /// Returns the conversation so far.
    pub(super) fn history(&self) -> &History {
        &self.history
    }

    /// Returns the parts of what the model sees, if its turns have these questions.
    pub(super) fn context_parts(&self, questions: Questions<'_>) -> Result<ContextParts, CliError> {
        let offer = ToolOffer {
            toolbox: &self.toolbox,
            identity: &self.identity,
            repository: self.workspace.repository.name(),
            verdict: self.verdict,
            strategy: context::strategy(self.config.limits.turn.context_strategy),
            questions,
            recipients: Recipients::Nobody,
        };
        let tools = offer.tools().map_err(CliError::failed)?;
        let fixed = FixedParts::of(&self.system, tools.specs());
        let limits = (&self.config.limits.turn, self.context_tokens());
        let bytes_per_1000_tokens = self.bytes_per_1000_tokens();
        Ok(ContextParts::measure(
            &self.history,
            fixed,
            limits,
            bytes_per_1000_tokens,
        ))
    }

    /// Returns the bytes of requests in a thousand tokens. Another model has other tokens.
    fn bytes_per_1000_tokens(&self) -> Option<u32> {
        let measured = self.measured.as_ref();
        let measured = measured.filter(|measured| measured.model == self.model());
        measured.map(|measured| measured.bytes_per_1000_tokens)
    }

    fn context_tokens(&self) -> Option<u32> {
        self.models.default_facts().context_tokens
    }

    /// Returns the model that answered last, as `provider/model`; else the default model.
    pub(super) fn answered_by(&self) -> &str {
        self.answered_by.as_deref().unwrap_or(self.model())
    }

    /// Returns the tokens and the cost of all turns.
    pub(super) fn used(&self) -> SessionUsage {
        self.used
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

    /// Reads what the person enters while a turn runs, from now on. `is_command` returns true for a line that no turn
    /// reads.
    pub(super) fn listen(&mut self, is_command: fn(&str) -> bool) {
        self.entered = Some(Arc::new(EnteredLines::new(EntryRules {
            chars_max: self.request_chars_max(),
            lines_max: self.config.limits.waiting_messages_max,
            is_command,
        })));
    }

    /// Removes and returns the oldest line that was entered while a turn ran and that it did not take. After a turn
    /// without an answer the person decides about all of them at the prompt.
    pub(super) fn take_entered_line(&self) -> Option<String> {
        self.entered.as_ref().filter(|_| !self.may_retry)?.take_next()
    }

    /// Removes and returns the lines that were entered while a turn ran and that it did not take, oldest first.
    pub(super) fn take_entered_lines(&self) -> Vec<String> {
        let entered = self.entered.iter();
        entered
            .flat_map(|entered| std::iter::from_fn(|| entered.take_next()))
            .collect()
    }

    /// Removes and returns what was typed while a turn ran, for the next prompt.
    pub(super) fn take_typed(&self) -> String {
        self.entered
            .as_ref()
            .map_or_else(String::new, |entered| entered.take_all())
    }

    /// Returns a token that is cancelled when a signal ends the session.
    pub(super) fn ended(&self) -> &CancellationToken {
        &self.ended
    }

    /// Returns the maximum number of characters of a request.
    pub(super) fn request_chars_max(&self) -> usize {
        self.config.limits.inbound_text_chars_max
    }
}
