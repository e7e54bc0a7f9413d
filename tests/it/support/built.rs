//! The program that the tests run.

use std::path::PathBuf;

/// The variable with the absolute path of another build of the program, such as the static one.
const VARIABLE: &str = "DRYDOCK_TEST_PROGRAM";

/// Returns the program that was built with these tests, or the one that `DRYDOCK_TEST_PROGRAM` names.
pub(crate) fn built() -> PathBuf {
    let named = std::env::var_os(VARIABLE).map(PathBuf::from);
    let program = named.unwrap_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_drydock")));
    assert!(
        program.is_absolute() && program.is_file(),
        "{VARIABLE}: there is no `{}`",
        program.display()
    );
    program
}
