//! `login` in a chat, and `drydock login` and `drydock logout` on a person's machine.

use crate::support::app::{TestApp, visible_text};
use crate::support::machine::{Machine, PUBLIC, PUBLIC_URL, code_in, login_code};
use crate::support::shell::{ProgramOutput, Shell};
use crate::support::world::{advance, world};
use drydock::simulation::emulator::model::says;
use serde_json::json;
use std::os::unix::fs::PermissionsExt;

const ALICE: &str = "U0ALICE";
const BOB: &str = "U0BOB";
const ANNA: i64 = 4_201;

/// The words about a code that is not valid, whatever the reason.
const INVALID: &str = "the code is not valid: it works once, within 10 minutes";

/// A machine without a checkout.
struct PlainMachine(Shell);

impl PlainMachine {
    fn new() -> Self {
        Self(Shell::new())
    }

    fn run(&self, arguments: &[&str]) -> ProgramOutput {
        tokio::task::block_in_place(|| self.0.run(arguments))
    }

    fn stored(&self) -> serde_json::Value {
        let file = self.0.home().join(".config/drydock/logins.json");
        serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap()
    }
}

async fn app() -> TestApp {
    let app = TestApp::with_settings(|_: &_| says("Hello."), &[PUBLIC_URL]).await;
    app.admit_slack_editor(ALICE).await;
    app
}

async fn api(app: &TestApp, path: &str, token: &str) -> (u16, String) {
    let bearer = format!("Bearer {token}");
    app.post(path, &[("authorization", &bearer)], b"").await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_code_is_shown_to_its_person_alone_and_logs_one_machine_in() {
    let app = app().await;
    app.admit_slack_editor(BOB).await;
    // In a thread that everybody reads, by a word, and by a slash command.
    let said = app.say(ALICE, "hello").await;
    app.wait_for_result(&said.ts, 1).await;
    app.say_in(ALICE, &said.ts, "!login").await;
    let first = code_in(&app.wait_for_ephemeral(ALICE, 0).await);
    let code = login_code(&app, ALICE).await;
    assert_ne!(first, code);
    app.wait_until_idle().await;
    let shown = app.demo.slack.with_state(|state| {
        let messages = state.messages.iter().map(visible_text);
        messages.collect::<Vec<_>>().join("\n")
    });
    assert!(!shown.contains("drydock login"), "{shown}");
    assert_eq!(app.ephemeral_messages(BOB), [""; 0]);

    let machine = PlainMachine::new();
    let url = app.demo.url();
    // However the person types it.
    let typed = code.to_lowercase().replace('-', "");
    let ended = machine.run(&["login", &url, &typed]);
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
    let until = "2027-02-19";
    assert_eq!(
        ended.out,
        format!("Logged in to {url} as {ALICE}, until {until}.\n")
    );
    let file = machine.0.home().join(".config/drydock/logins.json");
    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&file), mode(file.parent().unwrap())), (0o600, 0o700));
    let stored = machine.stored();
    let token = stored["servers"][&url]["token"].as_str().unwrap().to_owned();
    assert_eq!(token.len(), 43, "256 bits");
    assert_eq!(stored["servers"][&url]["name"], ALICE);

    let audit = app.audit_lines_with("login.");
    let kinds: Vec<&str> = audit
        .iter()
        .map(|line| {
            line.split("\"event\":\"")
                .nth(1)
                .unwrap()
                .split('"')
                .next()
                .unwrap()
        })
        .collect();
    assert_eq!(kinds, ["login.asked", "login.asked", "login.begun"]);
    for secret in [&token, &code, &first] {
        assert!(app.audit_lines_with(secret).is_empty());
    }
    assert!(app.data_files_with(&token).is_empty());
    assert_eq!(app.count("SELECT count(*) FROM login"), 1);
    // The outbox of the answers does not keep it.
    assert_eq!(
        app.count("SELECT count(*) FROM outbox WHERE op LIKE '%/login-code'"),
        2
    );
    for secret in [&code, &first] {
        let with = format!("SELECT count(*) FROM outbox WHERE body LIKE '%{secret}%'");
        assert_eq!(app.count(&with), 0);
    }
    let again = machine.run(&["login", &url, &code]);
    assert_eq!(again.code, Some(1));
    assert!(again.err.contains(INVALID), "{again:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_code_is_never_posted_to_a_group_or_a_channel() {
    let app = app().await;
    app.admit_telegram_editor(ANNA).await;
    let group = -100_777;
    app.demo.telegram.add_group(group, &[]);
    app.demo.telegram.say(ANNA, group, "/login@drydock_bot").await;
    let pointer = "The answer is in our private chat.";
    app.wait_for_telegram_message(group, pointer).await;
    let answer = app.wait_for_telegram_message(ANNA, "drydock login").await;
    code_in(&answer.text);
    let public = app.demo.telegram.messages(group);
    assert!(public.iter().all(|posted| !posted.text.contains(PUBLIC)));
    // In a private chat, it is an ordinary answer.
    let answer = app.run_telegram_command(ANNA, "login").await;
    code_in(&answer);
    app.demo.slack.dm(ALICE, "login").await.unwrap();
    let direct = format!("D{ALICE}");
    code_in(&visible_text(
        &app.wait_for_slack_message(&direct, "drydock login").await,
    ));
    app.wait_until_idle().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_public_address_the_answer_to_login_names_the_key() {
    let app = TestApp::new(|_: &_| says("Hello.")).await;
    app.admit_slack_editor(ALICE).await;
    let answer = app.run_slash_command(ALICE, "login").await;
    assert!(
        answer.contains("an administrator must set `server.public_url`")
            || answer.contains("an administrator must set server.public_url"),
        "{answer}"
    );
    assert_eq!(app.count("SELECT count(*) FROM login"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn expired_used_replaced_and_made_up_login_codes_get_the_same_answer() {
    const CLOCK: usize = 8;
    let script = |_: &_| says("Hello.");
    let app = TestApp::with_host(script, world::<CLOCK>(), &[PUBLIC_URL]).await;
    app.admit_slack_editor(ALICE).await;
    let (machine, url) = (PlainMachine::new(), app.demo.url());
    let replaced = login_code(&app, ALICE).await;
    let used = login_code(&app, ALICE).await;
    assert_eq!(machine.run(&["login", &url, &used]).code, Some(0));
    let expired = login_code(&app, ALICE).await;
    advance::<CLOCK>(601);
    let before = machine.stored();
    let mut answers = Vec::new();
    for code in [
        &replaced,
        &used,
        &expired,
        "0000-0000-0000-0000-0000-0000-00",
        "x",
    ] {
        let ended = machine.run(&["login", &url, code]);
        assert_eq!((ended.code, ended.out.as_str()), (Some(1), ""), "{code}");
        answers.push(ended.err);
    }
    assert!(answers[0].contains(INVALID), "{answers:?}");
    assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
    assert_eq!(machine.stored(), before);

    // The login expires as well.
    let token = before["servers"][&url]["token"].as_str().unwrap().to_owned();
    advance::<CLOCK>(90 * 86_400 - 700);
    assert_eq!(get_change(&app, &token).await, 404);
    advance::<CLOCK>(200);
    assert_eq!(get_change(&app, &token).await, 401);
}

/// Returns the status of the answer about a change that does not exist.
async fn get_change(app: &TestApp, token: &str) -> u16 {
    app.get_with_token("/api/changes/7", token).await.0
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_wrong_login_codes_a_minute_are_all_and_a_right_one_waits() {
    const CLOCK: usize = 9;
    let script = |_: &_| says("Hello.");
    let app = TestApp::with_host(script, world::<CLOCK>(), &[PUBLIC_URL]).await;
    app.admit_slack_editor(ALICE).await;
    let code = login_code(&app, ALICE).await;
    let guess = async |code: &str| {
        let body = json!({ "code": code }).to_string();
        app.post("/api/login", &[], body.as_bytes()).await
    };
    for number in 0..10 {
        let (status, body) = guess(&format!("GUESS-{number}")).await;
        assert_eq!((status, body.as_str()), (401, r#"{"error":"unauthenticated"}"#));
    }
    let (status, body) = guess("GUESS").await;
    assert_eq!((status, body.as_str()), (429, r#"{"error":"too many attempts"}"#));
    let machine = PlainMachine::new();
    let ended = machine.run(&["login", &app.demo.url(), &code]);
    assert_eq!(ended.code, Some(1));
    assert!(
        ended
            .err
            .contains("got too many wrong codes, or requests; try again in "),
        "{ended:?}"
    );
    app.wait_for_audit_line("login.flood").await;
    let refusals = app.audit_lines_with("login.code");
    assert!(!refusals.is_empty() && refusals.iter().all(|line| !line.contains("GUESS")));
    advance::<CLOCK>(60);
    assert_eq!(machine.run(&["login", &app.demo.url(), &code]).code, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_machines_with_one_code_one_is_logged_in() {
    let app = app().await;
    let code = login_code(&app, ALICE).await;
    let body = json!({ "code": code }).to_string();
    // The limit of wrong codes is not reached.
    let attempts = (0..8).map(|_| app.post("/api/login", &[], body.as_bytes()));
    let answers = futures_util::future::join_all(attempts).await;
    let good = answers.iter().filter(|(status, _)| *status == 200).count();
    let bad = answers.iter().filter(|(status, _)| *status == 401).count();
    assert_eq!((good, bad), (1, 7), "{answers:?}");
    assert_eq!(app.count("SELECT count(*) FROM login"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_logout_ends_the_login_on_the_server_and_removes_it() {
    let app = app().await;
    let (machine, url) = (PlainMachine::new(), app.demo.url());
    let none = machine.run(&["logout"]);
    assert_eq!(none.code, Some(1));
    assert!(
        none.err.contains("this machine is not logged in to a server"),
        "{none:?}"
    );
    let code = login_code(&app, ALICE).await;
    // The code comes on standard input.
    let ended = tokio::task::block_in_place(|| {
        machine
            .0
            .run_with_input(&["login", &format!("{url}/"), "--json"], format!("{code}\n"))
    });
    assert_eq!(ended.json()["name"], ALICE);
    let first = machine.stored()["servers"][&url]["token"].clone();
    let first = first.as_str().unwrap();

    // A new login ends the one that it replaces.
    let code = login_code(&app, ALICE).await;
    assert_eq!(machine.run(&["login", &url, &code]).code, Some(0));
    assert_eq!(app.count("SELECT count(*) FROM login"), 1);
    assert_eq!(api(&app, "/api/logout", first).await.0, 401);

    let token = machine.stored()["servers"][&url]["token"].clone();
    let token = token.as_str().unwrap();
    let ended = machine.run(&["logout"]);
    assert_eq!(
        (ended.code, ended.out),
        (Some(0), format!("Logged out of {url}.\n"))
    );
    assert_eq!(machine.stored(), json!({ "servers": {} }));
    assert_eq!(app.count("SELECT count(*) FROM login"), 0);
    assert_eq!(api(&app, "/api/logout", token).await.0, 401);
    app.wait_for_audit_line("login.ended").await;
    app.wait_for_audit_line("login.token").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_person_has_no_login_any_more() {
    let app = app().await;
    let Some(machine) = Machine::new(&app) else { return };
    machine.log_in(&app, ALICE).await;
    let code = login_code(&app, ALICE).await;
    assert_eq!(app.count("SELECT count(*) FROM login"), 2);
    app.revoke(ALICE).await;
    assert_eq!(app.count("SELECT count(*) FROM login"), 0);
    let pulled = machine.run(&["pull", "1"]);
    assert_eq!(pulled.code, Some(1));
    assert!(
        pulled
            .err
            .contains("is not valid any more; say `login` to Drydock in a chat"),
        "{pulled:?}"
    );
    let ended = machine.run(&["login", &app.demo.url(), &code]);
    assert!(ended.err.contains(INVALID), "{ended:?}");
    let ended = machine.run(&["logout"]);
    assert_eq!(
        ended.out,
        format!(
            "Logged out of {}, where this login had ended before.\n",
            app.demo.url()
        )
    );
}

#[test]
fn a_login_that_cannot_work_is_refused_before_its_code_is_used() {
    let shell = Shell::new();
    let login = |url: &str| shell.run(&["login", url, "CODE"]);
    for url in [
        "http://drydock.example.com",
        "drydock.example.com",
        "https://user:pass@drydock.example.com",
        "ftp://drydock.example.com",
        "https://drydock.example.com/?code=1",
    ] {
        let ended = login(url);
        assert_eq!(ended.code, Some(2), "{url}: {ended:?}");
        assert!(
            ended.err.contains("the address of a server begins with https://"),
            "{ended:?}"
        );
    }
    let empty = shell.run_with_input(&["login", "http://127.0.0.1:1"], "\n");
    assert_eq!(empty.code, Some(2), "{empty:?}");
    assert!(empty.err.contains("the code is empty"), "{empty:?}");
    let none = shell.run(&["login", "http://127.0.0.1:1"]);
    assert_eq!(none.code, Some(2));
    assert!(none.err.contains("there is no code"), "{none:?}");
    // Nothing listens there.
    let ended = login("http://127.0.0.1:1");
    assert_eq!(ended.code, Some(1));
    assert!(
        ended.err.contains("http://127.0.0.1:1 does not answer: "),
        "{ended:?}"
    );
    let directory = shell.home().join(".config/drydock");
    assert!(!directory.exists());

    // Logins that others can read, or that are none.
    std::fs::create_dir_all(&directory).unwrap();
    let file = directory.join("logins.json");
    for (mode, text, why) in [
        (0o640, "{}", "others can read or write the logins"),
        (0o600, "[]", "was not written by this program"),
    ] {
        std::fs::write(&file, text).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
        for arguments in [&["login", "http://127.0.0.1:1", "CODE"][..], &["pull", "1"]] {
            let ended = shell.run(arguments);
            assert_eq!(ended.code, Some(1));
            assert!(ended.err.contains(why), "{ended:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_with_several_logins_names_the_server() {
    let (one, other) = (app().await, app().await);
    let machine = PlainMachine::new();
    for app in [&one, &other] {
        let code = login_code(app, ALICE).await;
        let ended = machine.run(&["login", &app.demo.url(), &code]);
        assert_eq!(ended.code, Some(0), "{ended:?}");
    }
    let ended = machine.run(&["logout"]);
    assert_eq!(ended.code, Some(2));
    assert!(
        ended.err.contains("this machine is logged in to several servers")
            && ended.err.contains(&one.demo.url()),
        "{ended:?}"
    );
    let ended = machine.run(&["pull", "1", "--patch", "--server", &other.demo.url()]);
    assert!(ended.err.contains("there is no CHG-1 for you"), "{ended:?}");
    assert_eq!(machine.run(&["logout", &one.demo.url()]).code, Some(0));
    assert_eq!(machine.stored()["servers"].as_object().unwrap().len(), 1);
    assert_eq!(machine.run(&["logout"]).code, Some(0));
}
