//! The contract of an evaluation: its request, its result and its errors.

use super::digits::differ_in_digits_only;
use crate::base::config::SandboxSettings;
use crate::base::model::RepoPath;
use crate::state::workspace::Tree;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// A request for one evaluation.
#[derive(Clone, Debug)]
pub struct EvalRequest {
    /// The tree with every file that the program may import.
    pub tree: Arc<dyn Tree>,
    /// The program to evaluate.
    pub entry: EntryPoint,
    /// Directories in which imports are searched after the directory of the importing file, from the END of the list.
    /// They are relative to the root of the tree, which itself is `""`.
    pub jpath: Vec<String>,
    /// External variables as Jsonnet code, by name.
    pub ext_code: BTreeMap<String, String>,
    /// Top-level arguments as Jsonnet code, by name. They are used if the program is a function.
    pub tla_code: BTreeMap<String, String>,
    /// The maximum depth of calls; 0 means 500, as in the Go implementation.
    pub max_stack: u32,
    /// The use of the second engine.
    pub cross_check: CrossCheckMode,
}

/// The program to evaluate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryPoint {
    /// A file of the tree.
    File(RepoPath),
    /// A text that is not in the tree.
    Snippet {
        /// The assumed path of the text: its imports are relative to the directory of this path.
        name: RepoPath,
        /// The program.
        text: String,
    },
}

/// The use of the second, independent engine beside the first one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CrossCheckMode {
    /// One engine only, for a value that is shown but not relied on.
    #[default]
    Off,
    /// Both engines, which must agree before the value is relied on.
    On,
    /// The second engine only, to compare its value with a known one.
    SecondEngineOnly,
}

/// The value of a program.
#[derive(Clone, Debug, PartialEq)]
pub struct Evaluation {
    /// The manifested value as compact JSON: object fields sorted by code point, numbers with the
    /// digits the Go implementation prints.
    pub json: Bytes,
    /// Every file that was read and every path without a file, sorted and without duplicates. Together with the request
    /// they determine the value.
    pub imports: Arc<[Import]>,
    /// The result of the cross-check.
    pub cross_check: CrossCheckResult,
}

/// The result of the cross-check by the second engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CrossCheckResult {
    /// The second engine was not asked.
    NotRun,
    /// The second engine has the same value.
    Agrees,
    /// The second engine has another value.
    Differs {
        /// The first field that differs, such as `$.spec.replicas`.
        path: String,
        /// The first engine's value there, as JSON of at most 200 characters; `missing` if there is none.
        first: String,
        /// The second engine's value there.
        second: String,
        /// The kind of the differences, if all are of one known kind.
        known: Option<KnownDifference>,
    },
    /// The second engine did not finish the program.
    Failed(Box<EvalError>),
}

/// A known and documented kind of difference between the engines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KnownDifference {
    /// Equal numbers have more or fewer digits inside texts.
    Digits,
}

impl KnownDifference {
    /// Returns the kind of all differences between two different canonical values.
    pub(super) fn between(first: &str, second: &str) -> Option<Self> {
        differ_in_digits_only(first, second).then_some(Self::Digits)
    }
}

impl std::fmt::Display for KnownDifference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Digits => f.write_str("how many digits fractions have in texts"),
        }
    }
}

/// A file or a missing file that a value depends on.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Import {
    /// A file that was read.
    Read {
        /// The path of the file; symlinks in it are not resolved.
        path: RepoPath,
        /// Git's hash of the content, as 40 hex digits.
        blob: String,
    },
    /// A path without a file. The value may change if one appears.
    Absent {
        /// The path.
        path: RepoPath,
    },
}

/// The limits of one evaluation, and of the number of evaluations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EvalLimits {
    /// Wall clock and processor time of one engine for one program.
    pub time_max: Duration,
    /// Bytes of memory, not counting the stack.
    pub memory_bytes_max: u64,
    /// Bytes of stack. Memory is taken only for the part that is used.
    pub stack_bytes_max: u64,
    /// Bytes of the manifested value.
    pub output_bytes_max: usize,
    /// Texts, names of fields, numbers, arrays and objects in the value.
    pub values_max: usize,
    /// Kubernetes objects in the value.
    pub objects_max: usize,
    /// Files one program may import.
    pub imports_max: usize,
    /// Bytes of all files one program may import.
    pub import_bytes_max: u64,
    /// Time of all evaluations of one turn, or of one question, of a person.
    pub turn_time_max: Duration,
    /// Nesting of brackets and of operators in one file.
    pub nesting_max: usize,
    /// Concurrent evaluations; further ones wait.
    pub workers_max: usize,
    /// Processes started in advance, so that an evaluation does not wait for a start.
    pub idle_max: usize,
    /// Bytes in use from which a process evaluates no further program of its batch.
    pub recycle_bytes: u64,
}

impl Default for EvalLimits {
    fn default() -> Self {
        Self::from(&SandboxSettings::default())
    }
}

impl From<&SandboxSettings> for EvalLimits {
    fn from(settings: &SandboxSettings) -> Self {
        Self {
            time_max: settings.time_max,
            memory_bytes_max: settings.memory_bytes_max,
            stack_bytes_max: settings.stack_bytes_max,
            output_bytes_max: settings.output_bytes_max,
            values_max: settings.values_max,
            objects_max: settings.objects_max,
            imports_max: settings.imports_max,
            import_bytes_max: settings.import_bytes_max,
            turn_time_max: settings.turn_time_max,
            nesting_max: settings.nesting_max,
            workers_max: settings.jails_max,
            idle_max: settings.idle_max,
            recycle_bytes: settings.recycle_bytes,
        }
    }
}

/// One line of a trace, which begins with the innermost line.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct TraceFrame {
    /// The location, such as `lib/app.libsonnet:12:5`; empty if the engine does not know it.
    pub at: String,
    /// The step of the evaluation, such as `function <deployment> call`.
    pub what: String,
}

/// The reason why an evaluation has no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EvalError {
    /// The program failed with an error.
    #[error("{message}{}", first(.trace))]
    Runtime {
        /// The message of the program.
        message: String,
        /// The stack, innermost frame first, at most 20 frames.
        trace: Vec<TraceFrame>,
    },
    /// A file is not Jsonnet.
    #[error("`{path}`:{line}:{column}: {message}")]
    Syntax {
        /// The file.
        path: String,
        /// The line, from 1.
        line: u64,
        /// The column from 1, in characters.
        column: u64,
        /// The error at that location.
        message: String,
        /// The expressions that import the file, innermost first.
        trace: Vec<TraceFrame>,
    },
    /// The program's calls, or the constructs in its text, are nested too deeply.
    #[error("jsonnet evaluation is too deeply nested in {0}")]
    Stack(String),
    /// The program used too much memory.
    #[error("evaluation exceeded {} MiB of memory (`sandbox.memory_bytes_max`)", .bytes >> 20)]
    Memory {
        /// The limit.
        bytes: u64,
    },
    /// The program took too long.
    #[error("evaluation exceeded {seconds} s (`sandbox.seconds_max`)")]
    Time {
        /// The limit.
        seconds: u64,
    },
    /// The sandbox time of the turn is used up.
    #[error(
        "all evaluations of this turn together took {seconds} s, and no further one is started (`sandbox.turn_seconds_max`)"
    )]
    BudgetExhausted {
        /// The limit.
        seconds: u64,
    },
    /// The value is too large.
    #[error("output exceeded {} MiB (`sandbox.output_bytes_max`)", .bytes >> 20)]
    Output {
        /// The limit.
        bytes: u64,
    },
    /// The value has too many parts.
    #[error("output exceeded {count} values within each other (`sandbox.values_max`)")]
    Values {
        /// The limit.
        count: usize,
    },
    /// The value has too many Kubernetes objects.
    #[error("output exceeded {count} Kubernetes objects (`sandbox.objects_max`)")]
    Objects {
        /// The limit.
        count: usize,
    },
    /// The large values that wait to be read have reached their limit for all users.
    #[error("large values of {} MiB in all wait to be read already; ask for fewer environments, or ask again later", .bytes >> 20)]
    SpoolFull {
        /// The limit.
        bytes: u64,
    },
    /// An import leaves the repository.
    #[error("import outside the repository: {path}{}{}", importing(.importer), first(.trace))]
    ImportDenied {
        /// The path as the program wrote it.
        path: String,
        /// The file that contains the import.
        importer: String,
        /// The stack, innermost frame first.
        trace: Vec<TraceFrame>,
    },
    /// An import names a file that programs may not read, such as `.env`.
    #[error("import {path:?} of `{importer}`: `{file}` is on the list of files no program may read{}", first(.trace))]
    ImportForbidden {
        /// The path as the program wrote it.
        path: String,
        /// The file that contains the import.
        importer: String,
        /// The file that the import resolves to.
        file: String,
        /// The stack, innermost frame first.
        trace: Vec<TraceFrame>,
    },
    /// An import resolves to no file.
    #[error(
        "couldn't open import {path:?}{}: no match locally or in the Jsonnet library paths; looked for {}{}{}",
        importing(.importer), listed(.searched), hint(.similar), first(.trace)
    )]
    ImportNotFound {
        /// The path as the program wrote it.
        path: String,
        /// The file that contains the import.
        importer: String,
        /// The paths that were tried, in order.
        searched: Vec<String>,
        /// Files with similar names.
        similar: Vec<String>,
        /// The stack, innermost frame first.
        trace: Vec<TraceFrame>,
    },
    /// An import resolves to a path that cannot be used: a directory, not UTF-8, too large, or one file too many.
    #[error("import {path:?}{}: {why}{}", importing(.importer), first(.trace))]
    ImportFailed {
        /// The path as the program wrote it.
        path: String,
        /// The file that contains the import.
        importer: String,
        /// The reason.
        why: String,
        /// The stack, innermost frame first.
        trace: Vec<TraceFrame>,
    },
    /// The program calls an external program that is not enabled.
    #[error("environment needs {tool} (chart `{chart}`), which is not enabled here")]
    NeedsHelm {
        /// `helm` or `kustomize`.
        tool: &'static str,
        /// The chart or the directory, as the program wrote it.
        chart: String,
    },
    /// The sandbox worker died for an unknown reason.
    #[error("jsonnet evaluation crashed (signal {signal}) in {entry}")]
    Crashed {
        /// The signal; 0 if it ended without one.
        signal: i32,
        /// The program that was evaluated.
        entry: String,
    },
    /// The sandbox could not be started or violated its protocol. Nothing was evaluated.
    #[error("the sandbox: {0}")]
    Sandbox(String),
    /// The caller cancelled the evaluation.
    #[error("evaluation cancelled")]
    Cancelled,
}

impl EvalError {
    /// Returns the stack of the failure, innermost frame first; empty if it is not known.
    pub fn trace(&self) -> &[TraceFrame] {
        match self {
            Self::Runtime { trace, .. }
            | Self::Syntax { trace, .. }
            | Self::ImportDenied { trace, .. }
            | Self::ImportForbidden { trace, .. }
            | Self::ImportNotFound { trace, .. }
            | Self::ImportFailed { trace, .. } => trace,
            _ => &[],
        }
    }

    /// Returns the stack of the failure, preceded by the location of a syntax error.
    pub fn places(&self) -> Vec<TraceFrame> {
        let own = match self {
            Self::Syntax {
                path, line, column, ..
            } => Some(TraceFrame {
                at: format!("{path}:{line}:{column}"),
                what: "not Jsonnet".to_owned(),
            }),
            _ => None,
        };
        own.into_iter().chain(self.trace().iter().cloned()).collect()
    }

    /// Adds the location of the importing expression to the error of an import.
    pub(super) fn with_import_trace(mut self, places: Vec<TraceFrame>) -> Self {
        if let Self::ImportDenied { trace, .. }
        | Self::ImportForbidden { trace, .. }
        | Self::ImportNotFound { trace, .. }
        | Self::ImportFailed { trace, .. } = &mut self
        {
            *trace = places;
        }
        self
    }
}

fn importing(importer: &str) -> String {
    match importer {
        "" => String::new(),
        importer => format!(" of `{importer}`"),
    }
}

fn listed(paths: &[String]) -> String {
    let paths: Vec<String> = paths.iter().map(|path| format!("`{path}`")).collect();
    paths.join(", ")
}

fn hint(similar: &[String]) -> String {
    match similar {
        [] => String::new(),
        similar => format!("; similar: {}", listed(similar)),
    }
}

fn first(trace: &[TraceFrame]) -> String {
    match trace.iter().find(|frame| !frame.at.is_empty()) {
        Some(frame) => format!(" (at {})", frame.at),
        None => String::new(),
    }
}
