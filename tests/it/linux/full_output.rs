//! Output that cannot be written, because the disk is full.

use crate::support::shell::Shell;
use std::fs::OpenOptions;
use std::process::Stdio;

/// Checks the outputs of a full disk, which `/dev/full` stands for.
#[test]
fn output_that_cannot_be_written_ends_with_code_1() {
    let shell = Shell::with_repository(&[("jsonnetfile.json", "{}\n")])
        .set("ANTHROPIC_API_KEY", "sk-ant-test-0123456789");
    for arguments in [
        &["models"][..],
        &["models", "--json"],
        &["tanka", "env", "list", "--json"],
        &["chat"],
    ] {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut child = shell
            .drydock(arguments)
            .stdin(Stdio::piped())
            .stdout(full)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = child.stdin.take().unwrap();
        // Only `chat` reads its input.
        let _ = std::io::Write::write_all(&mut input, b"/usage\n");
        drop(input);
        let ended = child.wait_with_output().unwrap();
        let err = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(1), "{arguments:?}: {err}");
        let reported = err
            .matches("standard output could not be written completely: ")
            .count();
        assert_eq!(reported, 1, "{arguments:?}: {err}");
    }
}
