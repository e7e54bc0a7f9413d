//! The programs of task steps. The operator names them, and each runs with every layer of the sandbox on copies of the files
//! of a repository, which it cannot change. It reads its values from the file `$DRYDOCK_IN`. It can write its home directory,
//! with the file `$DRYDOCK_OUT` in it. All of this is removed when it has ended, so a program that is run again does nothing
//! twice.

mod copies;
mod output;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

use super::problem::shown_name;
use super::run::TaskWork;
use crate::base::config::{PipelineSettings, SandboxSettings};
use crate::base::model::StepEnd;
use crate::rendering::sandbox::{
    CommandError, ProgramPath, SandboxedCommand, Scratch, ScratchError, WritableFiles,
};
use crate::state::workspace::{DeniedFiles, GuardedTree, TreeError};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The maximum number of bytes of arguments and variables, as JSON. The system bounds those of one process.
const ARGUMENTS_BYTES_MAX: usize = 100 << 10;
/// The maximum number of bytes of a file that a program writes.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// The maximum number of files and directories in the home directory of a program.
const HOME_ENTRIES_MAX: usize = 10_000;
/// The maximum number of bytes in the home directory of a program.
const HOME_BYTES_MAX: u64 = 256 << 20;
/// The time between two measurements of a home directory.
const HOME_CHECK_INTERVAL: Duration = Duration::from_millis(250);
/// The maximum number of bytes of standard output.
const STDOUT_BYTES_MAX: usize = 4 << 20;
/// The maximum number of bytes of the file `$DRYDOCK_OUT`.
const RESULT_BYTES_MAX: u64 = 1 << 20;
/// The name of that file in the home directory.
const RESULT: &str = "result";

/// The programs that task steps may run.
#[derive(Debug)]
pub struct TaskPrograms {
    launcher: ProgramPath,
    programs: BTreeMap<String, PathBuf>,
    memory_bytes_max: u64,
    scratch: PathBuf,
    /// Files that no program reads, beside those of the guard of a tree.
    denied: DeniedFiles,
}

/// The reason why a program has no end of its own.
#[derive(Debug, thiserror::Error)]
enum TaskError {
    #[error("the program {0} is not permitted here; the operator lists it in [pipelines.programs]")]
    NotPermitted(String),
    #[error(
        "its arguments and variables have more than {} KiB; give long values as `inputs`",
        ARGUMENTS_BYTES_MAX >> 10
    )]
    LongArguments,
    #[error("an argument or a variable contains a NUL character")]
    NulCharacter,
    #[error("the repository has more than {} files or {} MiB, which are the most for a task", .0, .1 >> 20)]
    LargeTree(usize, usize),
    #[error("the files of the repository: {0}")]
    Tree(#[from] TreeError),
    #[error("it wrote more than {} files or {} MiB to its directory", HOME_ENTRIES_MAX, HOME_BYTES_MAX >> 20)]
    LargeHome,
    #[error("it wrote more than {} MiB to $DRYDOCK_OUT", RESULT_BYTES_MAX >> 20)]
    LargeResult,
    #[error("it wrote what is not UTF-8 to $DRYDOCK_OUT")]
    NotText,
    #[error(transparent)]
    Command(#[from] CommandError),
    #[error(transparent)]
    Scratch(#[from] ScratchError),
}

impl TaskPrograms {
    /// Creates the programs of a configuration. `launcher` is the build of this program that starts again to execute them.
    pub fn new(launcher: ProgramPath, settings: &PipelineSettings, sandbox: &SandboxSettings) -> Self {
        Self {
            launcher,
            programs: settings.programs.clone(),
            memory_bytes_max: settings.program_memory_bytes_max,
            scratch: sandbox.programs.scratch.clone(),
            denied: DeniedFiles::from_config(&sandbox.imports_denied),
        }
    }

    /// Runs the program of a step on the files of a tree. Blocks until it has ended; calls `stopped` at every check.
    /// Returns `None` if it was stopped.
    pub fn run(
        &self,
        work: &TaskWork,
        tree: &GuardedTree,
        stopped: &(dyn Fn() -> bool + Sync),
    ) -> Option<StepEnd> {
        match self.end_of(work, tree, stopped) {
            Ok(end) => Some(end),
            Err(TaskError::Command(CommandError::Stopped)) => None,
            Err(error) => {
                let why = error.to_string();
                Some(StepEnd::failed(tree.guard().redactor.redact(&why)))
            }
        }
    }

    fn end_of(
        &self,
        work: &TaskWork,
        tree: &GuardedTree,
        stopped: &(dyn Fn() -> bool + Sync),
    ) -> Result<StepEnd, TaskError> {
        let Some((name, arguments)) = work.command.split_first() else {
            return Err(TaskError::NotPermitted(String::new()));
        };
        let program = self.programs.get(name);
        let program = program.ok_or_else(|| TaskError::NotPermitted(shown_name(name)))?;
        check_arguments(work)?;
        let scratch = Scratch::new(&self.scratch)?;
        copies::copy_files(tree, &self.denied, &scratch, stopped)?;
        let input = scratch.put_input(work.input.as_bytes())?;
        let command = SandboxedCommand {
            program: program.clone(),
            arguments: arguments.to_vec(),
            environment: self.environment(work, &scratch, input),
            input: Vec::new(),
            time_max: work.timeout,
            memory_bytes_max: self.memory_bytes_max,
            output_bytes_max: STDOUT_BYTES_MAX,
            writable: WritableFiles::Home,
            file_bytes_max: FILE_BYTES_MAX,
        };
        let home = HomeMeasure::new(&scratch);
        let ran = command.run(&self.launcher, &scratch, &|| stopped() || home.is_too_large());
        match ran {
            Err(CommandError::Stopped) if home.was_too_large() => Err(TaskError::LargeHome),
            Err(error) => Err(error.into()),
            Ok(_) if !scratch.is_home_within(HOME_ENTRIES_MAX, HOME_BYTES_MAX) => Err(TaskError::LargeHome),
            Ok(ran) => output::end(name, &ran, &scratch, &tree.guard().redactor),
        }
    }

    /// Returns the complete environment of a program. A variable of the step replaces one of the same name, but not those of
    /// the files.
    fn environment(&self, work: &TaskWork, scratch: &Scratch, input: PathBuf) -> Vec<(String, String)> {
        let shown = |path: PathBuf| path.to_string_lossy().into_owned();
        // A Go program collects garbage before it reaches this limit.
        let memory = self.memory_bytes_max / 4 * 3;
        let mut variables = BTreeMap::from([
            ("HOME".to_owned(), shown(scratch.home())),
            ("TMPDIR".to_owned(), shown(scratch.home())),
            ("GOMEMLIMIT".to_owned(), memory.to_string()),
        ]);
        variables.extend(work.env.clone());
        variables.insert("DRYDOCK_IN".to_owned(), shown(input));
        variables.insert("DRYDOCK_OUT".to_owned(), shown(scratch.home().join(RESULT)));
        variables.into_iter().collect()
    }
}

fn check_arguments(work: &TaskWork) -> Result<(), TaskError> {
    let texts = || work.command.iter().chain(work.env.values());
    if texts().any(|text| text.contains('\0')) {
        return Err(TaskError::NulCharacter);
    }
    let bytes = serde_json::to_string(&(&work.command, &work.env)).map_or(usize::MAX, |text| text.len());
    match bytes > ARGUMENTS_BYTES_MAX {
        true => Err(TaskError::LongArguments),
        false => Ok(()),
    }
}

/// The measurement of the home directory of a program while it runs.
struct HomeMeasure<'a> {
    scratch: &'a Scratch,
    measured_at: Mutex<Instant>,
    is_over: AtomicBool,
}

impl<'a> HomeMeasure<'a> {
    fn new(scratch: &'a Scratch) -> Self {
        Self {
            scratch,
            measured_at: Mutex::new(Instant::now()),
            is_over: AtomicBool::new(false),
        }
    }

    /// Measures the directory if the last measurement is old, and returns true if it is too large.
    fn is_too_large(&self) -> bool {
        let mut measured_at = self.measured_at.lock().unwrap_or_else(PoisonError::into_inner);
        if measured_at.elapsed() < HOME_CHECK_INTERVAL {
            return false;
        }
        let is_over = !self.scratch.is_home_within(HOME_ENTRIES_MAX, HOME_BYTES_MAX);
        *measured_at = Instant::now();
        self.is_over.fetch_or(is_over, Ordering::Relaxed);
        is_over
    }

    fn was_too_large(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }
}
