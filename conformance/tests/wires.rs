//! The comparison: each side writes the same conversation, and reads the same answers.

use drydock_conformance::answers::{self, Answer};
use drydock_conformance::difference::{Difference, differences, explained};
use drydock_conformance::service::Service;
use drydock_conformance::transcript::Conversation;
use drydock_conformance::{Reading, Stop, Wire, drydock_side, genai_side, openai_types, rig_side};
use serde_json::{Value, json};
use std::collections::BTreeSet;

const TABLE: &str = include_str!("../DIFFERENCES.md");

/// The requests of a side, and its reading of the answer.
struct Side {
    name: &'static str,
    /// The requests.
    requests: Vec<Value>,
    reading: Reading,
}

async fn sides(wire: Wire, is_streamed: bool, conversation: Conversation, answer: Answer) -> [Side; 3] {
    let service = || Service::start(answers::body(wire, is_streamed, answer), is_streamed);
    let (ours, rig, genai) = (service().await, service().await, service().await);
    let readings = [
        drydock_side::call(wire, &ours.address, is_streamed, conversation).await,
        rig_side::call(wire, &rig.address, is_streamed, conversation).await,
        genai_side::call(wire, &genai.address, is_streamed, conversation).await,
    ];
    let requests = [ours.requests(), rig.requests(), genai.requests()];
    let names = ["drydock", "rig-core", "genai"];
    let mut sides = names.into_iter().zip(requests).zip(readings);
    std::array::from_fn(|_| {
        let ((name, requests), reading) = sides.next().expect("a side");
        Side {
            name,
            requests,
            reading,
        }
    })
}

/// Compares what each side makes of an answer. The request, which is the same for all answers, is compared once for each way.
async fn compare_answer(wire: Wire, is_streamed: bool, answer: Answer, found: &mut BTreeSet<Difference>) {
    let way = if is_streamed { "streamed" } else { "whole" };
    let [ours, others @ ..] = sides(wire, is_streamed, Conversation::Calls, answer).await;
    let mine = ours.reading.as_json();
    for other in &others {
        let name = format!("{} {way} {} {}", other.name, answer.word(), wire.word());
        differences(&name, &mine, &other.reading.as_json(), found);
        if answer == Answer::Calls {
            let name = format!("{} request {}", other.name, wire.word());
            differences(&name, &ours.requests[0], &other.requests[0], found);
        }
    }
    if is_streamed {
        return;
    }
    if answer == Answer::Calls
        && let Some(again) = openai_types::request(wire, &ours.requests[0])
    {
        let name = format!("async-openai request {}", wire.word());
        differences(&name, &ours.requests[0], &again, found);
    }
    if let Some(read) = openai_types::answer(wire, &answers::body(wire, false, answer)) {
        let name = format!("async-openai {way} {} {}", answer.word(), wire.word());
        differences(&name, &mine, &read.as_json(), found);
    }
}

/// Compares the messages of the user with a file. The rest of a request is compared with that of the conversation with calls.
async fn compare_files(wire: Wire, found: &mut BTreeSet<Difference>) {
    for (conversation, what) in [
        (Conversation::Image, "image"),
        (Conversation::Document, "document"),
    ] {
        let [ours, others @ ..] = sides(wire, false, conversation, Answer::Calls).await;
        let mine = said(&ours.requests[0]);
        let file = conversation.file().expect("a file");
        assert!(mine.to_string().contains(file.base64), "{mine}");
        for other in &others {
            let name = format!("{} {what} {}", other.name, wire.word());
            differences(&name, &mine, &said(&other.requests[0]), found);
        }
        if let Some(again) = openai_types::request(wire, &ours.requests[0]) {
            let name = format!("async-openai {what} {}", wire.word());
            differences(&name, &mine, &said(&again), found);
        }
    }
}

/// Compares how an answer is sent back, with what the service signed or encrypted, and with the results of its calls.
async fn compare_continued(wire: Wire, found: &mut BTreeSet<Difference>) {
    let [ours, others @ ..] = sides(wire, false, Conversation::Continued, Answer::Calls).await;
    let mine = after_request(&ours.requests[1]);
    for signed in answers::signed(wire) {
        assert!(mine.to_string().contains(signed), "{signed}: {mine}");
    }
    for other in &others {
        let name = format!("{} continuation {}", other.name, wire.word());
        differences(&name, &mine, &after_request(&other.requests[1]), found);
    }
    if let Some(again) = openai_types::request(wire, &ours.requests[1]) {
        let name = format!("async-openai continuation {}", wire.word());
        differences(&name, &mine, &after_request(&again), found);
    }
}

/// Returns the messages of a request after the first one of the user.
fn after_request(request: &Value) -> Value {
    let messages = messages(request);
    let first = messages.iter().position(|message| message["role"] == "user");
    messages[first.expect("a request") + 1..].into()
}

/// Returns the messages of a request.
fn messages(request: &Value) -> &[Value] {
    let lists = ["messages", "input", "contents"].iter();
    let mut lists = lists.filter_map(|list| request[list].as_array());
    lists.next().expect("a list of messages")
}

/// Returns the number of the messages of the user in a request, and the parts of all of them.
fn said(request: &Value) -> Value {
    let messages = messages(request).iter();
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
            for answer in Answer::ALL {
                compare_answer(wire, is_streamed, answer, &mut found).await;
            }
        }
    }
    for wire in Wire::ALL {
        compare_files(wire, &mut found).await;
        compare_continued(wire, &mut found).await;
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
async fn drydock_understands_a_streamed_answer_like_one_in_one_piece() {
    for wire in Wire::ALL {
        for answer in Answer::ALL {
            let [ours, ..] = sides(wire, false, Conversation::Calls, answer).await;
            let [streamed, ..] = sides(wire, true, Conversation::Calls, answer).await;
            assert_eq!(ours.reading, streamed.reading, "{wire:?} {answer:?}");
            // An answer that says nothing is asked for once more.
            let attempts = if answer == Answer::Empty { 2 } else { 1 };
            assert_eq!(
                (ours.requests.len(), streamed.requests.len()),
                (attempts, attempts),
                "{wire:?} {answer:?}"
            );
            let stop = match &ours.reading {
                Reading::Answer(understood) => Some(understood.stop),
                Reading::Failed(_) => None,
            };
            let expected = match answer {
                Answer::Calls => Some(Stop::Calls),
                Answer::Thoughts => Some(Stop::Finished),
                Answer::Cut => Some(Stop::Cut),
                Answer::Refused => Some(Stop::Refused),
                Answer::Empty => Some(Stop::Finished),
            };
            assert_eq!(stop, expected, "{wire:?} {answer:?}: {:?}", ours.reading);
        }
    }
}
