//! Tests of the stream decoders on garbage: random bytes between pieces of events, and events with values of any type.
//! Nothing panics, and the bytes mean the same wherever they are cut. `PROPTEST_CASES` sets the number of cases.

use super::{Codec, DecodeError, seen, streamed};
use crate::interfaces::provider::codecs;
use proptest::prelude::*;
use serde_json::{Value, json};

/// Pieces of streams, right and wrong.
const PIECES: [&str; 20] = [
    "data: ",
    "data:",
    "event: message_start\n",
    "\n\n",
    "\r\n\r\n",
    "\r",
    ":\n",
    "\u{feff}",
    "id: 1\nretry: 0\n",
    "data: [DONE]\n\n",
    "data: null\n\n",
    "data: {\n\n",
    "data: {}\n\n",
    "data: {\"type\":\"message_stop\"}\n\n",
    "data: {\"type\":\"content_block_delta\",\"index\":18446744073709551615,\"delta\":{\"type\":\"text_delta\"}}\n\n",
    "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":4294967296,\"function\":null}]}}]}\n\n",
    "data: {\"choices\":[{\"delta\":{\"content\":7},\"finish_reason\":[]}]}\n\n",
    "data: {\"type\":\"response.completed\",\"response\":{\"output\":{}}}\n\n",
    "data: {\"candidates\":[{\"content\":{\"parts\":[{\"functionCall\":{\"args\":[]}}]},\"finishReason\":\"STOP\"}]}\n\n",
    "data: {\"candidates\":null,\"usageMetadata\":{\"promptTokenCount\":-1}}\n\n",
];

fn piece() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..12),
        prop::sample::select(PIECES.to_vec()).prop_map(|piece| piece.as_bytes().to_vec()),
        prop::sample::select(PIECES.to_vec()).prop_map(|piece| piece.as_bytes().to_vec()),
    ]
}

/// Values that no field expects.
fn odd_value() -> impl Strategy<Value = Value> {
    prop::sample::select(vec![
        Value::Null,
        json!(true),
        json!(-1),
        json!(u64::MAX),
        json!(1e308),
        json!(""),
        json!("x"),
        json!([]),
        json!([null, {"index": 0}]),
        json!({}),
        json!({"type": "text", "text": 1}),
    ])
}

/// Replaces the value with this number, in the order of the text.
fn replace(value: &mut Value, number: &mut usize, odd: &Value) {
    if *number == 0 {
        *value = odd.clone();
    }
    *number = number.wrapping_sub(1);
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| replace(item, number, odd)),
        Value::Object(fields) => fields.values_mut().for_each(|field| replace(field, number, odd)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Returns a recorded answer with one event in which a value is replaced.
fn spoiled(codec: &dyn Codec, event: usize, number: usize, odd: &Value) -> String {
    let answer = codec.recorded_answer();
    let places = answer
        .match_indices("data: {")
        .map(|(place, _)| place + "data: ".len());
    let places: Vec<usize> = places.collect();
    let begin = places[event % places.len()];
    let (before, rest) = answer.split_at(begin);
    let (data, after) = rest.split_at(rest.find(['\r', '\n']).unwrap_or(rest.len()));
    let mut data: Value = serde_json::from_str(data).expect("an event");
    replace(&mut data, &mut { number }, odd);
    format!("{before}{data}{after}")
}

fn outcome(codec: &dyn Codec, parts: &[&[u8]]) -> Result<String, DecodeError> {
    let (completion, words) = streamed(codec, parts)?;
    Ok(format!("{words:?} {}", seen(&completion)))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// R11
    #[test]
    fn garbage_in_a_stream_is_the_same_wherever_it_is_cut(pieces in prop::collection::vec(piece(), 0..16)) {
        let bytes = pieces.concat();
        for codec in codecs() {
            let whole = outcome(&*codec, &[&bytes]);
            let single: Vec<&[u8]> = bytes.chunks(1).collect();
            prop_assert_eq!(&outcome(&*codec, &single), &whole);
            prop_assert_eq!(&outcome(&*codec, &pieces.iter().map(Vec::as_slice).collect::<Vec<_>>()), &whole);
            let _ = codec.decode(&bytes);
        }
    }

    /// R11, R12
    #[test]
    fn an_event_with_a_value_of_any_type_never_panics(event in 0_usize..40, number in 0_usize..24, odd in odd_value()) {
        for codec in codecs() {
            let answer = spoiled(&*codec, event, number, &odd);
            let whole = outcome(&*codec, &[answer.as_bytes()]);
            let single: Vec<&[u8]> = answer.as_bytes().chunks(1).collect();
            prop_assert_eq!(outcome(&*codec, &single), whole);
        }
    }
}
