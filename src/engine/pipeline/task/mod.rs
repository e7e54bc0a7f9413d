//! The programs of task steps. The operator names them, and each runs with every layer of the sandbox on copies of the files
//! of a repository, which it cannot change. It reads its values from the file `$DRYDOCK_IN`. It can write its home directory,
//! with the file `$DRYDOCK_OUT` in it. All of this is removed when it has ended, so a program that is run again does nothing
//! twice.

mod copies;
mod output;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests make files")]
mod tests;

use super::problem::shown_name;
use super::run::TaskWork;
use crate::base::config::{PipelineSettings, SandboxSettings};
use crate::base::model::{StepEnd, cut_to, plain_output};
use crate::rendering::sandbox::{
    CommandError, ProgramPath, SandboxedCommand, Scratch, ScratchError, WritableFiles,
};
use crate::state::workspace::{DeniedFiles, GuardedTree, TreeError};
use std::collections::BTreeMap;
use std::path::PathBuf;
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
/// The bytes of the disk that programs leave free.
const FREE_BYTES_MIN: u64 = 256 << 20;
/// The time between two measurements of a home directory.
const HOME_CHECK_INTERVAL: Duration = Duration::from_millis(250);
/// The maximum number of characters of the reason why a program has no end of its own.
const REASON_CHARS_MAX: usize = 1_000;
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
    #[error("it was ended, because the disk has less than {} MiB left", FREE_BYTES_MIN >> 20)]
    FullDisk,
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
                // A program can imitate a failure of the sandbox, with a text of its own.
                let why = plain_output(&error.to_string()).into_owned();
                let why = tree.guard().redactor.redact(&why).into_owned();
                Some(StepEnd::failed(cut_to(&why, REASON_CHARS_MAX)))
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
        self.copy_in_time(work.timeout, tree, &scratch, stopped)?;
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
        let home = HomeMeasure::new(&scratch, FREE_BYTES_MIN);
        let ran = command.run(&self.launcher, &scratch, &|| stopped() || home.is_over());
        match ran {
            Err(CommandError::Stopped) => Err(home.into_excess().unwrap_or(CommandError::Stopped.into())),
            Err(error) => Err(error.into()),
            Ok(_) if !scratch.is_home_within(HOME_ENTRIES_MAX, HOME_BYTES_MAX) => Err(TaskError::LargeHome),
            Ok(ran) => output::end(name, &ran, &scratch, &tree.guard().redactor),
        }
    }

    /// Copies the files of a tree for a program, in at most the time that the program may take.
    fn copy_in_time(
        &self,
        time_max: Duration,
        tree: &GuardedTree,
        scratch: &Scratch,
        stopped: &dyn Fn() -> bool,
    ) -> Result<(), TaskError> {
        let began = Instant::now();
        let is_over = || stopped() || began.elapsed() >= time_max;
        match copies::copy_files(tree, &self.denied, scratch, &is_over) {
            Err(TaskError::Command(CommandError::Stopped)) if !stopped() => {
                Err(CommandError::Time(time_max).into())
            }
            copied => copied,
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

/// The measurement of the home directory of a program while it runs, and of the disk, on which it can also keep files that
/// it has removed.
struct HomeMeasure<'a> {
    scratch: &'a Scratch,
    free_bytes_min: u64,
    /// The time of the last measurement, and what it found.
    last: Mutex<(Instant, Option<TaskError>)>,
}

impl<'a> HomeMeasure<'a> {
    fn new(scratch: &'a Scratch, free_bytes_min: u64) -> Self {
        Self {
            scratch,
            free_bytes_min,
            last: Mutex::new((Instant::now(), None)),
        }
    }

    /// Measures if the last measurement is old, and returns true if a bound is exceeded.
    fn is_over(&self) -> bool {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.0.elapsed() < HOME_CHECK_INTERVAL {
            return false;
        }
        let excess = self.excess();
        let is_over = excess.is_some();
        *last = (Instant::now(), excess);
        is_over
    }

    fn excess(&self) -> Option<TaskError> {
        let free = self.scratch.free_bytes();
        if free.is_some_and(|free| free < self.free_bytes_min) {
            return Some(TaskError::FullDisk);
        }
        let is_within = self.scratch.is_home_within(HOME_ENTRIES_MAX, HOME_BYTES_MAX);
        (!is_within).then_some(TaskError::LargeHome)
    }

    /// Returns the bound that the last measurement found exceeded.
    fn into_excess(self) -> Option<TaskError> {
        self.last.into_inner().unwrap_or_else(PoisonError::into_inner).1
    }
}
