//! Drydock prepares and never applies: nothing in it can change a cluster or a remote.

use crate::support::built::built;
use crate::support::source::{root, rust_files, without_comment};

/// Returns texts that a program contains if it applies, commits or pushes. The texts are built at run time, so this
/// file does not contain them.
fn forbidden() -> Vec<String> {
    [
        ("kubectl ", "apply"),
        ("kubectl ", "create"),
        ("kubectl ", "delete"),
        ("tk ", "apply"),
        ("helm ", "install"),
        ("helm ", "upgrade"),
        ("git ", "push"),
        ("git-receive", "-pack"),
        ("Patch::", "Apply"),
        ("field", "Manager="),
        (r#"arg("pu"#, r#"sh")"#),
        (r#"arg("com"#, r#"mit")"#),
        (r#"args(["pu"#, r#"sh""#),
        (r#"args(["com"#, r#"mit""#),
        ("gix::", "push"),
        ("Direction::", "Push"),
        ("kube::", "Client"),
    ]
    .map(|(first, second)| format!("{first}{second}"))
    .to_vec()
}

/// The lines that mention applying in order to refuse it, or to tell a person what only they may do. Each is a file and
/// a text its line must contain.
const ALLOWED: &[(&str, &str)] = &[];

/// The comments in git's sample hooks, which gix carries for creating a new repository. They are never installed or
/// run. Only these lines are excused, so they cannot hide anything else.
const SAMPLE_HOOKS: [&str; 2] = [
    "# This hook script is triggered by `git push` right after a connection to the remote",
    "# This hook is called after a pack was received on the remote, i.e. after a successful `git push` operation.",
];

/// T60, STK-2, I9, TK-83, TK-86, REP-7
#[test]
fn no_source_line_applies_commits_or_pushes() {
    let mut found = Vec::new();
    for (path, text) in rust_files("src") {
        // Tests create repositories to work on, and may commit there.
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        if path.contains("/tests/") || path.ends_with("/tests.rs") {
            continue;
        }
        for (number, line) in code.lines().enumerate() {
            let code = without_comment(line);
            let allowed = ALLOWED
                .iter()
                .any(|(file, text)| *file == path && line.contains(text));
            if !allowed && forbidden().iter().any(|text| code.contains(text.as_str())) {
                found.push(format!("{path}:{}: {}", number + 1, line.trim()));
            }
        }
    }
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}

/// T60, REP-7, G2, I5, TK-5
#[test]
fn only_the_sandbox_starts_a_process_and_only_this_program() {
    let starts = [
        "process::Command",
        "process::{Child",
        "CommandExt",
        "posix_spawn",
        "::execv",
        "fork(",
    ];
    let mut found: Vec<String> = Vec::new();
    for (path, text) in rust_files("src") {
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        let is_test = path.contains("/tests/") || path.ends_with("/tests.rs") || path.ends_with("fixture.rs");
        let code: String = code.lines().map(without_comment).collect::<Vec<_>>().join("\n");
        if !is_test && starts.iter().any(|text| code.contains(text)) {
            found.push(path);
        }
    }
    found.sort();
    // The run of an external program waits for a child process that the sandbox worker's file has started. A launch
    // becomes the operator's program after it is confined.
    let sandbox = ["command", "launch", "worker"].map(|file| format!("src/rendering/sandbox/{file}.rs"));
    // macOS does not end a process with its parent. A copy of the launching process watches the program, and starts
    // nothing.
    let watched = "src/base/system/macos/external_program.rs".to_owned();
    // An operator's command starts this program again as a service, and asks the service manager. The supervisor waits
    // for what that file has started.
    let service = ["processes", "supervisor"].map(|file| format!("src/cli/service/{file}.rs"));
    assert_eq!(
        found,
        [&[watched], service.as_slice(), sandbox.as_slice()].concat()
    );
    check_service(&service);
    let [command, launch, worker] =
        sandbox.map(|file| std::fs::read_to_string(root().join(file)).expect("the sandbox"));
    assert_eq!(command.matches("Command::new(").count(), 0);
    assert_eq!(worker.matches("Command::new(").count(), 1);
    assert!(worker.contains("Command::new(&self.0)") && worker.contains("Self(system::this_program())"));
    assert_eq!(launch.matches("Command::new(").count(), 1);
    assert!(launch.contains("Command::new(&self.program)") && !launch.contains(".spawn("));
}

/// Checks that a service command starts only this program and the programs of service managers, by constant absolute paths,
/// and that no file outside of the service starts anything this way.
fn check_service(files: &[String; 2]) {
    let [processes, supervisor] = files
        .each_ref()
        .map(|file| std::fs::read_to_string(root().join(file)).expect("the service"));
    let processes = processes.split("#[cfg(test)]").next().unwrap_or_default();
    assert_eq!(supervisor.matches("Command::new(").count(), 0);
    assert_eq!(processes.matches("Command::new(").count(), 2);
    assert!(processes.contains("fn manager_command(program: &'static str) -> Command {"));
    let programs = regex::Regex::new(r#"const [A-Z]+: &str = "(/[^"]+)";"#).unwrap();
    let programs: Vec<&str> = programs
        .captures_iter(processes)
        .map(|found| found.extract::<1>().1[0])
        .collect();
    assert_eq!(
        programs,
        ["/usr/bin/systemctl", "/usr/bin/journalctl", "/bin/launchctl"]
    );
    // The definition, and two calls.
    assert_eq!(processes.matches("manager_command(").count(), 3);
    assert!(
        processes.contains("manager_command(JOURNALCTL)")
            && processes.contains("manager_command(program).args(arguments)")
    );
    // The definition, and two calls with the program that runs.
    assert_eq!(processes.matches("own_command(").count(), 3);
    assert_eq!(
        processes
            .matches("own_command(system::this_program().as_path(), \"")
            .count(),
        2
    );
    let starts = ["start_supervisor", "start_server", "start_journal", "ManagerCall"];
    for (path, text) in rust_files("src") {
        assert!(
            path.starts_with("src/cli/service/") || !starts.iter().any(|start| text.contains(start)),
            "{path} starts a process of the service"
        );
    }
}

/// T60, I9
#[test]
fn no_dependency_can_apply() {
    let lock = std::fs::read_to_string(root().join("Cargo.lock")).expect("the lock file");
    for package in ["kube", "kube-client", "k8s-openapi", "git2", "libgit2-sys"] {
        assert!(
            !lock.contains(&format!("name = \"{package}\"\n")),
            "`{package}` can reach a cluster or a remote"
        );
    }
}

/// T60, I9: the program may contain such words only as often as its prompts and the allowed lines do.
#[test]
fn the_program_contains_no_command_that_applies() {
    let program = std::fs::read(built()).expect("the program");
    let texts = prompts();
    for text in forbidden()
        .iter()
        .filter(|text| text.contains(' ') || text.contains("::Apply"))
    {
        let found = count(&program, text);
        let in_prompts: usize = texts.iter().map(|prompt| count(prompt.as_bytes(), text)).sum();
        let in_lines: usize = ALLOWED.iter().map(|(_, line)| count(line.as_bytes(), text)).sum();
        let in_hooks: usize = SAMPLE_HOOKS
            .iter()
            .map(|line| count(&program, line) * count(line.as_bytes(), text))
            .sum();
        assert!(
            found <= in_prompts + in_lines + in_hooks,
            "the program contains `{text}` {found} times"
        );
    }
}

/// Returns the texts below `config/` that are built into the program.
fn prompts() -> Vec<String> {
    let mut texts = Vec::new();
    let mut folders = vec![root().join("config")];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(folder) else {
            continue;
        };
        for entry in entries {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                texts.push(std::fs::read_to_string(path).expect("a text"));
            }
        }
    }
    texts
}

fn count(bytes: &[u8], text: &str) -> usize {
    memchr::memmem::find_iter(bytes, text).count()
}

/// T14: secrets have no `==` (see [`drydock::base::model::Secret`]). The value inside a secret must not be compared that way
/// either.
#[test]
fn no_secret_is_compared_with_an_operator() {
    let compared = regex::Regex::new(r"expose\(\)[^;,]*[!=]=|[!=]=[^;,]*expose\(\)").unwrap();
    assert!(compared.is_match("if given == self.secret.expose() {"));
    let mut found = Vec::new();
    for (path, text) in rust_files("src") {
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        if path.contains("/tests/") || path.ends_with("/tests.rs") {
            continue;
        }
        let lines = code.lines().map(without_comment).enumerate();
        let wrong = lines.filter(|(_, line)| compared.is_match(line));
        found.extend(wrong.map(|(number, line)| format!("{path}:{}: {}", number + 1, line.trim())));
    }
    assert_eq!(found, Vec::<String>::new());
}
