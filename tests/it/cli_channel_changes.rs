//! `drydock channel list`, `add` and `remove`: the channels of a configuration file.

use crate::cli_channels::{ChannelSetup, SLACK_TOKEN, finding};
use crate::support::shell::Shell;
use serde_json::{Value, json};

/// STK-22
#[tokio::test(flavor = "multi_thread")]
async fn channels_are_listed_without_their_secrets() {
    let setup = ChannelSetup::new().await;
    let listed = setup.run(&["channel", "list"]);
    assert_eq!((listed.code, listed.err.as_str()), (Some(0), ""));
    let row = listed.out.lines().find(|line| line.starts_with("work")).unwrap();
    assert!(
        row.contains("bot_token: env SLACK_BOT_TOKEN; signing_secret: env SLACK_SIGNING_SECRET"),
        "{row}"
    );
    let shell = Shell::new().set("SLACK_BOT_TOKEN", SLACK_TOKEN);
    shell.put("drydock.toml", &setup.shell.get("drydock.toml"));
    let listed = tokio::task::block_in_place(|| shell.run(&["channel", "list", "--json"])).json();
    let [bot, work] = &listed["channels"].as_array().unwrap()[..] else {
        panic!("two channels: {listed}");
    };
    assert_eq!(
        (&bot["channel"], &bot["kind"]),
        (&json!("bot"), &json!("telegram"))
    );
    let missing = "the environment variable TELEGRAM_BOT_TOKEN is not set";
    assert_eq!(
        bot["secrets"],
        json!([{"key": "bot_token", "source": "env TELEGRAM_BOT_TOKEN", "problem": missing}])
    );
    assert_eq!(work["secrets"][0]["problem"], Value::Null);
    assert!(!listed.to_string().contains(SLACK_TOKEN));
    // A test reports the missing secret, and still asks the other platform.
    let tested = tokio::task::block_in_place(|| shell.run(&["channel", "test", "--json"]));
    assert_eq!(tested.code, Some(1));
    let findings = tested.json()["findings"].as_array().unwrap().clone();
    assert!(
        finding(&findings, "configuration")["detail"]
            .as_str()
            .unwrap()
            .contains(missing)
    );
}

/// STK-23, STK-24
#[tokio::test(flavor = "multi_thread")]
async fn a_channel_is_added_and_removed_and_the_rest_of_the_file_stays() {
    let setup = ChannelSetup::new().await;
    let before = format!(
        "# Ours.\n[server]  # public\npublic_url = 'https://drydock.example.com'\n\n[repositories.infra]\npath = \"/srv/infra\"\n\n\
         # The old bot.\n[channels.old]\nkind = \"telegram\"\nbot_token = {{ env = \"OLD_TOKEN\" }}\napi_base_url = \"{}\"\n\n\
         # Limits.\n[limits]\nsteps_max = 9\n",
        setup.telegram.api_base_url()
    );
    setup.shell.put("drydock.toml", &before);
    let added = setup.run(&[
        "channel",
        "add",
        "slack",
        "--name",
        "team",
        "--repository",
        "infra",
    ]);
    assert_eq!((added.code, added.out.as_str()), (Some(0), ""), "{added:?}");
    assert!(
        added.err.contains("Added [channels.team] to drydock.toml."),
        "{added:?}"
    );
    let section = "\n[channels.team]\nkind = \"slack\"\nbot_token = { env = \"SLACK_BOT_TOKEN\" }\n\
        signing_secret = { env = \"SLACK_SIGNING_SECRET\" }\nrepository = \"infra\"\n";
    let with_team = before.replace("\n# Limits.", &format!("{section}\n# Limits."));
    assert_eq!(setup.shell.get("drydock.toml"), with_team);
    let arguments = [
        "channel",
        "add",
        "telegram",
        "--bot-token",
        "file:token",
        "--secret-token",
        "env:TELEGRAM_SECRET",
        "--json",
    ];
    let added = setup.run(&arguments);
    assert_eq!(added.code, Some(0), "{added:?}");
    let secrets = &added.json()["added"]["secrets"];
    assert_eq!(secrets[0]["source"], "file token");
    assert!(
        secrets[0]["problem"]
            .as_str()
            .unwrap()
            .starts_with("cannot read the secret file")
    );
    for (name, code) in [("telegram", 0), ("team", 0), ("team", 2)] {
        let removed = setup.run(&["channel", "remove", name]);
        assert_eq!(removed.code, Some(code), "{removed:?}");
    }
    assert_eq!(setup.shell.get("drydock.toml"), before);
}

/// STK-23: nothing is overwritten, and no invalid file is written.
#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_change_of_the_channels_changes_nothing() {
    let setup = ChannelSetup::new().await;
    let hook = "[repositories.infra]\npath = \"/srv/infra\"\n\n[hooks.ci]\nscheme = \"github\"\nrepository = \"infra\"\n\
        post_to = { channel = \"work\", chat = \"C1\" }\n";
    let before = format!("{}\n{hook}", setup.shell.get("drydock.toml"));
    setup.shell.put("drydock.toml", &before);
    for (arguments, code, why) in [
        (
            &["add", "slack", "--name", "work"][..],
            2,
            "[channels.work] is there already",
        ),
        (&["add", "slack", "--name", "A b"], 2, "1 to 32 of a-z"),
        (&["add", "slack", "--name", "ci"], 78, "a channel has this name"),
        (
            &["add", "slack", "--repository", "web"],
            78,
            "does not name one of the repositories",
        ),
        (
            &["add", "slack", "--bot-token", SLACK_TOKEN],
            2,
            "write env:NAME or file:PATH",
        ),
        (
            &["add", "slack", "--secret-token", "env:A_B"],
            2,
            "--secret-token is only for telegram",
        ),
        (
            &["add", "telegram", "--signing-secret", "env:A_B"],
            2,
            "--signing-secret is only for slack",
        ),
        (&["add", "irc"], 2, "possible values: slack, telegram"),
        (&["remove", "nothing"], 2, "there is no [channels.nothing]"),
        (
            &["remove", "work"],
            78,
            "hooks.ci.post_to.channel: does not name one of the channels",
        ),
        (&["test", "nothing"], 2, "there is no channel `nothing`"),
    ] {
        let ended = setup.run(&[&["channel"], arguments].concat());
        assert_eq!((ended.code, ended.out.as_str()), (Some(code), ""), "{ended:?}");
        assert!(ended.err.contains(why), "{arguments:?}: {ended:?}");
        assert_eq!(setup.shell.get("drydock.toml"), before, "{arguments:?}");
    }
    let nowhere = Shell::new();
    let ended = nowhere.run(&["channel", "add", "slack"]);
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(ended.err.contains("`drydock init` writes one"), "{ended:?}");
    // The program changed the file, and left nothing beside it.
    let names = std::fs::read_dir(setup.shell.work()).unwrap();
    assert_eq!(names.count(), 1);
}
