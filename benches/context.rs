//! Times the preparation of a request's context: `cargo bench --bench context`.
//!
//! The histories have 1,000 and 4,000 messages. A step is added and the context is prepared again, as before each model
//! call: the budget is checked, older turns are trimmed if needed, and the turns of the request are chosen. If the work
//! depends only on the new messages, both histories take the same time. Requests are not encoded.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::disallowed_methods
)]

mod support;

use drydock::base::model::{
    Assistant, ContentBlock, History, Limits, Step, StopReason, ToolCall, ToolResult, Usage,
};
use drydock::engine::agent::context::ContextBudget;
use std::hint::black_box;
use std::time::{Duration, Instant};
use support::{Times, header, row};

const ROUNDS: usize = 2_000;

fn main() {
    let quick = std::env::args().any(|argument| argument == "--quick");
    let rounds = if quick { 50 } else { ROUNDS };
    header("context");
    for (messages, target) in [(1_000, "<= 100 us"), (4_000, "")] {
        let times = prepared(messages, rounds, usize::MAX);
        row(
            &format!("context of {messages} messages, nothing to trim"),
            &Times::new(times),
            target,
        );
    }
    let times = prepared(1_000, rounds, 600_000);
    row(
        "context of 1000 messages, trimmed where needed",
        &Times::new(times),
        "",
    );
}

/// Returns the times of preparations, each after a new step.
fn prepared(messages: usize, rounds: usize, history_bytes_max: usize) -> Vec<Duration> {
    let limits = Limits {
        history_bytes_max,
        history_turns_max: usize::MAX / 100,
        ..Limits::default()
    };
    let budget = ContextBudget::new(&limits, Some(u32::MAX), 50_000);
    let mut history = History::default();
    // A turn is a message, an answer with a call, the result and the final answer.
    for turn in 0..messages / 4 {
        history.begin(format!("message {turn}")).unwrap();
        history.push(reads(turn)).unwrap();
        history.close("It is done.");
    }
    let mut times = Vec::new();
    for round in 0..rounds {
        history.begin("now").unwrap();
        history.push(reads(messages + round)).unwrap();
        let started = Instant::now();
        budget.trim(&mut history, None);
        let turns = budget.turns(black_box(&history), None, &|_| true).unwrap();
        let count = black_box(turns.len());
        times.push(started.elapsed());
        assert!(count > 0);
        history.close("It is done.");
    }
    times
}

fn reads(number: usize) -> Step {
    let id = format!("call_{number}");
    let call = ToolCall {
        id: id.clone(),
        name: "file_read".to_owned(),
        arguments: "{\"path\":\"environments/dev/main.jsonnet\"}".into(),
    };
    let assistant = Assistant {
        blocks: vec![ContentBlock::Call(call)],
        raw: None,
        stop: StopReason::ToolUse,
        usage: Usage::default(),
    };
    let result = ToolResult {
        call: id,
        content: "  replicas: 2,\n".repeat(130),
        is_error: false,
    };
    Step::new(assistant, vec![result]).unwrap()
}
