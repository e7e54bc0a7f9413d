//! Tests of the codecs on recorded answers: cut at every byte, corrupted, and in the variants of other servers.

#![allow(clippy::expect_used)]

mod attachments;
mod forced_call;
mod forged;
mod garbage;
mod gemini;
mod responses;

use super::{Codec, DecodeError};
use crate::base::model::{ContentBlock, StopReason, ToolCall, Usage};
use crate::interfaces::provider::anthropic::AnthropicMessages;
use crate::interfaces::provider::openai_chat::{AnswerBound, KeyHeader, OpenaiChat, ToolChoiceSupport};
use crate::interfaces::provider::{Completion, StreamEvent, codecs};
use proptest::prelude::*;

const ANTHROPIC: AnthropicMessages = AnthropicMessages {
    label: std::borrow::Cow::Borrowed("anthropic"),
};
const OPENAI: OpenaiChat = OpenaiChat {
    provider: std::borrow::Cow::Borrowed("openai"),
    bound: AnswerBound::MaxCompletionTokens,
    key: KeyHeader::Bearer,
    tool_choice: ToolChoiceSupport::Obeyed,
};

fn call(id: &str, name: &str, arguments: &str) -> ContentBlock {
    ContentBlock::Call(ToolCall {
        id: id.into(),
        name: name.into(),
        arguments: arguments.into(),
    })
}

fn text(text: &str) -> ContentBlock {
    ContentBlock::Text { text: text.into() }
}

fn streamed(codec: &dyn Codec, parts: &[&[u8]]) -> Result<(Completion, String), DecodeError> {
    let mut decoder = codec.decoder();
    let mut words = String::new();
    for part in parts {
        for event in decoder.push(part)? {
            if let StreamEvent::Text(text) = event {
                words.push_str(&text);
            }
        }
    }
    Ok((decoder.finish()?, words))
}

fn seen(completion: &Completion) -> String {
    let raw = completion.assistant.raw.as_ref();
    let raw = raw.map(|raw| {
        raw.blocks
            .iter()
            .map(|block| block.get().to_owned())
            .collect::<Vec<_>>()
    });
    let assistant = &completion.assistant;
    format!(
        "{:?} {:?} {:?} {} {raw:?}",
        assistant.blocks, assistant.stop, assistant.usage, completion.model
    )
}

/// R11: at least 4,096 bytes, and no prefix of them is a complete answer.
#[test]
fn an_answer_cut_at_any_byte_is_no_answer_and_in_any_two_parts_it_is_the_same() {
    for codec in codecs() {
        let (codec, answer) = (&*codec, codec.recorded_answer());
        assert!(answer.len() >= 4_096, "{}", answer.len());
        let (whole, words) = streamed(codec, &[answer.as_bytes()]).expect("answer");
        assert_eq!(words, whole.assistant.text());
        // A final CR ends the line as CRLF does.
        let end = answer.trim_end_matches('\n').len() + usize::from(answer.ends_with("\n\n"));
        for cut in 0..answer.len() {
            let (head, tail) = answer.as_bytes().split_at(cut);
            if cut < end {
                assert!(streamed(codec, &[head]).is_err(), "an answer from {cut} bytes");
            }
            // The parser's own test cuts at every byte; here a sample is enough.
            if cut % 7 == 0 {
                let (completion, _) = streamed(codec, &[head, tail]).expect("answer");
                assert_eq!(seen(&completion), seen(&whole), "in two parts at {cut}");
            }
        }
    }
}

#[test]
fn an_anthropic_answer_keeps_its_order_its_costs_and_its_own_blocks() {
    let (answer, words) = streamed(&ANTHROPIC, &[ANTHROPIC.recorded_answer().as_bytes()]).expect("answer");
    let expected = vec![
        text(&words),
        call("toolu_1", "file_read", "{\"path\":\"a\"}"),
        call("toolu_2", "git_status", "{}"),
    ];
    assert_eq!(
        (answer.assistant.blocks, answer.assistant.stop),
        (expected, StopReason::ToolUse)
    );
    assert_eq!(
        answer.assistant.usage,
        Usage {
            input: 10,
            output: 42,
            cache_read: 5,
            cache_write: 3
        }
    );
    let raw = answer.assistant.raw.expect("raw").blocks;
    let raw: Vec<&str> = raw.iter().map(|block| block.get()).collect();
    assert_eq!(
        raw[0],
        r#"{"signature":"c2ln","thinking":"Hm.","type":"thinking"}"#
    );
    assert_eq!(raw[1], r#"{"data":"b64","type":"redacted_thinking"}"#);
    assert_eq!(
        raw[3],
        r#"{"id":"toolu_1","input":{"path":"a"},"name":"file_read","type":"tool_use"}"#
    );
    assert_eq!(raw.len(), 5);
}

#[test]
fn an_openai_answer_keeps_its_order_and_its_costs() {
    let (answer, words) = streamed(&OPENAI, &[OPENAI.recorded_answer().as_bytes()]).expect("answer");
    let expected = vec![
        text(&words),
        call("c1", "file_read", "{\"path\":\"a\"}"),
        call("c2", "git_status", "{}"),
    ];
    assert_eq!(
        (answer.assistant.blocks, answer.assistant.stop),
        (expected, StopReason::ToolUse)
    );
    assert_eq!(
        answer.assistant.usage,
        Usage {
            input: 10,
            output: 42,
            cache_read: 8,
            cache_write: 0
        }
    );
    assert!(answer.assistant.raw.is_none(), "the canonical view says it all");
}

/// R12
#[test]
fn servers_that_leave_things_out_are_understood() {
    // An answer in the variant of some servers: no ids, no indexes, arguments as an object, no usage, the wrong stop
    // reason.
    let stream = concat!(
        r#"data: {"choices":[{"delta":{"tool_calls":[{"function":{"name":"a","arguments":{"x":1}}}]}}]}"#,
        "\n\n",
        r#"data: {"choices":[{"delta":{"tool_calls":[{"function":{"name":"b","arguments":""}}]}}]}"#,
        "\n\n",
        r#"data: {"choices":[{"delta":{},"finish_reason":"stop"}]}"#,
        "\n\ndata: [DONE]\n\n",
    );
    let (answer, _) = streamed(&OPENAI, &[stream.as_bytes()]).expect("answer");
    let mut expected = vec![call("call_0", "a", "{\"x\":1}"), call("call_1", "b", "{}")];
    assert_eq!(answer.assistant.blocks, expected);
    assert_eq!(
        (answer.assistant.stop, answer.assistant.usage),
        (StopReason::ToolUse, Usage::default())
    );

    // Every call has index 0 and its own id.
    let stream = concat!(
        r#"data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"p","function":{"name":"a","arguments":"{}"}}]}}]}"#,
        "\n\n",
        r#"data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"q","function":{"name":"b","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}"#,
        "\n\ndata: [DONE]\n\n",
    );
    let (answer, _) = streamed(&OPENAI, &[stream.as_bytes()]).expect("answer");
    expected = vec![call("p", "a", "{}"), call("q", "b", "{}")];
    assert_eq!(answer.assistant.blocks, expected);
}

/// Fields that a server adds, such as a signature of its thinking, must be sent back to it.
#[test]
fn what_a_message_says_beyond_the_canonical_view_is_kept() {
    let message = r#"{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"a","arguments":"{ }"},"extra_content":{"google":{"thought_signature":"s"}}}]}"#;
    let body = format!(r#"{{"model":"m","choices":[{{"message":{message},"finish_reason":"tool_calls"}}]}}"#);
    let answer = OPENAI.decode(body.as_bytes()).expect("answer");
    let raw = answer.assistant.raw.expect("raw");
    assert_eq!((raw.provider.as_str(), raw.blocks[0].get()), ("openai", message));

    let stream = concat!(
        r#"data: {"choices":[{"delta":{"role":"assistant","reasoning_details":[{"text":"H"}],"reasoning":"H"}}]}"#,
        "\n\n",
        r#"data: {"choices":[{"delta":{"role":"assistant","reasoning_details":[{"text":"m"}],"reasoning":"m","content":"hi"}}]}"#,
        "\n\n",
        r#"data: {"choices":[{"delta":{},"finish_reason":"stop"}]}"#,
        "\n\ndata: [DONE]\n\n",
    );
    let (answer, _) = streamed(&OPENAI, &[stream.as_bytes()]).expect("answer");
    let expected = r#"{"content":"hi","reasoning":"Hm","reasoning_details":[{"text":"H"},{"text":"m"}],"role":"assistant"}"#;
    assert_eq!(answer.assistant.raw.expect("raw").blocks[0].get(), expected);
}

/// R11
#[test]
fn a_stream_that_repeats_its_end_is_one_answer_and_one_without_it_is_none() {
    let answer = ANTHROPIC.recorded_answer();
    let stop = "event: message_stop\r\ndata: {\"type\":\"message_stop\"}\r\n\r\n";
    let twice = format!("{answer}{stop}{answer}");
    let once = streamed(&ANTHROPIC, &[answer.as_bytes()]).expect("answer").0;
    let again = streamed(&ANTHROPIC, &[twice.as_bytes()]).expect("answer").0;
    assert_eq!(seen(&again), seen(&once));
    let without = answer.strip_suffix(stop).expect("stop");
    assert_eq!(
        streamed(&ANTHROPIC, &[without.as_bytes()]).err(),
        Some(DecodeError::Incomplete)
    );
}

/// R12
#[test]
fn a_whole_answer_without_a_reason_or_content_is_not_acted_on() {
    let broken: [(&dyn Codec, &str, Option<DecodeError>); 6] = [
        (
            &ANTHROPIC,
            r#"{"content":[{"type":"tool_use","id":"a","name":"b","input":{}}],"stop_reason":null}"#,
            Some(DecodeError::Incomplete),
        ),
        (&ANTHROPIC, r#"{"content":[],"stop_reason":"end_turn"}"#, None),
        (
            &ANTHROPIC,
            r#"{"content":[{"type":"thinking","thinking":"x","signature":"y"}],"stop_reason":"end_turn"}"#,
            None,
        ),
        (
            &ANTHROPIC,
            r#"{"type":"error","error":{"type":"overloaded_error"}}"#,
            Some(DecodeError::Reported {
                status: 529,
                kind: "overloaded_error".into(),
            }),
        ),
        (&OPENAI, r#"{"choices":[]}"#, Some(DecodeError::Malformed)),
        (
            &OPENAI,
            r#"{"error":{"code":502,"message":"x"}}"#,
            Some(DecodeError::Reported {
                status: 502,
                kind: String::new(),
            }),
        ),
    ];
    for (codec, body, expected) in broken {
        let decoded = codec.decode(body.as_bytes());
        if let Ok(answer) = &decoded {
            assert!(
                answer.assistant.blocks.is_empty() && answer.assistant.raw.is_none(),
                "{body}"
            );
        }
        assert_eq!(decoded.err(), expected, "{body}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn spoiled_answers_never_panic(at in 0usize..4_000, byte in any::<u8>(), cut in 0usize..4_000) {
        for codec in codecs() {
            let mut bytes = codec.recorded_answer().into_bytes();
            bytes[at] = byte;
            let _ = streamed(&*codec, &[&bytes[..cut], &bytes[cut..]]);
            let _ = codec.decode(&bytes);
        }
    }

    /// Events that are repeated, left out and mixed up.
    #[test]
    fn events_in_any_order_never_panic(order in prop::collection::vec(0usize..40, 0..30), cut in 0usize..4_000) {
        for codec in codecs() {
            let answer = codec.recorded_answer();
            let events: Vec<&str> = answer.split("data:").collect();
            let mixed = order.iter().map(|number| format!("data:{}", events[number % events.len()]));
            let bytes = mixed.collect::<String>().into_bytes();
            let cut = cut.min(bytes.len());
            let _ = streamed(&*codec, &[&bytes[..cut], &bytes[cut..]]);
        }
    }
}
