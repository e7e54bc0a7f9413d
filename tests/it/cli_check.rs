//! `drydock check`: its findings, as a table and as JSON.

use crate::cli_serve::serve;
use crate::support::shell::{BOUND, Shell, commit};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Instant;

/// Returns a shell with a repository beside its work tree, and a valid configuration.
pub(crate) fn shell(hook_prompt: &str, branch: &str) -> Shell {
    let shell = Shell::new()
        .set("TEST_HOOK_SECRET", "0a1b2c3d4e5f60718293a4b5c6d7e8f9")
        .set("TEST_BOT_TOKEN", "7700000001:AAF0fKqL2mNpR5sTuVwXyZ12345678abcde")
        .set("ANTHROPIC_API_KEY", "sk-ant-test-0123456789");
    let infra = shell.home().join("infra");
    std::fs::create_dir(&infra).unwrap();
    commit(
        &infra,
        &[
            ("prompts/release.md", "Bump the image.\n"),
            ("prompts/empty.md", "\n"),
        ],
    );
    let toml = format!(
        r#"
[data]
directory = "{data}"

[repositories.infra]
path = "{infra}"
branch = "{branch}"

[repositories.remote]
url = "https://git.example.com/acme/remote.git"

[channels.bot]
kind = "telegram"
bot_token = {{ env = "TEST_BOT_TOKEN" }}
mode = "polling"
repository = "infra"

[hooks.release]
scheme = "github"
secret = {{ env = "TEST_HOOK_SECRET" }}
events = ["release.published"]
sources = ["acme/web"]
repository = "infra"
prompt = "{hook_prompt}"
fields = {{ version = "/release/tag_name" }}
post_to = {{ channel = "bot", chat = "1" }}
grants = {{ role = "editor", environments = ["dev"] }}
"#,
        data = shell.home().join("data").display(),
        infra = infra.display(),
    );
    shell.put("drydock.toml", &toml);
    shell
}

#[test]
fn a_good_configuration_is_reported_check_by_check_and_nothing_is_written() {
    let shell = shell("prompts/release.md", "main");
    let ended = shell.run(&["check"]);
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
    let first = ended.out.lines().next().unwrap();
    assert_eq!(
        first.split_whitespace().collect::<Vec<_>>(),
        ["CHECK", "RESULT", "DETAIL"]
    );
    for shown in [
        "`main` is at ",
        "remote; not contacted",
        "`prompts/release.md` is on the branch, 16 bytes",
        "death with its parent, resource limits, Landlock, seccomp, no_new_privs",
    ] {
        assert!(ended.out.contains(shown), "{}", ended.out);
    }
    assert!(!shell.home().join("data").exists());

    let value = shell.run(&["check", "--json"]).json();
    assert_eq!(value["ok"], true);
    let findings = value["findings"].as_array().unwrap();
    let what: Vec<&str> = findings
        .iter()
        .map(|finding| finding["what"].as_str().unwrap())
        .collect();
    assert_eq!(
        what,
        [
            "data directory",
            "repository infra",
            "repository remote",
            "hook release",
            "tools",
            "sandbox"
        ]
    );
}

#[test]
fn what_is_wrong_is_a_finding_with_code_78() {
    for (prompt, branch, what, detail) in [
        (
            "prompts/none.md",
            "main",
            "hook release",
            "`prompts/none.md` is not on the branch; commit it, or change `prompt`",
        ),
        (
            "prompts/empty.md",
            "main",
            "hook release",
            "`prompts/empty.md` is empty",
        ),
    ] {
        let shell = shell(prompt, branch);
        let ended = shell.run(&["check", "--json"]);
        assert_eq!(ended.code, Some(78), "{ended:?}");
        assert_eq!(ended.err, "1 check failed\n");
        let value = ended.json();
        let bad: Vec<_> = value["findings"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|finding| finding["ok"] == false)
            .collect();
        assert_eq!(bad, [&json!({ "what": what, "ok": false, "detail": detail })]);
    }
    let ended = shell("prompts/release.md", "missing").run(&["check"]);
    assert_eq!(ended.code, Some(78));
    assert!(ended.out.contains("has no branch `missing`"), "{}", ended.out);

    let other = shell("prompts/release.md", "main");
    std::fs::remove_dir_all(other.home().join("infra/.git")).unwrap();
    let ended = other.run(&["check"]);
    assert_eq!(ended.code, Some(78));
    assert!(ended.out.contains("is not a git repository"), "{}", ended.out);
}

/// Checks that `check` finds what ends the start of the server, with the exit code of a wrong configuration.
#[test]
fn a_model_without_room_for_the_tools_is_refused_by_check_and_serve() {
    let shell = shell("prompts/release.md", "main");
    for command in ["check", "serve"] {
        let ended = shell.run(&[
            command,
            "--set",
            "models.anthropic/claude-haiku-4-5.context_tokens=1000",
            "--set",
            "model.fallbacks=[\"anthropic/claude-haiku-4-5\"]",
        ]);
        assert_eq!(ended.code, Some(78), "{ended:?}");
        let reported = format!("{}{}", ended.out, ended.err);
        assert!(
            reported.contains("the context window of `anthropic/claude-haiku-4-5` has 1000"),
            "{reported}"
        );
    }
}

#[test]
fn an_external_program_that_does_not_run_is_named_with_its_key() {
    let shell = shell("prompts/release.md", "main");
    for program in ["helm", "kustomize"] {
        let setting = format!("{program}.program=/nope/{program}");
        let ended = shell.run(&["check", "--set", &setting, "--json"]);
        assert_eq!(ended.code, Some(78), "{ended:?}");
        let value = ended.json();
        let finding = value["findings"].as_array().unwrap().last().unwrap();
        assert_eq!(
            (&finding["what"], &finding["ok"]),
            (&json!(program), &json!(false))
        );
        let detail = finding["detail"].as_str().unwrap();
        let named = format!("`{program}.program`, which is `/nope/{program}`: ");
        assert!(detail.starts_with(&named), "{detail}");
        assert!(detail.contains("No such file"), "{detail}");
    }
}

#[test]
fn a_variable_of_another_program_is_ignored_and_a_misspelt_key_is_not() {
    let neighbours = shell("prompts/release.md", "main")
        .set("DRYDOCK_BENCH_JSON", "1")
        .set("DRYDOCK_SERVICE_HOST", "10.0.0.1");
    let ended = neighbours.run(&["check"]);
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
    let ended = neighbours
        .set("DRYDOCK_SRVER_LISTEN", "127.0.0.1:1")
        .run(&["check"]);
    let reported = "DRYDOCK_SRVER_LISTEN: no key has this variable, so it is ignored; did you mean DRYDOCK_SERVER__LISTEN?\n";
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), reported), "{ended:?}");
    let ended = shell("prompts/release.md", "main")
        .set("DRYDOCK_SERVER_LISTEN", "127.0.0.1:1")
        .run(&["check"]);
    assert_eq!(ended.code, Some(78), "{ended:?}");
    let reported = "DRYDOCK_SERVER_LISTEN: unknown key; did you mean DRYDOCK_SERVER__LISTEN?";
    assert!(ended.err.contains(reported), "{ended:?}");
}

/// T12
#[test]
fn a_signing_secret_not_in_the_form_of_slack_is_pointed_out() {
    let slack = "[channels.team]\nkind = \"slack\"\nbot_token = { env = \"TEAM_TOKEN\" }\nsigning_secret = { env = \"TEAM_SIGNING\" }\n";
    for (secret, is_pointed_at) in [
        ("8f742231b10e8888abcd99", true),
        ("8f742231b10e8888abcd99fedcba85a5", false),
    ] {
        let shell = shell("prompts/release.md", "main")
            .set("TEAM_TOKEN", "xoxb-17653672481-19874698323")
            .set("TEAM_SIGNING", secret);
        let good = std::fs::read_to_string(shell.work().join("drydock.toml")).unwrap();
        shell.put("drydock.toml", &format!("{good}{slack}"));
        let ended = shell.run(&["check"]);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let hint = "`channels.team.signing_secret` does not look like one of Slack's";
        assert_eq!(ended.out.contains(hint), is_pointed_at, "{ended:?}");
        assert!(!ended.out.contains(secret), "{ended:?}");
    }
}

/// T22
#[test]
fn check_names_every_previous_secret_that_is_still_accepted() {
    let shell = shell("prompts/release.md", "main")
        .set("TEAM_TOKEN", "xoxb-17653672481-19874698323")
        .set("TEAM_SIGNING", "8f742231b10e8888abcd99fedcba85a5")
        .set("TEAM_PREVIOUS_SIGNING", "9a742231b10e8888abcd99fedcba85a5");
    let slack = "[channels.team]\nkind = \"slack\"\nbot_token = { env = \"TEAM_TOKEN\" }\nsigning_secret = { env = \"TEAM_SIGNING\" }\n";
    let good = shell.get("drydock.toml");
    for (more, is_named) in [
        ("", false),
        (
            "previous_signing_secret = { env = \"TEAM_PREVIOUS_SIGNING\" }\n",
            true,
        ),
    ] {
        shell.put("drydock.toml", &format!("{good}{slack}{more}"));
        let ended = shell.run(&["check"]);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let hint = "`channels.team.previous_signing_secret` is accepted too; without the key, the next start refuses it";
        assert_eq!(ended.out.contains(hint), is_named, "{ended:?}");
        assert!(!ended.out.contains("9a742231b10e"), "{ended:?}");
    }
}

/// Returns the answer of a server to a request without a body, or with an empty object.
pub(crate) fn answered(address: &str, request: &str, headers: &[(&str, &str)]) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let headers: String = headers
        .iter()
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .collect();
    write!(
        stream,
        "{request} HTTP/1.1\r\nhost: drydock\r\nconnection: close\r\ncontent-length: 2\r\n\
         content-type: application/json\r\n{headers}\r\n{{}}"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// T12: Slack, Telegram and a code host each sign with another secret than the configured one.
#[test]
fn a_secret_mismatch_with_the_sender_shows_in_every_operator_view() {
    let slack_signing = "8f742231b10e8888abcd99fedcba85a5";
    let shell = shell("prompts/release.md", "main")
        .set("TEAM_TOKEN", "xoxb-17653672481-19874698323")
        .set("TEAM_SIGNING", slack_signing)
        .set("BOT_SECRET", "dR4kP9wQ2xL7-hJ5tN8");
    let nowhere = "http://127.0.0.1:9";
    let good = shell.get("drydock.toml").replace(
        "mode = \"polling\"",
        &format!(
            "mode = \"webhook\"\nsecret_token = {{ env = \"BOT_SECRET\" }}\napi_base_url = \"{nowhere}\""
        ),
    );
    let more = format!(
        "[server]\nlisten = \"127.0.0.1:0\"\npublic_url = \"https://drydock.example.com\"\n\
         [channels.team]\nkind = \"slack\"\nbot_token = {{ env = \"TEAM_TOKEN\" }}\n\
         signing_secret = {{ env = \"TEAM_SIGNING\" }}\napi_base_url = \"{nowhere}/api\"\n"
    );
    let good = good.replace(
        "[repositories.remote]\nurl = \"https://git.example.com/acme/remote.git\"\n",
        "",
    );
    shell.put("drydock.toml", &format!("{good}{more}"));
    let quiet = shell.run(&["check"]);
    assert!(
        quiet.code == Some(0) && !quiet.out.contains("refused"),
        "{quiet:?}"
    );
    let (mut running, address) = serve(&shell);
    let now = jiff::Timestamp::now().as_second().to_string();
    let (slack, github) = (
        "v0=".to_owned() + &"0".repeat(64),
        "sha256=".to_owned() + &"0".repeat(64),
    );
    let senders = [
        (
            "bot",
            "channels.bot.secret_token",
            vec![("x-telegram-bot-api-secret-token", "another")],
        ),
        (
            "release",
            "hooks.release.secret",
            vec![
                ("x-hub-signature-256", github.as_str()),
                ("x-github-event", "release"),
                ("x-github-delivery", "1"),
            ],
        ),
        (
            "team",
            "channels.team.signing_secret",
            vec![
                ("x-slack-request-timestamp", now.as_str()),
                ("x-slack-signature", slack.as_str()),
            ],
        ),
    ];
    for (name, secret, headers) in &senders {
        for _ in 0..3 {
            let answer = answered(&address, &format!("POST /in/{name}"), headers);
            assert!(answer.starts_with("HTTP/1.1 401 "), "{answer}");
        }
        running.wait_for_stderr_line(&format!("check that `{secret}` is the secret of its sender"));
    }
    let ready = answered(&address, "GET /readyz", &[]);
    let listed = || -> Vec<Value> {
        let list = shell.run(&["audit", "list", "--kind", "ingress.rejected", "--json"]);
        list.json()["lines"].as_array().unwrap().clone()
    };
    let started = Instant::now();
    while listed().len() < 9 {
        assert!(started.elapsed() < BOUND, "{:?}", listed());
    }
    let beside = shell.run(&["check"]);
    running.terminate();
    let ended = running.end();
    let after = shell.run(&["check"]);
    for (name, secret, _) in &senders {
        let asks = format!("check that `{secret}` is the secret of its sender");
        assert!(
            ready.contains(&format!("secret of {name}: every request")) && ready.contains(&asks),
            "{ready}"
        );
        assert_eq!(listed_of(&listed(), name), 3, "{name}");
        // The log has one line per minute at most, and the three requests fall within two minutes.
        let logged = format!("requests to /in/{name} were refused");
        let logged = ended.err.lines().filter(|line| line.contains(&logged));
        assert!((1..=2).contains(&logged.count()), "{}", ended.err);
        for check in [&beside, &after] {
            assert_eq!(check.code, Some(0), "{check:?}");
            let line = check
                .out
                .lines()
                .find(|line| line.starts_with(&format!("secret of {name} ")));
            assert!(line.is_some_and(|line| line.contains(&asks)), "{}", check.out);
        }
    }
    for reported in [&ready, &ended.err, &beside.out, &after.out] {
        assert!(
            !reported.contains(slack_signing) && !reported.contains("dR4kP9wQ2xL7-hJ5tN8"),
            "{reported}"
        );
    }
}

/// Returns the number of audit lines with a name.
fn listed_of(lines: &[Value], name: &str) -> usize {
    lines.iter().filter(|line| line["data"]["name"] == name).count()
}

/// CI-23
#[test]
fn an_event_that_github_never_sends_is_refused_with_the_one_that_was_meant() {
    let shell = shell("prompts/release.md", "main");
    let good = std::fs::read_to_string(shell.work().join("drydock.toml")).unwrap();
    for (entry, why) in [
        (
            "release.publish",
            "entry 1 is not an action of `release`; did you mean release.published?",
        ),
        (
            "relase",
            "entry 1 is not an event of GitHub; did you mean release?",
        ),
    ] {
        shell.put("drydock.toml", &good.replace("release.published", entry));
        let ended = shell.run(&["check"]);
        assert_eq!(ended.code, Some(78), "{ended:?}");
        assert!(
            ended.err.contains(&format!("hooks.release.events: {why}")),
            "{ended:?}"
        );
    }
}

#[test]
fn a_wrong_configuration_is_reported_as_json_too() {
    let shell = Shell::new();
    shell.put("drydock.toml", "[server]\nlisten = 1\n");
    let ended = shell.run(&["check", "--json"]);
    assert_eq!(ended.code, Some(78), "{ended:?}");
    let reported: serde_json::Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!(reported["ok"], json!(false));
    let first = &reported["findings"][0];
    assert_eq!(
        (&first["what"], &first["ok"]),
        (&json!("configuration"), &json!(false))
    );
    let detail = first["detail"].as_str().unwrap();
    assert!(detail.starts_with("drydock.toml:2: server.listen: "), "{detail}");
    // A missing file has no lines.
    let ended = shell.run(&["check", "--config", "nowhere.toml"]);
    let why = "nowhere.toml: cannot read the configuration file: No such file or directory";
    assert!(ended.code == Some(78) && ended.err.contains(why), "{ended:?}");
}
