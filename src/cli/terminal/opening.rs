//! The opening of a session: the repository of the working directory, the configuration and the services of its turns.

use super::attachments::PendingFiles;
use super::checking::{ChangeChecker, CheckedChange};
use super::display::{CallFormat, Detail};
use super::recording::{SessionStart, TerminalRecording};
use super::undo::UndoStack;
use super::{DirtyTree, PROFILE_KEY, PROVIDER_KEY, Terminal, TerminalOptions, line_editor, termination};
use crate::base::config::{Config, ProfileAccess};
use crate::base::http_client;
use crate::base::model::{OutputNumber, pluralize};
use crate::base::redact::Redactor;
use crate::cli::output::Output;
use crate::cli::{CliError, Global, comparer, evaluator, helm, jb, sandbox_layers};
use crate::engine::agent::context::check_room;
use crate::engine::agent::prompt::{self, PromptFacts, RepositoryKind};
use crate::engine::agent::{ModelChain, VerdictRule};
use crate::interfaces::provider;
use crate::interfaces::tool::{self, MemoryOutputs, ToolServices, Toolbox};
use crate::state::access::{Access, Role};
use crate::state::workspace::{DeniedFiles, Directory, Repository, SecretGuard, Tree, Workspace};
use std::sync::{Arc, Mutex};

impl Terminal {
    /// Opens the repository of the working directory.
    pub(in crate::cli) fn open(
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
        let mut sources = global.model_sources()?;
        sources.flags.extend(options.settings()?);
        let named = |wanted: &str| {
            let flag = sources.flags.iter().rev().find(|(key, _)| key == wanted);
            flag.map(|(_, name)| name.clone())
        };
        let (provider, profile) = (named(PROVIDER_KEY), named(PROFILE_KEY));
        let global = global.clone();
        // A missing repository is reported before problems of the configuration.
        let config = Config::for_terminal(sources).map_err(CliError::config);
        if let Ok(config) = &config {
            sandbox_layers::check_layers(sandbox_layers::find_layers(), &config.sandbox.layers_missing)?;
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
        let evaluator = evaluator(&config.sandbox);
        let services = ToolServices {
            packages: jb::fetch(&config.bundler.hosts_allowed, downloads.clone()),
            comparer: comparer(Arc::clone(&evaluator), Arc::clone(&redactor)),
            evaluator,
            helm: helm(&config.sandbox, downloads),
        };
        let comparer = Arc::clone(&services.comparer);
        let providers = provider::build(&config.providers, client, config.model.answer_mode);
        let models = ModelChain::resolve(&config, &providers).map_err(CliError::config)?;
        let toolbox = Toolbox::new(tool::all(&services)).map_err(CliError::failed)?;
        check_room(&config, &toolbox).map_err(CliError::config)?;
        repository.bound_files(config.sandbox.file_bytes_max);
        // The identity decides which tools are offered, and every write is checked against it.
        let role = match config.profile.access {
            ProfileAccess::Edit => Role::Editor,
            ProfileAccess::Read => Role::Viewer,
        };
        let system = system(&repository, directory.as_ref(), role, &[])?;
        let calls = CallFormat {
            detail: match options.common.verbose {
                true => Detail::Verbose,
                false => Detail::Usual,
            },
            chars_max: usize::from(options.common.tool_chars),
        };
        let (recording, resumed) =
            TerminalRecording::open(options.common.record.as_deref(), start, &redactor)?;
        if let Some(resumed) = &resumed {
            output.message(&resumed.report);
        }
        let resumed = resumed.map(|resumed| resumed.restored);
        let due = resumed.as_ref().map(|resumed| resumed.due).unwrap_or_default();
        let last_output = resumed
            .as_ref()
            .map_or(OutputNumber(0), |resumed| resumed.last_output);
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
            identity: Access::program_identity("you", role),
            checking: ChangeChecker {
                workspace: workspace.clone(),
                subject: CheckedChange::Session,
                comparer,
                redactor: Arc::clone(&redactor),
                latest: Mutex::default(),
            },
            workspace,
            directory,
            toolbox,
            verdict: VerdictRule::Computed,
            system,
            outputs: Arc::new(
                MemoryOutputs::in_directory(&config.sandbox.programs.scratch).after(last_output),
            ),
            last_output,
            measured: resumed.as_ref().and_then(|resumed| resumed.measured.clone()),
            used: resumed.as_ref().map(|resumed| resumed.used).unwrap_or_default(),
            may_retry: resumed.as_ref().is_some_and(|resumed| resumed.is_unanswered),
            history: resumed.map(|resumed| resumed.history).unwrap_or_default(),
            recording,
            redactor,
            undo: UndoStack::default(),
            effects_shown: String::new(),
            due,
            pending: PendingFiles::default(),
            calls,
            global,
            provider,
            profile,
            dirty: match options.common.yes || role == Role::Viewer {
                true => DirtyTree::Confirmed,
                false => DirtyTree::Ask,
            },
            entered: None,
            is_printed: false,
            ended: termination::watch(&output)?,
            output,
            config,
        })
    }

    /// Makes turns read-only, and asks the model for their verdict. The prompt describes the files that the tools read now,
    /// so a review begins before this.
    pub(in crate::cli) fn ask_for_verdicts(&mut self) -> Result<(), CliError> {
        self.toolbox = self.toolbox.reading().map_err(CliError::failed)?;
        let Workspace { repository, tree, .. } = &self.workspace;
        self.system = system(repository, tree.as_ref(), Role::Viewer, &[])?;
        self.verdict = VerdictRule::Asked;
        Ok(())
    }

    /// Returns true if a turn may begin: a person at a terminal is asked once before the first turn edits files among
    /// uncommitted changes. Scripts are not asked.
    pub(in crate::cli) async fn may_begin(&mut self) -> Result<bool, CliError> {
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
}

/// Returns the prompt for a role. `environments` are the globs that edits are limited to; none means no limit.
pub(super) fn system(
    repository: &Repository,
    tree: &dyn Tree,
    role: Role,
    environments: &[String],
) -> Result<String, CliError> {
    let facts = PromptFacts {
        repository: repository.name(),
        branch: "HEAD",
        role: Some(role),
        environments,
    };
    let files = tree.files().map_err(CliError::failed)?;
    Ok(prompt::system(RepositoryKind::of_files(&files), &facts))
}
