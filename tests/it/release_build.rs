//! A release build cannot be broken on purpose.
#![cfg(not(any(feature = "crash-points", feature = "planted-bugs")))]

use crate::support::built::built;
use std::process::Command;

/// R1
#[test]
fn a_build_for_use_has_no_crash_point_no_second_clock_and_no_planted_defect() {
    let program = std::fs::read(built()).expect("the program");
    for variable in ["DRYDOCK_CRASH", "DRYDOCK_CLOCK_OFFSET", "DRYDOCK_BUG"] {
        let held = memchr::memmem::find(&program, variable.as_bytes());
        assert_eq!(held, None, "{variable}");
        // A release build ignores the variables of a test build, and `check` says so.
        let output = Command::new(built())
            .arg("check")
            .current_dir(std::env::temp_dir())
            .env("ANTHROPIC_API_KEY", "sk-ant-for-use")
            .env(variable, "B4:after")
            .output()
            .expect("an end");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{said}");
        let reported = format!("{variable}: no key has this variable, so it is ignored");
        assert!(said.contains(&reported), "{said}");
    }
}
