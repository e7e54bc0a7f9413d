//! rig-core's side.

use crate::transcript::{
    ABOUT, ABOUT_FILE, ANSWER, ANSWER_TOKENS, CALLS, Conversation, FIRST, LOOKS, RESULTS, RequestFile,
    SECOND, SYSTEM, TOOL, schema,
};
use crate::{Reading, Stop, Understood, Wire};
use rig_core::completion::message::{
    AssistantContent, AssistantMessage, DocumentMediaType, ImageMediaType, Message, ToolCall, ToolFunction,
    ToolName, ToolResultContent, UserContent,
};
use rig_core::completion::{CompletionRequest, CompletionResponse, FinishReason, ToolDefinition};
use rig_core::providers::anthropic::AnthropicConfig;
use rig_core::providers::gemini::GeminiConfig;
use rig_core::providers::openai::OpenAIConfig;

/// Makes a call of the service at this address, and returns what rig made of the answer.
pub async fn call(wire: Wire, address: &str, is_streamed: bool, conversation: Conversation) -> Reading {
    let url = format!("{address}{}", wire.base_path());
    let request = match (conversation, conversation.file()) {
        (Conversation::Continued, _) => first_request(),
        (_, None) => request(),
        (_, Some(file)) => request_with(file),
    };
    macro_rules! answer {
        ($model:expr) => {{
            let model = $model;
            match is_streamed {
                true => model.stream(request).expect("a stream").finish().await,
                false if conversation == Conversation::Continued => {
                    let answer = model.call(request).await.expect("an answer");
                    model.call(with_results(&answer)).await
                }
                false => model.call(request).await,
            }
        }};
    }
    let answer = match wire {
        Wire::Messages => answer!(
            AnthropicConfig::new("key")
                .with_base_url(url)
                .client()
                .completion(wire.model())
        ),
        Wire::Chat => answer!(
            OpenAIConfig::new("key")
                .with_base_url(url)
                .client()
                .chat(wire.model())
        ),
        Wire::Responses => answer!(
            OpenAIConfig::new("key")
                .with_base_url(url)
                .client()
                .responses(wire.model())
        ),
        // Its paths have the version.
        Wire::Gemini => answer!(
            GeminiConfig::new("key")
                .with_base_url(address)
                .client()
                .completion(wire.model())
        ),
    };
    match answer {
        Ok(answer) => Reading::Answer(understood(&answer)),
        Err(error) => Reading::Failed(error.to_string()),
    }
}

fn tool_name() -> ToolName {
    ToolName::new(TOOL).expect("a name")
}

fn request() -> CompletionRequest {
    let calls: Vec<ToolCall> = CALLS
        .iter()
        .map(|(id, arguments, _, _)| ToolCall::from_wire(*id, ToolFunction::parse(tool_name(), arguments)))
        .collect();
    let results = calls.iter().zip(CALLS).map(|(call, (_, _, content, is_error))| {
        let content = vec![ToolResultContent::text(content)];
        if is_error {
            call.error_result(content)
        } else {
            call.result(content)
        }
    });
    let results = results.collect();
    let mut content = vec![AssistantContent::text(LOOKS)];
    content.extend(calls.into_iter().map(AssistantContent::ToolCall));
    let mut request = CompletionRequest::new(SECOND);
    request.chat_history = vec![
        Message::system(SYSTEM),
        Message::user(FIRST),
        Message::from(AssistantMessage::new(content)),
        Message::tool_results(results),
        Message::assistant(ANSWER),
        Message::user(SECOND),
    ];
    request.tools = vec![ToolDefinition::new(tool_name(), ABOUT, schema())];
    request.max_tokens = Some(ANSWER_TOKENS.into());
    request
}

fn first_request() -> CompletionRequest {
    let mut request = CompletionRequest::new(FIRST);
    request.chat_history = vec![Message::system(SYSTEM), Message::user(FIRST)];
    request.tools = vec![ToolDefinition::new(tool_name(), ABOUT, schema())];
    request.max_tokens = Some(ANSWER_TOKENS.into());
    request
}

/// Returns the request after the first one, with its answer and the results of the calls.
fn with_results(answer: &CompletionResponse) -> CompletionRequest {
    let calls = answer.choice.iter().filter_map(|content| match content {
        AssistantContent::ToolCall(call) => Some(call),
        _ => None,
    });
    let results = calls
        .zip(RESULTS)
        .map(|(call, content)| call.result(vec![ToolResultContent::text(content)]));
    let results = Message::tool_results(results.collect());
    let mut request = first_request();
    let answer = answer.message().expect("a message");
    request.chat_history.extend([answer, results]);
    request
}

/// Returns the request with a file, which comes before the words as in Drydock's.
fn request_with(file: RequestFile) -> CompletionRequest {
    let part = match file.media_type {
        "image/png" => UserContent::image_base64(file.base64, Some(ImageMediaType::PNG), None),
        _ => UserContent::document_base64(file.base64, Some(DocumentMediaType::PDF)),
    };
    let content = vec![part, UserContent::text(ABOUT_FILE)];
    let message = Message::User { content };
    let mut request = CompletionRequest::new(ABOUT_FILE);
    request.chat_history = vec![Message::system(SYSTEM), message];
    request.max_tokens = Some(ANSWER_TOKENS.into());
    request
}

fn understood(answer: &CompletionResponse) -> Understood {
    let mut read = Understood {
        text: String::new(),
        calls: Vec::new(),
        stop: match answer.finish_reason() {
            Some(FinishReason::Stop) => Stop::Finished,
            Some(FinishReason::ToolCalls) => Stop::Calls,
            Some(FinishReason::Length) => Stop::Cut,
            Some(FinishReason::ContentFilter) => Stop::Refused,
            _ => Stop::Unknown,
        },
        input: answer.usage.input_tokens.unwrap_or_default(),
        cache_read: answer.usage.cached_input_tokens.unwrap_or_default(),
        output: answer.usage.output_tokens.unwrap_or_default(),
    };
    for content in &answer.choice {
        match content {
            AssistantContent::Text(text) => read.text.push_str(text.text()),
            AssistantContent::ToolCall(call) => {
                let id = if call.id.is_local() {
                    String::new()
                } else {
                    call.id.wire().into_owned()
                };
                let name = call.function.name.as_str().to_owned();
                read.calls.push((id, name, call.function.arguments_value()));
            }
            _ => {}
        }
    }
    read
}
