//! `drydock schedule` without a server: schedules of the configuration, and lists without an entry.

use crate::support::shell::Shell;
use serde_json::json;

const CONFIGURATION: &str = "# Ours.\n[data]\ndirectory = \"data\"\n\n[repositories.infra]\npath = \"infra.git\"\n\n\
    [channels.team]\nkind = \"slack\"\nbot_token = { env = \"A_TOKEN\" }\nsigning_secret = { env = \"A_SECRET\" }\n";

/// STK-16, STK-17, STK-18, STK-19, STK-20, STK-21
#[test]
fn schedules_are_listed_added_turned_on_and_off_and_removed_by_commands() {
    let shell = Shell::new();
    shell.put("drydock.toml", CONFIGURATION);
    let run = |arguments: &[&str]| shell.run(&[&["schedule"], arguments].concat());
    let add = |when: &str, repository: &str| {
        run(&[
            "add",
            "nightly",
            "--cron",
            when,
            "--prompt",
            "Look for old images.",
            "--repository",
            repository,
            "--channel",
            "team",
            "--chat",
            "C1",
        ])
    };
    for (when, repository, why) in [
        (
            "weekdays 25:00",
            "infra",
            "schedules.nightly.when: no time that recurs; write",
        ),
        (
            "weekdays 09:00",
            "apps",
            "schedules.nightly.repository: does not name one of the repositories",
        ),
    ] {
        let refused = add(when, repository);
        assert_eq!(
            (refused.code, refused.err.contains(why)),
            (Some(78), true),
            "{refused:?}"
        );
        assert!(
            refused
                .err
                .contains("drydock.toml is not changed; these would be its lines"),
            "{refused:?}"
        );
        assert_eq!(shell.get("drydock.toml"), CONFIGURATION);
    }
    let added = add("0 2 * * 1-5", "infra");
    assert_eq!(added.code, Some(0), "{added:?}");
    let section = "\n[schedules.nightly]\nwhen = \"0 2 * * 1-5\"\nwords = \"Look for old images.\"\n\
        repository = \"infra\"\npost_to = { channel = \"team\", chat = \"C1\" }\n";
    assert_eq!(shell.get("drydock.toml"), format!("{CONFIGURATION}{section}"));
    assert_eq!(add("0 2 * * 1-5", "infra").code, Some(2));

    assert_eq!(shell.run(&["invite", "bob"]).code, Some(0));
    let listed = run(&["list", "--json"]).json();
    let schedule = &listed["schedules"][0];
    assert_eq!(
        (
            &schedule["name"],
            &schedule["off_why"],
            &schedule["definition"]["words"]
        ),
        (&json!("nightly"), &json!(null), &json!("Look for old images.")),
        "{listed}"
    );
    assert_eq!(run(&["disable", "nightly"]).out, "nightly is off\n");
    assert_eq!(run(&["disable", "nightly"]).out, "nightly is off already\n");
    let listed = run(&["list"]).out;
    assert!(listed.contains("off: turned off by the operator"), "{listed}");
    assert_eq!(run(&["enable", "1"]).out, "nightly is on\n");
    // Its service identity exists once a server has started.
    let refused = run(&["trigger", "nightly"]);
    assert_eq!(refused.code, Some(1));
    assert!(
        refused
            .err
            .contains("nothing was started: the owner of `nightly` has no access here"),
        "{refused:?}"
    );
    let history = run(&["history", "nightly"]);
    assert_eq!((history.code, history.out.as_str()), (Some(0), ""), "{history:?}");
    let unknown = run(&["history", "other"]);
    assert!(
        unknown
            .err
            .contains("no schedule `other`; `drydock schedule list` shows all"),
        "{unknown:?}"
    );
    assert_eq!(run(&["remove", "nightly"]).code, Some(0));
    assert_eq!(shell.get("drydock.toml"), CONFIGURATION);
    // The server has not read the file again yet.
    let again = run(&["remove", "nightly"]);
    assert_eq!(again.code, Some(1), "{again:?}");
    assert!(
        again
            .err
            .contains("once its section is removed there, a restart of the server ends it"),
        "{again:?}"
    );
}

#[test]
fn a_list_without_an_entry_says_how_to_add_one() {
    let shell = Shell::new();
    shell.put("drydock.toml", CONFIGURATION);
    assert_eq!(shell.run(&["invite", "bob"]).code, Some(0));
    for (kind, words) in [
        (
            "schedule",
            "There is no schedule; `drydock schedule add` adds one.",
        ),
        ("token", "There is no token; `drydock token create` makes one."),
    ] {
        let listed = shell.run(&[kind, "list"]);
        assert_eq!((listed.code, listed.out.as_str()), (Some(0), ""), "{listed:?}");
        assert!(listed.err.contains(words), "{listed:?}");
    }
}
