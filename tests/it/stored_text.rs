//! Tests of stored text of people and models: it contains no secret, in any known encoding.

use crate::support::app::TestApp;
use crate::support::log::LogCapture;
use base64::Engine;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use drydock::simulation::demo::environment::{MODEL_KEY, SLACK_BOT_TOKEN};
use drydock::simulation::emulator::model::{AnswerFault, ModelRequest, calls, queue, says};
use drydock::state::access::Role;
use serde_json::json;

const ALICE: &str = "U0ALICE";
const BOB: i64 = 4_301;

/// Returns secrets that the configuration does not contain. They are split so that this file contains none.
fn shaped() -> [String; 2] {
    let key = ["-----BEGIN ", "PRIVATE KEY-----\n"].concat();
    let lines = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQCANARY0123456789\n".repeat(3);
    [
        ["ghp_", "CANARYcanary0123456789CANARYcanary012345"].concat(),
        format!("{key}{lines}{}", ["-----END ", "PRIVATE KEY-----"].concat()),
    ]
}

/// T87: while it waits, while it is answered and afterwards.
#[tokio::test]
async fn what_people_write_is_kept_without_secrets_from_the_first_moment() {
    let log = LogCapture::capture();
    let mut app = TestApp::new(|asked: &ModelRequest| {
        let answer = says("Done.");
        match asked.last_user_text().contains("wait") {
            true => answer.with_fault(AnswerFault::Stall),
            false => answer,
        }
    })
    .await;
    app.admit_slack_editor(ALICE).await;
    let [token, key] = shaped();
    let secrets = [
        token.as_str(),
        key.lines().nth(1).unwrap(),
        SLACK_BOT_TOKEN,
        MODEL_KEY,
    ];
    let words = format!("{token} and {SLACK_BOT_TOKEN}, {MODEL_KEY}\n{key}");
    let said = app.say(ALICE, &format!("please wait: {words}")).await;
    app.wait_for_model_requests(1).await;
    // A message that waits, and a command with an argument.
    app.say_in(ALICE, &said.ts, &format!("and this: {words}")).await;
    app.say_in(ALICE, &said.ts, &format!("!render {token} {SLACK_BOT_TOKEN}"))
        .await;
    assert_eq!(
        app.count("SELECT count(*) FROM inbox WHERE lane = 'turn' AND done_at IS NULL"),
        2
    );
    for secret in secrets {
        assert_eq!(app.data_files_with(secret), Vec::<String>::new(), "{secret}");
    }
    // The stored text is enough to resume the message.
    app.restart().await;
    app.wait_for_model_requests(2).await;
    assert!(
        app.model_requests()[1]
            .last_user_text()
            .contains("please wait: ⟦secret:")
    );
    app.say_in(ALICE, &said.ts, "!stop").await;
    app.wait_until_idle().await;
    for secret in secrets {
        assert_eq!(app.data_files_with(secret), Vec::<String>::new(), "{secret}");
        assert!(!log.text().contains(secret), "{secret} is logged");
    }
    let kept = app.column("SELECT DISTINCT inbound FROM inbox WHERE lane = 'turn' AND done_at IS NOT NULL");
    assert_eq!(kept, [""]);
}

/// T94
#[tokio::test]
async fn an_invite_with_words_around_it_is_an_invite_on_every_platform() {
    let app = TestApp::new(|_: &ModelRequest| says("Hello.")).await;
    app.admit_slack_editor("U0OTHER").await;
    let invite = async |name: &str| app.invite(name, Role::Editor, &["**"]).await;
    // In a direct message it admits its person.
    let [first, second, third] = [invite("alice").await, invite("bob").await, invite("carol").await];
    app.add_slack_account(ALICE);
    app.demo
        .slack
        .dm(ALICE, &format!("join {first} please"))
        .await
        .unwrap();
    app.wait_for_slack_message(&format!("D{ALICE}"), "You're in")
        .await;
    app.demo.telegram.say(BOB, BOB, &format!("join {second}")).await;
    app.wait_for_telegram_message(BOB, "You're in").await;
    app.demo
        .telegram
        .say(BOB + 1, BOB + 1, &format!("/start {third} thanks"))
        .await;
    app.wait_for_telegram_message(BOB + 1, "You're in").await;
    // In a public place, from an admitted person, it becomes invalid, and no model receives it.
    let public = invite("dave").await;
    app.say("U0OTHER", &format!("hi, please join `{public}` now"))
        .await;
    let notice = app.wait_for_ephemeral("U0OTHER", 0).await;
    assert!(notice.contains("revoked now"), "{notice}");
    // A longer message has another purpose. Its token is still not forwarded.
    let quoted = invite("erin").await;
    let long = format!("{} join {quoted} and so on", "a word or two about it ".repeat(5));
    app.demo.slack.dm("U0OTHER", &long).await.unwrap();
    app.wait_for_model_requests(1).await;
    app.wait_until_idle().await;
    assert!(
        app.model_requests()[0]
            .last_user_text()
            .contains("join [invite] and so on")
    );
    assert_eq!(app.model_requests().len(), 1);
    for token in [first, second, third, public, quoted] {
        assert_eq!(app.data_files_with(&token), Vec::<String>::new());
    }
}

/// Returns a secret in the encodings in which it may travel.
fn encoded(secret: &str) -> [String; 12] {
    let each = |form: fn(u8) -> String| secret.bytes().map(form).collect::<String>();
    [
        secret.to_owned(),
        BASE64_STANDARD.encode(secret),
        BASE64_STANDARD.encode(format!("x{secret}")),
        BASE64_STANDARD.encode(format!("xy{secret}z")),
        BASE64_URL_SAFE_NO_PAD.encode(secret),
        each(|byte| format!("{byte:02x}")),
        each(|byte| format!("{byte:02X}")),
        each(|byte| format!("%{byte:02X}")),
        each(|byte| format!("%{byte:02x}")),
        json!({ "key": json!({ "key": secret }).to_string() }).to_string(),
        each(|byte| format!("\\u{byte:04x}")),
        secret.chars().flat_map(|char| [char, '\u{200b}']).collect(),
    ]
}

/// T87: a model that knows our secrets cannot store them: not in words, not in thinking, not in calls.
#[tokio::test]
async fn what_a_model_writes_is_kept_without_live_secrets_in_any_encoding() {
    let log = LogCapture::capture();
    let secrets = [encoded(SLACK_BOT_TOKEN), encoded(MODEL_KEY)].concat();
    let all = secrets.join("\n");
    let mut writes = says(format!("I say {all}")).with_thinking(format!("I think {all}"));
    for (number, secret) in secrets.iter().take(15).enumerate() {
        let path = format!("environments/dev/{number}.txt");
        writes = writes.with_call(
            "file_write",
            json!({ "path": path, "content": format!("a\n{secret}\nb") }),
        );
    }
    let escaped = &encoded(SLACK_BOT_TOKEN)[10];
    let raw = format!("{{\"path\":\"environments/dev/x.txt\",\"content\":\"{escaped}\"}}");
    let app = TestApp::new(queue([
        writes,
        calls(format!("no {MODEL_KEY}"), json!({ "text_query": all })),
        calls("file_write", json!({})).with_fault(AnswerFault::Arguments(raw)),
        calls("file_write", json!({})).with_fault(AnswerFault::Arguments(format!("{{\"path\": \"{all}"))),
        says(format!("At last {all}")),
    ]))
    .await;
    app.admit_slack_editor(ALICE).await;
    let result = app.ask(ALICE, "tell me").await;
    app.run_command_in(ALICE, &result.thread, "!context").await;
    app.wait_until_idle().await;
    let asked = app.model_requests();
    assert!(asked[1].last_results().iter().all(|result| result.is_error));
    assert_eq!(
        app.column("SELECT edits FROM conversation WHERE spoken_at IS NOT NULL"),
        ["{}"]
    );
    let shown = app.all_slack_output();
    for secret in &secrets {
        // The first and the last characters depend on the surrounding text.
        let secret = secret.get(4..secret.len() - 4).unwrap_or(secret);
        let secret = secret.trim_matches(|char: char| !char.is_ascii());
        assert_eq!(app.data_files_with(secret), Vec::<String>::new(), "{secret}");
        assert!(!log.text().contains(secret), "{secret} is logged");
        assert!(!shown.contains(secret), "{secret} is shown");
        for asked in &asked {
            assert!(!asked.raw.contains(secret), "{secret} is sent");
        }
    }
}

/// SDK-12: the words, the answer with its cost and its calls, their results, the change and the verdict.
#[tokio::test]
async fn every_part_of_a_turn_is_a_line_of_its_recording() {
    let write = json!({"path": "note.txt", "content": "one\n"});
    let app = TestApp::new(queue([calls("file_write", write), says("Here.")])).await;
    app.admit_slack_editor(ALICE).await;
    app.ask(ALICE, "add a note").await;
    app.wait_until_idle().await;
    let recordings = app.recordings();
    assert_eq!(recordings.len(), 1);
    let lines: Vec<serde_json::Value> = recordings[0]
        .1
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let events: Vec<&str> = lines.iter().map(|line| line["event"].as_str().unwrap()).collect();
    let expected = ["began", "assistant", "result", "assistant", "change", "verdict"];
    assert_eq!(events, expected);
    assert_eq!(lines[0]["user"], "add a note");
    assert_eq!(lines[1]["calls"][0]["name"], "file_write");
    assert_eq!(lines[1]["usage"]["output"], 50);
    assert_eq!(lines[2]["call"], lines[1]["calls"][0]["id"]);
    assert_eq!(lines[3]["text"], "Here.");
    assert!(lines[4]["patch"].as_str().unwrap().contains("+one"));
    assert_eq!(lines[5]["verdict"], "pass");
}
