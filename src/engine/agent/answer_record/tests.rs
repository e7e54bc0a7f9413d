//! Tests that the record of a model's answer contains no secrets.

#![allow(clippy::unwrap_used)]

use super::{RecordedAnswer, is_given_live_secret, redact_arguments};
use crate::base::model::{Assistant, ContentBlock, RawBlocks, Secret, StopReason, ToolCall, Usage};
use crate::base::redact::Redactor;
use base64::Engine;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use serde_json::json;
use serde_json::value::RawValue;

/// A secret the redactor knows.
const LIVE: &str = "live?canary>0123456789/\"x";

fn redactor() -> Redactor {
    Redactor::new([Secret::new(LIVE.to_owned())])
}

/// Returns a string in the shape of a GitHub token. It is built from two halves so that secret scanners ignore this
/// file.
fn shaped() -> String {
    ["ghp_", "CANARYcanary0123456789CANARYcanary012345"].concat()
}

fn call(arguments: &str) -> ToolCall {
    ToolCall {
        id: "a".into(),
        name: "file_write".into(),
        arguments: arguments.into(),
    }
}

fn answer(blocks: Vec<ContentBlock>, raw: &[serde_json::Value]) -> Assistant {
    let raw = raw
        .iter()
        .map(|block| RawValue::from_string(block.to_string()).unwrap());
    Assistant {
        blocks,
        raw: Some(RawBlocks {
            provider: "anthropic".into(),
            blocks: raw.collect(),
        }),
        stop: StopReason::ToolUse,
        usage: Usage::default(),
    }
}

/// Writes each character as a JSON escape.
fn escaped(text: &str) -> String {
    text.chars()
        .map(|char| format!("\\u{:04x}", u32::from(char)))
        .collect()
}

#[test]
fn a_secret_in_arguments_is_found_however_json_says_it_and_json_stays_json() {
    let (redactor, shaped) = (redactor(), shaped());
    for secret in [LIVE, shaped.as_str()] {
        let quoted = json!(secret).to_string();
        let forms = [
            json!({ "content": format!("a {secret} b") }).to_string(),
            json!({ "list": [{ "deep": secret }] }).to_string(),
            json!({ secret: 1 }).to_string(),
            json!({ "content": json!({ "inner": secret }).to_string() }).to_string(),
            format!("{{\"content\":\"{}\"}}", escaped(secret)),
            format!("{{\"content\":\"x\",\"content\":\"{}\"}}", escaped(secret)),
            format!("{{\"content\":\"{}\",\"content\":\"x\"}}", escaped(secret)),
            json!({ "content": format!("{{\"a\":\"{}\"}}", escaped(secret)) }).to_string(),
            format!("{{\"content\":{}", quoted),
            format!("{{\"content\":\"{}", escaped(secret)),
        ];
        for form in forms {
            let kept = redact_arguments(&form.as_str().into(), &redactor);
            let kept = kept.text();
            assert!(
                !kept.contains(secret) && !kept.contains(&escaped(secret)),
                "{kept}"
            );
            assert!(!kept.contains(secret.get(8..).unwrap()), "{kept}");
            if serde_json::from_str::<serde_json::Value>(&form).is_ok() {
                assert!(serde_json::from_str::<serde_json::Value>(kept).is_ok(), "{kept}");
            }
            // Redacting twice gives the same result.
            assert_eq!(redact_arguments(&kept.into(), &redactor).text(), kept);
            assert_eq!(
                is_given_live_secret(&call(&form), &redactor),
                secret == LIVE,
                "{form}"
            );
        }
    }
    let plain = r#"{ "content": "no secret: \\u0067 \n", "path":"a" }"#;
    assert_eq!(redact_arguments(&plain.into(), &redactor).text(), plain);
    assert!(!is_given_live_secret(&call(plain), &redactor));
}

#[test]
fn a_live_secret_in_any_encoding_is_kept_nowhere_and_given_to_no_tool() {
    let redactor = redactor();
    let hex = hex::encode(LIVE);
    let percent: String = LIVE.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let hidden: String = LIVE.chars().flat_map(|char| [char, '\u{200b}']).collect();
    let forms = [
        LIVE.to_owned(),
        BASE64_STANDARD.encode(LIVE),
        BASE64_STANDARD.encode(format!("x{LIVE}")),
        BASE64_STANDARD.encode(format!("xy{LIVE}z")),
        BASE64_URL_SAFE_NO_PAD.encode(LIVE),
        hex.to_uppercase(),
        hex,
        percent.to_lowercase(),
        percent,
        json!(LIVE).to_string(),
        LIVE.replace('>', "&gt;"),
        hidden,
    ];
    for form in &forms {
        let half = form.len() / 2;
        let middle = form.floor_char_boundary(half - 4)..form.ceil_char_boundary(half + 4);
        let middle = form.get(middle).unwrap();
        let of = call(&json!({ "content": form }).to_string());
        let said = answer(
            vec![
                ContentBlock::Text {
                    text: format!("It is {form}."),
                },
                ContentBlock::Call(of),
            ],
            &[json!({ "type": "thinking", "thinking": form, "signature": "c2ln" })],
        );
        let said = RecordedAnswer::new(said, &redactor);
        let kept = serde_json::to_string(&said.redacted).unwrap();
        assert!(!kept.contains(middle), "{form}: {kept}");
        assert!(said.redacted.raw.unwrap().blocks.is_empty());
        assert!(
            is_given_live_secret(said.assistant.calls().next().unwrap(), &redactor),
            "{form}"
        );
    }
    assert_eq!(forms.len(), 12);
}

#[test]
fn names_and_ids_of_calls_are_the_same_in_what_is_done_and_in_what_is_kept() {
    let (redactor, shaped) = (redactor(), shaped());
    let of = ToolCall {
        id: format!("id_{shaped}"),
        name: shaped.clone(),
        arguments: "{}".into(),
    };
    let RecordedAnswer {
        assistant,
        redacted: kept,
    } = RecordedAnswer::new(answer(vec![ContentBlock::Call(of)], &[]), &redactor);
    assert_eq!(assistant.blocks, kept.blocks);
    assert!(!format!("{kept:?}").contains("CANARY"));
}

#[test]
fn the_providers_own_blocks_stay_byte_for_byte_unless_one_holds_a_secret() {
    let redactor = redactor();
    let clean = [
        json!({ "type": "thinking", "thinking": "Hm \\u0067 \n.", "signature": "c2ln" }),
        json!({ "type": "text", "text": "Hello." }),
    ];
    let text = || {
        vec![ContentBlock::Text {
            text: "Hello.".into(),
        }]
    };
    let raw = |said: RecordedAnswer| said.redacted.raw.unwrap();
    let kept = raw(RecordedAnswer::new(answer(text(), &clean), &redactor));
    let kept: Vec<&str> = kept.blocks.iter().map(|block| block.get()).collect();
    assert_eq!(kept, clean.clone().map(|block| block.to_string()));
    let spoiled = [clean[0].clone(), json!({ "type": "text", "text": shaped() })];
    let kept = raw(RecordedAnswer::new(answer(text(), &spoiled), &redactor));
    assert_eq!((kept.provider.as_str(), kept.blocks.len()), ("anthropic", 0));
}
