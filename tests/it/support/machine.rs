//! The machine of a person: a checkout of the demo's repository, and the program in it.

use super::app::TestApp;
use super::require::component;
use super::shell::{ProgramOutput, Shell};
use drydock::simulation::demo::environment::SLACK_CHANNEL;
use std::path::{Path, PathBuf};

/// The public address of the server in these tests. Its machines use the real one.
pub(crate) const PUBLIC: &str = "https://drydock.example.com";

/// The setting of that address.
pub(crate) const PUBLIC_URL: (&str, &str) = ("server.public_url", PUBLIC);

/// A machine with a checkout.
pub(crate) struct Machine {
    pub(crate) shell: Shell,
    git: PathBuf,
}

impl Machine {
    /// Clones the demo's repository; `None` if the machine has no git.
    pub(crate) fn new(app: &TestApp) -> Option<Self> {
        let git = component("git")?.place();
        let machine = Self {
            shell: Shell::new(),
            git,
        };
        machine.git(&["clone", "-q", app.demo.repository().to_str().unwrap(), "."]);
        Some(machine)
    }

    /// Runs git in the checkout. Returns its output.
    pub(crate) fn git(&self, arguments: &[&str]) -> String {
        let mut command = std::process::Command::new(&self.git);
        self.shell.prepare(&mut command);
        let output = command
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .args(["-c", "user.name=alice", "-c", "user.email=alice@example.com"])
            .args(arguments)
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "git {arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs the program in the checkout, while the gateway goes on.
    pub(crate) fn run(&self, arguments: &[&str]) -> ProgramOutput {
        tokio::task::block_in_place(|| self.shell.run(arguments))
    }

    /// Logs the machine in as a person of Slack.
    pub(crate) async fn log_in(&self, app: &TestApp, user: &str) {
        let code = login_code(app, user).await;
        let ended = self.run(&["login", &app.demo.url(), &code]);
        assert_eq!(ended.code, Some(0), "{ended:?}");
    }

    /// Returns all that git keeps of the checkout: the index, the refs and the objects, with their bytes.
    pub(crate) fn git_files(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let mut files = Vec::new();
        add_files(&self.shell.work().join(".git"), &mut files);
        files.sort();
        files
    }

    /// Returns the file with the logins.
    pub(crate) fn logins(&self) -> PathBuf {
        self.shell.home().join(".config/drydock/logins.json")
    }
}

fn add_files(directory: &Path, files: &mut Vec<(PathBuf, Vec<u8>)>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => add_files(&path, files),
            false => files.push((path.clone(), std::fs::read(&path).unwrap())),
        }
    }
}

/// Asks for a code with a slash command, and returns it.
pub(crate) async fn login_code(app: &TestApp, user: &str) -> String {
    let seen = app.ephemeral_messages(user).len();
    app.demo.slack.slash(user, SLACK_CHANNEL, "login").await.unwrap();
    code_in(&app.wait_for_ephemeral(user, seen).await)
}

/// Returns the code in an answer to `login`.
pub(crate) fn code_in(answer: &str) -> String {
    let command = format!("drydock login {PUBLIC} ");
    let (_, code) = answer
        .split_once(&command)
        .unwrap_or_else(|| panic!("no command: {answer}"));
    let code = code.split_whitespace().next().unwrap();
    assert_eq!(code.len(), 32, "26 digits and six hyphens: {code}");
    code.to_owned()
}
