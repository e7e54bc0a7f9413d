//! The task steps of a run at a terminal: programs of the person's own configuration, in the sandbox, on copies of the files
//! of the working directory as they are when the step begins.

use super::definition::PreparedRun;
use crate::base::config::Config;
use crate::base::model::StepEnd;
use crate::base::redact::Redactor;
use crate::cli::{CliError, Global};
use crate::engine::pipeline::TaskPrograms;
use crate::engine::pipeline::run::TaskWork;
use crate::rendering::sandbox::ProgramPath;
use crate::state::workspace::{DeniedFiles, Directory, GuardedTree, SecretGuard, Tree};
use std::path::Path;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// The programs of a run, and the files that they see.
pub(super) struct LocalTasks {
    programs: Arc<TaskPrograms>,
    tree: Arc<dyn Tree>,
    denied: Arc<DeniedFiles>,
}

impl LocalTasks {
    /// Opens the files of the working directory for the tasks of a run; `None` if it has none.
    pub(super) fn open(prepared: &PreparedRun, global: &Global) -> Result<Option<Self>, CliError> {
        if !prepared.has_tasks() {
            return Ok(None);
        }
        let sandbox = Config::for_rendering(global.personal_sources()?).map_err(CliError::config)?;
        let directory = Directory::open(Path::new(".")).map_err(CliError::failed)?;
        Ok(Some(Self {
            programs: Arc::new(TaskPrograms::new(
                ProgramPath::current(),
                &prepared.settings,
                &sandbox,
            )),
            tree: Arc::new(directory.bounded(sandbox.file_bytes_max)),
            denied: Arc::new(DeniedFiles::from_config(&sandbox.secrets_denied)),
        }))
    }

    /// Runs the program of a step to its end. Without a redactor, secrets in known formats and those of the files are removed.
    pub(super) async fn run(
        &self,
        work: TaskWork,
        redactor: Option<Arc<Redactor>>,
        stopped: &CancellationToken,
    ) -> StepEnd {
        let guard = SecretGuard {
            denied: Arc::clone(&self.denied),
            redactor: redactor.unwrap_or_else(|| Arc::new(Redactor::new([]))),
        };
        let tree = GuardedTree::new(Arc::clone(&self.tree), guard);
        let (programs, stopped) = (Arc::clone(&self.programs), stopped.clone());
        let running =
            tokio::task::spawn_blocking(move || programs.run(&work, &tree, &|| stopped.is_cancelled()));
        match running.await {
            Ok(Some(end)) => end,
            Ok(None) => StepEnd::cancelled("the run was cancelled"),
            Err(_) => StepEnd::failed("the run of the program panicked; this is an error of Drydock"),
        }
    }
}
