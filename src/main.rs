//! The program: hands the arguments to the command line and its exit code to the system.

use mimalloc::MiMalloc;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    drydock::cli::main()
}
