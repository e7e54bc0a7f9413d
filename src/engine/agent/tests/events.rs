//! Tests of the events that people watch while a turn runs.

use super::fixture::TurnFixture;
use crate::engine::agent::TurnEvent;
use crate::interfaces::provider::scripted::{ScriptedProvider, calls, says};
use crate::rendering::compare::CompareProgress;

#[tokio::test]
async fn people_see_each_step_and_each_tool() {
    let fixture = TurnFixture::new();
    let ran = fixture
        .run(&ScriptedProvider::new([
            calls(&[("1", "slow_read", "")]),
            says("ok"),
        ]))
        .await;
    let expected = [
        TurnEvent::StepStarted { step: 1 },
        TurnEvent::ToolStarted {
            call: "1".into(),
            name: "slow_read".into(),
            arguments: "".into(),
            subject: None,
        },
        TurnEvent::ToolFinished {
            call: "1".into(),
            name: "slow_read".into(),
            content: "slow_read".into(),
            is_error: false,
        },
        TurnEvent::StepStarted { step: 2 },
        TurnEvent::Text("ok".into()),
        TurnEvent::Checking(CompareProgress { done: 1, total: 2 }),
    ];
    assert_eq!(ran.events, expected);
}

/// People see what a call is about, under whatever name the model gave it, and no secret in it.
#[tokio::test]
async fn a_call_that_starts_shows_its_subject() {
    let fixture = TurnFixture::new();
    let secret = ["ghp_", "CANARYcanary0123456789CANARYcanary012345"].concat();
    let hidden = format!("{{\"path\":\"{secret}\"}}");
    let wanted = [
        ("1", "tanka_format_jsonnet", "{\"file_path\":\"lib/a.jsonnet\"}"),
        ("2", "tanka_format_jsonnet", "{\"path\":\"lib/b.jsonnet\"}"),
        ("3", "git_status", "{}"),
        ("4", "no_such_tool", "{\"path\":\"lib\"}"),
        ("5", "file_read", "{"),
        ("6", "file_read", &hidden),
    ];
    let ran = fixture
        .run(&ScriptedProvider::new([calls(&wanted), says("ok")]))
        .await;
    let subjects = ran.events.iter().filter_map(|event| match event {
        TurnEvent::ToolStarted { subject, .. } => Some(subject.as_deref()),
        _ => None,
    });
    let subjects: Vec<Option<&str>> = subjects.collect();
    let shown = [Some("lib/a.jsonnet"), Some("lib/b.jsonnet"), None, None, None];
    assert_eq!(subjects[..5], shown);
    let redacted = subjects[5].expect("a subject");
    assert!(!redacted.contains("CANARY"), "{redacted}");
}

#[tokio::test]
async fn running_tools_say_how_far_they_are_without_secrets_and_without_waiting() {
    let fixture = TurnFixture::new();
    let both = calls(&[
        ("1", "downloads", r#"{"path":"1"}"#),
        ("2", "downloads", r#"{"path":"1"}"#),
    ]);
    let flood = calls(&[("3", "downloads", r#"{"path":"1000"}"#)]);
    let ran = fixture
        .run(&ScriptedProvider::new([both, flood, says("ok")]))
        .await;
    let progress: Vec<(&str, &str, &str)> = ran
        .events
        .iter()
        .filter_map(|event| match event {
            TurnEvent::ToolProgress { call, name, text } => {
                Some((call.as_str(), name.as_str(), text.as_str()))
            }
            _ => None,
        })
        .collect();
    let words = "archive ⟦secret:1⟧ 4 MiB";
    assert_eq!(
        progress[..2],
        [("1", "downloads", words), ("2", "downloads", words)]
    );
    // Progress that is not received at once is dropped, and the tool continues.
    assert_eq!(progress.len(), 2 + 16);
    assert_eq!(ran.results(), [("downloaded", false); 3]);
}
