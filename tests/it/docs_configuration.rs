//! The configurations in the documents load, their keys and defaults exist, and the manifest for Slack requests what is used.

use crate::docs::{blocks, code_spans, document, documents, pattern, rows};
use crate::docs_program;
use crate::support::source::rust_files;
use drydock::base::config::{Config, ConfigSources, KEYS, SourceFile, UnsetRule};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;

#[test]
fn every_key_in_the_documents_is_a_key_and_every_default_is_its_default() {
    let sections: BTreeSet<&str> = KEYS.iter().filter_map(|key| key.path.split('.').next()).collect();
    let dotted = pattern(r"^[a-z]+(\.[a-z_]+)+$");
    let mut unknown = Vec::new();
    for (path, text) in documents() {
        for span in code_spans(&text).into_iter().filter(|span| dotted.is_match(span)) {
            let section = span.split('.').next().unwrap_or_default();
            let is_key = KEYS.iter().any(|key| key.path == span);
            let is_file = span.ends_with(".toml") || span.ends_with(".sock");
            if sections.contains(section) && !is_key && !is_file {
                unknown.push(format!("{}: {span}", path.display()));
            }
        }
    }
    assert!(unknown.is_empty(), "{unknown:#?}");

    let operate = document("docs/operate.md");
    let limits = operate.split("## Limits").nth(1).expect("the section");
    let limits = limits.split("## ").next().unwrap_or_default();
    let rows = rows(limits);
    assert!(rows.len() > 5, "the limits were read: {rows:?}");
    for row in rows {
        let name = row[0].trim_matches('`');
        let key = KEYS.iter().find(|key| key.path == name).expect("a key");
        let UnsetRule::Default(default) = key.unset else {
            panic!("{name} has no default")
        };
        let number = row[1].split(' ').next().unwrap_or_default().replace(',', "");
        assert_eq!(number, default.replace('_', ""), "{name}");
    }
}

#[test]
fn every_configuration_in_the_documents_loads() {
    let place = tempfile::tempdir().expect("a folder");
    let key = place.path().join("openrouter-key");
    fs::write(&key, "sk-or-v1-9d2f71c05be1f09a77\n").expect("a key");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).expect("a private key");
    let secrets = [
        ("SLACK_BOT_TOKEN", "xoxb-17653672481-8f742231b10e"),
        ("SLACK_SIGNING_SECRET", "8f742231b10e8888abcd99"),
        ("SLACK_APP_TOKEN", "xapp-1-A0DRYDOCK-1-abcdef"),
        ("TELEGRAM_BOT_TOKEN", "123456789:AAHdqTcvCH1vGWJxfSeofSAs0K5"),
        ("TELEGRAM_SECRET_TOKEN", "telegram_9d2f71c05be1"),
        ("DISCORD_BOT_TOKEN", "MTEwMDAw.4f1d-discord_6b.8e2a5be1f09a"),
        ("RELEASE_HOOK_SECRET", "5be1f09a779d2f71c0"),
        ("ANTHROPIC_API_KEY", "sk-ant-0f9e8d7c6b5a4938"),
    ];
    let mut loaded = 0;
    for (path, text) in documents() {
        for block in blocks(&text, "toml") {
            let sources = ConfigSources {
                file: Some(SourceFile {
                    path: place.path().join("drydock.toml"),
                    text: block.clone(),
                }),
                environment: secrets
                    .map(|(name, value)| (name.to_owned(), value.to_owned()))
                    .into(),
                ..ConfigSources::default()
            };
            if let Err(error) = Config::load(sources) {
                panic!("{}: {error}\n{block}", path.display());
            }
            loaded += 1;
        }
    }
    assert!(loaded >= 4, "the configurations were read: {loaded}");
}

/// The scope that each method of Slack's Web API and each event needs.
const SCOPES: [(&str, &str); 20] = [
    ("auth.test", ""),
    ("chat.postMessage", "chat:write"),
    ("chat.update", "chat:write"),
    ("chat.postEphemeral", "chat:write"),
    ("chat.startStream", "chat:write"),
    ("chat.appendStream", "chat:write"),
    ("chat.stopStream", "chat:write"),
    // One of the three scopes for the messages of channels, private channels and people.
    ("conversations.history", "channels:history"),
    ("conversations.replies", "channels:history"),
    ("views.open", ""),
    ("reactions.add", "reactions:write"),
    ("reactions.remove", "reactions:write"),
    ("files.info", "files:read"),
    ("files.getUploadURLExternal", "files:write"),
    ("files.completeUploadExternal", "files:write"),
    ("agent_session_stopped", "assistant:write"),
    ("app_mention", "app_mentions:read"),
    ("message.channels", "channels:history"),
    ("message.groups", "groups:history"),
    ("message.im", "im:history"),
];

fn texts(value: &serde_json::Value) -> BTreeSet<&str> {
    let list = value.as_array().expect("a list");
    list.iter().map(|text| text.as_str().expect("a text")).collect()
}

/// The method and the event of the Home tab, which need no scope.
const NO_SCOPE: [&str; 2] = ["app_home_opened", "views.publish"];

#[test]
fn the_slack_manifest_asks_for_what_is_used_and_for_nothing_else() {
    let manifest = blocks(&document("docs/connect.md"), "json").remove(0);
    let manifest: serde_json::Value = serde_json::from_str(&manifest).expect("a manifest");
    let printed = docs_program::drydock(&["slack", "manifest", "--url", "https://drydock.example.com"]);
    let printed: serde_json::Value = serde_json::from_slice(&printed.stdout).expect("a manifest");
    assert_eq!(manifest, printed, "the document shows what the program prints");
    let events = texts(&manifest["settings"]["event_subscriptions"]["bot_events"]);
    let method = pattern(r#""([a-z]+\.[a-zA-Z]+)""#);
    let mut used: BTreeSet<String> = events.iter().map(|event| (*event).to_owned()).collect();
    for (path, text) in rust_files("src/interfaces/channel/slack") {
        // The webhook is called by Slack and calls nothing.
        if !path.ends_with("tests.rs") && !path.starts_with("src/interfaces/channel/slack/webhook/") {
            used.extend(method.captures_iter(&text).map(|found| found[1].to_owned()));
        }
    }
    used.retain(|name| !NO_SCOPE.contains(&name.as_str()));
    let scope = |name: &String| {
        SCOPES
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, scope)| *scope)
    };
    let unknown: Vec<&String> = used.iter().filter(|name| scope(name).is_none()).collect();
    assert!(unknown.is_empty(), "which scope do these need? {unknown:?}");
    let mut needed: BTreeSet<&str> = used
        .iter()
        .filter_map(scope)
        .filter(|scope| !scope.is_empty())
        .collect();
    needed.insert("commands");
    assert_eq!(texts(&manifest["oauth_config"]["scopes"]["bot"]), needed);

    let address = "https://drydock.example.com/in/slack";
    assert_eq!(manifest["features"]["slash_commands"][0]["command"], "/drydock");
    assert_eq!(manifest["features"]["slash_commands"][0]["url"], address);
    assert_eq!(
        manifest["settings"]["event_subscriptions"]["request_url"],
        address
    );
    assert_eq!(manifest["settings"]["interactivity"]["request_url"], address);
    let shown = &manifest["display_information"];
    assert!(shown["name"].as_str().expect("a name").len() <= 35);
    assert!(shown["description"].as_str().expect("a description").len() <= 140);
}
