//! The hostile helm, compiled once, when the first test needs it.

use super::source::root;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

static PROGRAM: OnceLock<PathBuf> = OnceLock::new();

/// Returns the path of the program.
pub(crate) fn hostile_helm() -> &'static Path {
    PROGRAM.get_or_init(|| {
        let compiler = option_env!("RUSTC").unwrap_or("rustc");
        let program =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("hostile-helm-{}", std::process::id()));
        let source = root().join("tests/programs/hostile_helm.rs");
        let compiled = Command::new(compiler)
            .args(["--edition", "2024", "-o"])
            .arg(&program)
            .arg(source)
            .output()
            .expect("the compiler runs");
        let said = String::from_utf8_lossy(&compiled.stderr);
        assert!(compiled.status.success(), "{said}");
        program
    })
}
