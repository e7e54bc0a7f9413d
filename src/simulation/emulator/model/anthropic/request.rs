//! Parses and checks a request of the Messages API.

use crate::simulation::emulator::model::conversation::{
    RequestCall, RequestMessage, RequestResult, RequestRole, RequestTool, RequestedCalls, check,
};
use crate::simulation::emulator::model::files::{self, DOCUMENTS, FileRules, IMAGES, RequestFile};
use crate::simulation::emulator::model::server::{ModelRefusal, ParsedRequest, UsageEvent};
use http::HeaderMap;
use serde_json::Value;

/// The maximum number of blocks with a cache marker in a request.
const CACHE_MARKERS_MAX: usize = 4;

/// The maximum number of bytes of an image, which are counted in base64: `image exceeds 5 MB maximum`.
const IMAGE_BASE64_MAX: usize = 5 << 20;

/// The maximum number of bytes of a request.
const REQUEST_BYTES_MAX: usize = 32 << 20;

/// Parses a request, or returns the error of the API.
pub(in crate::simulation::emulator::model) fn read(
    headers: &HeaderMap,
    body: &Value,
) -> Result<ParsedRequest, ModelRefusal> {
    let header = |name: &str| {
        headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
    };
    if header("x-api-key").is_empty() {
        return Err(ModelRefusal {
            status: 401,
            why: "x-api-key header is required".to_owned(),
        });
    }
    if header("anthropic-version") != "2023-06-01" {
        return Err(ModelRefusal::invalid_request(
            "anthropic-version: header is required",
        ));
    }
    let model = body["model"].as_str().filter(|model| !model.is_empty());
    let model = model.ok_or_else(|| ModelRefusal::invalid_request("model: Field required"))?;
    if body["max_tokens"].as_u64().unwrap_or_default() == 0 {
        return Err(ModelRefusal::invalid_request(
            "max_tokens: must be greater than or equal to 1",
        ));
    }
    let mut markers = 0;
    let system = match &body["system"] {
        Value::String(text) => text.clone(),
        blocks => text_blocks(blocks, &mut markers)?,
    };
    let tools: Vec<RequestTool> = list(&body["tools"])
        .iter()
        .map(|tool| RequestTool {
            name: tool["name"].as_str().unwrap_or_default().to_owned(),
            schema: tool["input_schema"].clone(),
        })
        .collect();
    let messages = list(&body["messages"]).iter().enumerate();
    let messages: Result<Vec<RequestMessage>, ModelRefusal> = messages
        .map(|(index, message)| read_message(index, message, &mut markers))
        .collect();
    let messages = messages?;
    check(&system, &tools, &messages).map_err(|why| ModelRefusal::invalid_request(&why))?;
    if markers > CACHE_MARKERS_MAX {
        return Err(ModelRefusal::invalid_request(
            "A maximum of 4 blocks with cache_control may be provided.",
        ));
    }
    let tool_choice = tool_choice(body, &tools).map_err(|why| ModelRefusal::invalid_request(&why))?;
    Ok(ParsedRequest {
        model: model.to_owned(),
        is_streamed: body["stream"].as_bool().unwrap_or_default(),
        usage_event: UsageEvent::Sent,
        system,
        tools,
        tool_choice,
        messages,
        api_key: Some(header("x-api-key").to_owned()),
    })
}

/// Returns the tool that the model has to call: <https://platform.claude.com/docs/en/agents-and-tools/tool-use/implement-tool-use>.
/// A request with thinking forces no call.
fn tool_choice(body: &Value, tools: &[RequestTool]) -> Result<RequestedCalls, String> {
    let Some(choice) = body.get("tool_choice") else {
        return Ok(RequestedCalls::Free);
    };
    if tools.is_empty() {
        return Err("tool_choice may only be specified while providing tools".to_owned());
    }
    let kind = choice["type"].as_str().unwrap_or_default();
    let known: &[&str] = match kind {
        "auto" | "any" => &["type", "disable_parallel_tool_use"],
        "tool" => &["type", "name", "disable_parallel_tool_use"],
        "none" => &["type"],
        _ => return Err("tool_choice.type: Input should be 'auto', 'any', 'tool' or 'none'".to_owned()),
    };
    let mut fields = choice.as_object().into_iter().flatten();
    if let Some((field, _)) = fields.find(|(field, _)| !known.contains(&field.as_str())) {
        return Err(format!(
            "tool_choice.{kind}.{field}: Extra inputs are not permitted"
        ));
    }
    let thinks = body
        .get("thinking")
        .is_some_and(|thinking| thinking["type"] != "disabled");
    if thinks && matches!(kind, "any" | "tool") {
        return Err("Thinking may not be enabled when tool_choice forces tool use.".to_owned());
    }
    match kind {
        "tool" => {}
        "none" => return Ok(RequestedCalls::Forbidden),
        _ => return Ok(RequestedCalls::Free),
    }
    let name = choice["name"].as_str().unwrap_or_default();
    match tools.iter().any(|tool| tool.name == name) {
        true => Ok(RequestedCalls::Forced(name.to_owned())),
        false => Err(format!("Tool '{name}' not found in provided tools")),
    }
}

fn read_message(index: usize, message: &Value, markers: &mut usize) -> Result<RequestMessage, ModelRefusal> {
    let bad = |what: &str| ModelRefusal::invalid_request(&format!("messages.{index}: {what}"));
    let role = match message["role"].as_str() {
        Some("user") => RequestRole::User,
        Some("assistant") => RequestRole::Assistant,
        _ => return Err(bad("role must be user or assistant")),
    };
    let mut read = RequestMessage {
        role,
        text: String::new(),
        files: Vec::new(),
        calls: Vec::new(),
        results: Vec::new(),
    };
    if let Some(text) = message["content"].as_str() {
        read.text = text.to_owned();
        return Ok(read);
    }
    let mut texts: Vec<&str> = Vec::new();
    for block in list(&message["content"]) {
        count_marker(block, markers);
        let string = |field: &str| block[field].as_str().unwrap_or_default().to_owned();
        match (block["type"].as_str().unwrap_or_default(), role) {
            ("text", _) => {
                texts.push(some_text(block).ok_or_else(|| bad("text content blocks must be non-empty"))?)
            }
            ("image" | "document", RequestRole::User) => {
                read.files.push(read_file(block).map_err(|what| bad(&what))?);
            }
            ("tool_use", RequestRole::Assistant) => read.calls.push(RequestCall {
                id: string("id"),
                name: string("name"),
                arguments: block["input"].clone(),
            }),
            ("tool_result", RequestRole::User) => {
                if !texts.is_empty() || !read.files.is_empty() {
                    return Err(bad("tool_result blocks must come first"));
                }
                let content = block["content"]
                    .as_str()
                    .filter(|content| !content.trim().is_empty());
                read.results.push(RequestResult {
                    call: string("tool_use_id"),
                    content: content
                        .ok_or_else(|| bad("tool_result without content"))?
                        .to_owned(),
                    is_error: block["is_error"].as_bool().unwrap_or_default(),
                });
            }
            ("thinking", RequestRole::Assistant) if string("signature").is_empty() => {
                return Err(bad("thinking.signature: Field required"));
            }
            ("thinking" | "redacted_thinking", RequestRole::Assistant) => {}
            _ => return Err(bad("a block of this type cannot be here")),
        }
    }
    read.text = texts.join("\n\n");
    Ok(read)
}

fn read_file(block: &Value) -> Result<RequestFile, String> {
    let source = &block["source"];
    if source["type"] != "base64" {
        return Err("source: only base64 is emulated".to_owned());
    }
    let is_image = block["type"] == "image";
    let rules = match is_image {
        true => FileRules {
            types: IMAGES,
            base64_max: IMAGE_BASE64_MAX,
        },
        false => FileRules {
            types: DOCUMENTS,
            base64_max: REQUEST_BYTES_MAX,
        },
    };
    if is_image && block.get("title").is_some() {
        return Err("image.title: Extra inputs are not permitted".to_owned());
    }
    let file = files::read(&source["media_type"], &source["data"], rules)?;
    Ok(RequestFile {
        name: block["title"].as_str().map(str::to_owned),
        ..file
    })
}

fn text_blocks(blocks: &Value, markers: &mut usize) -> Result<String, ModelRefusal> {
    let mut texts = Vec::new();
    for block in list(blocks) {
        count_marker(block, markers);
        texts.push(
            some_text(block).ok_or_else(|| {
                ModelRefusal::invalid_request("system: text content blocks must be non-empty")
            })?,
        );
    }
    Ok(texts.join("\n\n"))
}

fn some_text(block: &Value) -> Option<&str> {
    block["text"].as_str().filter(|text| !text.trim().is_empty())
}

fn count_marker(block: &Value, markers: &mut usize) {
    *markers += usize::from(block.get("cache_control").is_some());
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}
