//! Tests of the report of a panic. A process has one panic hook, so the test starts itself again as a child process.

use drydock::base::model::Secret;
use drydock::base::redact::Redactor;
use drydock::base::telemetry::{self, LogFormat};
use std::process::{Command, Stdio};
use std::sync::Arc;

const CANARY: &str = "canary-4711-abcdefgh";
/// The variable that is set in the child process.
const CHILD: &str = "DRYDOCK_TEST_PANICS";

/// T89
#[test]
fn a_panic_is_one_redacted_log_line() {
    if std::env::var_os(CHILD).is_some() {
        return panic_aloud();
    }
    let itself = std::env::current_exe().unwrap();
    let ended = Command::new(itself)
        .args([
            "--exact",
            "panics::a_panic_is_one_redacted_log_line",
            "--nocapture",
        ])
        .env(CHILD, "1")
        .env("RUST_BACKTRACE", "1")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{said}");
    assert!(!said.contains(CANARY), "{said}");
    let lines: Vec<serde_json::Value> = said
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 1, "{said}");
    let message = lines[0]["message"].as_str().unwrap();
    assert!(
        message.starts_with("a part of this process panicked: the key is "),
        "{message}"
    );
    assert!(
        lines[0]["place"]
            .as_str()
            .unwrap()
            .starts_with("tests/it/panics.rs:"),
        "{said}"
    );
}

fn panic_aloud() {
    let secret = Secret::new(CANARY.to_owned());
    let redactor = Redactor::new([secret]);
    telemetry::init(LogFormat::Json, None, Arc::new(redactor), std::io::stderr).unwrap();
    telemetry::log_panics();
    let broken = std::thread::spawn(|| panic!("the key is {CANARY}"));
    assert!(broken.join().is_err());
}
