//! The directories of this user for files of Drydock.

use std::path::PathBuf;

/// Returns the directory `drydock` below the one that a variable names, such as `XDG_CONFIG_HOME`, or below `fallback` in
/// the home directory; `None` if neither variable has an absolute path.
pub(super) fn user_directory(variable: &str, fallback: &str) -> Option<PathBuf> {
    let home = || path_of("HOME").map(|home| home.join(fallback));
    let directory = path_of(variable).or_else(home)?;
    Some(directory.join("drydock"))
}

/// Returns the home directory of this user, if it is an absolute path.
pub(super) fn home_directory() -> Option<PathBuf> {
    path_of("HOME")
}

fn path_of(variable: &str) -> Option<PathBuf> {
    #[allow(
        clippy::disallowed_methods,
        reason = "the shell is where the environment is read"
    )]
    let value = std::env::var_os(variable);
    value.map(PathBuf::from).filter(|path| path.is_absolute())
}
