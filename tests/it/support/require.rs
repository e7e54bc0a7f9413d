//! Components that a test needs from the machine. A missing one skips the test with a notice. If `DRYDOCK_TEST_REQUIRE`
//! names it, it fails the test instead.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The program that starts emulators of other authors.
pub(crate) const START: &str = "tests/strangers/start.js";
/// The program that checks requests with types of other authors.
const TYPES: &str = "tests/strangers/schemas/types.js";
/// The program that generates the types of the TypeScript client, and builds it.
pub(crate) const CLIENT: &str = "tests/strangers/client.js";
/// The interpreter with the Python packages of other authors. `.ci/run` puts it in front of the path.
const PYTHON: &str = "drydock-checkers-python";
const PYTHON_HOW: &str = "apt-get install python3-venv, then the commands of tests/strangers/README.md";
const NODE_HOW: &str = "apt-get install nodejs npm, then npm ci --prefix tests/strangers";

/// The program of a component that is installed and works.
#[derive(Clone, Debug)]
pub(crate) struct Component {
    /// The program to run.
    pub(crate) program: PathBuf,
}

impl Component {
    /// Returns a command of the component.
    pub(crate) fn command(&self) -> Command {
        Command::new(&self.program)
    }

    /// Returns the path of its program on this machine.
    pub(crate) fn place(&self) -> PathBuf {
        let path = std::env::var_os("PATH").expect("a path of programs");
        let places = std::env::split_paths(&path).map(|place| place.join(&self.program));
        let mut there = places.filter(|place| place.is_file());
        there.next().expect("the program that works is somewhere")
    }
}

/// Returns a component by name, or `None` after one line with the way to install it.
pub(crate) fn component(name: &str) -> Option<Component> {
    let (probe, what, how) = requirement(name);
    let works = Command::new(probe[0])
        .args(&probe[1..])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if works {
        return Some(Component {
            program: PathBuf::from(probe[0]),
        });
    }
    assert!(
        !is_required(name),
        "DRYDOCK_TEST_REQUIRE names `{name}`, and {what} is not usable here: {how}"
    );
    // The line bypasses the capture of the test harness, because a skipped test must be visible in a green run.
    let line = format!("SKIPPED needs {what}: {how}\n");
    std::io::stderr()
        .write_all(line.as_bytes())
        .expect("stderr takes a line");
    None
}

/// Returns true if `DRYDOCK_TEST_REQUIRE` names a component.
pub(crate) fn is_required(name: &str) -> bool {
    let required = std::env::var("DRYDOCK_TEST_REQUIRE").unwrap_or_default();
    required.split(',').any(|one| one.trim() == name)
}

/// Returns the arguments with which the program of a component checks requests.
pub(crate) fn checker_arguments(name: &str) -> &'static [&'static str] {
    match name {
        "slack_sdk" => &["tests/strangers/schemas/slack.py"],
        "aiogram" => &["tests/strangers/schemas/telegram.py"],
        "slack-types" => &[TYPES, "slack"],
        "discord-api-types" => &[TYPES, "discord"],
        unknown => panic!("no checker is called `{unknown}`; add it to support/require.rs"),
    }
}

/// Returns the command that checks a component, its description, and the way to install it.
fn requirement(name: &str) -> (&'static [&'static str], &'static str, &'static str) {
    match name {
        "git" => (&["git", "--version"], "git", "apt-get install git"),
        "strace" => (
            &["strace", "-e", "trace=connect", "true"],
            "strace",
            "apt-get install strace, and allow ptrace",
        ),
        "fuse" => (
            &[
                "sh",
                "-c",
                "test -w /dev/fuse && test \"$(id -u)\" = 0 && unshare -m true",
            ],
            "a file system served from the test",
            "run as root with /dev/fuse, where mounts are allowed",
        ),
        "tmpfs" => (
            &[
                "unshare",
                "-Urm",
                "sh",
                "-c",
                "mount -t tmpfs -o size=1m tmpfs /mnt",
            ],
            "a small file system of its own",
            "install util-linux, and allow user namespaces",
        ),
        "systemd" => (
            &["tests/it/linux/systemd.sh", "--probe"],
            "a systemd of its own",
            "apt-get install systemd, and run as root where namespaces and mounts are allowed",
        ),
        "systemd-analyze" => (
            &["systemd-analyze", "--version"],
            "systemd-analyze",
            "apt-get install systemd",
        ),
        "python3" => (&["python3", "--version"], "python3", "apt-get install python3"),
        "bash" => (&["bash", "--version"], "bash", "apt-get install bash"),
        "groff" => (&["groff", "--version"], "groff", "apt-get install groff-base"),
        "script" => (
            &["script", "--version"],
            "script of util-linux",
            "apt-get install bsdutils",
        ),
        "ripgrep" => (&["rg", "--version"], "ripgrep", "apt-get install ripgrep"),
        "docker" => (
            &["docker", "info", "--format", "{{.ServerVersion}}"],
            "a container engine",
            "apt-get install docker.io, and start dockerd",
        ),
        "jsonnet" => (
            &["jsonnet", "--version"],
            "jsonnet of go-jsonnet",
            "go install github.com/google/go-jsonnet/cmd/jsonnet@v0.22.0",
        ),
        "jsonnetfmt" => (
            &["jsonnetfmt", "--version"],
            "jsonnetfmt",
            "go install github.com/google/go-jsonnet/cmd/jsonnetfmt@v0.22.0",
        ),
        "helm" => (
            &["helm", "version", "--short"],
            "helm 3",
            "go install helm.sh/helm/v3/cmd/helm@v3.22.0",
        ),
        "kustomize" => (
            &["kustomize", "version"],
            "kustomize 5",
            "go install sigs.k8s.io/kustomize/kustomize/v5@v5.7.1",
        ),
        "telegram-test-api" => (
            &["node", START, "telegram-test-api", "--probe"],
            "telegram-test-api",
            NODE_HOW,
        ),
        "aimock" => (&["node", START, "aimock", "--probe"], "aimock", NODE_HOW),
        "openapi-typescript" => (&["node", CLIENT, "--probe"], "openapi-typescript", NODE_HOW),
        "slack_sdk" => (&[PYTHON, "-c", "import slack_sdk"], "slack_sdk", PYTHON_HOW),
        // Its import takes seconds.
        "aiogram" => (
            &[
                PYTHON,
                "-c",
                "import importlib.metadata as of; of.version('aiogram')",
            ],
            "aiogram",
            PYTHON_HOW,
        ),
        "schemathesis" => (&[PYTHON, "-c", "import schemathesis"], "schemathesis", PYTHON_HOW),
        "slack-types" => (
            &["node", TYPES, "slack", "--probe"],
            "the types of Slack's own client",
            NODE_HOW,
        ),
        "discord-api-types" => (
            &["node", TYPES, "discord", "--probe"],
            "discord-api-types",
            NODE_HOW,
        ),
        unknown => panic!("no component is called `{unknown}`; add it to support/require.rs"),
    }
}
