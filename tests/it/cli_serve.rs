//! `drydock serve`: it starts, reports that, stops on request, and refuses a configuration that cannot work.

use crate::support::shell::{RunningProgram, Shell};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

pub(crate) const TOML: &str = "[server]\nlisten = \"127.0.0.1:0\"\n[data]\ndirectory = \"data\"\n";

pub(crate) fn shell(toml: &str) -> Shell {
    let shell = Shell::new().set("ANTHROPIC_API_KEY", "sk-ant-test-0123456789");
    shell.put("drydock.toml", toml);
    shell
}

/// Starts a server and waits for its address.
pub(crate) fn serve(shell: &Shell) -> (RunningProgram, String) {
    let mut running = shell.start(&["serve", "--config", "drydock.toml"]);
    let line = running.wait_for_stderr_line("listening on http://");
    let value: serde_json::Value = serde_json::from_str(&line).unwrap();
    (running, value["address"].as_str().unwrap().to_owned())
}

fn status(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nhost: drydock\r\nconnection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.lines().next().unwrap_or_default().to_owned()
}

#[test]
fn it_says_where_it_listens_becomes_ready_and_stops_on_sigterm() {
    let shell = shell(TOML);
    let (running, address) = serve(&shell);
    let deadline = Instant::now() + Duration::from_secs(30);
    while status(&address, "/readyz") != "HTTP/1.1 200 OK" {
        assert!(Instant::now() < deadline, "it does not become ready");
    }
    assert_eq!(status(&address, "/healthz"), "HTTP/1.1 200 OK");
    let reported = Instant::now();
    running.terminate();
    let ended = running.end();
    assert!(reported.elapsed() < Duration::from_secs(10));
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), ""), "{ended:?}");
    for line in ended.err.lines() {
        serde_json::from_str::<serde_json::Value>(line).unwrap();
    }
}

/// T96
#[test]
fn a_data_directory_that_others_can_read_is_refused_with_code_78() {
    use std::os::unix::fs::PermissionsExt;
    let shell = shell(TOML);
    let data = shell.work().join("data");
    std::fs::create_dir(&data).unwrap();
    let open_to = |mode| std::fs::set_permissions(&data, std::fs::Permissions::from_mode(mode)).unwrap();
    // The check applies to an empty directory, too. Otherwise the error would first appear at the second start, in
    // production.
    for (mode, advice) in [
        (0o755, "which is created for this user only"),
        (0o750, "set `data.group_access` to true"),
    ] {
        open_to(mode);
        for command in ["serve", "check"] {
            let ended = shell.run(&[command]);
            assert_eq!(ended.code, Some(78), "{ended:?}");
            let reported = format!("{}{}", ended.out, ended.err);
            assert!(
                reported.contains("run `chmod 700 data`") && reported.contains(advice),
                "{reported}"
            );
        }
    }
    // The shell owns the data directory, so it lives as long as the server.
    let shell = shell.set("DRYDOCK_DATA__GROUP_ACCESS", "true");
    let (running, _) = serve(&shell);
    running.terminate();
    let ended = running.end();
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

#[test]
fn ctrl_c_stops_it_as_well() {
    let shell = shell(TOML);
    let (running, _) = serve(&shell);
    running.interrupt();
    let ended = running.end();
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

#[test]
fn a_busy_port_is_reported_with_what_to_do() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let ended = shell(TOML).run(&["serve", "--set", &format!("server.listen={address}")]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let last = ended.err.lines().last().unwrap();
    assert!(
        last.starts_with(&format!("cannot listen on {address}: "))
            && last.ends_with("set `server.listen` to a free address"),
        "{last}"
    );
}

#[test]
fn a_second_process_on_the_same_data_is_refused_with_the_first_ones_id() {
    let shell = shell(TOML);
    let (first, _) = serve(&shell);
    let ended = shell.run(&["serve"]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let why = format!("is in use by process {}; stop that process", first.id());
    assert!(ended.err.contains(&why), "{ended:?}");
    first.terminate();
    assert_eq!(first.end().code, Some(0));
}

#[test]
fn what_a_killed_server_left_of_its_runs_goes_at_the_next_start() {
    let shell = shell(TOML);
    let left = "data/scratch/drydock-left/files/charts/web/Chart.yaml";
    let is_left = || shell.work().join(left).exists();
    let (first, _) = serve(&shell);
    // A command of a user who does not own the data leaves it unchanged.
    shell.put(left, "name: web\n");
    assert_eq!(shell.run(&["serve"]).code, Some(1));
    assert!(is_left());
    drop(first);
    let (second, _) = serve(&shell);
    assert!(!is_left());
    second.terminate();
    assert_eq!(second.end().code, Some(0));
}

#[test]
fn an_unusable_data_directory_exits_with_code_78() {
    let shell = shell(TOML);
    shell.put("file", "");
    for directory in ["/proc/drydock", "file", "file/below"] {
        let ended = shell.run(&["serve", "--set", &format!("data.directory={directory}")]);
        assert_eq!(ended.code, Some(78), "{ended:?}");
        let last = ended.err.lines().last().unwrap();
        assert!(
            last.contains(directory) && last.contains("`data.directory`"),
            "{last}"
        );
    }
}

/// T96, I12
#[test]
fn missing_and_placeholder_secrets_refuse_to_start_and_name_the_key() {
    let hook = "[hooks.ci]\nscheme = \"github\"\nsecret = { env = \"CI_SECRET\" }\n";
    for (value, why) in [
        (
            None,
            "hooks.ci.secret: the environment variable CI_SECRET is not set",
        ),
        (Some(""), "hooks.ci.secret: the secret is empty"),
        (Some("undefined"), "hooks.ci.secret: the secret is a placeholder"),
        (
            Some("changeme-changeme-1"),
            "hooks.ci.secret: the secret is a placeholder",
        ),
    ] {
        let mut shell = shell(&format!("{TOML}{hook}"));
        if let Some(value) = value {
            shell = shell.set("CI_SECRET", value);
        }
        let ended = shell.run(&["serve"]);
        assert_eq!(ended.code, Some(78), "{ended:?}");
        assert!(ended.err.contains(&format!("drydock.toml:7: {why}")), "{ended:?}");
        assert!(!shell.work().join("data").exists());
    }
}

#[test]
fn an_unknown_key_is_reported_with_its_line_and_the_nearest_key() {
    let ended = shell("[server]\nlisten = \"127.0.0.1:0\"\nlisen = 1\n").run(&["serve"]);
    assert_eq!(ended.code, Some(78));
    assert_eq!(
        ended.err,
        "drydock.toml:3: server.lisen: unknown key; did you mean server.listen?\n"
    );
    let ended = shell(TOML).set("DRYDOCK_SERVER__LISTN", "x").run(&["serve"]);
    assert_eq!(
        (ended.code, ended.err.as_str()),
        (
            Some(78),
            "DRYDOCK_SERVER__LISTN: unknown key; did you mean DRYDOCK_SERVER__LISTEN?\n"
        )
    );
    let ended = shell(TOML).run(&["serve", "--config", "none.toml"]);
    assert_eq!(ended.code, Some(78));
    assert!(
        ended
            .err
            .contains("none.toml: cannot read the configuration file"),
        "{ended:?}"
    );
}

/// Checks that the server waits for an endless request, but not after a second signal.
#[test]
fn a_second_signal_ends_it_at_once() {
    let toml = format!(
        r#"{TOML}
[repositories.infra]
path = "."
[channels.bot]
kind = "telegram"
bot_token = {{ env = "TEST_BOT_TOKEN" }}
mode = "polling"
api_base_url = "http://127.0.0.1:9"
repository = "infra"
[hooks.ci]
scheme = "generic"
secret = {{ env = "TEST_HOOK_SECRET" }}
repository = "infra"
prompt = "ci.md"
fields = {{ tag = "/tag" }}
post_to = {{ channel = "bot", chat = "1" }}
"#
    );
    let shell = shell(&toml)
        .set("TEST_BOT_TOKEN", "7700000001:AAF0fKqL2mNpR5sTuVwXyZ12345678abcde")
        .set("TEST_HOOK_SECRET", "0a1b2c3d4e5f60718293a4b5c6d7e8f9");
    crate::support::shell::commit(&shell.work(), &[("ci.md", "Bump.\n")]);
    let (mut running, address) = serve(&shell);
    let mut stream = TcpStream::connect(&address).unwrap();
    let head = "POST /in/ci HTTP/1.1\r\nhost: drydock\r\nexpect: 100-continue\r\ncontent-length: 100\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    // The server requests the body, so the request is in progress.
    let mut asked = [0; 12];
    stream.read_exact(&mut asked).unwrap();
    assert_eq!(&asked, b"HTTP/1.1 100");
    running.terminate();
    running.wait_for_stderr_line("stopping; a second signal ends at once");
    let reported = Instant::now();
    running.terminate();
    let ended = running.end();
    assert!(
        reported.elapsed() < Duration::from_secs(5),
        "{:?}",
        reported.elapsed()
    );
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.err.ends_with("stopped at once\n"), "{ended:?}");
}
