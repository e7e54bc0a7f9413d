//! External programs, helm and kustomize, for `std.native('helmTemplate')` and `std.native('kustomizeBuild')`. A call
//! works like an import: the sandboxed evaluation requests it, and this side answers from the tree. Each run is an
//! external program run of the sandbox on copies of its files. The output is cached by all its inputs, so both engines,
//! and both sides of a comparison, receive the same output.

mod call;
mod copies;
mod output_cache;
mod external_wait;

pub(super) use call::{CallRefusal, HelmTemplate, ProgramCall};
pub use copies::{Copies, CopySource, chart};
pub(super) use external_wait::ExternalWait;

use super::budget::{Budget, Tenant as Whose};
use super::fair_slots::{FairSlots, Urgency};
use crate::base::config::ProgramSettings;
use crate::base::model::plain_output;
use crate::base::spool::Spool;
use crate::rendering::sandbox::{
    CommandError, CommandOutput, ProgramPath, SandboxedCommand, Scratch, ScratchError, WritableFiles,
};
use output_cache::{OutputCache, OutputKey};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Runs at the same time. Further runs wait, and people take turns.
const RUNS_MAX: usize = 2;
/// Bytes of a file that a run may write, if it may write at all.
const FILE_BYTES_MAX: u64 = 64 << 20;
/// Characters that are kept of a program's error output.
const ERRORS_CHARS_MAX: usize = 4_000;

/// The programs that an operator configured.
#[derive(Debug)]
pub struct ExternalPrograms {
    launcher: ProgramPath,
    settings: ProgramSettings,
    slots: FairSlots,
    cache: Mutex<OutputCache>,
}

/// The permission of a run to write into the directory of its copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyAccess {
    /// Read only.
    ReadOnly,
    /// Files may be written there.
    ReadWrite,
}

/// One run on copies.
#[derive(Debug)]
pub struct ProgramRun<'a> {
    /// The arguments of the program. Its working directory is the directory of the copies.
    pub arguments: Vec<String>,
    /// The standard input.
    pub input: &'a [u8],
    /// The files that the program sees.
    pub copies: &'a Copies,
    /// The access to the copies.
    pub access: CopyAccess,
    /// The time limit of the run.
    pub time_max: Duration,
}

/// A program that an operator may configure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgramChoice {
    /// `[helm] program`
    Helm,
    /// `[kustomize] program`
    Kustomize,
}

/// The reason why a program has no output.
#[derive(Debug, thiserror::Error)]
pub enum ExternalProgramError {
    /// The operator has not configured the program.
    #[error("{0} is not enabled here; an operator names the program with `[{0}] program`")]
    Off(&'static str),
    /// The program ran and reported an error.
    #[error("{0}")]
    Failed(String),
    /// The run failed or was ended.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// The scratch directory cannot be used.
    #[error(transparent)]
    Scratch(#[from] ScratchError),
}

impl ExternalPrograms {
    /// Creates the programs of a configuration. `launcher` is the build of this program that starts again to execute
    /// them.
    pub fn new(launcher: ProgramPath, settings: &ProgramSettings) -> Self {
        Self {
            launcher,
            settings: settings.clone(),
            slots: FairSlots::new(RUNS_MAX),
            cache: Mutex::default(),
        }
    }

    /// Returns the spool for large values that wait to be read.
    pub(super) fn spool(&self) -> Spool {
        Spool::in_directory(&self.settings.scratch)
    }

    /// Returns true if charts can be rendered: the operator has configured helm.
    pub fn has_helm(&self) -> bool {
        self.settings.helm.is_some()
    }

    /// Returns the time limit of one call of a tool.
    pub fn time_max(&self) -> Duration {
        self.settings.time_max
    }

    /// Runs helm for the tenant of the current budget. Blocks; calls `stopped` at every check.
    pub fn helm(
        &self,
        order: ProgramRun<'_>,
        stopped: &(dyn Fn() -> bool + Sync),
    ) -> Result<(CommandOutput, Scratch), ExternalProgramError> {
        let program = self
            .settings
            .helm
            .as_ref()
            .ok_or(ExternalProgramError::Off("helm"))?;
        self.run(program, order, Budget::current().tenant(), stopped)
    }

    /// Returns the version of a program. This also checks that it runs with every layer of the sandbox. Blocks.
    pub fn version(&self, program: ProgramChoice) -> Result<String, ExternalProgramError> {
        let (name, path, arguments) = match program {
            ProgramChoice::Helm => ("helm", &self.settings.helm, &["version", "--short"][..]),
            ProgramChoice::Kustomize => ("kustomize", &self.settings.kustomize, &["version"][..]),
        };
        let path = path.as_ref().ok_or(ExternalProgramError::Off(name))?;
        let order = ProgramRun {
            arguments: arguments.iter().map(|argument| (*argument).to_owned()).collect(),
            input: &[],
            copies: &Copies::new(),
            access: CopyAccess::ReadOnly,
            time_max: self.settings.time_max,
        };
        let (output, scratch) = self.run(path, order, Budget::current().tenant(), &|| false)?;
        match output.succeeded {
            true => Ok(plain_output(&String::from_utf8_lossy(&output.output))
                .trim()
                .to_owned()),
            false => Err(ExternalProgramError::Failed(error_output(&output, &scratch))),
        }
    }

    /// Answers a call that an evaluation requests.
    pub(super) fn answer(
        &self,
        call: &ProgramCall,
        source: &mut dyn CopySource,
        external_wait: &ExternalWait,
    ) -> Result<String, CallRefusal> {
        let (name, program) = match call {
            ProgramCall::Helm(_) => ("helm", &self.settings.helm),
            ProgramCall::Kustomize { .. } => ("kustomize", &self.settings.kustomize),
        };
        let program = program.as_ref().ok_or(CallRefusal::Off)?;
        let arguments = call.arguments(call.directory())?;
        let copies = match call {
            ProgramCall::Helm(_) => copies::chart(source, call.directory()),
            ProgramCall::Kustomize { .. } => copies::kustomization(source, call.directory()),
        };
        let copies = copies.map_err(CallRefusal::Said)?;
        let key = OutputKey::new(program, &arguments, call.input(), &copies);
        if let Some(output) = self.lock_cache().get(&key) {
            return Ok(output);
        }
        let time_max = self.settings.time_max.saturating_sub(external_wait.total());
        if time_max.is_zero() {
            let seconds = self.settings.time_max.as_secs();
            let why = format_args!("all calls of helm and kustomize together took more than {seconds} s");
            return Err(CallRefusal::from_reason(why));
        }
        let order = ProgramRun {
            arguments,
            input: call.input(),
            copies: &copies,
            access: CopyAccess::ReadOnly,
            time_max,
        };
        let output = external_wait.while_running(|| {
            self.run(program, order, external_wait.tenant(), &|| {
                external_wait.is_stopped()
            })
        });
        let (output, scratch) =
            output.map_err(|error| CallRefusal::from_reason(format_args!("{name}: {error}")))?;
        if !output.succeeded {
            return Err(CallRefusal::Said(error_output(&output, &scratch)));
        }
        let output = String::from_utf8(output.output);
        let output =
            output.map_err(|_| CallRefusal::from_reason(format_args!("{name} wrote what is not UTF-8")))?;
        self.lock_cache().insert(key, &output);
        Ok(output)
    }

    fn run(
        &self,
        program: &Path,
        order: ProgramRun<'_>,
        whose: Whose,
        stopped: &(dyn Fn() -> bool + Sync),
    ) -> Result<(CommandOutput, Scratch), ExternalProgramError> {
        let place = self.slots.wait(whose, Urgency::Single, &|| stopped());
        let _place = place.ok_or(CommandError::Stopped)?;
        let scratch = Scratch::new(&self.settings.scratch)?;
        for (path, content) in order.copies {
            scratch.put(path, content)?;
        }
        let command = SandboxedCommand {
            program: program.to_owned(),
            arguments: order.arguments,
            environment: environment(&scratch.home(), self.settings.memory_bytes_max),
            input: order.input.to_vec(),
            time_max: order.time_max,
            memory_bytes_max: self.settings.memory_bytes_max,
            output_bytes_max: self.settings.output_bytes_max,
            writable: match order.access {
                CopyAccess::ReadOnly => WritableFiles::Nothing,
                CopyAccess::ReadWrite => WritableFiles::Everything,
            },
            file_bytes_max: match order.access {
                CopyAccess::ReadOnly => 0,
                CopyAccess::ReadWrite => FILE_BYTES_MAX,
            },
        };
        let output = command.run(&self.launcher, &scratch, stopped)?;
        Ok((output, scratch))
    }

    fn lock_cache(&self) -> std::sync::MutexGuard<'_, OutputCache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the error output of a program, with repository paths instead of the paths of the copies.
pub fn error_output(output: &CommandOutput, scratch: &Scratch) -> String {
    let files = format!("{}/", scratch.files().display());
    let errors = output.errors.replace(&files, "").replace(" ./", " ");
    let errors = plain_output(&errors);
    let errors = errors.trim();
    match errors.char_indices().nth(ERRORS_CHARS_MAX) {
        None => errors.to_owned(),
        Some((at, _)) => format!("{}…", errors.get(..at).unwrap_or_default()),
    }
}

/// Returns the complete environment of a program: empty directories, so that it finds no settings, plugins or
/// credentials, and its memory limit.
fn environment(home: &Path, memory_bytes_max: u64) -> Vec<(String, String)> {
    let place = |name: &str| -> PathBuf { home.join(name) };
    let places = [
        ("HOME", home.to_owned()),
        ("TMPDIR", home.to_owned()),
        ("HELM_CACHE_HOME", place("cache")),
        ("HELM_CONFIG_HOME", place("config")),
        ("HELM_DATA_HOME", place("data")),
        ("HELM_PLUGINS", place("plugins")),
        ("KUBECONFIG", place("kubeconfig")),
        ("KUSTOMIZE_PLUGIN_HOME", place("plugins")),
    ];
    let mut environment: Vec<(String, String)> = places
        .into_iter()
        .map(|(name, place)| (name.to_owned(), place.to_string_lossy().into_owned()))
        .collect();
    // A Go program collects garbage before it reaches this limit.
    let memory = memory_bytes_max / 4 * 3;
    environment.push(("GOMEMLIMIT".to_owned(), memory.to_string()));
    environment
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::{
        Budget, CommandError, Copies, CopyAccess, ExternalProgramError, ExternalPrograms, ProgramRun, Urgency,
    };
    use crate::base::config::SandboxSettings;
    use crate::base::model::UserId;
    use crate::rendering::sandbox::ProgramPath;
    use std::time::Duration;

    /// T48: helm and kustomize runs of one person do not delay other people.
    #[test]
    fn program_runs_take_turns_between_people() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut settings = SandboxSettings::default().programs;
        settings.helm = Some("/nonexistent/helm".into());
        // This run gets a slot and then fails: a directory cannot be created below a file.
        settings.scratch = file.path().join("scratch");
        let programs = ExternalPrograms::new(ProgramPath::current(), &settings);
        let copies = Copies::new();
        let run = |person: i64| {
            let order = ProgramRun {
                arguments: Vec::new(),
                input: &[],
                copies: &copies,
                access: CopyAccess::ReadOnly,
                time_max: Duration::from_secs(1),
            };
            let budget = Budget::for_person(UserId(person));
            budget.charge_blocking(|| programs.helm(order, &|| true).unwrap_err())
        };
        assert!(matches!(run(1), ExternalProgramError::Scratch(_)));
        let alice = Budget::for_person(UserId(1)).tenant();
        let place = || programs.slots.wait(alice, Urgency::Single, &|| true).unwrap();
        let _all = [place(), place()];
        assert!(matches!(
            run(1),
            ExternalProgramError::Command(CommandError::Stopped)
        ));
        assert!(matches!(run(2), ExternalProgramError::Scratch(_)));
    }
}
