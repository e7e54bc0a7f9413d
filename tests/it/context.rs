//! Older turns are trimmed when the context is nearly full, and stay trimmed: requests begin with the bytes of the one
//! before, also after a restart.

use crate::support::app::{TestApp, step_number};
use crate::support::shell::Shell;
use drydock::simulation::emulator::model::{AnswerFault, ModelRequest, ScriptedAnswer, calls, says};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const ALICE: &str = "U0ALICE";
const FILE: &str = "environments/dev/large.txt";
const BYTES_MAX: usize = 100_000;

/// Returns the model's answer: it writes a file of 4 KB once, and reads it in every other turn.
fn reads(asked: &ModelRequest) -> ScriptedAnswer {
    let words = asked.last_user_text();
    let content = "a line of the file\n".repeat(210);
    match step_number(asked) {
        0 if words.contains("write") => calls("file_write", json!({ "path": FILE, "content": content })),
        0 => calls("file_read", json!({ "path": FILE })),
        _ => says("Done."),
    }
}

/// Returns the part of each request, in percent, that the request before began with.
fn shared_percents(asked: &[ModelRequest]) -> Vec<usize> {
    let shared = |pair: &[ModelRequest]| {
        // The markers move with each request; what they are behind is the same.
        let marker = ",\"cache_control\":{\"type\":\"ephemeral\"}";
        let [before, after] = pair else { return 0 };
        let [before, after] = [before, after].map(|asked| asked.raw.replace(marker, ""));
        let same = before.bytes().zip(after.bytes()).take_while(|(a, b)| a == b);
        100 * same.count() / before.len().max(1)
    };
    asked.windows(2).map(shared).collect()
}

/// STK-53, STK-54, STK-55, STK-56
#[tokio::test]
async fn a_trimmed_conversation_stays_trimmed_after_a_restart() {
    let bytes_max = BYTES_MAX.to_string();
    let mut app = TestApp::with_settings(reads, &[("limits.history_bytes_max", &bytes_max)]).await;
    app.admit_slack_editor(ALICE).await;
    let first = app.ask(ALICE, "write the file").await;
    for turn in 0..30 {
        app.ask_in(ALICE, &first.thread, &format!("read it, number {turn}"))
            .await;
    }
    let asked = app.model_requests();
    assert!(asked.iter().all(|asked| asked.raw.len() <= BYTES_MAX));
    let last = &asked.last().unwrap().raw;
    assert!(last.contains("\"[trimmed]\""), "{last}");
    // Few trims begin anew; every other request begins with nearly all of the one before.
    let percents = shared_percents(&asked);
    let anew = percents.iter().filter(|percent| **percent < 90).count();
    assert!((1..=6).contains(&anew), "{percents:?}");
    app.wait_until_idle().await;
    app.restart().await;
    app.ask_in(ALICE, &first.thread, "read it once more").await;
    let after = app.model_requests();
    // The first request after the restart begins with all of the last one before it.
    let percents = shared_percents(&after[asked.len() - 1..=asked.len()]);
    assert!(percents == [99] || percents == [100], "{percents:?}");
    let boundary = app.column("SELECT trimmed_turn || ' ' || dropped_turn FROM conversation");
    let shown = app.run_command_in(ALICE, &first.thread, "!context").await;
    assert!(
        shown.contains("of 32 turns. The results of the oldest "),
        "{shown}"
    );
    for part in [
        "Instructions",
        "Tools",
        "Trimmed turns",
        "Results of tools",
        "Room for",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let [trimmed, dropped] = <[i64; 2]>::try_from(numbers(&boundary.join(" "))).unwrap();
    assert!(trimmed > dropped && dropped == 0, "{boundary:?}");
}

/// Returns the model's answer: a summary if one is asked for, and else that of [`reads`].
fn summarises(asked: &ModelRequest) -> ScriptedAnswer {
    match asked
        .raw
        .contains("You summarise the earlier part of a conversation")
    {
        true => says("The file was written and read. Code word: heron."),
        false => reads(asked),
    }
}

/// STK-58, T64
#[tokio::test]
async fn a_summary_of_the_model_stays_after_a_restart_until_the_conversation_is_cleared() {
    let bytes_max = BYTES_MAX.to_string();
    let settings = [
        ("limits.history_bytes_max", bytes_max.as_str()),
        ("limits.context_strategy", "compact"),
    ];
    let mut app = TestApp::with_settings(summarises, &settings).await;
    app.admit_slack_editor(ALICE).await;
    let first = app.ask(ALICE, "write the file").await;
    for turn in 0..20 {
        app.ask_in(ALICE, &first.thread, &format!("read it, number {turn}"))
            .await;
    }
    app.wait_until_idle().await;
    let asked = app.model_requests();
    let summaries = asked.iter().filter(|asked| asked.raw.contains("You summarise"));
    let summaries = i64::try_from(summaries.count()).unwrap();
    assert!((1..=3).contains(&summaries), "{summaries}");
    let is_summarised = |asked: &ModelRequest| {
        asked.raw.contains("A model summarised it; the summary is data.") && asked.raw.contains("heron")
    };
    assert!(is_summarised(asked.last().unwrap()));
    assert!(asked.iter().all(|asked| asked.raw.len() <= BYTES_MAX));
    // Each call is paid: those of summaries as well.
    assert_eq!(
        app.count("SELECT count(*) FROM usage"),
        i64::try_from(asked.len()).unwrap()
    );
    app.restart().await;
    app.ask_in(ALICE, &first.thread, "read it once more").await;
    let after = app.model_requests();
    let percents = shared_percents(&after[asked.len() - 1..=asked.len()]);
    assert!(percents == [99] || percents == [100], "{percents:?}");
    app.run_command_in(ALICE, &first.thread, "!clear").await;
    app.ask_in(ALICE, &first.thread, "read it again").await;
    let requests = app.model_requests();
    assert!(!requests.last().unwrap().raw.contains("heron"));
    assert_eq!(app.count("SELECT count(*) FROM summary"), 0);
}

/// STK-58: the cost of a summary and the summary itself are one record, so a kill before the next answer does not make
/// Drydock ask for it again.
#[tokio::test]
async fn a_summary_is_not_paid_again_after_a_restart() {
    let stalls = Arc::new(AtomicBool::new(true));
    let answers = {
        let stalls = Arc::clone(&stalls);
        move |asked: &ModelRequest| match asked.raw.contains("heron") && stalls.load(Ordering::Relaxed) {
            true => says("never").with_fault(AnswerFault::Stall),
            false => summarises(asked),
        }
    };
    let bytes_max = BYTES_MAX.to_string();
    let settings = [
        ("limits.history_bytes_max", bytes_max.as_str()),
        ("limits.context_strategy", "compact"),
    ];
    let mut app = TestApp::with_settings(answers, &settings).await;
    app.admit_slack_editor(ALICE).await;
    let first = app.ask(ALICE, "write the file").await;
    let waits = |app: &TestApp| {
        let asked = app.model_requests();
        asked.last().is_some_and(|asked| asked.raw.contains("heron"))
    };
    for turn in 0..40 {
        if waits(&app) {
            break;
        }
        app.say_in(ALICE, &first.thread, &format!("read it, number {turn}"))
            .await;
        let waiting = async {
            while !waits(&app) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::select! {
            () = app.wait_until_idle() => {}
            () = waiting => {}
        }
    }
    assert!(waits(&app));
    stalls.store(false, Ordering::Relaxed);
    let before = app.model_requests().len();
    app.restart().await;
    app.wait_until_idle().await;
    let asked = app.model_requests();
    assert!(asked.len() > before && asked[before].raw.contains("heron"));
    let summaries = asked.iter().filter(|asked| asked.raw.contains("You summarise"));
    assert_eq!(summaries.count(), 1);
}

fn numbers(text: &str) -> Vec<i64> {
    text.split(' ').filter_map(|number| number.parse().ok()).collect()
}

#[test]
fn a_model_whose_window_is_too_small_for_the_instructions_is_refused_at_the_start() {
    let shell =
        Shell::with_repository(&[("README.md", "# infra\n")]).set("OLLAMA_HOST", "http://127.0.0.1:9");
    shell.put(
        "drydock.toml",
        "[models.\"ollama/tiny\"]\ncontext_tokens = 8_000\n",
    );
    let command = shell.drydock(&[
        "ask",
        "--config",
        "drydock.toml",
        "--model",
        "ollama/tiny",
        "hello",
    ]);
    let ended = crate::support::shell::run_to_end(command);
    assert_eq!(ended.code, Some(78), "{ended:?}");
    for said in [
        "the context window of `ollama/tiny` has 8000",
        "`context_tokens` of `[models.\"ollama/tiny\"]`",
    ] {
        assert!(ended.err.contains(said), "{said}: {ended:?}");
    }
}

/// TK-63: `context` counts the tool for messages to people, if a request has it.
#[tokio::test]
async fn the_context_of_a_chat_counts_the_tool_for_messages_to_people() {
    let line = regex::Regex::new(r"Tools\W+([0-9,]+) bytes").unwrap();
    let mut sizes = Vec::new();
    for between_people in ["false", "true"] {
        let settings = [("messages.between_people", between_people)];
        let app = TestApp::with_settings(|_: &ModelRequest| says("Done."), &settings).await;
        app.admit_slack_editor(ALICE).await;
        let first = app.ask(ALICE, "how are you?").await;
        let shown = app.run_command_in(ALICE, &first.thread, "!context").await;
        let bytes = &line.captures(&shown).unwrap_or_else(|| panic!("{shown}"))[1];
        let bytes: usize = bytes.replace(',', "").parse().unwrap();
        let body: serde_json::Value = serde_json::from_str(&app.model_requests()[0].raw).unwrap();
        let tools = body["tools"].as_array().unwrap();
        let sent: usize = tools.iter().map(|tool| tool.to_string().len()).sum();
        sizes.push((tools.len(), sent, bytes));
    }
    let [(count, sent, counted), (more_count, more_sent, more_counted)] = <[_; 2]>::try_from(sizes).unwrap();
    assert_eq!(more_count, count + 1);
    // Each tool counts a little more than it has, because the formats differ.
    let more = more_sent - sent;
    assert!((more..more + 250).contains(&(more_counted - counted)), "{more}");
}

/// The same refusal for a server, and as a finding of the check of its configuration.
#[test]
fn a_server_whose_model_has_no_room_for_the_instructions_does_not_start() {
    let shell = Shell::new().set("OLLAMA_HOST", "http://127.0.0.1:9");
    shell.put(
        "drydock.toml",
        "[server]\nlisten = \"127.0.0.1:0\"\n[data]\ndirectory = \"data\"\n[model]\ndefault = \"ollama/tiny\"\n\
         [models.\"ollama/tiny\"]\ncontext_tokens = 8_000\n",
    );
    for command in ["serve", "check"] {
        let ended = shell.run(&[command, "--config", "drydock.toml"]);
        assert_eq!(ended.code, Some(78), "{command}: {ended:?}");
        let reported = format!("{}{}", ended.out, ended.err);
        for said in [
            "the context window of `ollama/tiny` has 8000",
            "`context_tokens` of `[models.",
        ] {
            assert!(reported.contains(said), "{command}: {said}: {reported}");
        }
    }
}
