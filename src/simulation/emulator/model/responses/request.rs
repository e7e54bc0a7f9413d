//! Parses and checks a Responses request. Unknown parameters are refused, as the service does.

use crate::simulation::emulator::model::conversation::{
    RequestCall, RequestMessage, RequestResult, RequestRole, RequestTool, RequestedCalls, check,
};
use crate::simulation::emulator::model::files::{self, DOCUMENTS, FileRules, IMAGES, RequestFile};
use crate::simulation::emulator::model::server::{ModelRefusal, ParsedRequest, UsageEvent};
use http::HeaderMap;
use serde_json::Value;

/// The parameters that Drydock may use.
const PARAMETERS: [&str; 9] = [
    "model",
    "max_output_tokens",
    "store",
    "stream",
    "include",
    "instructions",
    "tools",
    "tool_choice",
    "input",
];

/// The least value of `max_output_tokens`.
const OUTPUT_TOKENS_MIN: u64 = 16;

/// The maximum number of bytes of a file, in base64: <https://developers.openai.com/api/docs/guides/pdf-files>.
const FILE_BASE64_MAX: usize = 50_000_000;

/// The maximum number of characters of a call's id.
const ID_CHARS_MAX: usize = 64;

/// Parses a request, or returns the error of the API.
pub(in crate::simulation::emulator::model) fn read(
    headers: &HeaderMap,
    body: &Value,
) -> Result<ParsedRequest, ModelRefusal> {
    let header = headers.get("authorization").and_then(|value| value.to_str().ok());
    let api_key = header.and_then(|value| value.strip_prefix("Bearer "));
    let api_key = api_key
        .filter(|key| !key.is_empty())
        .ok_or_else(|| ModelRefusal {
            status: 401,
            why: "You didn't provide an API key.".to_owned(),
        })?;
    known_fields(body, &PARAMETERS, "")?;
    let model = body["model"].as_str().filter(|model| !model.is_empty());
    let model = model.ok_or_else(|| refused("Missing required parameter: 'model'."))?;
    if body["max_output_tokens"].as_u64().unwrap_or_default() < OUTPUT_TOKENS_MIN {
        return Err(refused(
            "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16.",
        ));
    }
    if body["store"] != false {
        return Err(refused("store: conversations must not be stored"));
    }
    let is_encrypted = list(&body["include"])
        .iter()
        .any(|part| part == "reasoning.encrypted_content");
    if is_encrypted && model.starts_with("gpt-4") {
        return Err(refused("Encrypted content is not supported with this model."));
    }
    let is_reasoning = |item: &Value| item["type"] == "reasoning";
    if model.starts_with("gpt-4") && list(&body["input"]).iter().any(is_reasoning) {
        return Err(refused(
            "Reasoning input items can only be provided to a reasoning or computer use model.",
        ));
    }
    let tools: Result<Vec<RequestTool>, ModelRefusal> = list(&body["tools"]).iter().map(read_tool).collect();
    let tools = tools?;
    let system = body["instructions"].as_str().unwrap_or_default();
    let messages = read_input(list(&body["input"]))?;
    check(system, &tools, &messages).map_err(|why| refused(&why))?;
    let tool_choice = tool_choice(&body["tool_choice"], &tools)?;
    Ok(ParsedRequest {
        model: model.to_owned(),
        is_streamed: body["stream"].as_bool().unwrap_or_default(),
        usage_event: UsageEvent::Sent,
        system: system.to_owned(),
        tools,
        tool_choice,
        messages,
        api_key: Some(api_key.to_owned()),
    })
}

fn refused(why: &str) -> ModelRefusal {
    ModelRefusal::invalid_request(why)
}

fn known_fields(object: &Value, known: &[&str], place: &str) -> Result<(), ModelRefusal> {
    let mut fields = object.as_object().into_iter().flatten();
    match fields.find(|(field, _)| !known.contains(&field.as_str())) {
        Some((field, _)) => Err(refused(&format!("Unknown parameter: '{place}{field}'."))),
        None => Ok(()),
    }
}

/// Returns the function that the model has to call: <https://developers.openai.com/api/reference/resources/responses>,
/// `tool_choice`.
fn tool_choice(choice: &Value, tools: &[RequestTool]) -> Result<RequestedCalls, ModelRefusal> {
    match choice.as_str() {
        None if choice.is_null() => return Ok(RequestedCalls::Free),
        Some("none") => return Ok(RequestedCalls::Forbidden),
        Some("auto" | "required") => return Ok(RequestedCalls::Free),
        Some(_) => return Err(refused("Invalid value: 'tool_choice'.")),
        None => {}
    }
    known_fields(choice, &["type", "name"], "tool_choice.")?;
    if choice["type"] != "function" {
        return Err(refused("Invalid value: 'tool_choice.type'."));
    }
    let name = choice["name"].as_str();
    let name = name.ok_or_else(|| refused("Missing required parameter: 'tool_choice.name'."))?;
    match tools.iter().any(|tool| tool.name == name) {
        true => Ok(RequestedCalls::Forced(name.to_owned())),
        false => Err(refused(&format!(
            "Tool choice '{name}' not found in 'tools' parameter."
        ))),
    }
}

fn read_tool(tool: &Value) -> Result<RequestTool, ModelRefusal> {
    known_fields(
        tool,
        &["type", "name", "description", "parameters", "strict"],
        "tools.",
    )?;
    if tool["type"] != "function" {
        return Err(refused("tools: type must be function"));
    }
    // Without the field, the service is strict and requires every property.
    if tool["strict"] != false {
        return Err(refused(
            "Invalid schema: 'required' is required to be an array including every key",
        ));
    }
    Ok(RequestTool {
        name: tool["name"].as_str().unwrap_or_default().to_owned(),
        schema: tool["parameters"].clone(),
    })
}

/// Reads the items. Adjacent ones of one side are one message.
fn read_input(items: &[Value]) -> Result<Vec<RequestMessage>, ModelRefusal> {
    let mut read: Vec<RequestMessage> = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let bad = |what: &str| refused(&format!("input[{index}]: {what}"));
        match item["type"].as_str().unwrap_or("message") {
            "message" => {
                let role = match item["role"].as_str() {
                    Some("user") => RequestRole::User,
                    Some("assistant") => RequestRole::Assistant,
                    _ => return Err(bad("role must be user or assistant")),
                };
                let (text, files) = message_content(item, role).map_err(|what| bad(&what))?;
                let message = side(&mut read, role);
                message.files.extend(files);
                if !message.text.is_empty() {
                    message.text.push_str("\n\n");
                }
                message.text.push_str(&text);
            }
            "function_call" => {
                let call = read_call(item).map_err(|what| bad(&what))?;
                side(&mut read, RequestRole::Assistant).calls.push(call);
            }
            "function_call_output" => {
                let result = read_output(item).map_err(|what| bad(&what))?;
                side(&mut read, RequestRole::User).results.push(result);
            }
            "reasoning" => {
                if item["encrypted_content"].as_str().unwrap_or_default().is_empty() {
                    return Err(ModelRefusal {
                        status: 404,
                        why: format!(
                            "Item with id '{}' not found. Items are not persisted when `store` is set to false.",
                            item["id"]
                        ),
                    });
                }
                let next = items.get(index + 1).unwrap_or(&Value::Null);
                let is_followed = next["type"] == "function_call"
                    || next["role"] == "assistant"
                    || next["type"] == "reasoning";
                if !is_followed {
                    return Err(bad(
                        "Item of type 'reasoning' was provided without its required following item.",
                    ));
                }
            }
            _ => return Err(bad("Invalid value for 'type'")),
        }
    }
    Ok(read)
}

/// Returns the message that is being read, or begins one of the other side.
fn side(read: &mut Vec<RequestMessage>, role: RequestRole) -> &mut RequestMessage {
    if read.last().is_none_or(|last| last.role != role) {
        read.push(RequestMessage {
            role,
            text: String::new(),
            files: Vec::new(),
            calls: Vec::new(),
            results: Vec::new(),
        });
    }
    let last = read.len() - 1;
    &mut read[last]
}

/// Reads the text of a message, and the files of one of the user.
fn message_content(item: &Value, role: RequestRole) -> Result<(String, Vec<RequestFile>), String> {
    if let Some(text) = item["content"].as_str() {
        return some_text(text).map(|text| (text.to_owned(), Vec::new()));
    }
    let expected = match role {
        RequestRole::User => "input_text",
        RequestRole::Assistant => "output_text",
    };
    let (mut texts, mut files) = (Vec::new(), Vec::new());
    for part in list(&item["content"]) {
        if let Some(file) = read_file(part, role)? {
            files.push(file);
            continue;
        }
        let field = match part["type"].as_str() {
            Some(kind) if kind == expected => "text",
            Some("refusal") if role == RequestRole::Assistant => "refusal",
            _ => return Err(format!("content: supported values are '{expected}'")),
        };
        texts.push(some_text(part[field].as_str().unwrap_or_default())?);
    }
    Ok((texts.join("\n\n"), files))
}

/// Reads a part that is a file of the user; `None` if it is another part.
fn read_file(part: &Value, role: RequestRole) -> Result<Option<RequestFile>, String> {
    let rules = |types| FileRules {
        types,
        base64_max: FILE_BASE64_MAX,
    };
    match (part["type"].as_str(), role) {
        (Some("input_image"), RequestRole::User) => {
            if !["auto", "low", "high"]
                .iter()
                .any(|detail| part["detail"] == *detail)
            {
                return Err("Invalid value for 'detail'".to_owned());
            }
            files::read_url(&part["image_url"], rules(IMAGES)).map(Some)
        }
        (Some("input_file"), RequestRole::User) => {
            let name = part["filename"].as_str().filter(|name| !name.is_empty());
            let name = name.ok_or("Missing required parameter: 'filename'.")?;
            let file = files::read_url(&part["file_data"], rules(DOCUMENTS))?;
            Ok(Some(RequestFile {
                name: Some(name.to_owned()),
                ..file
            }))
        }
        _ => Ok(None),
    }
}

fn some_text(text: &str) -> Result<&str, String> {
    match text.trim().is_empty() {
        true => Err("content is empty".to_owned()),
        false => Ok(text),
    }
}

fn read_call(item: &Value) -> Result<RequestCall, String> {
    let arguments = item["arguments"].as_str().ok_or("arguments must be a string")?;
    Ok(RequestCall {
        id: call_id(item)?,
        name: item["name"].as_str().unwrap_or_default().to_owned(),
        arguments: serde_json::from_str(arguments).map_err(|_| "arguments are not JSON".to_owned())?,
    })
}

fn read_output(item: &Value) -> Result<RequestResult, String> {
    let output = item["output"].as_str().ok_or("output must be a string")?;
    Ok(RequestResult {
        call: call_id(item)?,
        content: some_text(output)?.to_owned(),
        is_error: false,
    })
}

fn call_id(item: &Value) -> Result<String, String> {
    let id = item["call_id"].as_str().unwrap_or_default();
    match (1..=ID_CHARS_MAX).contains(&id.len()) {
        true => Ok(id.to_owned()),
        false => Err("Invalid 'call_id': expected a string with 1 to 64 characters".to_owned()),
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}
