//! The requests of a session that goes on: what the model is sent of the session before.

use crate::cli_resume::{KEY, recorded, recording, resumed, run, shell};
use crate::support::shell::BlockingModel;
use drydock::simulation::emulator::model::{AnswerFault, ModelRequest, ScriptedAnswer, calls, queue, says};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Returns the model's answer: a summary if one is asked for; else it reads the file, and then says so.
fn reads(asked: &ModelRequest) -> ScriptedAnswer {
    if asked
        .raw
        .contains("You summarise the earlier part of a conversation")
    {
        return says("The file was read. Code word: heron.");
    }
    match asked.last_results().is_empty() {
        true => calls("file_read", json!({ "path": "a" })),
        false => says("Done."),
    }
}

/// STK-56, STK-57: a session that goes on is trimmed and summarised as it was, so its next request has the bytes of a session
/// that did not end.
#[test]
fn a_session_that_goes_on_is_trimmed_and_summarised_as_it_was() {
    let text = "a line of the file\n".repeat(210);
    for (strategy, mark) in [("trim", "\"[trimmed]\""), ("compact", "heron")] {
        let strategy = format!("limits.context_strategy={strategy}");
        let settings = ["limits.history_bytes_max=100000", &strategy];
        let input: String = (0..30).map(|turn| format!("read it, number {turn}\n")).collect();
        let next = "read it once more\n";
        let session = |is_resumed| {
            let model = BlockingModel::start(reads);
            let shell = shell(&[("a", &text)]);
            let chat = recorded(&shell, &model, &settings);
            if is_resumed {
                assert_eq!(run(&shell, &chat, &input).code, Some(0));
                let ended = resumed(&shell, &chat, next);
                assert_eq!(ended.code, Some(0), "{ended:?}");
                assert_eq!(ended.out, "Done.\n", "{ended:?}");
            } else {
                let ended = run(&shell, &chat, &format!("{input}{next}"));
                assert_eq!(ended.code, Some(0), "{ended:?}");
            }
            let asked = model.asked().into_iter();
            asked.map(|asked| asked.raw).collect::<Vec<_>>()
        };
        let (whole, parts) = (session(false), session(true));
        assert!(whole[whole.len() - 2].contains(mark));
        assert_eq!(whole.len(), parts.len(), "{mark}");
        let differs = (0..whole.len()).find(|request| whole[*request] != parts[*request]);
        assert_eq!(differs, None, "{mark}: {}", whole.len());
    }
}

/// STK-57: a summary that was paid is not asked for again after a kill, although no step followed it.
#[test]
fn a_summary_is_not_paid_again_after_a_kill() {
    let stalls = Arc::new(AtomicBool::new(true));
    let model = BlockingModel::start({
        let stalls = Arc::clone(&stalls);
        move |asked: &ModelRequest| match asked.raw.contains("heron") && stalls.load(Ordering::Relaxed) {
            true => says("never").with_fault(AnswerFault::Stall),
            false => reads(asked),
        }
    });
    let shell = shell(&[("a", &"a line of the file\n".repeat(210))]);
    let settings = [
        "limits.history_bytes_max=100000",
        "limits.context_strategy=compact",
    ];
    let chat = recorded(&shell, &model, &settings);
    let mut running = shell.start(&chat.iter().map(String::as_str).collect::<Vec<_>>());
    let summarised = |model: &BlockingModel| {
        model
            .asked()
            .last()
            .is_some_and(|asked| asked.raw.contains("heron"))
    };
    for turn in 0..40 {
        running.type_line(&format!("read it, number {turn}"));
    }
    let deadline = Instant::now() + Duration::from_secs(60);
    while !summarised(&model) {
        assert!(Instant::now() < deadline, "{}", model.asked().len());
        std::thread::sleep(Duration::from_millis(5));
    }
    // The program is killed while it waits for the answer to the request with the summary.
    drop(running);
    stalls.store(false, Ordering::Relaxed);
    let before = model.asked().len();
    let continued = resumed(&shell, &chat, "/retry\n");
    assert_eq!(
        (continued.code, continued.out.as_str()),
        (Some(0), "Done.\n"),
        "{continued:?}"
    );
    let asked = model.asked();
    let summaries = asked.iter().filter(|asked| asked.raw.contains("You summarise"));
    assert_eq!(summaries.count(), 1);
    assert!(asked[before].raw.contains("heron"), "{}", asked[before].raw);
}

/// Signed thinking of the model is sent back as the provider wrote it, after the session went on.
#[test]
fn signed_thinking_is_sent_back_after_the_session_went_on() {
    let model = BlockingModel::start(queue([
        calls("file_read", json!({ "path": "a" })).with_thinking("First I \"look\"."),
        says("It says one.").with_thinking(format!("The key is {}.", KEY.1)),
        says("Again."),
    ]));
    let shell = shell(&[("a", "one\n")]);
    let chat = recorded(&shell, &model, &[]);
    assert_eq!(run(&shell, &chat, "read a\n").code, Some(0));
    let text = std::fs::read_to_string(recording(&shell)).unwrap();
    assert!(!text.contains(KEY.1), "{text}");
    assert_eq!(resumed(&shell, &chat, "again\n").out, "Again.\n");
    let asked = model.asked();
    let blocks = |index: usize, message: usize| -> Value {
        let raw: Value = serde_json::from_str(&asked[index].raw).unwrap();
        raw["messages"][message]["content"].clone()
    };
    assert_eq!(blocks(1, 1)[0]["thinking"], "First I \"look\".");
    assert!(!blocks(1, 1)[0]["signature"].as_str().unwrap().is_empty());
    assert_eq!(blocks(2, 1), blocks(1, 1));
    let block = regex::Regex::new(r#"\{[^{}]*"thinking":"First[^{}]*\}"#).unwrap();
    let block = block.find(&asked[1].raw).unwrap().as_str();
    assert!(asked[2].raw.contains(block), "{block}: {}", asked[2].raw);
    // Blocks with a secret are not kept; the words of the answer are sent instead.
    assert_eq!(blocks(2, 3)[0]["text"], "It says one.");
}

/// CI-5: an output of an earlier session is not kept, and the model is told so. New outputs have other names.
#[test]
fn an_output_of_an_earlier_session_is_named_as_such() {
    let read = || calls("file_read", json!({ "path": "a" }));
    let model = BlockingModel::start(queue([
        read(),
        says("Long."),
        calls("read_output", json!({ "ref": "out-1" })),
        read(),
        calls("read_output", json!({ "ref": "out-3", "tail": 1 })),
        says("Done."),
    ]));
    let text: String = (1..=400).map(|line| format!("line {line}\n")).collect();
    let shell = shell(&[("a", &text)]);
    let chat = recorded(&shell, &model, &["limits.tool_output_bytes_max=1600"]);
    assert_eq!(run(&shell, &chat, "read a\n").code, Some(0));
    assert_eq!(resumed(&shell, &chat, "show me the rest\n").out, "Done.\n");
    let asked = model.asked();
    let result = |index: usize| asked[index].last_results()[0].content.clone();
    assert!(
        result(1).contains("`read_output` with ref=out-1 reads all of it"),
        "{}",
        result(1)
    );
    assert_eq!(
        result(3),
        "the output out-1 is from an earlier session and is no longer kept; make the call again that had it"
    );
    assert!(result(4).contains("ref=out-2 reads all of it"), "{}", result(4));
    assert!(result(5).contains("there is no output out-3"), "{}", result(5));
}

/// A recording of an earlier version has neither the state nor the prices of its steps.
#[test]
fn a_recording_of_an_earlier_version_goes_on() {
    let model = BlockingModel::start(queue([
        calls("file_read", json!({ "path": "a" })),
        says("It says one."),
        says("Two."),
    ]));
    let shell = shell(&[("a", "one\n")]);
    let chat = recorded(&shell, &model, &[]);
    assert_eq!(run(&shell, &chat, "read a\n").code, Some(0));
    let file = recording(&shell);
    let text = std::fs::read_to_string(&file).unwrap();
    let lines = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let old = lines.filter(|line| line["event"] != "used").map(|mut line| {
        let had_state = line.as_object_mut().unwrap().remove("session").is_some();
        assert_eq!(had_state, line["event"] == "assistant", "{line}");
        line["turn"] = Value::Null;
        format!("{line}\n")
    });
    std::fs::write(&file, old.collect::<String>()).unwrap();
    let ended = resumed(&shell, &chat, "/usage\nand two?\n/usage\n");
    let out = "\
2100 tokens: 2000 in, 100 out, 0 read from and 0 written to the cache; 2 calls of unknown price
Two.
3150 tokens: 3000 in, 150 out, 0 read from and 0 written to the cache; $0.0063 and 2 calls of unknown price
";
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), out), "{ended:?}");
    assert_eq!(model.asked()[2].messages.len(), 5);
    let again = resumed(&shell, &chat, "/usage\n");
    assert_eq!(
        Some(again.out.as_str()),
        out.lines().last().map(|line| format!("{line}\n")).as_deref()
    );
}
