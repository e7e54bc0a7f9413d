//! The comparison: each side writes the same conversation, and reads the same answers.

use drydock_conformance::difference::{Difference, differences, explained};
use drydock_conformance::service::Service;
use drydock_conformance::transcript::Conversation;
use drydock_conformance::{Understood, Wire, answers, drydock_side, genai_side, openai_types, rig_side};
use serde_json::{Value, json};
use std::collections::BTreeSet;

const TABLE: &str = include_str!("../DIFFERENCES.md");

/// What a side wrote and understood.
struct Side {
    name: &'static str,
    request: Value,
    understood: Understood,
}

async fn sides(wire: Wire, is_streamed: bool, conversation: Conversation) -> [Side; 3] {
    let service = || Service::start(answers::body(wire, is_streamed), is_streamed);
    let (ours, rig, genai) = (service().await, service().await, service().await);
    let understood = [
        drydock_side::call(wire, &ours.address, is_streamed, conversation).await,
        rig_side::call(wire, &rig.address, is_streamed, conversation).await,
        genai_side::call(wire, &genai.address, is_streamed, conversation).await,
    ];
    let requests = [ours.request(), rig.request(), genai.request()];
    let names = ["drydock", "rig-core", "genai"];
    let mut sides = names.into_iter().zip(requests).zip(understood);
    std::array::from_fn(|_| {
        let ((name, request), understood) = sides.next().expect("a side");
        Side {
            name,
            request,
            understood,
        }
    })
}

/// Compares the messages of the user with a file. The rest of a request is compared with that of the conversation with calls.
async fn compare_files(wire: Wire, found: &mut BTreeSet<Difference>) {
    for (conversation, what) in [
        (Conversation::Image, "image"),
        (Conversation::Document, "document"),
    ] {
        let [ours, others @ ..] = sides(wire, false, conversation).await;
        let mine = said(&ours.request);
        let file = conversation.file().expect("a file");
        assert!(mine.to_string().contains(file.base64), "{mine}");
        for other in &others {
            let name = format!("{} {what} {}", other.name, wire.word());
            differences(&name, &mine, &said(&other.request), found);
        }
        if let Some(again) = openai_types::request(wire, &ours.request) {
            let name = format!("async-openai {what} {}", wire.word());
            differences(&name, &mine, &said(&again), found);
        }
    }
}

/// Returns the number of the messages of the user in a request, and the parts of all of them.
fn said(request: &Value) -> Value {
    let lists = ["messages", "input", "contents"].iter();
    let mut lists = lists.filter_map(|list| request[list].as_array());
    let messages = lists.next().expect("a list of messages").iter();
    let messages: Vec<&Value> = messages.filter(|message| message["role"] == "user").collect();
    let parts = |message: &Value| {
        let content = message.get("content").or_else(|| message.get("parts"));
        match content.expect("a content") {
            Value::Array(parts) => parts.clone(),
            text => vec![text.clone()],
        }
    };
    let content: Vec<Value> = messages.iter().flat_map(|message| parts(message)).collect();
    json!({"messages": messages.len(), "content": content})
}

#[tokio::test]
async fn every_difference_has_a_reason_and_every_reason_a_difference() {
    let mut found: BTreeSet<Difference> = BTreeSet::new();
    for wire in Wire::ALL {
        for is_streamed in [false, true] {
            let way = if is_streamed { "streamed" } else { "whole" };
            let [ours, others @ ..] = sides(wire, is_streamed, Conversation::Calls).await;
            let mine = ours.understood.as_json();
            for other in &others {
                let name = |what: &str| format!("{} {what} {}", other.name, wire.word());
                differences(&name("request"), &ours.request, &other.request, &mut found);
                differences(
                    &name(&format!("{way} answer")),
                    &mine,
                    &other.understood.as_json(),
                    &mut found,
                );
            }
            if let Some(again) = openai_types::request(wire, &ours.request) {
                let comparison = format!("async-openai request {}", wire.word());
                differences(&comparison, &ours.request, &again, &mut found);
            }
            if let (false, Some(read)) = (
                is_streamed,
                openai_types::answer(wire, &answers::body(wire, false)),
            ) {
                let comparison = format!("async-openai {way} answer {}", wire.word());
                differences(&comparison, &mine, &read.as_json(), &mut found);
            }
        }
    }
    for wire in Wire::ALL {
        compare_files(wire, &mut found).await;
    }
    let rows = explained(TABLE);
    let listed: BTreeSet<Difference> = rows.iter().map(|(difference, _)| difference.clone()).collect();
    assert_eq!(listed.len(), rows.len(), "a row is listed twice");
    let row = |(comparison, place): &Difference| format!("| {comparison} | {place} | |");
    let unlisted: Vec<String> = found.difference(&listed).map(row).collect();
    let unfound: Vec<String> = listed.difference(&found).map(row).collect();
    assert!(
        unlisted.is_empty(),
        "differences without a row:\n{}",
        unlisted.join("\n")
    );
    assert!(
        unfound.is_empty(),
        "rows without a difference:\n{}",
        unfound.join("\n")
    );
}

#[tokio::test]
async fn each_side_understands_a_streamed_answer_like_one_in_one_piece() {
    for wire in Wire::ALL {
        let [ours, ..] = sides(wire, false, Conversation::Calls).await;
        let [streamed, ..] = sides(wire, true, Conversation::Calls).await;
        assert_eq!(ours.understood, streamed.understood, "{wire:?}");
        assert_eq!(ours.understood.calls.len(), 2, "{wire:?}");
    }
}
