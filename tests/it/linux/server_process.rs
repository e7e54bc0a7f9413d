//! The process of a server as Linux reports it: no huge pages, no core dump, and nothing for other processes to inspect.

use crate::cli_serve::{TOML, serve, shell};
use crate::support::shell::{RunningProgram, Shell, run_to_end};
use std::process::Command;

#[test]
fn a_server_runs_with_transparent_huge_pages_disabled() {
    let shell = shell(TOML);
    let (running, _) = serve(&shell);
    let about = std::fs::read_to_string(format!("/proc/{}/status", running.id())).unwrap();
    let large_pages = about.lines().find_map(|line| line.strip_prefix("THP_enabled:"));
    // Old kernels do not report it.
    assert!(large_pages.is_none_or(|enabled| enabled.trim() == "0"), "{about}");
}

/// T89: the server writes no core dump, and other processes of the same user cannot read its memory or environment. It
/// works for a user without privileges as for any other, its sandbox included.
#[test]
fn other_processes_cannot_inspect_a_server_and_it_leaves_no_core_dump() {
    let shell = shell(TOML);
    let checked = run_to_end(by_nobody(&shell, &["check"]));
    assert!(checked.out.contains("seccomp"), "{checked:?}");
    let mut running = RunningProgram::start(by_nobody(&shell, &["serve"]));
    running.wait_for_stderr_line("listening on http://");
    let about = |name: &str| format!("/proc/{}/{name}", running.id());
    let limits = std::fs::read_to_string(about("limits")).unwrap();
    let core = limits.lines().find(|line| line.starts_with("Max core file size"));
    let core: Vec<&str> = core.unwrap().split_ascii_whitespace().collect();
    assert_eq!(core[4..6], ["0", "0"], "{limits}");
    // The files of an inspectable process belong to its user, and those of other processes to root.
    use std::os::unix::fs::MetadataExt;
    for name in ["environ", "mem", "maps", "fd"] {
        assert_eq!(std::fs::metadata(about(name)).unwrap().uid(), 0, "{name}");
    }
    running.terminate();
    assert_eq!(running.end().code, Some(0));
}

/// Returns a command of the program in this shell, for a user without privileges: the current one, or `nobody` if that
/// is root.
fn by_nobody(shell: &Shell, arguments: &[&str]) -> Command {
    use std::os::unix::process::CommandExt;
    const NOBODY: u32 = 65_534;
    let mut command = shell.drydock(arguments);
    if rustix::process::geteuid().is_root() {
        let mut left = vec![shell.home().to_owned()];
        while let Some(path) = left.pop() {
            std::os::unix::fs::chown(&path, Some(NOBODY), Some(NOBODY)).unwrap();
            if path.is_dir() {
                left.extend(
                    std::fs::read_dir(&path)
                        .unwrap()
                        .map(|entry| entry.unwrap().path()),
                );
            }
        }
        command.uid(NOBODY).gid(NOBODY);
    }
    command
}
