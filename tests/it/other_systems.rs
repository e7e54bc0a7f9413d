//! Tests of the one-sentence error for a build on an unsupported system.

use crate::support::source::root;
use std::process::Command;

#[test]
fn a_build_for_an_unsupported_system_fails_with_one_sentence_and_advice_for_windows() {
    let directory = tempfile::tempdir().unwrap();
    let script = directory.path().join("build-script");
    let compiled = Command::new(option_env!("RUSTC").unwrap_or("rustc"))
        .args(["--edition", "2024", "-o"])
        .arg(&script)
        .arg(root().join("build.rs"))
        .status()
        .unwrap();
    assert!(compiled.success());
    let said = |system: &str| {
        let ran = Command::new(&script)
            .env("CARGO_CFG_TARGET_OS", system)
            .output()
            .unwrap();
        assert!(ran.status.success());
        let said = String::from_utf8(ran.stdout).unwrap();
        said.lines()
            .filter_map(|line| line.strip_prefix("cargo::error="))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let sentence = "Drydock runs on Linux and macOS. Windows: use WSL 2.";
    for system in ["windows", "freebsd", "android", "ios", "wasi"] {
        assert_eq!(said(system), [sentence], "{system}");
    }
    for system in ["linux", "macos"] {
        assert_eq!(said(system), Vec::<String>::new(), "{system}");
    }
    // The error of the compiler if the build script did not run.
    let seams = std::fs::read_to_string(root().join("src/base/system/mod.rs")).unwrap();
    assert!(seams.contains(&format!("compile_error!(\"{sentence}\")")));
}
