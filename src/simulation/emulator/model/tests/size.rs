//! Tests that a request is never longer than its calculated size.

use super::{ModelFixture, asking, ways};
use crate::base::model::{
    Assistant, ContentBlock, History, Step, StopReason, ToolCall, ToolResult, Turn, Usage,
};
use crate::interfaces::provider::fixed_bytes;
use crate::simulation::emulator::model::{queue, says};

#[tokio::test]
async fn no_request_is_longer_than_was_counted() {
    let texts = [
        "",
        "x",
        "\"\\\n\t\u{1}\u{7f}\u{2028}ü🚢",
        &"\u{0}\"".repeat(500),
        &"a".repeat(5_000),
    ];
    for way in ways() {
        for text in texts {
            let line = says(text)
                .with_thinking(text)
                .with_call("file_read", serde_json::json!({ "path": text }));
            let mut fixture = ModelFixture::new(way, queue([line, says("ok")]));
            let mut history = asking(text);
            let answer = fixture.ask(&history).await.expect("answer").assistant;
            push(&mut history, answer, text);
            // Empty calls and results: one, and many of them.
            for count in [1, 40] {
                let calls = (0..count).map(|number| {
                    ContentBlock::Call(ToolCall {
                        id: format!("{count}_{number}"),
                        name: "t".into(),
                        arguments: "{}".into(),
                    })
                });
                let assistant = Assistant {
                    blocks: calls.collect(),
                    raw: None,
                    stop: StopReason::ToolUse,
                    usage: Usage::default(),
                };
                push(&mut history, assistant, text);
            }
            let remark = Step::new(Assistant::synthetic(text), Vec::new()).expect("step");
            history
                .push(remark.with_remark("no").expect("remark"))
                .expect("open");
            fixture.ask(&history).await.expect("answer");
            let counted = fixed_bytes("You prepare changes.", &fixture.tools)
                + history.turns().iter().map(Turn::bytes).sum::<usize>();
            let sent = fixture.emulator.requests()[1].raw.len();
            assert!(
                sent <= counted,
                "{way:?}: {sent} bytes sent, {counted} counted for {text:.20?}"
            );
            fixture.assert_in_order();
        }
    }
}

fn push(history: &mut History, assistant: Assistant, content: &str) {
    let result = |call: &ToolCall| ToolResult {
        call: call.id.clone(),
        content: content.to_owned(),
        is_error: true,
    };
    let results = assistant.calls().map(result).collect();
    history
        .push(Step::new(assistant, results).expect("step"))
        .expect("open");
}
