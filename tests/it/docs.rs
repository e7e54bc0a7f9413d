//! The documents are true: the names in them exist, their examples load, and their promises have tests. This file reads
//! them. It does not check their style.

use crate::support::built::built;
use crate::support::source::{self, root, rust_files};
use drydock::base::config::{Config, ConfigSources, KEYS, SourceFile, UnsetRule};
use drydock::engine::command;
use regex::Regex;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output};

/// Returns every document: its path from the root, and its text.
fn documents() -> Vec<(PathBuf, String)> {
    let markdown = |folder: &str| {
        let entries = fs::read_dir(root().join(folder)).expect("a folder");
        let paths = entries.map(|entry| entry.expect("an entry").path());
        let markdown = paths.filter(|path| path.extension().is_some_and(|extension| extension == "md"));
        markdown.collect::<Vec<_>>()
    };
    let folders = ["", "docs", "docs/acceptance", "tests/strangers"];
    let mut paths = folders.map(markdown).concat();
    paths.sort();
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).expect("a document is text");
        (
            path.strip_prefix(root()).expect("below the root").to_owned(),
            text,
        )
    };
    paths.into_iter().map(read).collect()
}

fn document(name: &str) -> String {
    fs::read_to_string(root().join(name)).expect("the document exists")
}

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("a regular expression")
}

/// Returns the blocks of one language in a document.
fn blocks(text: &str, language: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut open: Option<(bool, String)> = None;
    for line in text.lines() {
        match (&mut open, line.trim_start().strip_prefix("```")) {
            (None, Some(info)) => open = Some((info == language, String::new())),
            (Some(_), Some(_)) => {
                let (wanted, block) = open.take().expect("an open block");
                blocks.extend(wanted.then_some(block));
            }
            (Some((_, block)), None) => {
                block.push_str(line);
                block.push('\n');
            }
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "a block does not end");
    blocks
}

/// Returns the texts between single backticks, outside of blocks.
fn code_spans(text: &str) -> Vec<String> {
    let mut inside = false;
    let prose = text.lines().filter(|line| {
        let fence = line.trim_start().starts_with("```");
        inside ^= fence;
        !inside && !fence
    });
    let prose = prose.collect::<Vec<_>>().join("\n");
    let spans = pattern("`([^`\n]+)`");
    let found = spans.captures_iter(&prose).map(|span| span[1].to_owned());
    found.collect()
}

/// Returns the rows of all tables of a document, without their heads.
pub(crate) fn rows(text: &str) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for line in text.lines().filter(|line| line.starts_with('|')) {
        if line.starts_with("|---") {
            rows.pop();
            continue;
        }
        let cells = line.trim_matches('|').split(" | ");
        rows.push(cells.map(|cell| cell.trim().to_owned()).collect());
    }
    rows
}

/// Returns the names of all functions of the source tree.
fn functions() -> BTreeSet<String> {
    source::functions()
        .into_iter()
        .map(|function| function.name)
        .collect()
}

#[test]
fn every_test_the_documents_name_exists() {
    let functions = functions();
    let is_name = pattern(r"^[a-z0-9]+(_[a-z0-9]+){3,}$");
    let mut missing = BTreeSet::new();
    for (path, text) in documents() {
        for name in code_spans(&text).iter().filter(|span| is_name.is_match(span)) {
            if !functions.contains(name) {
                missing.insert(format!("{}: {name}", path.display()));
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

/// Checks the table of rules that the emulators enforce. A row has the rule, its source, and the tests that show it
/// enforced.
#[test]
fn every_rule_of_a_platform_has_a_source_and_a_test() {
    let functions = functions();
    let spans = pattern("`([^`]+)`");
    let source = pattern(r"^\[[^\]]+\]\(https://[^)]+\)");
    let rows = rows(&document("docs/channels.md"));
    assert!(rows.len() > 20, "the list was read: {}", rows.len());
    for row in &rows {
        let [_rule, from, tests] = row.as_slice() else {
            panic!("a row of another shape: {row:?}")
        };
        assert!(source.is_match(from), "no source: {row:?}");
        let mut named = spans
            .captures_iter(tests)
            .map(|span| span[1].to_owned())
            .peekable();
        assert!(named.peek().is_some(), "no test: {row:?}");
        assert!(named.all(|test| functions.contains(&test)), "{row:?}");
    }
}

/// Checks the list of features. A row has the feature, its place in the source, and its tests.
#[test]
fn every_feature_has_a_place_and_a_test() {
    let functions = functions();
    let spans = pattern("`([^`]+)`");
    let rows = rows(&document("docs/features.md"));
    assert!(rows.len() > 40, "the list was read: {}", rows.len());
    let mut wrong = Vec::new();
    for row in rows {
        let [feature, place, shown] = row.as_slice() else {
            wrong.push(format!("not three columns: {row:?}"));
            continue;
        };
        let spans_of = |cell: &str| -> Vec<String> {
            spans.captures_iter(cell).map(|span| span[1].to_owned()).collect()
        };
        let (places, tests) = (spans_of(place), spans_of(shown));
        if places.is_empty() || tests.is_empty() {
            wrong.push(format!("`{feature}` has no place or no test"));
        }
        let absent = places.iter().filter(|place| !root().join(place).exists());
        wrong.extend(absent.map(|place| format!("`{feature}`: no file {place}")));
        let unknown = tests.iter().filter(|test| !functions.contains(*test));
        wrong.extend(unknown.map(|test| format!("`{feature}`: no test {test}")));
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn every_link_leads_somewhere() {
    let link = pattern(r"\]\(([^)\s]+)\)");
    let mut dead = Vec::new();
    for (path, text) in documents() {
        for found in link.captures_iter(&text).map(|found| found[1].to_owned()) {
            if found.contains("://") {
                continue;
            }
            let (file, anchor) = found.split_once('#').unwrap_or((found.as_str(), ""));
            let folder = root().join(&path);
            let target = match file {
                "" => folder,
                file => folder.parent().expect("a folder").join(file),
            };
            let lives = match anchor {
                "" => target.exists(),
                anchor => fs::read_to_string(&target).is_ok_and(|text| anchors(&text).contains(anchor)),
            };
            if !lives {
                dead.push(format!("{}: {found}", path.display()));
            }
        }
    }
    assert!(dead.is_empty(), "{dead:#?}");
}

/// Returns the anchors of the headings in a document.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    let named = headings.map(|line| {
        let title = line.trim_start_matches('#').trim().to_lowercase();
        let kept = title
            .chars()
            .filter(|next| next.is_alphanumeric() || " -_".contains(*next));
        kept.map(|next| if next == ' ' { '-' } else { next }).collect()
    });
    named.collect()
}

fn drydock(arguments: &[&str]) -> Output {
    let place = tempfile::tempdir().expect("a folder");
    Command::new(built())
        .args(arguments)
        .env_clear()
        .current_dir(place.path())
        .output()
        .expect("the program runs")
}

fn help(verbs: &[&str]) -> Option<String> {
    let output = drydock(&[verbs, &["--help"]].concat());
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    output.status.success().then_some(text)
}

#[test]
fn every_command_and_flag_in_the_documents_is_one_of_the_programs() {
    let documents = [
        "README.md",
        "docs/connect.md",
        "docs/operate.md",
        "docs/demo.md",
        "docs/pipelines.md",
    ];
    let documents = documents.map(document).join("\n");
    let word = pattern("^[a-z]+$");
    let flag = pattern("--[a-z-]+");
    let mut all = help(&[]).expect("help");
    let mut lines: Vec<String> = code_spans(&documents);
    lines.extend(
        blocks(&documents, "sh")
            .iter()
            .flat_map(|block| block.lines().map(str::to_owned)),
    );
    let mut asked = 0;
    let mut wrong = Vec::new();
    for line in lines.iter().filter(|line| line.starts_with("drydock ")) {
        let line = line.split('#').next().unwrap_or_default();
        let words: Vec<&str> = line.split_whitespace().skip(1).collect();
        let nested = [
            "user", "token", "session", "audit", "data", "outbox", "slack", "telegram", "channel", "secrets",
            "runs", "schedule", "pipeline",
        ];
        let nested = nested.contains(words.first().expect("a verb"));
        let verbs = &words[..if nested { words.len().min(2) } else { 1 }];
        let Some(help) = verbs
            .iter()
            .all(|verb| word.is_match(verb))
            .then(|| help(verbs))
            .flatten()
        else {
            wrong.push(line.to_owned());
            continue;
        };
        asked += 1;
        wrong.extend(
            flag.find_iter(line)
                .map(|flag| flag.as_str())
                .filter(|flag| !help.contains(flag))
                .map(|flag| format!("{line}: {flag}")),
        );
        all.push_str(&help);
    }
    assert!(asked > 8, "the commands were read: {asked}");
    let lonely = lines.iter().filter(|line| line.starts_with("--"));
    let lonely = lonely.flat_map(|line| flag.find_iter(line).map(|flag| flag.as_str().to_owned()));
    wrong.extend(lonely.filter(|flag| !all.contains(flag.as_str())));
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn the_readme_lists_the_commands_of_chats_as_they_are() {
    let readme = document("README.md");
    let listed = readme.split("### Commands").nth(1).expect("the section");
    let listed: Vec<Vec<String>> = rows(listed).into_iter().take(command::ALL.len()).collect();
    let known: Vec<Vec<String>> = command::ALL
        .iter()
        .map(|known| vec![format!("`{}`", known.usage()), known.what.to_owned()])
        .collect();
    assert_eq!(listed, known);
}

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
    let printed = drydock(&["slack", "manifest", "--url", "https://drydock.example.com"]);
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

/// The tables of texts and values that the lists `errors` and `values` belong to. They list no differences themselves.
const OF_OTHERS: [&str; 2] = ["said", "values_here"];

/// Checks that the numbers of known differences from Tanka are those of the list that the conformance tests read.
#[test]
fn the_list_of_known_differences_is_as_long_as_the_document_says() {
    let listed: toml::Table = document("tests/it/conformance/known.toml").parse().expect("TOML");
    let sections = listed.keys().map(String::as_str);
    let mut sections: BTreeSet<&str> = sections.filter(|name| !OF_OTHERS.contains(name)).collect();
    let text = document("docs/tanka.md");
    let packs = rows(&text).into_iter().filter(|row| row.len() == 5);
    for row in packs {
        let name = row[0].trim_matches('`').to_owned();
        let known: usize = row[3].parse().expect("a number");
        let entries: usize = row[4].parse().expect("a number");
        let expected = match name.as_str() {
            "lint messages" => crate::conformance::DIFFERENT_MESSAGES_COUNT,
            name => listed
                .get(name)
                .and_then(toml::Value::as_table)
                .map_or(0, toml::Table::len),
        };
        sections.remove(name.as_str());
        assert_eq!(entries, expected, "{name}");
        assert!(known >= entries, "{name}: an entry stands for a case at least");
    }
    assert!(sections.is_empty(), "the document leaves out {sections:?}");
}

#[test]
fn every_known_difference_stands_in_the_document() {
    let listed: toml::Table = document("tests/it/conformance/known.toml").parse().expect("TOML");
    let text = document("docs/tanka.md");
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for (section, reasons) in listed
        .iter()
        .filter(|(section, _)| !OF_OTHERS.contains(&section.as_str()))
    {
        for (case, reason) in reasons.as_table().expect("a section") {
            let reason = reason.as_str().expect("a reason");
            let reason = reason
                .trim_start_matches("flagged: ")
                .trim_start_matches("the same: ");
            // These reasons are `the same` as the entry above them.
            let is_told = reason.starts_with("the same") || text.contains(reason);
            assert!(
                is_told,
                "docs/tanka.md does not say of `{case}` ({section}): {reason}"
            );
        }
    }
}

/// Returns a line without numbers that may differ between runs: changes are numbered in the order in which they are
/// ready.
fn comparable(line: &str) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    pattern(r"CHG-\d+")
        .replace_all(&words.join(" "), "CHG-n")
        .into_owned()
}

/// TK-1, SDK-3, SDK-4, SDK-8, SDK-9, SDK-10, SDK-18, CI-23, T01, STK-5, STK-10
#[test]
fn the_demo_plays_and_the_documents_show_what_it_says() {
    let output = drydock(&["demo", "--headless"]);
    let reported = String::from_utf8_lossy(&output.stdout).into_owned();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}\n{reported}");
    let documents = [("README.md", 0, 8), ("README.md", 3, 10), ("docs/demo.md", 0, 20)];
    for (name, block, shown_min) in documents {
        let excerpt = blocks(&document(name), "text").remove(block);
        let mut lines = reported.lines().map(comparable);
        let mut shown = 0;
        for line in excerpt.lines().map(comparable).filter(|line| !line.is_empty()) {
            assert!(
                lines.any(|reported| reported == line),
                "the demo did not print, in the order of {name}: {line}\n{reported}"
            );
            shown += 1;
        }
        assert!(shown >= shown_min, "the transcript of {name} was read: {shown}");
    }
}

/// Checks that the README shows the file of the demo, with the model that people use.
#[test]
fn the_readme_shows_the_pipeline_that_the_demo_runs() {
    let shown = blocks(&document("README.md"), "yaml").remove(0);
    let run = document("src/simulation/demo/demo_script/alert.yaml");
    assert_eq!(run.matches("anthropic/demo").count(), 1);
    assert_eq!(
        shown,
        run.replace("anthropic/demo", "anthropic/claude-sonnet-4-5")
    );
}

/// Checks that each later request for agent steps has a decision, with the reason. CI-30
#[test]
fn each_later_request_for_steps_has_a_decision() {
    let text = document("docs/decisions.md");
    let section = text.split("## Later requests for agent steps").nth(1);
    let section = section.expect("the section").split("\n## ").next();
    let rows = rows(section.unwrap_or_default());
    let decided: Vec<&str> = rows.iter().map(|row| row[0].as_str()).collect();
    let expected = [
        "programs in containers",
        "a tool that writes files",
        "sessions in Redis",
        "a long memory",
        "repetition after a failure",
        "output while the model writes",
        "a page of costs",
        "results of earlier runs in place of calls",
    ];
    assert_eq!(decided, expected);
    let unclear = rows.iter().filter(|row| {
        let [_, state, why] = row.as_slice() else {
            return true;
        };
        !["yes", "no", "partly", "later"].contains(&state.as_str()) || !why.ends_with('.')
    });
    assert_eq!(unclear.count(), 0);
}

/// TK-10
#[test]
fn exit_codes_tell_what_went_wrong() {
    assert_eq!(drydock(&["--version"]).status.code(), Some(0));
    assert_eq!(
        drydock(&["ask", "anything"]).status.code(),
        Some(1),
        "outside a repository"
    );
    assert_eq!(drydock(&["no-such-command"]).status.code(), Some(2));
    let checked = drydock(&["check"]);
    let said = String::from_utf8_lossy(&checked.stderr).into_owned();
    assert_eq!(checked.status.code(), Some(78), "{said}");
    assert!(said.contains("ANTHROPIC_API_KEY"), "{said}");
}

/// Checks that the architecture document stays short. A longer text belongs in a separate file.
#[test]
fn architecture_fits_on_a_few_screens_and_has_two_diagrams() {
    let text = document("ARCHITECTURE.md");
    assert!(text.lines().count() <= 200, "{} lines", text.lines().count());
    assert_eq!(
        blocks(&text, "text").len(),
        2,
        "modules, and the way of one message"
    );
    let words = text.split("## Glossary").nth(1).expect("the section");
    let words = rows(words.split("## ").next().unwrap_or_default());
    assert!((10..=25).contains(&words.len()), "{} words", words.len());
    let hops = text.split("### As files").nth(1).expect("the section");
    let hops = rows(hops.split("## ").next().unwrap_or_default());
    assert!((1..=12).contains(&hops.len()), "{} hops", hops.len());
}

/// Checks that each document opens with its benefit for the reader.
#[test]
fn each_document_opens_with_what_its_reader_gains() {
    let opens = pattern("(?m)^(After reading this|Ask in Slack|Read this)");
    let mut silent = Vec::new();
    for (path, text) in documents() {
        let opening: Vec<&str> = text.lines().filter(|line| !line.is_empty()).take(4).collect();
        if !opens.is_match(&opening.join("\n")) {
            silent.push(path);
        }
    }
    assert!(silent.is_empty(), "{silent:?}");
}
