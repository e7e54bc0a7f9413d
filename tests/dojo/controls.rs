//! Positive controls: every watch fires when it sees what it watches for. Without them, a table without violations
//! would prove nothing.

use super::bystander;
use super::class::{lock_exclusive, lock_shared, run_class};
use super::expansion::{CaseKind, DojoCase};
use super::extent::TableExtent;
use super::fixture::AttackFixture;
use super::judge::{
    fixture_violations, grant_violations, message_violations, stored_secrets, text_violations,
    unmet_expectations,
};
use super::memory::{forget_peak, peak_bytes, resident_bytes};
use super::options::{ClusterNaming, FixtureOptions};
use super::placeholders::PlaceholderValues;
use super::run_case::CaseResult;
use super::table::{AttackClass, CasePlatform, Persona, WireFormat, class_names};
use super::watch::connection_sink::ConnectionSink;
use super::watch::files::{OutsideFiles, differences, digests};
use super::watch::log::{self, LogWatch};
use super::watch::visible_messages::{
    VisibleMessage, slack_message as of_slack_message, slack_messages, telegram_call_messages,
    telegram_message,
};
use super::watch::{LeakWatch, VICTIM};
use drydock::simulation::demo::environment::{SLACK_BOT_TOKEN, SLACK_CHANNEL, TELEGRAM_BOT_TOKEN};
use drydock::simulation::emulator::slack::SlackMessage;
use drydock::simulation::emulator::telegram::PostedMessage;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

/// Checks that each row of `controls.toml`, which violates its own expectation, is reported against the real
/// gateway.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unmet_expectation_of_a_row_is_a_violation() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/dojo/controls.toml");
    let class = AttackClass::read_file(&file);
    let options = class.fixture_options().expect("it needs nothing");
    let (cases, violations) = run_class(&class, &options).await;
    let extent = class.extent(TableExtent::chosen());
    let rows = class.attack.iter().chain(&class.benign);
    let titles = rows.flat_map(|row| match row.wires(extent) {
        [_] => vec![format!(" {}: ", row.name)],
        wires => wires
            .iter()
            .map(|wire| format!(" {} over {wire:?}: ", row.name))
            .collect(),
    });
    let titles: Vec<String> = titles.collect();
    assert_eq!(cases, titles.len());
    for title in titles {
        let found = violations.iter().any(|violation| violation.contains(&title));
        assert!(found, "nothing was found wrong with `{title}`");
    }
}

/// Checks that the bounds of a class as a whole are measured while it is played, and reported.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_class_over_its_memory_or_time_bounds_is_a_violation() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/dojo/controls_of_bounds.toml");
    let class = AttackClass::read_file(&file);
    let options = class.fixture_options().expect("it needs nothing");
    let (_, violations) = run_class(&class, &options).await;
    for reported in [
        " MiB more memory was in use than before",
        "another person waited ",
    ] {
        let found = violations.iter().filter(|violation| violation.contains(reported));
        assert_eq!(found.count(), 1, "{reported:?} in {violations:#?}");
    }
}

/// Checks that violations outside the cases are reported at the end of a fixture that was clean until then. G1, G3, G4
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn violations_outside_any_case_are_reported_at_the_end_of_a_class() {
    let _alone = lock_exclusive().await;
    let (mut fixture, _) =
        AttackFixture::new(WireFormat::Anthropic, &FixtureOptions::default(), |_| Vec::new()).await;
    fixture.app.take().unwrap().shutdown().await;
    assert_eq!(fixture_violations(&fixture, &[]), [""; 0]);

    drop(
        tokio::net::TcpStream::connect(&fixture.sink.address)
            .await
            .unwrap(),
    );
    until_connected(&fixture.sink).await;
    drop(std::fs::File::open(fixture.outside.file()).unwrap());
    let room = fixture.directory.path();
    std::fs::write(room.join("infra.git/config"), "[core]\n").unwrap();
    std::fs::write(room.join("made"), "x").unwrap();
    let stored = super::placeholders::expand("x «base64 slack-bot» y", &PlaceholderValues::default());
    let sessions = fixture.data_directory().join("sessions");
    std::fs::create_dir_all(&sessions).unwrap();
    std::fs::write(sessions.join("1.jsonl"), &stored).unwrap();
    std::fs::write(fixture.data_directory().join("drydock.log"), &stored).unwrap();
    tracing::trace!("CANARY-DANGLING");
    fixture
        .timeouts
        .lock()
        .unwrap()
        .push("nothing ends here".to_owned());
    let client = drydock::base::http_client::api_client().unwrap();
    for url in [
        format!("{}/chat.postMessage", fixture.slack.api_base_url()),
        format!(
            "{}/bot{TELEGRAM_BOT_TOKEN}/sendMessage",
            fixture.telegram.api_base_url()
        ),
        format!("{}/v1/messages", fixture.model.url()),
    ] {
        client.post(url).body("{").send().await.unwrap();
    }
    // The victim's conversation is the one with a model request.
    let asked = DojoCase {
        number: VICTIM,
        ..case("as = \"unknown\"")
    };
    let reported = fixture_violations(&fixture, &[asked]);
    for expected in [
        "a model was called for an unknown sender: x",
        "nothing ends here",
        "1 connections reached the sink",
        "outside of the repository: ",
        "the repository was changed: ",
        "beside the repository is \"made\"",
        "a recording holds slack-bot as base64",
        "drydock.log holds slack-bot as base64",
        "a log line holds a commit no branch reaches",
        "Slack: ",
        "Telegram: ",
        "model: ",
    ] {
        assert!(
            reported.iter().any(|line| line.starts_with(expected)),
            "{expected:?} in {reported:#?}"
        );
    }
}

/// Checks that the table has the claimed size, contains no case twice, and has a test for each class. R30
#[test]
fn the_table_holds_four_hundred_attacks_and_sixty_harmless_twins() {
    let mut values = PlaceholderValues::default();
    for name in ["sink", "outside", "room", "dangling"] {
        values.set(name, name);
    }
    let (mut attacks, mut benign, mut all) = (0, 0, BTreeSet::new());
    let mut on_each_wire = 0;
    let tests = include_str!("main.rs");
    for name in class_names() {
        let class = AttackClass::read(&name);
        assert!(
            tests.contains(&format!("run(\"{name}\")")),
            "no test plays `{name}`"
        );
        on_each_wire += class.cases(&values, TableExtent::EachWire).len();
        for case in class.cases(&values, TableExtent::Usual) {
            match case.kind {
                CaseKind::Attack => attacks += 1,
                CaseKind::Benign => benign += 1,
            }
            let options = (&class.settings, class.clusters);
            let what = format!("{options:?} {:?} {:?} {:?}", case.row, case.on, case.wire);
            assert!(all.insert(what), "{name}: {} is given twice", case.title);
        }
    }
    assert!(
        attacks >= 400 && benign >= 60 && attacks + benign >= 600,
        "{attacks} attacks, {benign} harmless twins"
    );
    assert!(
        on_each_wire >= 2_400,
        "{on_each_wire} cases with each wire format"
    );
}

/// G3
#[tokio::test]
async fn a_connection_to_the_sink_is_counted() {
    let sink = ConnectionSink::new().await;
    assert_eq!(sink.connections(), 0);
    drop(tokio::net::TcpStream::connect(&sink.address).await.unwrap());
    until_connected(&sink).await;
}

async fn until_connected(sink: &ConnectionSink) {
    let started = Instant::now();
    while sink.connections() == 0 {
        assert!(
            started.elapsed() < Duration::from_secs(30),
            "the connection was not counted"
        );
        tokio::task::yield_now().await;
    }
}

#[test]
fn an_outside_file_that_is_opened_or_created_is_reported() {
    let room = tempfile::tempdir().unwrap();
    let outside = OutsideFiles::new(room.path().join("outside"));
    assert_eq!(outside.take_accesses(), Vec::<String>::new());
    drop(std::fs::File::open(outside.file()).unwrap());
    assert!(!outside.take_accesses().is_empty());
    std::fs::write(outside.directory.join("new"), "x").unwrap();
    assert!(!outside.take_accesses().is_empty());
}

/// G4
#[test]
fn a_changed_repository_is_reported() {
    let room = tempfile::tempdir().unwrap();
    super::repository::create(&room.path().join("infra.git"), &{
        let mut values = PlaceholderValues::default();
        values.set("outside", "/outside");
        ClusterNaming::default().set_placeholders(&mut values);
        values
    });
    let before = digests(room.path());
    std::fs::write(room.path().join("infra.git/config"), "[core]\n").unwrap();
    std::fs::write(room.path().join("infra.git/hooks-post"), "x").unwrap();
    assert_eq!(differences(&before, &digests(room.path())).len(), 2);
}

/// G1
#[test]
fn canaries_and_secrets_are_reported_unless_the_victim_sees_their_own() {
    let watch = LeakWatch::new();
    let texts = [
        "CANARY-OUTSIDE",
        "CANARY-DANGLING",
        "root:x:0:0",
        "CANARY-VICTIM",
        "«secret db-password»",
        "«hex pem»",
    ];
    for text in texts {
        let text = super::placeholders::expand(text, &PlaceholderValues::default());
        assert!(
            !watch.secrets_and_canaries(text.as_bytes(), 7).is_empty(),
            "{text}"
        );
    }
    assert!(watch.secrets_and_canaries(b"CANARY-VICTIM", VICTIM).is_empty());
    let path = std::env::var("PATH").unwrap();
    assert!(!watch.secrets_and_canaries(path.as_bytes(), 7).is_empty());
}

#[test]
fn a_secret_in_the_data_directory_is_reported() {
    let room = tempfile::tempdir().unwrap();
    let watch = LeakWatch::new();
    assert!(stored_secrets(&watch, room.path()).is_empty());
    let text = super::placeholders::expand("x «base64 slack-bot» y", &PlaceholderValues::default());
    std::fs::create_dir(room.path().join("sessions")).unwrap();
    for (number, (file, reported)) in [
        ("drydock.db-wal", "drydock.db-wal"),
        ("sessions/1.jsonl", "a recording"),
        ("server.log", "server.log"),
    ]
    .into_iter()
    .enumerate()
    {
        std::fs::write(room.path().join(file), &text).unwrap();
        let found = stored_secrets(&watch, room.path());
        assert_eq!(found.len(), number + 1);
        assert!(
            found.contains(&format!("{reported} holds slack-bot as base64")),
            "{found:?}"
        );
    }
}

/// Checks that the log is searched at the most detailed level, and that values hidden by the redactor do not occur
/// there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_secret_in_a_log_line_is_reported() {
    let _together = lock_shared().await;
    let (fixture, _) =
        AttackFixture::new(WireFormat::Anthropic, &FixtureOptions::default(), |_| Vec::new()).await;
    assert_eq!(fixture.log.violations(), Vec::<String>::new());
    let text = super::placeholders::expand(
        "«hex api-token» «secret slack-bot» CANARY-OUTSIDE",
        &PlaceholderValues::default(),
    );
    tracing::trace!("{}: {text}", log::CONTROL_TEXT);
    let found = LogWatch::control_findings();
    let reported: Vec<&str> = found.iter().map(String::as_str).collect();
    assert_eq!(reported, ["a file outside of the repository", "api-token as hex"]);
    assert_eq!(fixture.log.violations(), Vec::<String>::new());
    fixture.app.unwrap().shutdown().await;
}

/// Checks that the earlier text of an edited message is searched as well, on both platforms, because people may have
/// read it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_secret_removed_by_a_later_edit_is_still_reported() {
    let _together = lock_shared().await;
    let (fixture, _) =
        AttackFixture::new(WireFormat::Anthropic, &FixtureOptions::default(), |_| Vec::new()).await;
    let secret = super::placeholders::expand("«base64 prod-password»", &PlaceholderValues::default());
    let client = drydock::base::http_client::api_client().unwrap();
    let said = fixture.slack.write("U0DEV", SLACK_CHANNEL, None, "hello");
    for text in [secret.as_str(), "nothing"] {
        let mut body = json!({ "channel": SLACK_CHANNEL, "text": text, "parse": "none", "link_names": false,
            "unfurl_links": false, "unfurl_media": false, "thread_ts": said.ts });
        let mut method = "chat.postMessage";
        let posted = fixture
            .slack
            .with_state(|state| state.replies(SLACK_CHANNEL, &said.ts).next().cloned());
        if let Some(posted) = posted {
            (method, body["ts"]) = ("chat.update", json!(posted.ts));
        }
        let url = format!("{}/{method}", fixture.slack.api_base_url());
        let request = client.post(url).bearer_auth(SLACK_BOT_TOKEN);
        let request = request
            .header("content-type", "application/json")
            .body(body.to_string());
        let answer = request.send().await.unwrap().text().await.unwrap();
        assert!(answer.contains("\"ok\":true"), "{answer}");
    }
    let shown = fixture
        .slack
        .with_state(|state| slack_messages(state, SLACK_CHANNEL, Some(&said.ts), "U0DEV"));
    assert_eq!(
        shown.iter().map(|shown| shown.is_replaced).collect::<Vec<_>>(),
        [true, false]
    );
    let wrong: Vec<_> = shown
        .iter()
        .flat_map(|shown| message_violations(&fixture.watch, shown, 7))
        .collect();
    assert_eq!(wrong, ["a message contains prod-password as base64"]);

    let text = format!("{secret} https://evil.example");
    let link = json!({ "type": "url", "offset": 0, "length": 4 });
    let calls = [
        (
            "sendMessage".to_owned(),
            json!({ "chat_id": 7, "text": text, "entities": [link] }),
        ),
        (
            "editMessageText".to_owned(),
            json!({ "chat_id": 7, "text": "nothing" }),
        ),
        ("sendMessage".to_owned(), json!({ "chat_id": 8, "text": text })),
    ];
    let shown = telegram_call_messages(&calls, 7, 7);
    let wrong: Vec<_> = shown
        .iter()
        .map(|shown| message_violations(&fixture.watch, shown, 7).len())
        .collect();
    assert_eq!(wrong, [2, 0]);
    fixture.app.unwrap().shutdown().await;
}

#[test]
fn pings_and_links_of_a_message_are_reported_on_both_platforms() {
    let text = "<!channel> <@U0DEV> <@U0VICTIM> <https://evil.example|x>";
    let message = SlackMessage {
        channel: "C1".to_owned(),
        ts: "1.1".to_owned(),
        thread_ts: None,
        user: "U0DRYDOCK".to_owned(),
        text: text.to_owned(),
        request: json!({ "text": text, "parse": "none" }),
        earlier: Vec::new(),
        reactions: BTreeSet::new(),
        edits: 0,
        shown_at: Instant::now(),
        files: Vec::new(),
    };
    assert_eq!(of_slack_message(&message, "U0DEV").acts_on.len(), 3);
    let entity = |fields: Value| fields;
    let posted = PostedMessage {
        id: 1,
        topic: None,
        text: "x".to_owned(),
        entities: vec![
            entity(json!({ "type": "url" })),
            entity(json!({ "type": "text_mention", "user": { "id": 8 } })),
            entity(json!({ "type": "text_mention", "user": { "id": 7 } })),
            entity(json!({ "type": "bold" })),
        ],
        rich: None,
        keyboard: Vec::new(),
        reply_to: None,
        document: None,
        edits: 0,
    };
    assert_eq!(telegram_message(&posted, 7).acts_on.len(), 2);
    let shown = VisibleMessage {
        acts_on: vec!["Broadcast".to_owned()],
        ..VisibleMessage::default()
    };
    assert_eq!(message_violations(&LeakWatch::new(), &shown, 7).len(), 1);
}

#[test]
fn forged_lines_and_hidden_characters_are_reported() {
    for text in ["Render  pass\n  FORGED row", "a\u{202e}b", "a\u{1b}[2Jb", "a\rb"] {
        assert_eq!(text_violations(text).len(), 1, "{text:?}");
    }
    assert!(text_violations("a FORGED row\n\tb").is_empty());
}

/// G4
#[test]
fn edits_of_files_without_a_grant_are_reported() {
    let edited: BTreeSet<String> = ["environments/dev/x", "environments/prod/x"]
        .map(str::to_owned)
        .into();
    for (person, wrong) in [(Persona::Dev, 1), (Persona::Viewer, 2), (Persona::Editor, 0)] {
        assert_eq!(grant_violations(person, &edited).len(), wrong, "{person:?}");
    }
}

/// Returns a case of a row with these lines.
fn case(lines: &str) -> DojoCase {
    DojoCase {
        number: 1,
        kind: CaseKind::Attack,
        title: "x".to_owned(),
        on: CasePlatform::Slack,
        wire: WireFormat::Anthropic,
        row: toml::from_str(&format!("name = \"x\"\n{lines}\n")).unwrap(),
    }
}

#[test]
fn too_many_messages_are_reported() {
    let case = case("");
    let reported = |posts: usize| {
        let mut played = CaseResult::default();
        played.record.ended = true;
        played.messages = vec![VisibleMessage::default(); posts];
        played.messages.push(VisibleMessage {
            text: super::script::final_line(1),
            is_file: true,
            ..VisibleMessage::default()
        });
        unmet_expectations(&case, &played)
    };
    assert_eq!(reported(2), [""; 0]);
    assert_eq!(reported(40), ["40 messages were posted"]);
}

/// Checks that the peak of the memory is measured, not the memory that remains afterwards.
#[tokio::test]
async fn peak_memory_and_waiting_time_are_measured_and_reported() {
    let _alone = lock_exclusive().await;
    let before = resident_bytes();
    forget_peak();
    let used = std::hint::black_box(vec![1_u8; 128 << 20]);
    assert!(
        resident_bytes() >= before + (100 << 20),
        "{} after {before}",
        resident_bytes()
    );
    drop(used);
    assert!(
        peak_bytes() >= before + (100 << 20),
        "{} after {before}",
        peak_bytes()
    );
    forget_peak();
    assert!(
        peak_bytes() < before + (100 << 20),
        "{} after {before}",
        peak_bytes()
    );
    let second = Duration::from_secs(1);
    assert!(bystander::wait_violation(second * 3, second * 2).is_some());
    assert!(bystander::wait_violation(second, second * 2).is_none());
}

/// Checks that the bystander is served when there is no attack, and that their wait is measured.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bystander_is_served_and_measured() {
    let _together = lock_shared().await;
    let (fixture, _) =
        AttackFixture::new(WireFormat::Anthropic, &FixtureOptions::default(), |_| Vec::new()).await;
    let (value, slowest) = bystander::run_alongside(&fixture, tokio::task::yield_now()).await;
    assert_eq!(value, ());
    assert!(slowest > Duration::ZERO);
    fixture.app.unwrap().shutdown().await;
}
