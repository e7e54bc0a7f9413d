//! Pipelines of a repository: their definitions, the checks of these, and the effective values with their sources. The
//! definitions are text that anybody with access to the repository can write, so every size is bounded.

pub mod definition;

/// The maximum number of pipelines of a file.
const PIPELINES_MAX: usize = 1_000;
/// The maximum number of triggers of a pipeline.
const TRIGGERS_MAX: usize = 20;
/// The maximum number of steps of a pipeline, not counting those inside of parallel groups.
const STEPS_MAX: usize = 50;
/// The maximum number of steps of a parallel group.
const PARALLEL_MAX: usize = 16;
/// The maximum number of tools or servers of a step, a pipeline or a file.
const TOOLS_MAX: usize = 50;
/// The maximum number of entries of other maps and lists.
const ENTRIES_MAX: usize = 50;
/// The maximum number of arguments of a program.
const ARGUMENTS_MAX: usize = 64;
/// The maximum number of answers of a question.
const CHOICES_MAX: usize = 5;
