//! Encodes a conversation as a Responses request. The input comes last and only new items are added, so each request
//! begins with the bytes of the previous one.

use crate::base::model::{Assistant, Attachment, ContentBlock, Step, ToolResult, Turn};
use crate::interfaces::provider::TurnRequest;
use crate::interfaces::provider::answer::RequestIds;
use crate::interfaces::provider::codec::AnswerMode;
use crate::interfaces::provider::data_url::DataUrl;
use crate::interfaces::provider::own_blocks::{is_unmarked, own_blocks};
use crate::interfaces::provider::wording::{NO_ANSWER, NO_MESSAGE, NO_OUTPUT, callable_name, or_if_blank};
use serde::Serialize;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// The least limit of an answer that the service accepts.
const ANSWER_TOKENS_MIN: u32 = 16;

/// The part of an answer that has to be requested: the reasoning, which the service does not store.
const ENCRYPTED_REASONING: &str = "reasoning.encrypted_content";

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    max_output_tokens: u32,
    store: bool,
    stream: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    include: Vec<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    instructions: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<Choice<'a>>,
    input: Vec<Item<'a>>,
}

/// A tool. It is not `strict`, because then every argument would be required; Drydock checks the arguments itself.
#[derive(Serialize)]
struct Tool<'a> {
    r#type: &'static str,
    name: &'a str,
    description: &'a str,
    parameters: &'a RawValue,
    strict: bool,
}

/// The tool that the model has to call, or `none`.
#[derive(Serialize)]
#[serde(untagged)]
enum Choice<'a> {
    Forced { r#type: &'static str, name: &'a str },
    Word(&'static str),
}

impl<'a> Choice<'a> {
    fn of(request: &TurnRequest<'a>) -> Option<Self> {
        let forced = request.forced_tool().map(|name| Self::Forced {
            r#type: "function",
            name,
        });
        forced.or_else(|| request.forbids_calls().then_some(Self::Word("none")))
    }
}

/// An input item. Untagged, with its type as a field: serde's own tags would re-encode raw JSON.
#[derive(Serialize)]
#[serde(untagged)]
enum Item<'a> {
    Message(Message<'a>),
    Parts(PartsMessage<'a>),
    Call(Call<'a>),
    Output(Output<'a>),
    Raw(&'a RawValue),
}

#[derive(Serialize)]
struct Message<'a> {
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
#[serde(tag = "type")]
enum Part<'a> {
    #[serde(rename = "input_text")]
    Text { text: &'a str },
    /// The specification requires `detail`.
    #[serde(rename = "input_image")]
    Image {
        image_url: DataUrl<'a>,
        detail: &'static str,
    },
    #[serde(rename = "input_file")]
    File {
        filename: &'a str,
        file_data: DataUrl<'a>,
    },
}

#[derive(Serialize)]
struct Call<'a> {
    r#type: &'static str,
    call_id: String,
    name: Cow<'a, str>,
    arguments: &'a str,
}

#[derive(Serialize)]
struct Output<'a> {
    r#type: &'static str,
    call_id: String,
    output: Cow<'a, str>,
}

/// Encodes a request.
pub(super) fn encode(
    label: &str,
    request: &TurnRequest<'_>,
    delivery: AnswerMode,
) -> Result<Vec<u8>, serde_json::Error> {
    let tools = request.tools.iter().map(|tool| Tool {
        r#type: "function",
        name: tool.name,
        description: tool.description,
        parameters: tool.schema.parameters(),
        strict: false,
    });
    let include = reasons(request.model).then_some(ENCRYPTED_REASONING);
    request.written(&Body {
        model: request.model,
        max_output_tokens: request.answer_tokens_max.max(ANSWER_TOKENS_MIN),
        store: false,
        stream: delivery == AnswerMode::Streamed,
        include: include.into_iter().collect(),
        instructions: Some(request.system).filter(|system| !system.trim().is_empty()),
        tools: tools.collect(),
        tool_choice: Choice::of(request),
        input: input(label, request),
    })
}

/// Returns true for models that reason: o1 and later, and gpt-5 and later. Others refuse a request for reasoning.
fn reasons(model: &str) -> bool {
    let model = model.rsplit('/').next().unwrap_or(model);
    let number = |rest: &str| {
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        digits.parse::<u32>().unwrap_or_default()
    };
    if let Some(rest) = model.strip_prefix("gpt-") {
        return number(rest) >= 5 && !model.contains("-chat");
    }
    model.strip_prefix('o').is_some_and(|rest| number(rest) >= 1)
}

fn input<'a>(label: &str, request: &TurnRequest<'a>) -> Vec<Item<'a>> {
    let mut items = Vec::new();
    let mut ids = RequestIds::new(|char| char.is_ascii_alphanumeric() || char == '_' || char == '-');
    for turn in request.turns {
        items.push(opening(turn));
        for step in turn.steps() {
            add_step(&mut items, &mut ids, (label, request.model), step);
        }
    }
    items
}

/// Returns the message that begins a turn.
fn opening(turn: &Turn) -> Item<'_> {
    let text = or_if_blank(turn.user(), NO_MESSAGE);
    match turn.attachments() {
        [] => message("user", text),
        attachments => {
            let content = attachments.iter().map(part).chain([Part::Text { text }]);
            Item::Parts(PartsMessage {
                role: "user",
                content: content.collect(),
            })
        }
    }
}

fn part(attachment: &Attachment) -> Part<'_> {
    match attachment.media_type().is_image() {
        true => Part::Image {
            image_url: DataUrl(attachment),
            detail: "auto",
        },
        false => Part::File {
            filename: &attachment.file().name,
            file_data: DataUrl(attachment),
        },
    }
}

fn add_step<'a>(
    items: &mut Vec<Item<'a>>,
    ids: &mut RequestIds,
    (label, model): (&str, &str),
    step: &'a Step,
) {
    let assistant = step.assistant();
    // Items of an unknown model may contain reasoning, which a model that does not reason refuses.
    let raw = own_blocks(assistant, label, model).filter(|raw| !is_unmarked(raw) || reasons(model));
    let sent: Vec<String> = match raw {
        Some(_) => assistant.calls().map(|call| ids.keep(call)).collect(),
        None => assistant.calls().map(|call| ids.assign(call)).collect(),
    };
    match raw {
        Some(raw) => items.extend(raw.blocks.iter().map(|item| Item::Raw(item))),
        None => add_canonical(items, assistant, &sent),
    }
    let results = step.results().iter().zip(sent);
    items.extend(results.map(|(result, id)| output(result, id)));
    items.extend(step.remark().map(|remark| message("user", remark)));
    items.extend(step.messages().iter().map(|said| message("user", said)));
}

fn add_canonical<'a>(items: &mut Vec<Item<'a>>, assistant: &'a Assistant, sent: &[String]) {
    let mut sent = sent.iter();
    let before = items.len();
    for block in &assistant.blocks {
        match block {
            ContentBlock::Text { text } if text.trim().is_empty() => {}
            ContentBlock::Text { text } => items.push(message("assistant", text)),
            ContentBlock::Call(call) => items.extend(sent.next().map(|id| {
                Item::Call(Call {
                    r#type: "function_call",
                    call_id: id.clone(),
                    name: callable_name(&call.name),
                    arguments: call.arguments.object_or_empty().get(),
                })
            })),
        }
    }
    if items.len() == before {
        items.push(message("assistant", NO_ANSWER));
    }
}

fn message<'a>(role: &'static str, content: &'a str) -> Item<'a> {
    Item::Message(Message { role, content })
}

fn output(result: &ToolResult, call_id: String) -> Item<'_> {
    let content = or_if_blank(&result.content, NO_OUTPUT);
    // This wire format has no field for failures, so the content contains the failure.
    let output = match result.is_error {
        true => Cow::Owned(format!("error: {content}")),
        false => Cow::Borrowed(content),
    };
    Item::Output(Output {
        r#type: "function_call_output",
        call_id,
        output,
    })
}

#[cfg(test)]
mod tests {
    use super::reasons;

    #[test]
    fn reasoning_is_requested_only_of_models_that_reason() {
        for model in [
            "o1",
            "o3-mini",
            "gpt-5",
            "gpt-5.4-mini",
            "gpt-12",
            "openai/gpt-5.1",
        ] {
            assert!(reasons(model), "{model}");
        }
        for model in [
            "gpt-4o",
            "gpt-4.1",
            "gpt-5-chat-latest",
            "chatgpt-4o-latest",
            "qwen3",
            "olmo",
            "gpt-oss",
        ] {
            assert!(!reasons(model), "{model}");
        }
    }
}
