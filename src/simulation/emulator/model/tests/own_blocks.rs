//! Tests of the blocks that only their provider and their model may read: thinking, signatures and encrypted reasoning.

use super::{ModelFixture, asking, expectations, results};
use crate::base::config::{AnswerMode, known_provider};
use crate::base::model::{Assistant, ContentBlock, RawBlocks, Step, StopReason, ToolCall, Usage};
use crate::interfaces::provider::first_of_each_format;
use crate::simulation::emulator::model::{queue, says};
use serde_json::json;
use serde_json::value::RawValue;

#[tokio::test]
async fn a_provider_reads_its_own_blocks_byte_for_byte_and_nobody_elses() {
    let known = |name| known_provider(name).expect("a known provider");
    let keeping = first_of_each_format()
        .into_iter()
        .filter(|known| expectations(known).own_blocks.is_some());
    let modes = [AnswerMode::Streamed, AnswerMode::Whole];
    for way in keeping.flat_map(|known| modes.map(|mode| (known, mode))) {
        let line = || {
            says("Words.")
                .with_thinking("Hm.\u{2028}")
                .with_call("file_read", json!({"path": "a"}))
        };
        let mut fixture = ModelFixture::new(way, queue([line(), says("ok")]));
        let mut history = asking("hello");
        let answer = fixture.ask(&history).await.expect("answer");
        let raw = answer.assistant.raw.clone().expect("raw");
        let call_results = results(&answer.assistant, "content");
        // The step is serialised and parsed again, as after a restart.
        let step =
            serde_json::to_string(&Step::new(answer.assistant, call_results).expect("step")).expect("json");
        history
            .push(serde_json::from_str(&step).expect("step"))
            .expect("open");
        fixture.ask(&history).await.expect("answer");
        let blocks: Vec<&str> = raw.blocks.iter().map(|block| block.get()).collect();
        let sent = &fixture.emulator.requests()[1].raw;
        assert!(sent.contains(&blocks.join(",")), "{way:?}: {sent}");
        fixture.assert_in_order();

        for other in ["anthropic", "openai", "google", "openrouter"] {
            if other == way.0.name {
                continue;
            }
            let mut other = ModelFixture::new((known(other), way.1), queue([says("ok")]));
            other.ask(&history).await.expect("answer");
            let sent = &other.emulator.requests()[0].raw;
            // The beginnings of signatures and of encrypted reasoning.
            assert!(
                !sent.contains("c2lnbmVk") && !sent.contains("gAAAAA"),
                "{way:?}: {sent}"
            );
            other.assert_in_order();
        }
    }
}

/// TK-76
#[tokio::test]
async fn a_model_that_does_not_reason_gets_no_reasoning_of_another() {
    let line = says("Words.")
        .with_thinking("Hm.")
        .with_call("file_read", json!({"path": "a"}));
    let openai = known_provider("openai").expect("a known provider");
    let mut fixture = ModelFixture::new((openai, AnswerMode::Streamed), queue([line, says("Done.")]));
    fixture.model = "gpt-5.1".into();
    let mut history = asking("hello");
    let answer = fixture.ask(&history).await.expect("answer").assistant;
    let call_results = results(&answer, "content");
    history
        .push(Step::new(answer, call_results).expect("step"))
        .expect("open");
    fixture.model = "gpt-4o".into();
    assert_eq!(
        fixture.ask(&history).await.expect("answer").assistant.text(),
        "Done."
    );
    let sent = fixture.emulator.requests();
    let includes = |index: usize| sent[index].raw.contains("reasoning.encrypted_content");
    assert_eq!((includes(0), includes(1)), (true, false));
    fixture.assert_in_order();
}

/// TK-76
#[tokio::test]
async fn another_model_of_the_same_provider_gets_no_blocks_of_the_first() {
    let keeping = first_of_each_format()
        .into_iter()
        .filter(|known| expectations(known).own_blocks.is_some());
    for known in keeping {
        let line = says("Words.")
            .with_thinking("Hm.")
            .with_call("file_read", json!({"path": "a"}));
        let script = queue([line, says("Done."), says("Done.")]);
        let mut fixture = ModelFixture::new((known, AnswerMode::Streamed), script);
        let first = fixture.model.clone();
        let mut history = asking("hello");
        let answer = fixture.ask(&history).await.expect("answer").assistant;
        let call_results = results(&answer, "content");
        history
            .push(Step::new(answer, call_results).expect("step"))
            .expect("open");
        fixture.model = "maker/other".into();
        fixture.ask(&history).await.expect("answer");
        fixture.model = first;
        fixture.ask(&history).await.expect("answer");
        let sent = fixture.emulator.requests();
        // The beginnings of signatures and of encrypted reasoning.
        let has_blocks = |index: usize| {
            let raw = &sent[index].raw;
            raw.contains("c2lnbmVk") || raw.contains("gAAAAA")
        };
        assert_eq!((has_blocks(1), has_blocks(2)), (false, true), "{}", known.name);
        fixture.assert_in_order();
    }
}

/// A conversation that was stored before blocks were marked with their model, and whose first call has no signature.
/// TK-76
#[tokio::test]
async fn a_gemini_model_that_checks_signatures_gets_no_unsigned_call_of_an_older_one() {
    let google = known_provider("google").expect("a known provider");
    let script = queue([says("Done."), says("Done.")]);
    let mut fixture = ModelFixture::new((google, AnswerMode::Streamed), script);
    let part = r#"{"functionCall":{"name":"file_read","args":{"path":"a"}}}"#;
    let raw = RawBlocks {
        provider: "google gemini-generate".to_owned(),
        blocks: vec![RawValue::from_string(part.to_owned()).expect("json")],
    };
    let call = ContentBlock::Call(ToolCall {
        id: "call_0".to_owned(),
        name: "file_read".to_owned(),
        arguments: "{\"path\":\"a\"}".into(),
    });
    let assistant = Assistant {
        blocks: vec![call],
        raw: Some(raw),
        stop: StopReason::ToolUse,
        usage: Usage::default(),
    };
    let call_results = results(&assistant, "content");
    let mut history = asking("hello");
    for step in [
        Step::new(assistant, call_results).expect("step"),
        Step::new(Assistant::synthetic("Done."), Vec::new()).expect("step"),
    ] {
        history.push(step).expect("open");
    }
    history.begin("again").expect("turn");
    for (model, is_as_it_was) in [("gemini-2.5-pro", true), ("gemini-3-pro", false)] {
        fixture.model = model.into();
        fixture.ask(&history).await.expect("answer");
        let sent = fixture.emulator.requests();
        let last = &sent.last().expect("a request").raw;
        assert_eq!(last.contains(part), is_as_it_was, "{model}: {last}");
    }
    fixture.assert_in_order();
}
