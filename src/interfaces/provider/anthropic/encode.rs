//! Encodes a conversation as a Messages request. The growing fields come last and only the cache marker moves, so
//! each request begins with the bytes of the previous one.

use crate::base::model::{Assistant, Attachment, ContentBlock, Step, ToolCall, ToolResult};
use crate::interfaces::provider::TurnRequest;
use crate::interfaces::provider::answer::RequestIds;
use crate::interfaces::provider::codec::AnswerMode;
use crate::interfaces::provider::own_blocks::own_blocks;
use crate::interfaces::provider::wording::{NO_ANSWER, NO_MESSAGE, NO_OUTPUT, callable_name, or_if_blank};
use serde::Serialize;
use serde_json::value::RawValue;
use std::borrow::Cow;

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    max_tokens: u32,
    stream: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    system: Vec<Content<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<Choice<'a>>,
    messages: Vec<Message<'a>>,
}

#[derive(Serialize)]
struct Tool<'a> {
    name: &'a str,
    description: &'a str,
    input_schema: &'a RawValue,
}

/// The tool that the model has to call, exactly once, or that it may call none.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum Choice<'a> {
    Tool {
        name: &'a str,
        disable_parallel_tool_use: bool,
    },
    None,
}

impl<'a> Choice<'a> {
    fn of(request: &TurnRequest<'a>) -> Option<Self> {
        let forced = request.forced_tool().map(|name| Self::Tool {
            name,
            disable_parallel_tool_use: true,
        });
        forced.or_else(|| request.forbids_calls().then_some(Self::None))
    }
}

#[derive(Serialize)]
struct Message<'a> {
    role: Role,
    content: Vec<Content<'a>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Role {
    User,
    Assistant,
}

/// A block. Untagged, with its type as a field: serde's own tags would re-encode raw JSON.
#[derive(Serialize)]
#[serde(untagged)]
enum Content<'a> {
    Text(Text<'a>),
    File(File<'a>),
    Use(ToolUse<'a>),
    Result(ToolOutcome<'a>),
    Raw(&'a RawValue),
}

#[derive(Serialize)]
struct Text<'a> {
    r#type: &'static str,
    text: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<Cached>,
}

/// An image or a document.
#[derive(Serialize)]
struct File<'a> {
    r#type: &'static str,
    source: Source<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<&'a str>,
}

#[derive(Serialize)]
struct Source<'a> {
    r#type: &'static str,
    media_type: &'static str,
    data: &'a str,
}

#[derive(Serialize)]
struct ToolUse<'a> {
    r#type: &'static str,
    id: String,
    name: Cow<'a, str>,
    input: &'a RawValue,
}

#[derive(Serialize)]
struct ToolOutcome<'a> {
    r#type: &'static str,
    tool_use_id: String,
    content: &'a str,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_error: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<Cached>,
}

#[derive(Clone, Copy, Serialize)]
struct Cached {
    r#type: &'static str,
}

const EPHEMERAL: Cached = Cached { r#type: "ephemeral" };

/// The number of messages of the user that are marked. With the system prompt, a request has three of the four markers
/// that the service accepts.
const MARKED_MESSAGES: usize = 2;

/// Encodes a request.
pub(super) fn encode(
    label: &str,
    request: &TurnRequest<'_>,
    delivery: AnswerMode,
) -> Result<Vec<u8>, serde_json::Error> {
    let system = Text {
        r#type: "text",
        text: request.system,
        cache_control: Some(EPHEMERAL),
    };
    request.written(&Body {
        model: request.model,
        max_tokens: request.answer_tokens_max.max(1),
        stream: delivery == AnswerMode::Streamed,
        system: if request.system.trim().is_empty() {
            Vec::new()
        } else {
            vec![Content::Text(system)]
        },
        tools: request
            .tools
            .iter()
            .map(|tool| Tool {
                name: tool.name,
                description: tool.description,
                input_schema: tool.schema.parameters(),
            })
            .collect(),
        tool_choice: Choice::of(request),
        messages: messages(label, request),
    })
}

fn messages<'a>(label: &str, request: &TurnRequest<'a>) -> Vec<Message<'a>> {
    let mut messages = Vec::new();
    let mut ids = RequestIds::new(|char| char.is_ascii_alphanumeric() || char == '_' || char == '-');
    for turn in request.turns {
        // The documentation recommends files before the text about them.
        let mut said: Vec<_> = turn.attachments().iter().map(file).collect();
        said.push(text(or_if_blank(turn.user(), NO_MESSAGE)));
        add(&mut messages, Role::User, said);
        for step in turn.steps() {
            add_step(&mut messages, &mut ids, (label, request.model), step);
        }
    }
    mark(&mut messages);
    messages
}

/// Marks the ends of this request and of the previous one for the cache. From a marker, the service looks only 20 blocks
/// back for what it has cached, and a step with many calls has more.
///
/// Source: <https://platform.claude.com/docs/en/build-with-claude/prompt-caching>.
fn mark(messages: &mut [Message<'_>]) {
    let users = messages
        .iter_mut()
        .rev()
        .filter(|message| matches!(message.role, Role::User));
    for message in users.take(MARKED_MESSAGES) {
        match message.content.last_mut() {
            Some(Content::Text(text)) => text.cache_control = Some(EPHEMERAL),
            Some(Content::Result(result)) => result.cache_control = Some(EPHEMERAL),
            Some(Content::File(_) | Content::Use(_) | Content::Raw(_)) | None => {}
        }
    }
}

fn add_step<'a>(
    messages: &mut Vec<Message<'a>>,
    ids: &mut RequestIds,
    (label, model): (&str, &str),
    step: &'a Step,
) {
    let assistant = step.assistant();
    let raw = own_blocks(assistant, label, model);
    let sent: Vec<String> = match raw {
        Some(_) => assistant.calls().map(|call| ids.keep(call)).collect(),
        None => assistant.calls().map(|call| ids.assign(call)).collect(),
    };
    let content = match raw {
        Some(raw) => raw.blocks.iter().map(|block| Content::Raw(block)).collect(),
        None => canonical(assistant, &sent),
    };
    add(messages, Role::Assistant, content);
    if !step.results().is_empty() {
        let results = step
            .results()
            .iter()
            .zip(sent)
            .map(|(result, id)| outcome(result, id));
        add(messages, Role::User, results.collect());
    }
    if let Some(remark) = step.remark() {
        add(messages, Role::User, vec![text(remark)]);
    }
    for message in step.messages() {
        add(messages, Role::User, vec![text(message)]);
    }
}

fn canonical<'a>(assistant: &'a Assistant, sent: &[String]) -> Vec<Content<'a>> {
    let mut sent = sent.iter();
    let mut content: Vec<Content<'a>> = Vec::new();
    for block in &assistant.blocks {
        match block {
            ContentBlock::Text { text: words } if words.trim().is_empty() => {}
            ContentBlock::Text { text: words } => content.push(text(words)),
            ContentBlock::Call(call) => content.extend(sent.next().map(|id| tool_use(call, id.clone()))),
        }
    }
    if content.is_empty() {
        content.push(text(NO_ANSWER));
    }
    content
}

/// Adds a message. Content of the same role is added to the previous message, so that roles always alternate.
fn add<'a>(messages: &mut Vec<Message<'a>>, role: Role, content: Vec<Content<'a>>) {
    match messages.last_mut() {
        Some(last) if last.role == role => last.content.extend(content),
        Some(_) | None => messages.push(Message { role, content }),
    }
}

fn text(text: &str) -> Content<'_> {
    Content::Text(Text {
        r#type: "text",
        text,
        cache_control: None,
    })
}

fn file(attachment: &Attachment) -> Content<'_> {
    let media = attachment.media_type();
    let is_image = media.is_image();
    Content::File(File {
        r#type: if is_image { "image" } else { "document" },
        source: Source {
            r#type: "base64",
            media_type: media.name(),
            data: attachment.base64(),
        },
        title: (!is_image).then_some(&attachment.file().name),
    })
}

fn tool_use(call: &ToolCall, id: String) -> Content<'_> {
    Content::Use(ToolUse {
        r#type: "tool_use",
        id,
        name: callable_name(&call.name),
        input: call.arguments.object_or_empty(),
    })
}

fn outcome(result: &ToolResult, tool_use_id: String) -> Content<'_> {
    Content::Result(ToolOutcome {
        r#type: "tool_result",
        tool_use_id,
        content: or_if_blank(&result.content, NO_OUTPUT),
        is_error: result.is_error,
        cache_control: None,
    })
}
