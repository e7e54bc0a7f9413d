//! Recorded behaviour of other programs, compared with ours. Each pack prints one line with the number of equal cases
//! and the number of known differences, each with a documented reason: `cargo test conformance -- --nocapture`.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a pack says how much of it is equal"
)]

mod errors;
mod evaluation;
mod evaluation_live;
mod fmt;
mod jb;
mod jb_rewrite;
mod large;
mod lint;
mod pack;
mod program_forms;
mod programs;
mod random;
mod reading;
mod source_layout;
pub(crate) mod sources;
mod tk;
mod values;
mod written;
mod yaml;

pub(crate) use lint::DIFFERENT_MESSAGES_COUNT;
