//! genai's side.

use crate::transcript::{
    ABOUT, ABOUT_FILE, ANSWER, ANSWER_TOKENS, CALLS, Conversation, FIRST, LOOKS, RESULTS, RequestFile,
    SECOND, SYSTEM, TOOL, schema,
};
use crate::{Reading, Stop, Understood, Wire};
use futures::StreamExt as _;
use genai::adapter::AdapterKind;
use genai::chat::{
    ChatMessage, ChatOptions, ChatRequest, ChatStreamEvent, ContentPart, MessageContent, StopReason, Tool,
    ToolCall, ToolResponse, Usage,
};
use genai::resolver::{AuthData, Endpoint};
use genai::{Client, ModelIden, ServiceTarget};

/// Makes a call of the service at this address, and returns what genai made of the answer.
pub async fn call(wire: Wire, address: &str, is_streamed: bool, conversation: Conversation) -> Reading {
    let kind = match wire {
        Wire::Messages => AdapterKind::Anthropic,
        Wire::Chat => AdapterKind::OpenAI,
        Wire::Responses => AdapterKind::OpenAIResp,
        Wire::Gemini => AdapterKind::Gemini,
    };
    // Its base URLs end with a slash, and that of Anthropic has the version.
    let base = if wire == Wire::Messages {
        "/v1"
    } else {
        wire.base_path()
    };
    let url = format!("{address}{base}/");
    let target = ServiceTarget {
        endpoint: Endpoint::from_owned(url),
        auth: AuthData::Key("key".to_owned()),
        model: ModelIden::new(kind, wire.model()),
    };
    let client = Client::builder()
        .with_service_target_resolver_fn(move |_: ServiceTarget| Ok(target.clone()))
        .build()
        .expect("a client");
    let request = match (conversation, conversation.file()) {
        (Conversation::Continued, _) => first_request(),
        (_, None) => request(),
        (_, Some(file)) => request_with(file),
    };
    let options = ChatOptions::default()
        .with_max_tokens(ANSWER_TOKENS)
        .with_capture_content(true)
        .with_capture_tool_calls(true)
        .with_capture_usage(true);
    let read = if is_streamed {
        streamed(&client, wire, request, &options).await
    } else {
        whole(&client, wire, request, &options, conversation).await
    };
    read.map_or_else(|error| Reading::Failed(error.to_string()), Reading::Answer)
}

async fn whole(
    client: &Client,
    wire: Wire,
    request: ChatRequest,
    options: &ChatOptions,
    conversation: Conversation,
) -> genai::Result<Understood> {
    let mut answer = client.exec_chat(wire.model(), request, Some(options)).await?;
    if conversation == Conversation::Continued {
        let next = with_results(answer.content);
        answer = client.exec_chat(wire.model(), next, Some(options)).await?;
    }
    Ok(understood(
        &answer.content,
        answer.stop_reason.as_ref(),
        &answer.usage,
    ))
}

async fn streamed(
    client: &Client,
    wire: Wire,
    request: ChatRequest,
    options: &ChatOptions,
) -> genai::Result<Understood> {
    let answer = client
        .exec_chat_stream(wire.model(), request, Some(options))
        .await?;
    let mut stream = answer.stream;
    let mut end = None;
    while let Some(event) = stream.next().await {
        if let ChatStreamEvent::End(last) = event? {
            end = Some(last);
        }
    }
    let end = end.expect("the end of the stream");
    Ok(understood(
        &end.captured_content.unwrap_or_default(),
        end.captured_stop_reason.as_ref(),
        &end.captured_usage.unwrap_or_default(),
    ))
}

fn request() -> ChatRequest {
    let calls = CALLS.map(|(id, arguments, _, _)| ToolCall {
        call_id: id.to_owned(),
        fn_name: TOOL.to_owned(),
        fn_arguments: serde_json::from_str(arguments).expect("JSON"),
        thought_signatures: None,
    });
    let mut parts = vec![ContentPart::Text(LOOKS.to_owned())];
    parts.extend(calls.map(ContentPart::ToolCall));
    let results = CALLS.map(|(id, _, content, _)| ToolResponse {
        call_id: id.to_owned(),
        fn_name: Some(TOOL.to_owned()),
        content: content.to_owned(),
    });
    ChatRequest::from_system(SYSTEM)
        .append_message(ChatMessage::user(FIRST))
        .append_message(ChatMessage::assistant(MessageContent::from_parts(parts)))
        .append_message(ChatMessage::tool(MessageContent::from_tool_responses(
            results.into(),
        )))
        .append_message(ChatMessage::assistant(ANSWER))
        .append_message(ChatMessage::user(SECOND))
        .with_tools([Tool::new(TOOL).with_description(ABOUT).with_schema(schema())])
}

fn first_request() -> ChatRequest {
    ChatRequest::from_system(SYSTEM)
        .append_message(ChatMessage::user(FIRST))
        .with_tools([Tool::new(TOOL).with_description(ABOUT).with_schema(schema())])
}

/// Returns the request after the first one, with its answer and the results of the calls.
fn with_results(answer: MessageContent) -> ChatRequest {
    let calls = answer.tool_calls().into_iter().zip(RESULTS);
    let results = calls.map(|(call, content)| ToolResponse {
        call_id: call.call_id.clone(),
        fn_name: Some(call.fn_name.clone()),
        content: content.to_owned(),
    });
    let results = MessageContent::from_tool_responses(results.collect());
    first_request()
        .append_message(ChatMessage::assistant(answer))
        .append_message(ChatMessage::tool(results))
}

/// Returns the request with a file, which comes before the words as in Drydock's.
fn request_with(file: RequestFile) -> ChatRequest {
    let name = Some(file.name.to_owned());
    let parts = vec![
        ContentPart::from_binary_base64(file.media_type, file.base64, name),
        ContentPart::from_text(ABOUT_FILE),
    ];
    ChatRequest::from_system(SYSTEM).append_message(ChatMessage::user(MessageContent::from_parts(parts)))
}

fn understood(content: &MessageContent, stop: Option<&StopReason>, usage: &Usage) -> Understood {
    let number = |number: Option<i32>| u64::try_from(number.unwrap_or_default()).expect("a number");
    let cached = usage
        .prompt_tokens_details
        .as_ref()
        .and_then(|details| details.cached_tokens);
    Understood {
        text: content.texts().concat(),
        calls: content
            .tool_calls()
            .iter()
            .map(|call| {
                (
                    call.call_id.clone(),
                    call.fn_name.clone(),
                    call.fn_arguments.clone(),
                )
            })
            .collect(),
        stop: match stop {
            Some(StopReason::Completed(_) | StopReason::StopSequence(_)) => Stop::Finished,
            Some(StopReason::ToolCall(_)) => Stop::Calls,
            Some(StopReason::MaxTokens(_)) => Stop::Cut,
            Some(StopReason::ContentFilter(_)) => Stop::Refused,
            Some(StopReason::Other(_)) | None => Stop::Unknown,
        },
        input: number(usage.prompt_tokens),
        cache_read: number(cached),
        output: number(usage.completion_tokens),
    }
}
