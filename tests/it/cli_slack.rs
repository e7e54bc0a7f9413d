//! `drydock slack manifest`: the app that it describes keeps Slack's limits, and asks for exactly what Drydock uses.

use crate::support::app::TestApp;
use crate::support::shell::{ProgramOutput, Shell};
use drydock::interfaces::channel::BOT_SCOPES;
use drydock::simulation::emulator::model::{calls, queue, says};
use drydock::simulation::emulator::slack::{HomeTab, SentMessage};
use serde_json::{Value, json};
use std::collections::BTreeSet;

const ALICE: &str = "U0ALICE";
/// A private channel with the bot.
const PRIVATE: &str = "G0PRIVATE";
const URL: &str = "https://drydock.example.com";
/// The scopes that events and commands need, beside those of calls.
const INBOUND_SCOPES: [&str; 6] = [
    "app_mentions:read",
    "assistant:write",
    "channels:history",
    "commands",
    "groups:history",
    "im:history",
];

fn manifest(arguments: &[&str]) -> Value {
    let ended = Shell::new().run(&[&["slack", "manifest", "--json"], arguments].concat());
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
    ended.json()["manifest"].clone()
}

fn answered(sent: &SentMessage) -> Vec<u16> {
    sent.answers.iter().map(|answer| answer.status).collect()
}

/// Conventions of Slack's manifest: the limits of names and texts, and no scope or event without a use.
#[tokio::test]
async fn an_app_of_the_manifest_does_everything_and_has_no_scope_too_many() {
    let write = json!({"path": "note.txt", "content": "one\n"});
    let app = TestApp::new(queue([calls("file_write", write), says("Here."), says("Hello.")])).await;
    let slack = &app.demo.slack;
    let manifest = manifest(&["--url", URL]);
    slack.install(&manifest).unwrap();
    app.admit_slack_editor(ALICE).await;
    let asked = app.say(ALICE, "add a note").await;
    assert_eq!(answered(&asked), [200, 200], "the mention and the message");
    let result = app.wait_for_result(&asked.ts, 1).await;
    slack.click(ALICE, &result.message.ts, "Get patch").await.unwrap();
    app.wait_for_slack("the patch", |state| state.files.first().map(|_| ()))
        .await;
    assert!(app.run_slash_command(ALICE, "status").await.contains("CHG-1"));
    slack.add_channel(PRIVATE, &[ALICE]);
    let file: [(&str, &[u8]); 1] = [("values.yaml", b"replicas: 7\n")];
    let asked = slack.say_with_files(ALICE, PRIVATE, None, "@drydock hello", &file);
    let asked = asked.await.unwrap();
    assert_eq!(answered(&asked), [200, 200]);
    app.wait_for_slack_message(PRIVATE, "Hello.").await;
    let asked = slack
        .reply_in_thread(ALICE, PRIVATE, &asked.ts, "!status")
        .await
        .unwrap();
    assert_eq!(answered(&asked), [200]);
    slack.open_app_home(ALICE, HomeTab::Home).await.unwrap();
    app.wait_for_slack("the Home tab", |state| state.homes.get(ALICE).map(|_| ()))
        .await;
    app.wait_until_idle().await;
    let (used, refused) = slack.with_state(|state| {
        let refused = state.calls.iter().filter_map(|call| call.refused.clone());
        (state.scopes_used.clone(), refused.collect::<Vec<_>>())
    });
    assert_eq!(refused, Vec::<String>::new());
    let used: BTreeSet<&str> = used.into_iter().chain(INBOUND_SCOPES).collect();
    let scopes = manifest["oauth_config"]["scopes"]["bot"].as_array().unwrap();
    let asked_for: BTreeSet<&str> = scopes.iter().filter_map(Value::as_str).collect();
    assert_eq!(asked_for, used);
    assert_eq!(asked_for, BOT_SCOPES.iter().map(|scope| scope.name).collect());
    // Slack refuses an event or a command without its scope.
    for (index, scope) in scopes.iter().enumerate() {
        let mut less = manifest.clone();
        less["oauth_config"]["scopes"]["bot"]
            .as_array_mut()
            .unwrap()
            .remove(index);
        let is_inbound = INBOUND_SCOPES.contains(&scope.as_str().unwrap());
        assert_eq!(slack.install(&less).is_err(), is_inbound, "{scope}");
    }
    // Without the subscription, nothing arrives.
    let mut less = manifest.clone();
    less["settings"]["event_subscriptions"]["bot_events"] = json!(["app_mention"]);
    less["features"]["slash_commands"] = json!([]);
    less["settings"]["interactivity"]["is_enabled"] = json!(false);
    slack.install(&less).unwrap();
    assert_eq!(answered(&slack.dm(ALICE, "hello").await.unwrap()), [0; 0]);
    assert!(slack.open_app_home(ALICE, HomeTab::Home).await.is_err());
    assert!(slack.slash(ALICE, PRIVATE, "status").await.is_err());
    assert!(slack.click(ALICE, &result.message.ts, "Get patch").await.is_err());
}

#[tokio::test]
async fn slack_refuses_a_manifest_beyond_its_limits() {
    let app = TestApp::new(queue([])).await;
    let good = manifest(&["--url", URL]);
    let spoiled = [
        ("/display_information/name", json!("x".repeat(36))),
        ("/display_information/description", json!("x".repeat(141))),
        ("/features/bot_user/display_name", json!("Drydock")),
        ("/features/slash_commands/0/command", json!("drydock")),
        ("/features/slash_commands/0/usage_hint", json!("x".repeat(1_001))),
        (
            "/features/slash_commands/0/url",
            json!("http://drydock.example.com"),
        ),
        ("/oauth_config/scopes/bot/0", json!("everything")),
        (
            "/settings/event_subscriptions/bot_events/0",
            json!("message.everything"),
        ),
        ("/settings/event_subscriptions/request_url", json!("")),
        ("/settings/interactivity/request_url", json!("")),
    ];
    for (place, value) in spoiled {
        let mut manifest = good.clone();
        *manifest.pointer_mut(place).unwrap() = value;
        let problems = app.demo.slack.install(&manifest).unwrap_err();
        assert!(!problems.is_empty(), "{place}");
    }
}

#[tokio::test]
async fn an_app_for_socket_mode_needs_no_address() {
    let app = TestApp::new(queue([])).await;
    let manifest = manifest(&["--socket", "--name", "Drydock Staging 2"]);
    app.demo.slack.install(&manifest).unwrap();
    assert_eq!(manifest["settings"]["socket_mode_enabled"], true);
    assert_eq!(
        manifest["features"]["bot_user"]["display_name"],
        "drydock-staging-2"
    );
    assert!(!manifest.to_string().contains("url"), "{manifest}");
}

#[test]
fn the_link_of_a_manifest_holds_it_and_goes_to_standard_error() {
    let ended = Shell::new().run(&["slack", "manifest", "--url", &format!("{URL}/")]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let printed = ended.json();
    let address = "https://drydock.example.com/in/slack";
    assert_eq!(printed["settings"]["event_subscriptions"]["request_url"], address);
    let link = ended.err.trim().strip_prefix("Create the app: ").unwrap();
    let (start, encoded) = link.split_once("&manifest_json=").unwrap();
    assert_eq!(start, "https://api.slack.com/apps?new_app=1");
    assert!(!encoded.contains(['+', ' ', '"', '&']), "{encoded}");
    let form = format!("manifest={encoded}");
    let decoded = form_urlencoded::parse(form.as_bytes())
        .next()
        .unwrap()
        .1
        .into_owned();
    assert_eq!(serde_json::from_str::<Value>(&decoded).unwrap(), printed);
}

/// Runs the command with a configuration whose secrets do not exist yet.
fn configured(channels: &[&str], arguments: &[&str]) -> ProgramOutput {
    let shell = Shell::new();
    let mut text = format!("[server]\npublic_url = \"{URL}\"\n");
    for channel in channels {
        text.push_str(&format!(
            "[channels.{channel}]\nkind = \"slack\"\nbot_token = {{ env = \"NOT_YET_THERE\" }}\n"
        ));
    }
    shell.put("drydock.toml", &text);
    shell.run(&[&["slack", "manifest"], arguments].concat())
}

#[test]
fn the_address_and_the_channel_come_from_the_configuration() {
    let ended = configured(&["work"], &[]);
    let url = format!("{URL}/in/work");
    assert_eq!(
        ended.json()["settings"]["interactivity"]["request_url"],
        url.as_str()
    );
    let ended = configured(&["one", "two"], &["--channel", "two"]);
    let url = format!("{URL}/in/two");
    assert_eq!(ended.json()["features"]["slash_commands"][0]["url"], url.as_str());
}

#[test]
fn a_manifest_asks_for_code_channels_only_where_the_configuration_wants_them() {
    let shell = Shell::new();
    let channel = "kind = \"slack\"\nbot_token = { env = \"NOT_YET_THERE\" }\n";
    let text = format!("[channels.one]\n{channel}[channels.two]\n{channel}code_channels = true\n");
    shell.put("drydock.toml", &text);
    let scopes = |arguments: &[&str]| {
        let ended = shell.run(&[&["slack", "manifest"], arguments].concat());
        let scopes = ended.json()["oauth_config"]["scopes"]["bot"].clone();
        serde_json::from_value::<Vec<String>>(scopes).unwrap()
    };
    let without: Vec<String> = BOT_SCOPES.iter().map(|scope| scope.name.to_owned()).collect();
    assert_eq!(scopes(&["--url", URL, "--channel", "one"]), without);
    assert_eq!(scopes(&["--socket"]), without);
    for way in [&["--url", URL][..], &["--socket"]] {
        let mut more = scopes(&[way, &["--channel", "two"]].concat());
        assert!(more.is_sorted(), "{more:?}");
        more.retain(|scope| scope != "code_channels:manage");
        assert_eq!(more, without);
    }
}

#[tokio::test]
async fn a_manifest_asks_for_the_commands_of_pipelines_that_the_configuration_names() {
    let shell = Shell::new();
    let text = "[channels.one]\nkind = \"slack\"\nbot_token = { env = \"NOT_YET_THERE\" }\nslash_commands = [\"/review\", \"/ask\"]\n";
    shell.put("drydock.toml", text);
    let app = TestApp::new(queue([])).await;
    for (way, url) in [
        (&["--url", URL][..], json!(format!("{URL}/in/one"))),
        (&["--socket"], Value::Null),
    ] {
        let ended = shell.run(&[&["slack", "manifest"], way].concat());
        let manifest = ended.json();
        let commands = manifest["features"]["slash_commands"].as_array().unwrap();
        let names: Vec<&str> = commands
            .iter()
            .filter_map(|command| command["command"].as_str())
            .collect();
        assert_eq!(names, ["/drydock", "/review", "/ask"]);
        assert!(
            commands.iter().all(|command| command["url"] == url),
            "{commands:?}"
        );
        app.demo.slack.install(&manifest).unwrap();
    }
}

#[test]
fn a_manifest_that_slack_would_refuse_is_not_printed() {
    let long = "x".repeat(36);
    for (channels, arguments, why) in [
        (
            &[][..],
            &["--url", "http://drydock.example.com"][..],
            "Slack needs an https address",
        ),
        (
            &[],
            &["--url", "drydock.example.com"],
            "Slack needs an https address",
        ),
        (
            &[],
            &["--url", "https://a.example.com/?x=1"],
            "Slack needs an https address",
        ),
        (&[], &["--name", &long], "has 1 to 35 characters"),
        (&[], &["--name", " "], "has 1 to 35 characters"),
        (
            &["one", "two"],
            &[],
            "name a channel of slack with --channel: one, two",
        ),
        (
            &["one"],
            &["--channel", "two"],
            "name a channel of slack with --channel: one",
        ),
        (&[], &["--url", URL, "--socket"], "cannot be used with"),
    ] {
        let ended = configured(channels, arguments);
        assert_eq!((ended.code, ended.out.as_str()), (Some(2), ""), "{ended:?}");
        assert!(ended.err.contains(why), "{ended:?}");
    }
    let ended = Shell::new().run(&["slack", "manifest"]);
    assert_eq!(ended.code, Some(2));
    assert!(
        ended.err.contains("--url, or --socket if it has none"),
        "{ended:?}"
    );
}
