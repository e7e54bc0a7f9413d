//! `invite`, `user`, `session`, `audit` and `data`, with a running server and without one.

use crate::cli_serve::{TOML, serve, shell};
use crate::support::shell::{ProgramOutput, Shell};
use crate::support::source::rust_files;
use drydock::server::app::Host;
use drydock::simulation::demo::environment::{self, DemoEnvironment};
use drydock::simulation::demo::{demo_script, scripted_model};
use drydock::simulation::emulator::model::ModelRequest;
use serde_json::json;
use std::time::Duration;

/// Runs the same queries with and without a server.
fn questions(shell: &Shell) {
    let table = shell.run(&["user", "list"]);
    assert_eq!(table.code, Some(0), "{table:?}");
    assert_eq!(
        table.out.split_whitespace().collect::<Vec<_>>(),
        ["ID", "NAME", "STATE", "GRANTS", "ACCOUNTS"]
    );
    assert_eq!(shell.run(&["user", "list", "--json"]).json()["users"], json!([]));

    let invite = shell.run(&[
        "invite", "alice", "--role", "viewer", "--env", "dev", "--hours", "2",
    ]);
    assert_eq!(invite.code, Some(0), "{invite:?}");
    assert!(invite.out.contains("Telegram: send `/start "), "{invite:?}");
    assert!(invite.err.starts_with("Single use, valid until "), "{invite:?}");
    let value = shell.run(&["invite", "bob", "--json"]).json();
    let token = value["token"].as_str().unwrap();
    assert!(token.len() >= 43, "256 bits: {token}");

    let audit = shell.run(&["audit", "verify"]);
    assert_eq!(audit.code, Some(0), "{audit:?}");
    assert!(audit.out.starts_with("the audit log is intact: "), "{audit:?}");
    assert!(
        shell.run(&["audit", "verify", "--json"]).json()["rows"]
            .as_i64()
            .unwrap()
            >= 2
    );

    let data = shell.run(&["data", "show"]);
    assert_eq!(data.code, Some(0), "{data:?}");
    let head: Vec<&str> = data.out.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(head, ["KIND", "COUNT", "BYTES", "OLDEST", "KEPT", "KEY"]);
    assert!(data.out.contains("retention.message_days_kept"), "{data:?}");
    let value = shell.run(&["data", "show", "--json"]).json();
    let invites = value["kinds"]
        .as_array()
        .unwrap()
        .iter()
        .find(|kind| kind["kind"] == "invites");
    let invites = invites.unwrap();
    assert_eq!(
        (&invites["rows"], &invites["kept"]),
        (&json!(2), &json!({ "days": 90 }))
    );
    for flag in ["--dry-run", "--yes"] {
        let pruned = shell.run(&["data", "prune", flag]);
        assert_eq!((pruned.code, pruned.out.as_str()), (Some(0), ""), "{pruned:?}");
        assert_eq!(pruned.err, "No data is older than its retention.\n");
        let pruned = shell.run(&["data", "prune", flag, "--json"]).json();
        assert_eq!((&pruned["pruned"], &pruned["failed"]), (&json!([]), &json!([])));
    }

    for (code, arguments, why) in [
        (2, ["data", "prune", "--json"], "give --dry-run"),
        (2, ["data", "prune", "--json"], "or --yes"),
        (2, ["data", "show", "--yes"], "--yes"),
        (1, ["user", "show", "nobody"], "nobody"),
        (1, ["user", "revoke", "nobody"], "nobody"),
        (1, ["session", "show", "CHG-42"], "no session `CHG-42`"),
        (2, ["invite", "carol", "--env=[bad"], "`[bad` is not a glob"),
        (2, ["invite", "carol", "--repo=[bad"], "`[bad` is not a glob"),
        (2, ["invite", "carol\u{7}", "--json"], "printable characters"),
    ] {
        let ended = shell.run(&arguments);
        assert_eq!((ended.code, ended.out.as_str()), (Some(code), ""), "{ended:?}");
        assert!(ended.err.contains(why), "{ended:?}");
    }
}

#[test]
fn a_running_server_answers_its_operator() {
    let shell = shell(TOML);
    let (running, _) = serve(&shell);
    questions(&shell);
    running.terminate();
    let ended = running.end();
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

#[test]
fn without_a_server_the_database_answers() {
    let shell = shell(TOML);
    let (running, _) = serve(&shell);
    running.terminate();
    assert_eq!(running.end().code, Some(0));
    questions(&shell);
}

#[test]
fn an_operator_needs_no_secrets_of_the_server() {
    let text =
        format!("{TOML}[channels.bot]\nkind = \"telegram\"\nbot_token = {{ env = \"NOT_IN_THIS_SHELL\" }}\n");
    let shell = Shell::new();
    shell.put("drydock.toml", &text);
    assert_eq!(shell.run(&["invite", "alice"]).code, Some(0));
    let ended = shell.run(&["user", "list", "--set", "data.directory=elsewhere"]);
    assert_eq!(ended.code, Some(78), "{ended:?}");
    assert!(
        ended.err.contains("there is no data directory `elsewhere`"),
        "{ended:?}"
    );
    assert!(!shell.work().join("elsewhere").exists());
}

#[test]
fn a_file_in_place_of_the_data_directory_is_reported_and_left_alone() {
    let shell = shell(TOML);
    shell.put("data", "mine");
    let ended = shell.run(&["invite", "alice"]);
    assert_eq!(ended.code, Some(78), "{ended:?}");
    assert!(ended.err.contains("it is not a directory"), "{ended:?}");
    assert_eq!(
        std::fs::read_to_string(shell.work().join("data")).unwrap(),
        "mine"
    );
}

/// Checks a data directory whose path is longer than the 107 bytes of a socket's path.
#[test]
fn a_long_data_directory_does_not_get_in_the_way_of_the_socket() {
    let long = format!("{}/{}", "d".repeat(100), "e".repeat(100));
    let shell = shell(&TOML.replace("\"data\"", &format!("\"{long}\"")));
    let (running, _) = serve(&shell);
    questions(&shell);
    // The server answered: the database is in use.
    let ended = shell.run(&["serve"]);
    assert!(ended.err.contains("is in use by process"), "{ended:?}");
    running.terminate();
    assert_eq!(running.end().code, Some(0));
}

/// Checks the audit log after a person was admitted and revoked.
fn audited(run: &dyn Fn(&[&str]) -> ProgramOutput, token: &str) {
    let list = |arguments: &[&str]| run(&[&["audit", "list"], arguments].concat());
    let kinds = |arguments: &[&str]| -> Vec<String> {
        let value = list(&[arguments, &["--json"]].concat()).json();
        let lines = value["lines"].as_array().unwrap().iter();
        lines
            .map(|line| line["kind"].as_str().unwrap().to_owned())
            .collect()
    };
    let of_bob = [
        "user.revoked",
        "user.granted",
        // Both as a table and as JSON.
        "session.exported",
        "session.exported",
        "turn.finished",
        "invite.redeemed",
        "invite.issued",
    ];
    assert_eq!(kinds(&["--person", "bob"]), of_bob);
    assert_eq!(kinds(&["--person", "bob", "--kind", "user"]), of_bob[..2]);
    assert_eq!(kinds(&["--person", "bob", "--limit", "1"]), of_bob[..1]);
    assert_eq!(kinds(&["--person", "bob", "--since", "1h"]), of_bob);
    assert_eq!(kinds(&["--since", "2999-01-01"]), [""; 0]);
    let table = list(&["--kind", "user.revoked"]);
    let head: Vec<&str> = table.out.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(head, ["ROW", "AT", "KIND", "WHO", "WHAT"]);
    assert!(table.out.contains("by=operator name=bob user=2"), "{table:?}");
    assert!(!list(&["--limit", "1000"]).out.contains(token));
    for (code, arguments, why) in [
        (2, ["--kind", "user.revokd"], "did you mean 'user.revoked'?"),
        (
            2,
            ["--since", "yesterday"],
            "write 2h, 3d, 2026-11-24 or 2026-11-24T10:00:00Z",
        ),
        (2, ["--limit", "0"], "1..=1000"),
        (1, ["--person", "nobody"], "no user `nobody`"),
    ] {
        let ended = list(&arguments);
        assert_eq!((ended.code, ended.out.as_str()), (Some(code), ""), "{ended:?}");
        assert!(ended.err.contains(why), "{ended:?}");
    }
}

/// Checks that each recorded kind is listed, because a missing kind could not be searched for. I11
#[test]
fn every_kind_of_audit_entry_can_be_searched_for() {
    let mut written = std::collections::BTreeSet::new();
    for (_, text) in rust_files("src") {
        let code = text.split("mod tests {").next().unwrap();
        for call in ["audit_in(tx, \"", "self.note(\"", ".audit(\""] {
            for rest in code.split(call).skip(1) {
                written.insert(rest.split('"').next().unwrap().to_owned());
            }
        }
    }
    assert!(written.len() >= 15, "{written:?}");
    for kind in written {
        assert!(
            drydock::state::store::AUDIT_KINDS.contains(&kind.as_str()),
            "{kind}"
        );
    }
}

/// Returns a host with the real clock, which a server and the program beside it share.
fn real_world() -> Host {
    Host {
        now: jiff::Timestamp::now,
        random: || {
            let mut bytes = [0; 32];
            getrandom::fill(&mut bytes).unwrap();
            bytes
        },
        program: crate::support::world::program,
        host_overrides: &[],
    }
}

/// T01: `user add` accepts the ID in the notice to an unknown sender.
#[test]
fn the_operator_admits_an_unknown_sender_by_the_id_in_their_notice() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let script = |asked: &ModelRequest| scripted_model::answer(asked, Duration::ZERO);
    let mut demo = runtime
        .block_on(DemoEnvironment::build(script, real_world(), &[]))
        .unwrap();
    let shell = Shell::new();
    let data = format!("data.directory={}", demo.data().display());
    let run = |arguments: &[&str]| shell.run(&[arguments, &["--set", &data]].concat());
    let tell = |text: &str, answer: &str| {
        let said = async {
            demo.telegram.say(demo_script::BOB, demo_script::BOB, text).await;
            demo_script::telegram_message(&demo, demo_script::BOB, answer).await
        };
        runtime.block_on(said).unwrap().text
    };
    let reported = tell("give api 1Gi of memory in staging", "Not authorised");
    let id = format!("telegram:42:{}", demo_script::BOB);
    assert!(
        reported.contains(&format!("Your ID is {id}: give it to an administrator")),
        "{reported}"
    );
    let add = |id: &str| run(&["user", "add", id, "bob", "--role", "editor", "--env", "staging"]);
    let added = add(&id);
    assert_eq!(
        (added.code, added.out.as_str()),
        (Some(0), "bob is editor * staging now\n"),
        "{added:?}"
    );
    tell("give api 1Gi of memory in staging", "CHG-1 is ready");

    let again = add(&id);
    let why = format!("`{id}` already belongs to `bob`; `drydock user grant` changes the grant");
    assert_eq!((again.code, again.out.as_str()), (Some(1), ""), "{again:?}");
    assert!(again.err.contains(&why), "{again:?}");
    let json = [
        "user",
        "add",
        "slack:T0ACME:U0VERA",
        "vera",
        "--role",
        "viewer",
        "--json",
    ];
    let added = run(&json).json();
    assert_eq!(
        (&added["user"]["name"], &added["user"]["grants"][0]["role"]),
        (&json!("vera"), &json!("viewer"))
    );
    for (code, id, why) in [
        (2, "bob", "`bob` is not the ID of an account"),
        (2, "telegram:42", "`telegram:42` is not the ID of an account"),
        (
            2,
            "telegram:42:-100",
            "`telegram:42:-100` is not the ID of an account",
        ),
        (2, "mail:42:7", "`mail:42:7` is not the ID of an account"),
        (
            1,
            "telegram:43:7",
            "`telegram:43:7` belongs to no workspace or bot",
        ),
        (
            1,
            "slack:T0EVIL:U7",
            "`slack:T0EVIL:U7` belongs to no workspace or bot",
        ),
    ] {
        let refused = add(id);
        assert_eq!(
            (refused.code, refused.out.as_str()),
            (Some(code), ""),
            "{refused:?}"
        );
        assert!(refused.err.contains(why), "{refused:?}");
    }
    runtime.block_on(demo.stop());
    // Without the server, the recorded senders are still known.
    assert_eq!(add("telegram:42:777").code, Some(0));
    assert_eq!(add("slack:T0EVIL:U7").code, Some(1));
    assert_eq!(run(&["audit", "verify"]).code, Some(0));
}

/// Runs the commands for one person, from the invite to the revocation, with a change in between.
#[test]
fn a_person_is_admitted_listed_and_revoked() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let world = real_world();
    let script = |asked: &ModelRequest| scripted_model::answer(asked, Duration::ZERO);
    let mut demo = runtime
        .block_on(DemoEnvironment::build(script, world, &[]))
        .unwrap();
    let shell = Shell::new();
    let data = format!("data.directory={}", demo.data().display());
    let run = |arguments: &[&str]| {
        let ended = shell.run(&[arguments, &["--set", &data]].concat());
        for secret in [
            environment::SLACK_BOT_TOKEN,
            environment::TELEGRAM_BOT_TOKEN,
            environment::MODEL_KEY,
            environment::HOOK_SECRET,
        ] {
            assert!(
                !ended.out.contains(secret) && !ended.err.contains(secret),
                "{arguments:?}"
            );
        }
        ended
    };

    let invite = run(&["invite", "bob", "--env", "staging", "--json"]).json();
    let token = invite["token"].as_str().unwrap();
    let how: Vec<&str> = invite["how"]
        .as_array()
        .unwrap()
        .iter()
        .map(|how| how.as_str().unwrap())
        .collect();
    assert!(how[0].starts_with("slack: send `join "), "{how:?}");
    assert!(
        how[1].starts_with("telegram: https://t.me/") && how[1].ends_with(token),
        "{how:?}"
    );
    let tell = |text: &str, answer: &str| {
        let said = async {
            demo.telegram.say(demo_script::BOB, demo_script::BOB, text).await;
            demo_script::telegram_message(&demo, demo_script::BOB, answer).await
        };
        runtime.block_on(said).unwrap();
    };
    tell(&format!("/start {token}"), "You're in, bob.");
    tell("give api 1Gi of memory in staging", "CHG-1 is ready");

    let hook = "1   hook:release  active  editor infra dev,staging  hook:release:release\n";
    let bob = format!(
        "bob           active  editor * staging          telegram:42:{}\n",
        demo_script::BOB
    );
    let head = "ID  NAME          STATE   GRANTS                    ACCOUNTS\n";
    assert_eq!(run(&["user", "list"]).out, format!("{head}{hook}2   {bob}"));
    let one = run(&["user", "show", "bob"]);
    assert!(
        one.out.starts_with("ID") && one.out.lines().count() == 2,
        "{one:?}"
    );
    let shown = run(&["user", "show", "2", "--json"]).json();
    assert_eq!(shown["users"][0]["name"], "bob");

    let session = run(&["session", "show", "CHG-1"]);
    assert_eq!(session.code, Some(0), "{session:?}");
    for text in ["give api 1Gi of memory in staging", "file_edit", "CHG-1"] {
        assert!(session.out.contains(text), "{session:?}");
    }
    let records = run(&["session", "show", "CHG-1", "--json"]);
    assert!(records.out.lines().count() > 5);
    for line in records.out.lines() {
        serde_json::from_str::<serde_json::Value>(line).unwrap();
    }

    assert_eq!(
        run(&["user", "grant", "bob", "--role", "viewer", "--env", "dev"]).out,
        "bob is viewer * dev now\n"
    );
    assert!(run(&["user", "list"]).out.contains("viewer * dev"));
    assert_eq!(
        run(&["user", "revoke", "bob"]).out,
        "bob has no access any more\n"
    );
    assert!(run(&["user", "list"]).out.contains("revoked"));
    assert_eq!(run(&["audit", "verify"]).code, Some(0));
    audited(&run, token);
    tell("which environments are there?", "Not authorised");
    runtime.block_on(demo.stop());
    assert!(run(&["user", "list"]).out.contains("revoked"));
    assert!(run(&["session", "show", "CHG-1"]).out.contains("file_edit"));
}
