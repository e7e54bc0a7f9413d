//! Encodes a conversation as a chat completions request. The messages come last and only new ones are added, so each
//! request begins with the bytes of the previous one.

use super::{AnswerBound, OpenaiChat, ToolChoiceSupport};
use crate::base::model::{Assistant, Attachment, Step, ToolCall, ToolResult, Turn};
use crate::interfaces::provider::TurnRequest;
use crate::interfaces::provider::answer::RequestIds;
use crate::interfaces::provider::codec::AnswerMode;
use crate::interfaces::provider::data_url::DataUrl;
use crate::interfaces::provider::own_blocks::own_blocks;
use crate::interfaces::provider::wording::{NO_ANSWER, NO_MESSAGE, NO_OUTPUT, callable_name, or_if_blank};
use serde::Serialize;
use serde_json::value::RawValue;
use std::borrow::Cow;

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<StreamOptions>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<Choice<'a>>,
    messages: Vec<Message<'a>>,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

#[derive(Serialize)]
struct Tool<'a> {
    r#type: &'static str,
    function: Function<'a>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    description: &'a str,
    parameters: &'a RawValue,
}

/// The tool that the model has to call, or `none`.
#[derive(Serialize)]
#[serde(untagged)]
enum Choice<'a> {
    Forced {
        r#type: &'static str,
        function: ForcedFunction<'a>,
    },
    Word(&'static str),
}

impl<'a> Choice<'a> {
    fn of(request: &TurnRequest<'a>) -> Option<Self> {
        let forced = request.forced_tool().map(|name| Self::Forced {
            r#type: "function",
            function: ForcedFunction { name },
        });
        forced.or_else(|| request.forbids_calls().then_some(Self::Word("none")))
    }
}

#[derive(Serialize)]
struct ForcedFunction<'a> {
    name: &'a str,
}

/// A message. Untagged, with its role as a field: serde's own tags would re-encode raw JSON.
#[derive(Serialize)]
#[serde(untagged)]
enum Message<'a> {
    Text(TextMessage<'a>),
    Parts(PartsMessage<'a>),
    Assistant(AssistantMessage<'a>),
    Result(Outcome<'a>),
    Raw(&'a RawValue),
}

#[derive(Serialize)]
struct TextMessage<'a> {
    role: &'static str,
    content: &'a str,
}

/// A message of the user with attachments.
#[derive(Serialize)]
struct PartsMessage<'a> {
    role: &'static str,
    content: Vec<Part<'a>>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Part<'a> {
    Text { text: &'a str },
    ImageUrl { image_url: ImageUrl<'a> },
    File { file: File<'a> },
}

#[derive(Serialize)]
struct ImageUrl<'a> {
    url: DataUrl<'a>,
}

#[derive(Serialize)]
struct File<'a> {
    filename: &'a str,
    file_data: DataUrl<'a>,
}

#[derive(Serialize)]
struct AssistantMessage<'a> {
    role: &'static str,
    content: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<Call<'a>>,
}

#[derive(Serialize)]
struct Call<'a> {
    id: String,
    r#type: &'static str,
    function: WireFunction<'a>,
}

#[derive(Serialize)]
struct WireFunction<'a> {
    name: Cow<'a, str>,
    arguments: &'a str,
}

#[derive(Serialize)]
struct Outcome<'a> {
    role: &'static str,
    tool_call_id: String,
    content: Cow<'a, str>,
}

/// Encodes a request.
pub(super) fn encode(
    wire: &OpenaiChat,
    request: &TurnRequest<'_>,
    delivery: AnswerMode,
) -> Result<Vec<u8>, serde_json::Error> {
    let bound = Some(request.answer_tokens_max.max(1));
    let (max_completion_tokens, max_tokens) = match wire.bound {
        AnswerBound::MaxCompletionTokens => (bound, None),
        AnswerBound::MaxTokens => (None, bound),
    };
    let is_streamed = delivery == AnswerMode::Streamed;
    // Many servers of this format ignore a forced call, so no other tool is offered with it.
    let tools = match wire.tool_choice {
        ToolChoiceSupport::Ignored if request.forbids_calls() => &[],
        ToolChoiceSupport::Ignored | ToolChoiceSupport::Obeyed => request.callable_tools(),
    };
    request.written(&Body {
        model: request.model,
        max_completion_tokens,
        max_tokens,
        stream: is_streamed,
        stream_options: is_streamed.then_some(StreamOptions { include_usage: true }),
        tools: tools
            .iter()
            .map(|tool| Tool {
                r#type: "function",
                function: Function {
                    name: tool.name,
                    description: tool.description,
                    parameters: tool.schema.parameters(),
                },
            })
            .collect(),
        tool_choice: Choice::of(request).filter(|_| !tools.is_empty()),
        messages: messages(&wire.provider, request),
    })
}

fn messages<'a>(provider: &str, request: &TurnRequest<'a>) -> Vec<Message<'a>> {
    let mut messages = Vec::new();
    if !request.system.trim().is_empty() {
        messages.push(Message::Text(TextMessage {
            role: "system",
            content: request.system,
        }));
    }
    let mut ids = RequestIds::new(|char| char.is_ascii_graphic());
    for turn in request.turns {
        messages.push(opening(turn));
        for step in turn.steps() {
            add_step(&mut messages, &mut ids, (provider, request.model), step);
        }
    }
    messages
}

/// Returns the message that begins a turn.
fn opening(turn: &Turn) -> Message<'_> {
    let (role, text) = ("user", or_if_blank(turn.user(), NO_MESSAGE));
    match turn.attachments() {
        [] => Message::Text(TextMessage { role, content: text }),
        attachments => {
            let content = attachments.iter().map(part).chain([Part::Text { text }]);
            Message::Parts(PartsMessage {
                role,
                content: content.collect(),
            })
        }
    }
}

fn part(attachment: &Attachment) -> Part<'_> {
    let content = DataUrl(attachment);
    match attachment.media_type().is_image() {
        true => Part::ImageUrl {
            image_url: ImageUrl { url: content },
        },
        false => Part::File {
            file: File {
                filename: &attachment.file().name,
                file_data: content,
            },
        },
    }
}

fn add_step<'a>(
    messages: &mut Vec<Message<'a>>,
    ids: &mut RequestIds,
    (provider, model): (&str, &str),
    step: &'a Step,
) {
    let assistant = step.assistant();
    let raw = own_blocks(assistant, provider, model);
    let raw = raw.and_then(|raw| raw.blocks.first());
    let sent: Vec<String> = match raw {
        Some(_) => assistant.calls().map(|call| ids.keep(call)).collect(),
        None => assistant.calls().map(|call| ids.assign(call)).collect(),
    };
    messages.push(match raw {
        Some(raw) => Message::Raw(raw),
        None => canonical(assistant, &sent),
    });
    let results = step.results().iter().zip(sent);
    messages.extend(results.map(|(result, id)| outcome(result, id)));
    let said = step.remark().into_iter();
    let said = said.chain(step.messages().iter().map(String::as_str));
    messages.extend(said.map(|content| {
        Message::Text(TextMessage {
            role: "user",
            content,
        })
    }));
}

fn canonical<'a>(assistant: &'a Assistant, sent: &[String]) -> Message<'a> {
    let tool_calls: Vec<Call<'a>> = assistant
        .calls()
        .zip(sent)
        .map(|(call, id)| tool_call(call, id.clone()))
        .collect();
    let text = assistant.text();
    let content = match (text.is_empty(), tool_calls.is_empty()) {
        (false, _) => Some(text),
        (true, true) => Some(NO_ANSWER.to_owned()),
        (true, false) => None,
    };
    Message::Assistant(AssistantMessage {
        role: "assistant",
        content,
        tool_calls,
    })
}

fn tool_call(call: &ToolCall, id: String) -> Call<'_> {
    let name = callable_name(&call.name);
    let arguments = call.arguments.object_or_empty().get();
    Call {
        id,
        r#type: "function",
        function: WireFunction { name, arguments },
    }
}

fn outcome(result: &ToolResult, tool_call_id: String) -> Message<'_> {
    let content = or_if_blank(&result.content, NO_OUTPUT);
    // This wire format has no field for failures, so the content contains the failure.
    let content = match result.is_error {
        true => Cow::Owned(format!("error: {content}")),
        false => Cow::Borrowed(content),
    };
    Message::Result(Outcome {
        role: "tool",
        tool_call_id,
        content,
    })
}
