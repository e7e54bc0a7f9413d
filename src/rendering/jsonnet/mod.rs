//! The evaluation of Jsonnet in the sandbox. A program can read the given tree and nothing of the machine: no file, no
//! environment, no program, no network. An evaluation that crashes, hangs or uses too much memory ends as an
//! [`EvalError`] of its own request.

mod batch;
mod budget;
mod canonical;
mod contract;
pub mod format;
pub mod lint;
pub mod syntax;
pub mod yaml;
mod worker_session;
mod digits;
mod ambiguity;
mod edits;
mod engine;
mod evaluator;
mod node_extents;
pub mod external_program;
mod import;
mod worker;
mod sent_files;
mod message;
mod native;
mod nearest;
mod nesting;
mod number;
mod operands;
mod cross_check;
pub(crate) mod path;
mod fair_slots;
mod rewrite;
mod memo;
mod foreground;

pub use budget::{Budget, Tenant};
pub use contract::{
    CrossCheckMode, CrossCheckResult, EntryPoint, EvalError, EvalLimits, EvalRequest, Evaluation, Import,
    KnownDifference, TraceFrame,
};
pub use evaluator::Evaluator;
pub use fair_slots::{FairSlot, FairSlots, Urgency};
pub use foreground::{ForegroundCount, ForegroundGuard};

use crate::rendering::sandbox::Confinement;
use std::process::ExitCode;

pub(crate) use native::yaml_event;
pub(crate) use nearest::similar as similar_files;

/// Bytes of a YAML text that is read outside the sandbox. Its values use many times that amount of memory.
const YAML_BYTES_MAX: usize = 1 << 20;

/// Parses the documents of a YAML text as yaml.v3 does. Size, nesting and repetition are bounded.
pub(crate) fn yaml_documents(text: &str) -> Result<Vec<serde_json::Value>, String> {
    if text.len() > YAML_BYTES_MAX {
        return Err(format!("yaml: more than {} MiB", YAML_BYTES_MAX >> 20));
    }
    native::yaml_documents(text).map_err(|error| error.to_string().replacen("parseYaml: ", "", 1))
}

/// Runs this process as a sandbox worker. Must be called before anything else in `main`.
pub fn serve_as_worker(confinement: Confinement) -> ExitCode {
    match confinement.task.as_str() {
        evaluator::TASK_NAME => confinement.enter(worker::evaluate),
        // A probe confines itself, reports its layers, and ends.
        _ => confinement.enter(|_| ExitCode::SUCCESS),
    }
}
