//! `drydock up`, `status`, `logs` and `down` with a running systemd, which starts the real program with the real unit.

use super::systemd::{BootedSystemd, PROGRAM};
use crate::support::shell::{BOUND, ProgramOutput};
use drydock::simulation::emulator::model::{ModelEmulator, ModelRequest, calls, says};
use drydock::simulation::emulator::slack::{RateLimits, SlackEmulator, SlackOptions, SlackState};
use serde_json::Value;
use std::os::unix::fs::{PermissionsExt, chown};
use std::time::{Duration, Instant};

const ALICE: &str = "U0ALICE";
const CHANNEL: &str = "C0PLATFORM";
const BOT_TOKEN: &str = "xoxb-660066006600-service-bot-token";
const SIGNING_SECRET: &str = "5a1d1c9a7be24c6f8a1b3d5e7f90ab12";
const CONFIGURATION: &str = "/srv/drydock.toml";
const FILE: &str = "environments/dev/main.jsonnet";
/// A user without any right.
const USER: u32 = 65_534;
const POLL: Duration = Duration::from_millis(100);

/// The server of the tests. Only root can read its secrets.
const TOML: &str = r#"
[server]
listen = "127.0.0.1:0"
[data]
directory = "/var/lib/drydock"
[model]
default = "anthropic/script"
[providers.anthropic]
api_key = { file = "/srv/secrets/model" }
base_url = "<model>"
[repositories.infra]
path = "/srv/infra.git"
[channels.slack]
kind = "slack"
bot_token = { file = "/srv/secrets/bot" }
signing_secret = { file = "/srv/secrets/signing" }
api_base_url = "<slack>"
"#;

/// The first words of a command of the user whose manager is [`USER_MANAGER`].
const BY_USER: &[&str] = &[
    "setpriv",
    "--reuid=1000",
    "--regid=1000",
    "--clear-groups",
    "env",
    "HOME=/srv/home",
    "XDG_RUNTIME_DIR=/run/user/1000",
];

/// The service manager of a user, with the name and the slice by which the journal knows the units of that user.
const USER_MANAGER: &str = "\
[Service]
Type=notify
User=1000
Group=1000
Slice=user-1000.slice
Delegate=yes
Environment=HOME=/srv/home XDG_RUNTIME_DIR=/run/user/1000
ExecStart=/usr/lib/systemd/systemd --user
";

/// A server in a unit of systemd, with Slack and the model.
struct ServiceFixture {
    systemd: BootedSystemd,
    /// The first words of each command of the program.
    by: &'static [&'static str],
    slack: SlackEmulator,
    model: ModelEmulator,
}

impl ServiceFixture {
    /// Prepares everything that `drydock up` needs, or returns `None` if systemd cannot be booted here.
    async fn prepare() -> Option<Self> {
        let systemd = BootedSystemd::start()?;
        let slack = SlackEmulator::start(SlackOptions {
            team: "T0ACME".to_owned(),
            bot_user: "U0DRYDOCK".to_owned(),
            bot_name: "drydock".to_owned(),
            bot_token: BOT_TOKEN.to_owned(),
            signing_secret: SIGNING_SECRET.to_owned(),
            rate_limits: RateLimits::Off,
            at: jiff::Timestamp::now,
            http: drydock::base::http_client::api_client().unwrap(),
        });
        let slack = slack.await.unwrap();
        slack.add_channel(CHANNEL, &[ALICE]);
        let model = ModelEmulator::start(|asked: &ModelRequest| match asked.last_results().is_empty() {
            true => calls(
                "file_edit",
                serde_json::json!({ "path": FILE, "old": "web:1.8.3", "new": "web:1.9.0" }),
            ),
            false => says("The image is set."),
        });
        let fixture = Self {
            systemd,
            by: &[],
            slack,
            model: model.unwrap(),
        };
        fixture.write_files();
        Some(fixture)
    }

    fn write_files(&self) {
        let repository = self.systemd.file("/srv/infra.git");
        drydock::simulation::demo::repository::create(&repository).unwrap();
        let secrets = self.systemd.file("/srv/secrets");
        std::fs::create_dir(&secrets).unwrap();
        std::fs::set_permissions(&secrets, PermissionsExt::from_mode(0o700)).unwrap();
        for (name, secret) in [
            ("model", "sk-ant-service-0000000000000000000000"),
            ("bot", BOT_TOKEN),
            ("signing", SIGNING_SECRET),
        ] {
            std::fs::write(secrets.join(name), secret).unwrap();
            std::fs::set_permissions(secrets.join(name), PermissionsExt::from_mode(0o600)).unwrap();
        }
        let data = self.systemd.file("/var/lib/drydock");
        std::fs::create_dir(&data).unwrap();
        std::fs::set_permissions(&data, PermissionsExt::from_mode(0o700)).unwrap();
        chown(&data, Some(USER), Some(USER)).unwrap();
        let toml = TOML
            .replace("<model>", self.model.url())
            .replace("<slack>", &self.slack.api_base_url());
        std::fs::write(self.systemd.file(CONFIGURATION), toml).unwrap();
    }

    fn drydock(&self, arguments: &[&str]) -> ProgramOutput {
        let program = [PROGRAM, "--config", CONFIGURATION];
        self.systemd.run(&[self.by, &program, arguments].concat())
    }

    /// Starts the service manager of a user, to whom everything belongs from now on.
    fn log_in(&mut self) {
        std::fs::write(
            self.systemd.file("/etc/systemd/system/user@1000.service"),
            USER_MANAGER,
        )
        .unwrap();
        let prepare = "mkdir -p /run/user/1000 /srv/home && chown -R 1000:1000 /run/user/1000 /srv /var/lib/drydock \
             && systemctl start user@1000";
        let started = self.systemd.run(&["sh", "-c", prepare]);
        assert_eq!(started.code, Some(0), "{started:?}");
        self.by = BY_USER;
    }

    /// Waits until another server than `before` is ready. Returns its process id, and connects Slack to it.
    async fn wait_for_another(&self, before: &str) -> String {
        let deadline = Instant::now() + BOUND;
        loop {
            // A server that ends or hangs gives no answer.
            let shown = self.drydock(&["status", "--json"]);
            let status: Value = serde_json::from_str(&shown.out).unwrap_or_default();
            let process = status["server"]["process"].to_string();
            if status["ready"] == true && process != before {
                let address = status["server"]["address"].as_str().unwrap();
                self.slack.connect_to(&format!("http://{address}/in/slack"));
                return process;
            }
            assert!(Instant::now() < deadline, "no other server is ready: {shown:?}");
            tokio::time::sleep(POLL).await;
        }
    }

    async fn wait_for_text(&self, wanted: &str) {
        let shown = |state: &SlackState| {
            let mut messages = state.messages.iter();
            messages
                .any(|message| message.visible().join("\n").contains(wanted))
                .then_some(())
        };
        let deadline = Instant::now() + BOUND;
        while self.slack.wait_until(&shown).await.is_none() {
            if Instant::now() < deadline {
                continue;
            }
            let log = self.drydock(&["logs"]);
            let texts = self.slack.with_state(|state| {
                let visible = state.messages.iter().map(|message| message.visible().join("\n"));
                visible.collect::<Vec<_>>()
            });
            panic!("{wanted}: {texts:#?}\n{log:#?}");
        }
    }

    /// Lets Alice ask for a change, and waits for its result. Returns the thread.
    async fn ask_for_change(&self) -> String {
        self.invite_alice().await;
        let said = self
            .slack
            .say(ALICE, CHANNEL, "@drydock set the image")
            .await
            .unwrap();
        self.wait_for_text("Nothing was applied, committed or pushed.")
            .await;
        said.ts
    }

    /// Asks a server for the difference that an earlier one rendered.
    async fn ask_for_difference(&self, thread: &str) {
        let answer = self
            .slack
            .reply_in_thread(ALICE, CHANNEL, thread, "!diff dev")
            .await;
        assert_eq!(answer.unwrap().answers[0].status, 200);
        self.wait_for_text("+        image: registry.example.com/web:1.9.0")
            .await;
    }

    async fn invite_alice(&self) {
        let invited = self
            .drydock(&["--json", "invite", "alice", "--role", "editor"])
            .json();
        let token = invited["token"].as_str().unwrap();
        self.slack.dm(ALICE, &format!("join {token}")).await.unwrap();
        self.wait_for_text("You're in").await;
    }

    /// Returns the value of a line of `/proc/PROCESS/status`.
    fn kernel_fact(&self, process: &str, name: &str) -> String {
        let about = std::fs::read_to_string(self.systemd.file(&format!("/proc/{process}/status"))).unwrap();
        let value = about
            .lines()
            .find_map(|line| line.strip_prefix(&format!("{name}:")));
        value.unwrap().split_ascii_whitespace().next().unwrap().to_owned()
    }

    fn signal(&self, signal: &str, process: &str) {
        let sent = self
            .systemd
            .run(&["sh", "-c", &format!("kill {signal} {process}")]);
        assert_eq!(sent.code, Some(0), "{sent:?}");
    }
}

/// The unit confines the server, which still does its main work: secrets come from systemd, workers render, and the
/// result is posted. A killed or hanging server is started again. STK-4, STK-11, STK-12, STK-14, STK-15
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_unit_of_a_running_systemd_prepares_changes_and_is_started_again_until_it_is_stopped() {
    let Some(service) = ServiceFixture::prepare().await else {
        return;
    };
    // The watchdog of the unit waits for a minute. A slow machine needs some seconds.
    let sooner = service.systemd.file("/etc/systemd/system/drydock.service.d");
    std::fs::create_dir(&sooner).unwrap();
    std::fs::write(
        sooner.join("test.conf"),
        "[Service]\nWatchdogSec=12\nRestartSec=1\n",
    )
    .unwrap();
    let up = service.drydock(&["up"]);
    assert_eq!(up.code, Some(0), "{up:?}");
    for text in [
        "Installed /etc/systemd/system/drydock.service.",
        "Drydock runs on http://127.0.0.1:",
    ] {
        assert!(up.err.contains(text), "{text}: {up:?}");
    }
    let status = service.drydock(&["status", "--json"]).json();
    assert_eq!(status["service"]["kind"], "service_manager", "{status}");
    let first = service.wait_for_another("none").await;
    for (name, value) in [
        ("Uid", USER.to_string().as_str()),
        ("NoNewPrivs", "1"),
        ("Seccomp", "2"),
        ("CapEff", "0000000000000000"),
    ] {
        assert_eq!(service.kernel_fact(&first, name), value, "{name}");
    }

    let thread = service.ask_for_change().await;
    service.signal("-KILL", &first);
    let second = service.wait_for_another(&first).await;
    service.ask_for_difference(&thread).await;

    service.signal("-STOP", &second);
    service.wait_for_another(&second).await;
    let journal = service.systemd.run(&["journalctl", "--quiet", "--no-pager"]);
    assert!(journal.out.contains("Watchdog timeout"), "{journal:?}");
    let log = service.drydock(&["logs", "-n", "1000"]);
    assert_eq!(log.code, Some(0), "{log:?}");
    assert_eq!(log.out.matches("listening on http://").count(), 3, "{log:?}");
    assert!(!log.out.contains(BOT_TOKEN), "{log:?}");

    let down = service.drydock(&["down", "--remove"]);
    assert_eq!(down.code, Some(0), "{down:?}");
    assert!(
        down.err.contains("Drydock is stopped. The data is kept"),
        "{down:?}"
    );
    assert_eq!(service.drydock(&["status"]).code, Some(3));
    let unit = service
        .systemd
        .run(&["systemctl", "show", "--property=LoadState", "--value", "drydock"]);
    assert_eq!(unit.out, "not-found\n");
    assert!(service.systemd.file("/var/lib/drydock/drydock.db").is_file());
    assert_eq!(
        [service.slack.problems(), service.model.problems()].concat(),
        [""; 0]
    );
}

/// A server that cannot start leaves no unit. STK-11
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_unit_of_a_running_systemd_that_does_not_start_is_removed_with_its_last_lines_shown() {
    let Some(service) = ServiceFixture::prepare().await else {
        return;
    };
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let listen = format!("server.listen={address}");
    let up = service.drydock(&["--set", &listen, "up"]);
    assert_eq!(up.code, Some(1), "{up:?}");
    for text in [
        &format!("cannot listen on {address}: "),
        "the service is stopped and disabled",
    ] {
        assert!(up.err.contains(text), "{text}: {up:?}");
    }
    assert!(
        !service
            .systemd
            .file("/etc/systemd/system/drydock.service")
            .exists()
    );
    assert_eq!(service.drydock(&["status"]).code, Some(3));
    drop(taken);
    let up = service.drydock(&["up"]);
    assert_eq!(up.code, Some(0), "{up:?}");
    assert_eq!(service.drydock(&["down"]).code, Some(0));
    // A stopped service keeps its file, and starts no more with the system.
    let enabled = service.systemd.run(&["systemctl", "is-enabled", "drydock"]);
    assert_eq!(enabled.out, "disabled\n");
}

/// The service of a user works without root, with the secrets of its own files. STK-4, STK-11, STK-12, STK-14, STK-15
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_unit_of_the_running_systemd_of_a_user_prepares_changes_and_is_started_again() {
    let Some(mut service) = ServiceFixture::prepare().await else {
        return;
    };
    service.log_in();
    let up = service.drydock(&["up"]);
    assert_eq!(up.code, Some(0), "{up:?}");
    for text in [
        "Installed /srv/home/.config/systemd/user/drydock.service.",
        "loginctl enable-linger",
    ] {
        assert!(up.err.contains(text), "{text}: {up:?}");
    }
    let first = service.wait_for_another("none").await;
    for (name, value) in [("Uid", "1000"), ("NoNewPrivs", "1"), ("Seccomp", "2")] {
        assert_eq!(service.kernel_fact(&first, name), value, "{name}");
    }
    let thread = service.ask_for_change().await;
    service.signal("-KILL", &first);
    service.wait_for_another(&first).await;
    service.ask_for_difference(&thread).await;
    let log = service.drydock(&["logs", "-n", "1000"]);
    assert_eq!(log.code, Some(0), "{log:?}");
    assert_eq!(log.out.matches("listening on http://").count(), 2, "{log:?}");
    let down = service.drydock(&["down", "--remove"]);
    assert_eq!(down.code, Some(0), "{down:?}");
    assert_eq!(service.drydock(&["status"]).code, Some(3));
    assert!(
        !service
            .systemd
            .file("/srv/home/.config/systemd/user/drydock.service")
            .exists()
    );
}
