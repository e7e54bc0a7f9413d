//! `drydock up`, `down`, `status` and `logs`, with the supervisor in the background, and the messages to a service manager.

use crate::cli_serve::{TOML, serve, shell};
use crate::support::shell::{BOUND, BlockingModel, ProgramOutput, Shell, commit};
use drydock::simulation::emulator::model::{ModelRequest, says};
use drydock::state::store::directory_owner;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::Value;
use std::os::unix::net::UnixDatagram;
use std::time::Instant;

/// A schedule that does not fire during a test, and what it needs.
const SCHEDULE: &str = r#"
[repositories.infra]
path = "."
[channels.phone]
kind = "telegram"
mode = "polling"
repository = "infra"
bot_token = { env = "TEST_BOT_TOKEN" }
api_base_url = "http://127.0.0.1:9"
[schedules.yearly]
when = "0 3 1 1 *"
zone = "UTC"
words = "Look for outdated images."
repository = "infra"
post_to = { channel = "phone", chat = "1" }
"#;

const UP: [&str; 3] = ["up", "--manager", "none"];

/// A home in which a service may run. It is stopped when a test ends.
struct ServiceHome(Shell);

impl Drop for ServiceHome {
    fn drop(&mut self) {
        let ended = self.0.run(&["down"]);
        if !std::thread::panicking() {
            assert_eq!(ended.code, Some(0), "{ended:?}");
        }
    }
}

impl ServiceHome {
    fn run(&self, arguments: &[&str]) -> ProgramOutput {
        self.0.run(arguments)
    }

    /// Starts the service, and returns the process ids of its supervisor and its server.
    fn up(&self) -> (Pid, Pid) {
        let ended = self.run(&UP);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        assert!(
            ended.err.contains("Drydock runs on http://127.0.0.1:"),
            "{ended:?}"
        );
        self.processes()
    }

    fn processes(&self) -> (Pid, Pid) {
        let status = self.run(&["status", "--json"]).json();
        (
            pid(&status["service"]["supervisor"]),
            pid(&status["server"]["process"]),
        )
    }

    /// Waits until another server than `before` runs, and returns its process id.
    fn wait_for_another(&self, before: Pid) -> Pid {
        let deadline = Instant::now() + BOUND;
        loop {
            let status = self.run(&["status", "--json"]).json();
            if status["running"] == true && pid(&status["server"]["process"]) != before {
                return pid(&status["server"]["process"]);
            }
            assert!(Instant::now() < deadline, "no other server runs: {status}");
        }
    }
}

fn pid(value: &Value) -> Pid {
    let raw = value.as_i64().unwrap_or_else(|| panic!("a process id: {value}"));
    Pid::from_raw(i32::try_from(raw).unwrap()).unwrap()
}

fn kill(process: Pid) {
    kill_process(process, Signal::KILL).unwrap();
}

/// STK-4, STK-11, STK-12, STK-14, STK-15
#[test]
fn a_service_in_the_background_is_shown_and_comes_back_until_it_is_stopped() {
    let service = ServiceHome(shell(TOML));
    let (_, first) = service.up();
    let again = service.run(&UP);
    assert_eq!(again.code, Some(0), "{again:?}");
    let already = format!(
        "Drydock runs already (process {}) and is ready.",
        first.as_raw_nonzero()
    );
    assert!(again.err.contains(&already), "{again:?}");
    let shown = service.run(&["status"]);
    assert_eq!(shown.code, Some(0), "{shown:?}");
    let file = service.0.work().canonicalize().unwrap().join("drydock.toml");
    for line in [
        "state         ready\n",
        &format!("process       {}, version ", first.as_raw_nonzero()),
        &format!("configuration {}\n", file.display()),
        "queue         0 turns run, 0 messages wait, 0 operations to send\n",
        "runs          0 run, 0 wait for a person, 0 are queued\n",
        ", 0 restarts\n",
    ] {
        assert!(shown.out.contains(line), "{line}: {shown:?}");
    }
    let mut following = service.0.start(&["logs", "-f", "-n", "100"]);
    kill(first);
    following.wait_for_stdout_line("the server ended with signal 9; it is started again in 250 ms");
    let second = service.wait_for_another(first);
    following.wait_for_stdout_line("listening on http://");
    let status = service.run(&["status", "--json"]).json();
    assert_eq!(
        (&status["service"]["restarts"], &status["ready"]),
        (&1.into(), &true.into())
    );
    let runs = serde_json::json!({ "queued": 0, "running": 0, "waiting_for_person": 0 });
    assert_eq!(status["server"]["runs"], runs);
    let log = service.run(&["logs", "-n", "3", "--json"]);
    assert_eq!((log.code, log.out.lines().count()), (Some(0), 3), "{log:?}");
    for line in log.out.lines() {
        assert!(
            serde_json::from_str::<Value>(line).unwrap()["message"].is_string(),
            "{line}"
        );
    }
    let down = service.run(&["down"]);
    assert_eq!(down.code, Some(0), "{down:?}");
    assert!(
        down.err.contains("Drydock is stopped. The data is kept"),
        "{down:?}"
    );
    assert!(test_kill_process(second).is_err());
    let shown = service.run(&["status", "--json"]);
    assert_eq!((shown.code, &shown.json()["running"]), (Some(3), &false.into()));
    assert!(shown.err.contains("; start it: drydock up"), "{shown:?}");
    assert!(service.0.work().join("data/drydock.db").is_file());
}

/// STK-11, STK-14: a server reads its configuration at its start only.
#[test]
fn a_change_of_the_configuration_after_the_start_is_named_until_a_restart_uses_it() {
    let service = ServiceHome(shell(TOML));
    service.up();
    let notice =
        "Its configuration was changed after its start: `drydock down` and `drydock up` use the change.";
    let line = ", changed after the start: a restart uses the change\n";
    let changed = || {
        let (up, shown) = (service.run(&UP), service.run(&["status"]));
        assert_eq!((up.code, shown.code), (Some(0), Some(0)), "{up:?} {shown:?}");
        let json = service.run(&["status", "--json"]).json();
        [
            up.err.contains(notice),
            shown.out.contains(line),
            json["configuration_changed"] == true,
        ]
    };
    assert_eq!(changed(), [false; 3]);
    service
        .0
        .put("drydock.toml", &format!("{TOML}[limits]\nsteps_max = 7\n"));
    assert_eq!(changed(), [true; 3]);
    assert_eq!(service.run(&["down"]).code, Some(0));
    service.up();
    assert_eq!(changed(), [false; 3]);
}

/// STK-11, STK-12: the server ends with its supervisor, so the data directory never has two servers.
#[test]
fn a_killed_supervisor_takes_its_server_along_and_up_starts_both_again() {
    let service = ServiceHome(shell(TOML));
    let (supervisor, first) = service.up();
    kill(supervisor);
    let (next, second) = service.up();
    assert!(next != supervisor && second != first);
    let data = service.0.work().join("data");
    let owner = || directory_owner(&data).unwrap();
    assert_eq!(owner(), u32::try_from(second.as_raw_nonzero().get()).ok());
    kill(next);
    let down = service.run(&["down"]);
    assert_eq!(down.code, Some(0), "{down:?}");
    assert_eq!(owner(), None);
}

/// STK-11
#[test]
fn a_service_that_cannot_start_is_reported_with_its_log_and_leaves_nothing_running() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let service = ServiceHome(shell(TOML));
    let listen = format!("server.listen={address}");
    let ended = service.run(&[&UP[..], &["--set", &listen]].concat());
    assert_eq!(ended.code, Some(1), "{ended:?}");
    for text in [
        "the server did not start (exit code 1), and nothing runs now",
        &format!("cannot listen on {address}: "),
    ] {
        assert!(ended.err.contains(text), "{text}: {ended:?}");
    }
    assert_eq!(service.run(&["status"]).code, Some(3));
    // A wrong configuration starts nothing.
    let ended = service.run(&[&UP[..], &["--set", "server.listen=nowhere"]].concat());
    assert_eq!(ended.code, Some(78), "{ended:?}");
}

/// STK-11, STK-13
#[test]
fn up_writes_the_first_configuration_from_its_options_and_starts_it() {
    let model = BlockingModel::start(|_: &ModelRequest| says("ok"));
    let shell = Shell::new()
        .set("ANTHROPIC_API_KEY", "sk-ant-test-0123456789")
        .set("DRYDOCK_PROVIDERS__ANTHROPIC__BASE_URL", &model.url())
        .set("DRYDOCK_SERVER__LISTEN", "127.0.0.1:0");
    commit(&shell.work(), &[("main.jsonnet", "{}\n")]);
    let service = ServiceHome(shell);
    let ended = service.run(&UP);
    assert_eq!(ended.code, Some(2), "{ended:?}");
    for text in [
        "There is no configuration in drydock.toml yet.",
        "--non-interactive --yes",
    ] {
        assert!(ended.err.contains(text), "{text}: {ended:?}");
    }
    let options = [
        "--non-interactive",
        "--yes",
        "--repository",
        ".",
        "--chat",
        "none",
    ];
    let ended = service.run(&[&UP[..], &options].concat());
    assert_eq!(ended.code, Some(0), "{ended:?}");
    for text in [
        "Wrote drydock.toml.",
        "Start it: drydock up --config drydock.toml, or drydock serve",
    ] {
        assert!(ended.err.contains(text), "{text}: {ended:?}");
    }
    assert!(
        ended.err.contains("Drydock runs on http://127.0.0.1:"),
        "{ended:?}"
    );
    // The options of a first configuration are not for a later one.
    let ended = service.run(&[&UP[..], &options].concat());
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(
        ended.err.contains("there is a configuration already"),
        "{ended:?}"
    );
}

/// STK-4, STK-14: a server that was started by hand has a state as well, and `down` leaves it alone.
#[test]
fn the_service_manager_is_told_that_the_server_is_ready_answers_and_stops() {
    let shell = shell(TOML);
    let path = shell.home().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(BOUND)).unwrap();
    let told = || {
        let mut message = [0; 512];
        let length = socket.recv(&mut message).unwrap();
        String::from_utf8(message[..length].to_vec()).unwrap()
    };
    let shell = shell
        .set("NOTIFY_SOCKET", path.to_str().unwrap())
        .set("WATCHDOG_USEC", "4000000");
    let (running, _) = serve(&shell);
    assert_eq!(told(), "READY=1\nSTATUS=ready");
    assert_eq!(told(), "WATCHDOG=1\nSTATUS=ready");
    let status = shell.run(&["status", "--json"]).json();
    assert_eq!(status["service"]["kind"], "by_hand");
    assert_eq!(status["server"]["process"], running.id());
    let down = shell.run(&["down"]);
    assert_eq!(down.code, Some(1), "{down:?}");
    assert!(down.err.contains("was not started with `drydock up`"), "{down:?}");
    let up = shell.run(&UP);
    assert_eq!(up.code, Some(0), "{up:?}");
    assert!(
        up.err.contains("Drydock runs already") && up.err.contains("started with `drydock serve`"),
        "{up:?}"
    );
    let log = shell.run(&["logs"]);
    assert_eq!(log.code, Some(1), "{log:?}");
    assert!(
        log.err.contains("prints its log to its own standard error"),
        "{log:?}"
    );
    running.terminate();
    let stopping = (0..100)
        .map(|_| told())
        .find(|message| !message.starts_with("WATCHDOG=1"));
    assert_eq!(stopping.as_deref(), Some("STOPPING=1\nSTATUS=stopping"));
    assert_eq!(running.end().code, Some(0));
}

/// STK-14
#[test]
fn the_status_names_channels_schedules_problems_and_what_the_server_waits_for() {
    let shell = shell(&format!("{TOML}{SCHEDULE}"))
        .set("TEST_BOT_TOKEN", "7700000001:AAF0fKqL2mNpR5sTuVwXyZ12345678abcde");
    commit(&shell.work(), &[("main.jsonnet", "{}\n")]);
    let (_running, _) = serve(&shell);
    let deadline = Instant::now() + BOUND;
    // The connection fails soon after the start.
    let shown = loop {
        let shown = shell.run(&["status"]);
        assert_eq!(shown.code, Some(0), "{shown:?}");
        if shown.out.contains("\nyearly ") && shown.out.contains(" WARN ") {
            break shown.out;
        }
        assert!(Instant::now() < deadline, "{shown:?}");
    };
    for text in [
        "state         not ready\n",
        "waits for     connecting channel phone\n",
        "CHANNEL  STATE",
        "\nphone    not connected",
        "SCHEDULE  OWNER",
        "-01-01T03:00:00Z\n",
        "Last warnings and errors:\n",
    ] {
        assert!(shown.contains(text), "{text}: {shown}");
    }
}

/// STK-14: the error of a data directory names it.
#[test]
fn a_data_directory_that_cannot_be_opened_is_named() {
    let shell = shell(TOML);
    std::os::unix::fs::symlink("data", shell.work().join("data")).unwrap();
    for arguments in [&["down"][..], &["logs"], &["runs", "list"], &["token", "list"]] {
        let ended = shell.run(arguments);
        assert_eq!(ended.code, Some(1), "{arguments:?}: {ended:?}");
        assert!(
            ended.err.contains("data: Too many levels"),
            "{arguments:?}: {ended:?}"
        );
    }
}

/// STK-11: a server that waits needs no `up` to go on.
#[test]
fn up_names_what_the_server_waits_for_and_leaves_it_running_if_it_is_stopped() {
    let shell = shell(&format!("{TOML}{SCHEDULE}"))
        .set("TEST_BOT_TOKEN", "7700000001:AAF0fKqL2mNpR5sTuVwXyZ12345678abcde");
    commit(&shell.work(), &[("main.jsonnet", "{}\n")]);
    let service = ServiceHome(shell);
    let mut up = service.0.start(&UP);
    up.wait_for_stderr_line("Drydock runs, and waits: connecting channel phone");
    up.interrupt();
    drop(up.end());
    let shown = service.run(&["status"]);
    assert_eq!(shown.code, Some(0), "{shown:?}");
}
