//! The command line of the program.

use clap::{Parser, ValueEnum};
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  drydock-torture --binary target/release/drydock --lane ci
  drydock-torture --binary target/release/drydock --lane full --json
  drydock-torture --binary target/release/drydock --scenario kills --seed 7 --kills 40 --messages 800
  drydock-torture --binary target/release/drydock --points target/debug/drydock --scenario boundaries
  drydock-torture --list

`--points` names a build with `--features crash-points,planted-bugs`; what needs one is skipped without it.

Exit codes: 0 no violation, 1 violations, 2 wrong usage.";

/// Breaks a running Drydock on purpose, and checks from outside that it kept its promises.
#[derive(Clone, Debug, Parser)]
#[command(name = "drydock-torture", version, after_help = EXAMPLES)]
pub(crate) struct TortureArguments {
    /// The program to break, as it is released
    #[arg(long, value_name = "PATH", required_unless_present = "list")]
    pub(crate) binary: Option<PathBuf>,
    /// The same program with `--features crash-points,planted-bugs`
    #[arg(long, value_name = "PATH")]
    pub(crate) points: Option<PathBuf>,
    /// The size of the run
    #[arg(long, value_enum, default_value = "ci")]
    pub(crate) lane: Lane,
    /// Runs this scenario alone; may be repeated
    #[arg(long = "scenario", value_name = "NAME")]
    pub(crate) scenarios: Vec<String>,
    /// The schedule: the same seed tries the same things in the same order
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Ends of the process in `kills`, instead of what the lane says
    #[arg(long, value_name = "N")]
    pub(crate) kills: Option<usize>,
    /// Messages in `kills`, instead of what the lane says
    #[arg(long, value_name = "N")]
    pub(crate) messages: Option<usize>,
    /// Turns on one of the planted defects in every scenario that runs on `--points`
    #[arg(long, value_name = "ID")]
    pub(crate) bug: Option<String>,
    /// The directory that violations are kept in [default: the system's temporary directory]
    #[arg(long, value_name = "DIR")]
    pub(crate) keep: Option<PathBuf>,
    /// Prints JSON, one object a line
    #[arg(long)]
    pub(crate) json: bool,
    /// Lists the scenarios
    #[arg(long)]
    pub(crate) list: bool,
}

/// The size of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Lane {
    /// Some minutes, for every change
    Ci,
    /// Long enough to trust
    Full,
}

impl Lane {
    /// Returns the amount for this size of run.
    pub(crate) fn either<T>(self, ci: T, full: T) -> T {
        match self {
            Self::Ci => ci,
            Self::Full => full,
        }
    }
}
