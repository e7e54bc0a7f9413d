//! Rendering: programs, environments and their objects, compared and reviewed.

pub mod sandbox;
pub mod jsonnet;
pub mod bundler;
pub mod tanka;
pub mod helm;
// Differences and risks between two sets of rendered objects. No I/O.
pub mod review;
// Renders the affected environments of base and workspace, and has them reviewed.
pub mod compare;
// Checks of the changed files themselves, and the outcome of all checks.
pub mod change_checks;
// Answers to questions about environments, written without a model.
pub mod inspect;
