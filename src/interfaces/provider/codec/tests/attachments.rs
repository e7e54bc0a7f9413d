//! Tests of images and documents in requests, byte for byte. The forms are those of the examples in the documentation of the
//! services:
//!
//! - Anthropic: <https://platform.claude.com/docs/en/build-with-claude/vision> and `.../pdf-support`
//! - OpenAI: <https://developers.openai.com/api/docs/guides/images-vision> and `.../pdf-files`
//! - Gemini: <https://ai.google.dev/gemini-api/docs/image-understanding> and `.../document-processing`

use crate::base::config::{ProviderId, WireFormat};
use crate::base::model::{Attachment, History, MediaType};
use crate::interfaces::provider::codec::AnswerMode;
use crate::interfaces::provider::{Patience, ToolChoice, TurnRequest, codec};
use crate::state::access::{Role, testing::identity};

/// Returns the body of a request whose message has an image and a document.
fn encoded(wire: WireFormat) -> String {
    let image = Attachment::new("alert.png", MediaType::Png, b"\x89PNG\r\n\x1a\n");
    let document = Attachment::new("run \"book\".pdf", MediaType::Pdf, b"%PDF-1.7");
    let mut history = History::default();
    history
        .begin_attached("see", vec![image, document])
        .expect("turn");
    let request = TurnRequest {
        identity: &identity(Role::Editor, &["**"]),
        model: "m",
        system: "",
        tools: &[],
        tool_choice: ToolChoice::Free,
        turns: history.turns(),
        answer_tokens_max: 100,
        patience: Patience::Full,
    };
    let codec = codec(wire, ProviderId::Custom, "house");
    let body = codec.encode(&request, AnswerMode::Whole).expect("a body");
    String::from_utf8(body).expect("UTF-8")
}

/// STK-39
#[test]
fn images_and_documents_are_parts_of_a_request_in_each_format() {
    for (wire, expected) in [
        (
            WireFormat::AnthropicMessages,
            concat!(
                r#""messages":[{"role":"user","content":["#,
                r#"{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0KGgo="}},"#,
                r#"{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"JVBERi0xLjc="},"#,
                r#""title":"run \"book\".pdf"},"#,
                r#"{"type":"text","text":"see","cache_control":{"type":"ephemeral"}}]}]}"#
            ),
        ),
        (
            WireFormat::OpenaiChat,
            concat!(
                r#""messages":[{"role":"user","content":["#,
                r#"{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo="}},"#,
                r#"{"type":"file","file":{"filename":"run \"book\".pdf","#,
                r#""file_data":"data:application/pdf;base64,JVBERi0xLjc="}},"#,
                r#"{"type":"text","text":"see"}]}]}"#
            ),
        ),
        (
            WireFormat::OpenaiResponses,
            concat!(
                r#""input":[{"role":"user","content":["#,
                r#"{"type":"input_image","image_url":"data:image/png;base64,iVBORw0KGgo=","detail":"auto"},"#,
                r#"{"type":"input_file","filename":"run \"book\".pdf","#,
                r#""file_data":"data:application/pdf;base64,JVBERi0xLjc="},"#,
                r#"{"type":"input_text","text":"see"}]}]}"#
            ),
        ),
        (
            WireFormat::GeminiGenerate,
            concat!(
                r#""contents":[{"role":"user","parts":["#,
                r#"{"inlineData":{"mimeType":"image/png","data":"iVBORw0KGgo="}},"#,
                r#"{"inlineData":{"mimeType":"application/pdf","data":"JVBERi0xLjc="}},"#,
                r#"{"text":"see"}]}]}"#
            ),
        ),
    ] {
        let body = encoded(wire);
        assert!(body.ends_with(expected), "{}: {body}", wire.word());
    }
}
