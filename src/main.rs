//! The program: passes the arguments to the command line and its exit code to the system.

mod allocator;

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: allocator::Allocator = allocator::Allocator;

fn main() -> ExitCode {
    allocator::map_large_blocks();
    drydock::cli::main()
}
