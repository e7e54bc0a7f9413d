//! The hostile programs, each compiled once, when the first test needs it.

use super::source::root;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Returns the path of the hostile helm.
pub(crate) fn hostile_helm() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| compiled("hostile_helm"))
}

/// Compiles a program of `tests/programs`. Returns its path.
pub(crate) fn compiled(name: &str) -> PathBuf {
    let compiler = option_env!("RUSTC").unwrap_or("rustc");
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    let source = root().join(format!("tests/programs/{name}.rs"));
    let compiled = Command::new(compiler)
        .args(["--edition", "2024", "-o"])
        .arg(&program)
        .arg(source)
        .output()
        .expect("the compiler runs");
    let said = String::from_utf8_lossy(&compiled.stderr);
    assert!(compiled.status.success(), "{said}");
    program
}
