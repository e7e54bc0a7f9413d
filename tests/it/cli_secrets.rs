//! `drydock secrets`, with a running server and without one.

use crate::cli_check::{answered, shell};
use crate::cli_serve::serve;
use crate::support::shell::Shell;
use crate::support::sign;
use serde_json::{Value, json};

const KEY: &str = "hooks.release.previous_secret";
const NEW: &str = "0a1b2c3d4e5f60718293a4b5c6d7e8f9";
const OLD: &str = "9f8e7d6c5b4a39281706f5e4d3c2b1a0";

/// Returns a configuration whose hook has two secrets.
fn shell_with_pair() -> Shell {
    let shell = shell("prompts/release.md", "main").set("TEST_PREVIOUS_SECRET", OLD);
    let toml = shell.get("drydock.toml");
    let toml = toml
        .replace(
            "[repositories.remote]\nurl = \"https://git.example.com/acme/remote.git\"\n",
            "[server]\nlisten = \"127.0.0.1:0\"\n",
        )
        .replace(
            "mode = \"polling\"",
            "mode = \"polling\"\napi_base_url = \"http://127.0.0.1:9\"",
        )
        .replace(
            "[hooks.release]\n",
            "[hooks.release]\nprevious_secret = { env = \"TEST_PREVIOUS_SECRET\" }\n",
        );
    shell.put("drydock.toml", &toml);
    shell
}

/// Returns the first line of the answer to a ping that is signed with a secret.
fn ping(address: &str, secret: &str) -> String {
    let headers = [
        ("x-github-event", "ping"),
        ("x-github-delivery", "72d3162e-cc78-11e3-81ab-4c9367dc0958"),
        ("x-hub-signature-256", &sign::github(secret, b"{}")),
    ];
    let answer = answered(address, "POST /in/release", &headers);
    answer.lines().next().unwrap_or_default().to_owned()
}

/// Returns the keys, the states and the numbers of requests.
fn listed(shell: &Shell) -> Value {
    let listed = shell.run(&["secrets", "list", "--json"]).json();
    let secrets = listed["secrets"].as_array().unwrap().iter();
    let secrets = secrets.map(|secret| json!([secret["key"], secret["state"], secret["requests"]]));
    json!([listed["counted_since"].is_string(), secrets.collect::<Vec<_>>()])
}

/// T22
#[test]
fn an_operator_retires_a_replaced_secret_without_a_restart_and_it_stays_refused() {
    let shell = shell_with_pair();
    let (running, address) = serve(&shell);
    for secret in [NEW, OLD, OLD] {
        assert_eq!(ping(&address, secret), "HTTP/1.1 200 OK");
    }
    let current = json!(["hooks.release.secret", "current", 1]);
    assert_eq!(listed(&shell), json!([true, [current, [KEY, "previous", 2]]]));
    for (key, why) in [
        ("hooks.release.secret", "is the current secret"),
        ("hooks.ci.previous_secret", KEY),
    ] {
        let ended = shell.run(&["secrets", "retire", key]);
        assert_eq!((ended.code, ended.out.as_str()), (Some(1), ""), "{ended:?}");
        assert!(ended.err.contains(why), "{ended:?}");
    }
    assert_eq!(ping(&address, OLD), "HTTP/1.1 200 OK");
    let ended = shell.run(&["secrets", "retire", KEY]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(
        ended.out.starts_with(&format!("`{KEY}` is refused since "))
            && ended
                .err
                .contains(&format!("Remove `{KEY}` from the configuration")),
        "{ended:?}"
    );
    assert_eq!(ping(&address, OLD), "HTTP/1.1 401 Unauthorized");
    assert_eq!(ping(&address, NEW), "HTTP/1.1 200 OK");
    let table = shell.run(&["secrets", "list"]);
    assert!(
        table.out.starts_with("KEY ")
            && table.out.contains("hook release")
            && table.out.contains("retired at "),
        "{table:?}"
    );
    let audited = shell.run(&["audit", "list", "--kind", "secret.retired"]);
    assert!(
        audited.out.lines().count() == 2 && audited.out.contains(&format!("by=operator key={KEY}")),
        "{audited:?}"
    );
    running.terminate();
    let stopped = running.end();

    // The configuration still has the key.
    let check = shell.run(&["check"]);
    assert_eq!(check.code, Some(0), "{check:?}");
    let retired = format!("`{KEY}` was retired at ");
    assert!(check.out.contains(&retired), "{check:?}");
    assert_eq!(
        listed(&shell),
        json!([
            false,
            [["hooks.release.secret", "current", 0], [KEY, "retired", 0]]
        ])
    );
    let (running, address) = serve(&shell);
    assert_eq!(ping(&address, OLD), "HTTP/1.1 401 Unauthorized");
    assert_eq!(ping(&address, NEW), "HTTP/1.1 200 OK");
    running.terminate();
    let again = running.end();
    assert!(again.err.contains(&retired), "{again:?}");
    for ended in [&ended, &table, &audited, &stopped, &check, &again] {
        assert!(!ended.out.contains(OLD) && !ended.err.contains(OLD), "{ended:?}");
    }
}
