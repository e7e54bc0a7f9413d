//! Encodes a conversation as a Gemini request. The contents come last and only new ones are added, so each request begins
//! with the bytes of the previous one.

use crate::base::model::{Assistant, Attachment, ContentBlock, Step, ToolResult};
use crate::interfaces::provider::TurnRequest;
use crate::interfaces::provider::answer::RequestIds;
use crate::interfaces::provider::own_blocks::own_blocks;
use crate::interfaces::provider::wording::{NO_ANSWER, NO_MESSAGE, NO_OUTPUT, callable_name, or_if_blank};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::borrow::Cow;

/// The signature of a call that the service did not write, such as one of another provider. Newer models refuse a call
/// without a signature. See <https://ai.google.dev/gemini-api/docs/thought-signatures>, under its questions.
const FOREIGN_SIGNATURE: &str = "skip_thought_signature_validator";

/// The beginnings of the names of models that do not check signatures.
const UNSIGNED_MODELS: [&str; 3] = ["gemini-1", "gemini-2", "gemma"];

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    system_instruction: Option<Instruction<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tools<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_config: Option<ToolConfig<'a>>,
    generation_config: GenerationConfig,
    contents: Vec<Content<'a>>,
}

#[derive(Serialize)]
struct Instruction<'a> {
    parts: [Text<'a>; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Tools<'a> {
    function_declarations: Vec<Declaration<'a>>,
}

/// A tool. `parameters` accepts only a part of JSON Schema; this field accepts the whole of it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Declaration<'a> {
    name: &'a str,
    description: &'a str,
    parameters_json_schema: &'a RawValue,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ToolConfig<'a> {
    function_calling_config: FunctionCallingConfig<'a>,
}

/// The function that the model has to call, or that it may call none. The service accepts names only with the mode `ANY`.
#[derive(Serialize)]
#[serde(tag = "mode", rename_all = "UPPERCASE", rename_all_fields = "camelCase")]
enum FunctionCallingConfig<'a> {
    Any { allowed_function_names: [&'a str; 1] },
    None,
}

impl<'a> ToolConfig<'a> {
    fn of(request: &TurnRequest<'a>) -> Option<Self> {
        let forced = request.forced_tool().map(|name| FunctionCallingConfig::Any {
            allowed_function_names: [name],
        });
        let config = forced.or_else(|| request.forbids_calls().then_some(FunctionCallingConfig::None));
        config.map(|function_calling_config| Self {
            function_calling_config,
        })
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GenerationConfig {
    max_output_tokens: u32,
}

#[derive(Serialize)]
struct Content<'a> {
    role: &'static str,
    parts: Vec<Part<'a>>,
}

/// A part. Untagged: serde's own tags would re-encode raw JSON.
#[derive(Serialize)]
#[serde(untagged)]
enum Part<'a> {
    Text(Text<'a>),
    Data(DataPart<'a>),
    Call(CallPart<'a>),
    Response(ResponsePart<'a>),
    Raw(&'a RawValue),
}

#[derive(Serialize)]
struct Text<'a> {
    text: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DataPart<'a> {
    inline_data: InlineData<'a>,
}

/// An image or a document.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct InlineData<'a> {
    mime_type: &'static str,
    data: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CallPart<'a> {
    function_call: FunctionCall<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thought_signature: Option<&'static str>,
}

#[derive(Serialize)]
struct FunctionCall<'a> {
    id: String,
    name: Cow<'a, str>,
    args: &'a RawValue,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ResponsePart<'a> {
    function_response: FunctionResponse<'a>,
}

#[derive(Serialize)]
struct FunctionResponse<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    name: Cow<'a, str>,
    response: Outcome<'a>,
}

/// The content of a result. The service names these two fields.
#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Outcome<'a> {
    Output(&'a str),
    Error(&'a str),
}

/// A part of the service's own, as far as it has to be known to answer it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OwnPart {
    function_call: Option<OwnCall>,
    thought_signature: Option<String>,
}

#[derive(Deserialize)]
struct OwnCall {
    id: Option<String>,
}

/// Encodes a request.
pub(super) fn encode(label: &str, request: &TurnRequest<'_>) -> Result<Vec<u8>, serde_json::Error> {
    let declarations: Vec<Declaration<'_>> = request
        .tools
        .iter()
        .map(|tool| Declaration {
            name: tool.name,
            description: tool.description,
            parameters_json_schema: tool.schema.parameters(),
        })
        .collect();
    let tools = Tools {
        function_declarations: declarations,
    };
    request.written(&Body {
        system_instruction: Some(request.system)
            .filter(|system| !system.trim().is_empty())
            .map(|text| Instruction {
                parts: [Text { text }],
            }),
        tools: if tools.function_declarations.is_empty() {
            Vec::new()
        } else {
            vec![tools]
        },
        tool_config: ToolConfig::of(request),
        generation_config: GenerationConfig {
            max_output_tokens: request.answer_tokens_max.max(1),
        },
        contents: contents(label, request),
    })
}

fn contents<'a>(label: &str, request: &TurnRequest<'a>) -> Vec<Content<'a>> {
    let is_unsigned = UNSIGNED_MODELS.iter().any(|name| request.model.starts_with(name));
    let mut writer = Writer {
        label,
        model: request.model,
        signature: (!is_unsigned).then_some(FOREIGN_SIGNATURE),
        ids: RequestIds::new(|char| char.is_ascii_alphanumeric() || char == '_' || char == '-'),
        contents: Vec::new(),
    };
    for turn in request.turns {
        let mut parts: Vec<Part<'_>> = turn.attachments().iter().map(data).collect();
        parts.push(text(or_if_blank(turn.user(), NO_MESSAGE)));
        writer.add("user", parts);
        for step in turn.steps() {
            writer.add_step(step);
        }
    }
    writer.contents
}

/// The contents of a request, as far as they are written.
struct Writer<'a, 'l> {
    label: &'l str,
    model: &'a str,
    /// The signature of calls that the service did not write; none for a model that does not check signatures.
    signature: Option<&'static str>,
    ids: RequestIds,
    contents: Vec<Content<'a>>,
}

impl<'a> Writer<'a, '_> {
    fn add(&mut self, role: &'static str, parts: Vec<Part<'a>>) {
        self.contents.push(Content { role, parts });
    }

    fn add_step(&mut self, step: &'a Step) {
        let assistant = step.assistant();
        let raw = own_blocks(assistant, self.label, self.model);
        let raw = raw.filter(|raw| self.signature.is_none() || is_signed(&raw.blocks));
        let sent = match raw {
            Some(raw) => {
                assistant.calls().for_each(|call| drop(self.ids.keep(call)));
                self.add("model", raw.blocks.iter().map(|part| Part::Raw(part)).collect());
                raw.blocks.iter().filter_map(|part| own_id(part)).collect()
            }
            None => self.add_canonical(assistant),
        };
        if !step.results().is_empty() {
            let results = step.results().iter().zip(assistant.calls()).zip(sent);
            let parts = results.map(|((result, call), id)| response(result, &call.name, id));
            let parts = parts.collect();
            self.add("user", parts);
        }
        if let Some(remark) = step.remark() {
            self.add("user", vec![text(remark)]);
        }
        // The service expects texts and results in contents of their own.
        if !step.messages().is_empty() {
            self.add("user", step.messages().iter().map(|said| text(said)).collect());
        }
    }

    /// Adds an answer in the service's format, and returns the ids of its calls.
    fn add_canonical(&mut self, assistant: &'a Assistant) -> Vec<Option<String>> {
        let mut parts = Vec::new();
        let mut sent = Vec::new();
        for block in &assistant.blocks {
            match block {
                ContentBlock::Text { text: words } if words.trim().is_empty() => {}
                ContentBlock::Text { text: words } => parts.push(text(words)),
                ContentBlock::Call(call) => {
                    let id = self.ids.assign(call);
                    // Only the first call of an answer has a signature.
                    let signature = self.signature.filter(|_| sent.is_empty());
                    sent.push(Some(id.clone()));
                    parts.push(Part::Call(CallPart {
                        function_call: FunctionCall {
                            id,
                            name: function_name(&call.name),
                            args: call.arguments.object_or_empty(),
                        },
                        thought_signature: signature,
                    }));
                }
            }
        }
        if parts.is_empty() {
            parts.push(text(NO_ANSWER));
        }
        self.add("model", parts);
        sent
    }
}

/// Returns the id of a call of the service's own, which may have none; `None` for another part. For the service, an empty
/// text is the same as none.
fn own_id(part: &RawValue) -> Option<Option<String>> {
    let part: OwnPart = serde_json::from_str(part.get()).ok()?;
    Some(part.function_call?.id.filter(|id| !id.is_empty()))
}

/// Returns true if the first call of an answer is signed, or there is none. Newer models refuse an answer otherwise.
fn is_signed(parts: &[Box<RawValue>]) -> bool {
    let mut own = parts
        .iter()
        .filter_map(|part| serde_json::from_str::<OwnPart>(part.get()).ok());
    let first = own.find(|part| part.function_call.is_some());
    first.is_none_or(|part| {
        part.thought_signature
            .is_some_and(|signature| !signature.is_empty())
    })
}

fn text(text: &str) -> Part<'_> {
    Part::Text(Text { text })
}

fn data(attachment: &Attachment) -> Part<'_> {
    Part::Data(DataPart {
        inline_data: InlineData {
            mime_type: attachment.media_type().name(),
            data: attachment.base64(),
        },
    })
}

fn response<'a>(result: &'a ToolResult, name: &'a str, id: Option<String>) -> Part<'a> {
    let content = or_if_blank(&result.content, NO_OUTPUT);
    Part::Response(ResponsePart {
        function_response: FunctionResponse {
            id,
            name: function_name(name),
            response: match result.is_error {
                true => Outcome::Error(content),
                false => Outcome::Output(content),
            },
        },
    })
}

/// Returns a called name that the service accepts: it begins with a letter or an underscore.
fn function_name(name: &str) -> Cow<'_, str> {
    let name = callable_name(name);
    match name.strip_prefix(|char: char| !char.is_ascii_alphabetic() && char != '_') {
        Some(rest) => Cow::Owned(format!("_{rest}")),
        None => name,
    }
}
