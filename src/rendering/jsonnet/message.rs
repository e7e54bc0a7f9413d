//! The messages between the evaluator and its sandbox worker.

use super::canonical::{ValueLimits, ValueTooLarge};
use super::contract::{CrossCheckMode, EvalError, EvalLimits, KnownDifference, TraceFrame};
use crate::base::model::cut_after;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Parent to sandbox worker: the task, as JSON of [`EvalTask`].
pub(super) const TASK: u8 = 1;
/// Parent to sandbox worker: a file, as the length of its path, its path, its bytes.
pub(super) const FILE: u8 = 2;
/// Parent to sandbox worker: a file that was sent before, by its path.
pub(super) const SAME_FILE: u8 = 3;
/// Parent to sandbox worker: the file does not exist or may not be read. The parent keeps the reason.
pub(super) const NO_FILE: u8 = 4;
/// Parent to sandbox worker: task-dependent files, whose values are valid for one task only, as a JSON list of paths.
/// It is sent before the answer to an import, and as the answer to [`DEPENDS_ON_TASK`].
pub(super) const TASK_DEPENDENT: u8 = 9;

/// Sandbox worker to parent: an import, as JSON of [`ImportRequest`].
pub(super) const IMPORT: u8 = 5;
/// Sandbox worker to parent: the value, as canonical JSON.
pub(super) const VALUE: u8 = 6;
/// Sandbox worker to parent: the evaluation failed, as JSON of [`EngineFailure`].
pub(super) const FAILED: u8 = 7;
/// Sandbox worker to parent: the evaluation will fail, as JSON of [`EngineFailure`]. The second engine now looks for
/// the location. If that exceeds a limit, this message is the answer.
pub(super) const FAILING: u8 = 14;
/// Sandbox worker to parent: the answer of the second engine, as JSON of [`CrossCheckMessage`].
pub(super) const CROSS_CHECK: u8 = 8;

/// Sandbox worker to parent: a request to run an external program, as JSON of
/// [`ProgramCall`](super::external_program::ProgramCall).
pub(super) const RUN: u8 = 11;
/// Parent to sandbox worker: the output of the external program.
pub(super) const OUTPUT: u8 = 12;
/// Parent to sandbox worker: the reason why there is no output, as JSON of
/// [`CallRefusal`](super::external_program::CallRefusal).
pub(super) const NO_OUTPUT: u8 = 13;

/// Sandbox worker to parent: the value of the file at this path depends on the task. An empty path means that the file
/// is not known.
pub(super) const DEPENDS_ON_TASK: u8 = 10;

/// Frames of a trace that are sent.
pub(super) const FRAMES_MAX: usize = 20;
/// Characters of a program's message that are kept.
const MESSAGE_CHARS_MAX: usize = 4_000;

/// The engines that evaluate a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Engines {
    /// The first engine; the answer is its value.
    First,
    /// The second engine; the answer is its value.
    Second,
    /// Both engines in turn: the answer is the value of the first, then the cross-check by the second.
    Both,
}

impl Engines {
    /// Returns the engines for a cross-check mode, in one process.
    pub(super) fn for_mode(mode: CrossCheckMode) -> Self {
        match mode {
            CrossCheckMode::Off => Self::First,
            CrossCheckMode::On => Self::Both,
            CrossCheckMode::SecondEngineOnly => Self::Second,
        }
    }
}

/// The batch of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum TaskBatch {
    /// The task is alone.
    One,
    /// The batch has other tasks, so values of files are worth keeping.
    Several,
}

/// The task of a sandbox worker.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct EvalTask {
    /// The path of the program. Its imports are relative to this path.
    pub(super) name: String,
    /// The program.
    pub(super) text: String,
    pub(super) ext_code: BTreeMap<String, String>,
    pub(super) tla_code: BTreeMap<String, String>,
    pub(super) max_stack: usize,
    pub(super) bounds: ValueLimits,
    pub(super) nesting_max: usize,
    /// Levels of nesting for which our parser has enough stack.
    pub(super) depth_max: usize,
    pub(super) engines: Engines,
    pub(super) batch: TaskBatch,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct ImportRequest {
    /// The importing file; empty for an external variable.
    pub(super) importer: String,
    /// The path as written in the import.
    pub(super) path: String,
}

/// The reason why an engine returned no value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum EngineFailure {
    Runtime {
        message: String,
        trace: Vec<TraceFrame>,
    },
    Syntax {
        path: String,
        line: u64,
        column: u64,
        message: String,
        /// The expressions that import the file.
        trace: Vec<TraceFrame>,
    },
    Stack(String),
    Memory,
    Output,
    Values,
    Objects,
    /// The parent refused the last import, and keeps the reason.
    Import {
        trace: Vec<TraceFrame>,
    },
    Helm {
        chart: String,
    },
    Kustomize {
        path: String,
    },
}

/// The answer of the second engine.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum CrossCheckMessage {
    Agrees,
    Differs {
        path: String,
        first: String,
        second: String,
        known: Option<KnownDifference>,
    },
    Failed(EngineFailure),
}

impl From<ValueTooLarge> for EngineFailure {
    fn from(why: ValueTooLarge) -> Self {
        match why {
            ValueTooLarge::Bytes => Self::Output,
            ValueTooLarge::Values => Self::Values,
            ValueTooLarge::Objects => Self::Objects,
        }
    }
}

impl EngineFailure {
    /// Creates a failure of the program, with its message cut to the length that is kept.
    pub(super) fn runtime(message: impl Into<String>) -> Self {
        Self::Runtime {
            message: cut(&message.into()),
            trace: Vec::new(),
        }
    }

    /// Adds the trace of an engine's own error to a failure that the engine's error type cannot represent.
    pub(super) fn with_trace(mut self, places: Vec<TraceFrame>) -> Self {
        if let Self::Runtime { trace, .. } | Self::Syntax { trace, .. } | Self::Import { trace } = &mut self
            && trace.is_empty()
        {
            *trace = places;
        }
        self
    }

    /// Returns the error for the caller. `refused` is the reason why the parent refused the last import.
    pub(super) fn into_error(self, limits: &EvalLimits, refused: Option<EvalError>) -> EvalError {
        match self {
            Self::Runtime { message, trace } => EvalError::Runtime { message, trace },
            Self::Syntax {
                path,
                line,
                column,
                message,
                trace,
            } => EvalError::Syntax {
                path,
                line,
                column,
                message,
                trace,
            },
            Self::Stack(place) => EvalError::Stack(place),
            Self::Memory => EvalError::Memory {
                bytes: limits.memory_bytes_max,
            },
            Self::Output => EvalError::Output {
                bytes: limits.output_bytes_max as u64,
            },
            Self::Values => EvalError::Values {
                count: limits.values_max,
            },
            Self::Objects => EvalError::Objects {
                count: limits.objects_max,
            },
            Self::Import { trace } => {
                let refused = refused.map(|error| error.with_import_trace(trace));
                refused.unwrap_or_else(|| EvalError::Sandbox("an import failed without a reason".to_owned()))
            }
            Self::Helm { chart } => EvalError::NeedsHelm { tool: "helm", chart },
            Self::Kustomize { path } => EvalError::NeedsHelm {
                tool: "kustomize",
                chart: path,
            },
        }
    }
}

/// Cuts a text whose length the program controls.
pub(super) fn cut(text: &str) -> String {
    cut_after(text, MESSAGE_CHARS_MAX).into_owned()
}
