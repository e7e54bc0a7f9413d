//! The program that the tests run.

use std::path::PathBuf;

/// Names another build of the program, such as the static one, by its absolute path.
const VARIABLE: &str = "DRYDOCK_TEST_PROGRAM";

/// The program that was built with these tests, or the one that `DRYDOCK_TEST_PROGRAM` names.
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
