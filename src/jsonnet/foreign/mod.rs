//! Programs that are not ours, helm and kustomize, for `std.native('helmTemplate')` and
//! `std.native('kustomizeBuild')`. A call travels like an import: the jailed evaluation asks, and this
//! side answers, from the tree. Each run is an external program run of the sandbox on copies of the files it is about.
//! What came of it is kept by everything it was made from, so both engines, and both sides of a
//! comparison, are told the same.

mod call;
mod copies;
mod kept;
mod outside;

pub(super) use call::{Call, Refusal, Template};
pub use copies::{Copies, Source, chart};
pub(super) use outside::Outside;

use super::budget::{Budget, Key as Whose};
use super::places::{Places, Urgency};
use crate::config::ProgramSettings;
use crate::sandbox::{Errand, ErrandError, Program, Ran, Scratch, ScratchError};
use crate::spool::Spool;
use kept::{Kept, Key};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Runs at the same time; more take turns by person.
const RUNS_MAX: usize = 2;
/// Bytes of a file that a run may write, where it may write any.
const FILE_BYTES_MAX: u64 = 64 << 20;
/// Characters of what a program says that went wrong.
const ERRORS_CHARS_MAX: usize = 4_000;

/// The programs an operator named.
#[derive(Debug)]
pub struct Programs {
    launcher: Program,
    settings: ProgramSettings,
    places: Places,
    kept: Mutex<Kept>,
}

/// The permission of a run to write in the directory of its copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writes {
    /// Read only.
    Nothing,
    /// Files may be written there.
    Copies,
}

/// One run on copies.
#[derive(Debug)]
pub struct Order<'a> {
    /// The arguments of the program. Its working directory is that of the copies.
    pub arguments: Vec<String>,
    /// The standard input.
    pub input: &'a [u8],
    /// The files it sees.
    pub copies: &'a Copies,
    /// The access to the copies.
    pub writes: Writes,
    /// The time limit of the run.
    pub time_max: Duration,
}

/// The reason why a program has no output.
#[derive(Debug, thiserror::Error)]
pub enum ForeignError {
    /// The operator has not named it.
    #[error("{0} is not enabled here; an operator names the program with `[{0}] program`")]
    Off(&'static str),
    /// The run failed or did not end by itself.
    #[error(transparent)]
    Errand(#[from] ErrandError),
    /// The scratch directory cannot be used.
    #[error(transparent)]
    Scratch(#[from] ScratchError),
}

impl Programs {
    /// The programs of a configuration. `launcher` is started to become them: this one.
    pub fn new(launcher: Program, settings: &ProgramSettings) -> Self {
        Self {
            launcher,
            settings: settings.clone(),
            places: Places::new(RUNS_MAX),
            kept: Mutex::default(),
        }
    }

    /// The place of large values that wait to be read.
    pub(super) fn spool(&self) -> Spool {
        Spool::at(&self.settings.scratch)
    }

    /// Returns true if charts can be rendered: the operator has named a helm.
    pub fn have_helm(&self) -> bool {
        self.settings.helm.is_some()
    }

    /// Returns the time limit of one call of a tool.
    pub fn time_max(&self) -> Duration {
        self.settings.time_max
    }

    /// Runs helm for whoever the work of this thread is charged to. Blocks; `stopped` is asked all the time.
    pub fn helm(
        &self,
        order: Order<'_>,
        stopped: &(dyn Fn() -> bool + Sync),
    ) -> Result<(Ran, Scratch), ForeignError> {
        let program = self.settings.helm.as_ref().ok_or(ForeignError::Off("helm"))?;
        self.run(program, order, Budget::current().key(), stopped)
    }

    /// Answers what an evaluation asks for.
    pub(super) fn answer(
        &self,
        call: &Call,
        source: &mut dyn Source,
        outside: &Outside,
    ) -> Result<String, Refusal> {
        let (name, program) = match call {
            Call::Helm(_) => ("helm", &self.settings.helm),
            Call::Kustomize { .. } => ("kustomize", &self.settings.kustomize),
        };
        let program = program.as_ref().ok_or(Refusal::Off)?;
        let arguments = call.arguments(call.directory())?;
        let copies = match call {
            Call::Helm(_) => copies::chart(source, call.directory()),
            Call::Kustomize { .. } => copies::kustomization(source, call.directory()),
        };
        let copies = copies.map_err(Refusal::Said)?;
        let key = Key::new(program, &arguments, call.input(), &copies);
        if let Some(output) = self.kept().get(&key) {
            return Ok(output);
        }
        let time_max = self.settings.time_max.saturating_sub(outside.total());
        if time_max.is_zero() {
            let seconds = self.settings.time_max.as_secs();
            let why = format_args!("all calls of helm and kustomize together took more than {seconds} s");
            return Err(Refusal::said(why));
        }
        let order = Order {
            arguments,
            input: call.input(),
            copies: &copies,
            writes: Writes::Nothing,
            time_max,
        };
        let ran =
            outside.while_running(|| self.run(program, order, outside.whose(), &|| outside.is_stopped()));
        let (ran, scratch) = ran.map_err(|error| Refusal::said(format_args!("{name}: {error}")))?;
        if !ran.succeeded {
            return Err(Refusal::Said(complaint(&ran, &scratch)));
        }
        let output = String::from_utf8(ran.output);
        let output = output.map_err(|_| Refusal::said(format_args!("{name} wrote what is not UTF-8")))?;
        self.kept().keep(key, &output);
        Ok(output)
    }

    fn run(
        &self,
        program: &Path,
        order: Order<'_>,
        whose: Whose,
        stopped: &(dyn Fn() -> bool + Sync),
    ) -> Result<(Ran, Scratch), ForeignError> {
        let place = self.places.wait(whose, Urgency::One, &|| stopped());
        let _place = place.ok_or(ErrandError::Stopped)?;
        let scratch = Scratch::new(&self.settings.scratch)?;
        for (path, content) in order.copies {
            scratch.put(path, content)?;
        }
        let errand = Errand {
            program: program.to_owned(),
            arguments: order.arguments,
            environment: environment(&scratch.home(), self.settings.memory_bytes_max),
            input: order.input.to_vec(),
            time_max: order.time_max,
            memory_bytes_max: self.settings.memory_bytes_max,
            output_bytes_max: self.settings.output_bytes_max,
            file_bytes_max: match order.writes {
                Writes::Nothing => 0,
                Writes::Copies => FILE_BYTES_MAX,
            },
        };
        let ran = errand.run(&self.launcher, &scratch, stopped)?;
        Ok((ran, scratch))
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the error output of a program, with the paths of the repository in place of those of the copies.
pub fn complaint(ran: &Ran, scratch: &Scratch) -> String {
    let files = format!("{}/", scratch.files().display());
    let errors = ran.errors.replace(&files, "").replace(" ./", " ");
    let errors = errors.trim();
    match errors.char_indices().nth(ERRORS_CHARS_MAX) {
        None => errors.to_owned(),
        Some((at, _)) => format!("{}…", errors.get(..at).unwrap_or_default()),
    }
}

/// Returns the whole environment of a program: places that are empty, so that there are no settings, no plugins and no credentials, and its
/// bound of memory.
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
    // A program written in Go collects its garbage before it comes to the bound.
    let memory = memory_bytes_max / 4 * 3;
    environment.push(("GOMEMLIMIT".to_owned(), memory.to_string()));
    environment
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::{Budget, Copies, ErrandError, ForeignError, Order, Programs, Urgency, Writes};
    use crate::config::SandboxSettings;
    use crate::model::UserId;
    use crate::sandbox::Program;
    use std::time::Duration;

    /// T48: helm and kustomize of one person hold up nobody else.
    #[test]
    fn runs_take_turns_by_person() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut settings = SandboxSettings::default().programs;
        settings.helm = Some("/nonexistent/helm".into());
        // A run that has its place ends here: nothing can be made below a file.
        settings.scratch = file.path().join("scratch");
        let programs = Programs::new(Program::this(), &settings);
        let copies = Copies::new();
        let run = |person: i64| {
            let order = Order {
                arguments: Vec::new(),
                input: &[],
                copies: &copies,
                writes: Writes::Nothing,
                time_max: Duration::from_secs(1),
            };
            let budget = Budget::of(UserId(person));
            budget.charge_blocking(|| programs.helm(order, &|| true).unwrap_err())
        };
        assert!(matches!(run(1), ForeignError::Scratch(_)));
        let alice = Budget::of(UserId(1)).key();
        let place = || programs.places.wait(alice, Urgency::One, &|| true).unwrap();
        let _all = [place(), place()];
        assert!(matches!(run(1), ForeignError::Errand(ErrandError::Stopped)));
        assert!(matches!(run(2), ForeignError::Scratch(_)));
    }
}
