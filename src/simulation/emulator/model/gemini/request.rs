//! Parses and checks a Gemini request. Unknown fields are refused, as the service does.

use crate::simulation::emulator::model::conversation::{
    RequestCall, RequestMessage, RequestResult, RequestRole, RequestTool, RequestedCalls, check,
};
use crate::simulation::emulator::model::files::{self, FileRules};
use crate::simulation::emulator::model::server::{ModelRefusal, ParsedRequest, UsageEvent};
use http::{HeaderMap, Uri};
use serde_json::Value;

/// The files of a request: <https://ai.google.dev/gemini-api/docs/image-understanding>. All of them have at most 20 MB.
const FILES: FileRules = FileRules {
    types: &[
        "image/png",
        "image/jpeg",
        "image/webp",
        "image/heic",
        "image/heif",
        "application/pdf",
    ],
    base64_max: 20_000_000,
};

/// Parses a request, or returns the error of the API.
pub(in crate::simulation::emulator::model) fn read(
    uri: &Uri,
    headers: &HeaderMap,
    body: &Value,
) -> Result<ParsedRequest, ModelRefusal> {
    let (model, is_streamed) = target(uri)?;
    let api_key = headers
        .get("x-goog-api-key")
        .and_then(|value| value.to_str().ok());
    let api_key = api_key
        .filter(|key| !key.is_empty())
        .ok_or_else(|| ModelRefusal {
            status: 403,
            why: "Method doesn't allow unregistered callers".to_owned(),
        })?;
    known_fields(
        body,
        &[
            "systemInstruction",
            "tools",
            "toolConfig",
            "generationConfig",
            "contents",
        ],
        "",
    )?;
    known_fields(
        &body["systemInstruction"],
        &["role", "parts"],
        "system_instruction",
    )?;
    if body["generationConfig"]["maxOutputTokens"]
        .as_u64()
        .unwrap_or_default()
        == 0
    {
        return Err(ModelRefusal::invalid_request(
            "max_output_tokens must be positive.",
        ));
    }
    let system = texts(&body["systemInstruction"]["parts"])?.join("\n\n");
    let tools = read_tools(&body["tools"])?;
    let messages = read_contents(list(&body["contents"]))?;
    let files = messages.iter().flat_map(|message| &message.files);
    if files.map(|file| file.content.len() / 3 * 4).sum::<usize>() > FILES.base64_max {
        return Err(ModelRefusal::invalid_request(
            "Request payload size exceeds the limit: 20000000 bytes.",
        ));
    }
    check(&system, &tools, &messages).map_err(|why| ModelRefusal::invalid_request(&why))?;
    let tool_choice = tool_choice(&body["toolConfig"], &tools)?;
    Ok(ParsedRequest {
        model,
        is_streamed,
        usage_event: UsageEvent::Sent,
        system,
        tools,
        tool_choice,
        messages,
        api_key: Some(api_key.to_owned()),
    })
}

/// Returns the model, and whether the answer is streamed.
fn target(uri: &Uri) -> Result<(String, bool), ModelRefusal> {
    let no_method = || ModelRefusal {
        status: 404,
        why: format!("{}: no such method", uri.path()),
    };
    let call = uri.path().rsplit('/').next().unwrap_or_default();
    let (model, method) = call.rsplit_once(':').ok_or_else(no_method)?;
    let is_streamed = match (method, uri.query()) {
        ("generateContent", None) => false,
        ("streamGenerateContent", Some("alt=sse")) => true,
        // Without `alt=sse`, the service answers with a list of chunks.
        _ => return Err(no_method()),
    };
    let model = form_urlencoded::parse(model.as_bytes()).next();
    let model = model.map(|(model, _)| model.into_owned()).ok_or_else(no_method)?;
    Ok((model, is_streamed))
}

fn known_fields(object: &Value, known: &[&str], place: &str) -> Result<(), ModelRefusal> {
    let mut fields = object.as_object().into_iter().flatten();
    match fields.find(|(field, _)| !known.contains(&field.as_str())) {
        Some((field, _)) => Err(ModelRefusal::invalid_request(&format!(
            "Invalid JSON payload received. Unknown name \"{field}\" at '{place}': Cannot find field."
        ))),
        None => Ok(()),
    }
}

fn texts(parts: &Value) -> Result<Vec<&str>, ModelRefusal> {
    let text = |part: &'_ Value| -> Result<(), ModelRefusal> {
        known_fields(part, &["text"], "system_instruction.parts")
    };
    list(parts).iter().try_for_each(text)?;
    Ok(list(parts)
        .iter()
        .filter_map(|part| part["text"].as_str())
        .collect())
}

fn read_tools(tools: &Value) -> Result<Vec<RequestTool>, ModelRefusal> {
    let mut read = Vec::new();
    for tool in list(tools) {
        known_fields(tool, &["functionDeclarations"], "tools")?;
        for declaration in list(&tool["functionDeclarations"]) {
            let place = "tools.function_declarations";
            known_fields(
                declaration,
                &["name", "description", "parameters", "parametersJsonSchema"],
                place,
            )?;
            // The older field accepts only a part of JSON Schema.
            if declaration.get("parameters").is_some() {
                return Err(ModelRefusal::invalid_request(
                    "Unknown name \"additionalProperties\" at 'tools.function_declarations.parameters'",
                ));
            }
            let name = declaration["name"].as_str().unwrap_or_default();
            if !name.starts_with(|char: char| char.is_ascii_alphabetic() || char == '_') {
                return Err(ModelRefusal::invalid_request(
                    "Invalid function name. Must start with a letter or an underscore.",
                ));
            }
            read.push(RequestTool {
                name: name.to_owned(),
                schema: declaration["parametersJsonSchema"].clone(),
            });
        }
    }
    Ok(read)
}

/// Returns the function that the model has to call: <https://ai.google.dev/api/caching#FunctionCallingConfig>. Names are
/// allowed only with the modes that bind the model, and one name alone forces its call.
fn tool_choice(config: &Value, tools: &[RequestTool]) -> Result<RequestedCalls, ModelRefusal> {
    let refused = |why: &str| Err(ModelRefusal::invalid_request(why));
    known_fields(config, &["functionCallingConfig"], "tool_config")?;
    let config = &config["functionCallingConfig"];
    let place = "tool_config.function_calling_config";
    known_fields(config, &["mode", "allowedFunctionNames"], place)?;
    if config.is_null() {
        return Ok(RequestedCalls::Free);
    }
    if tools.is_empty() {
        return refused("Function calling config is set without function_declarations.");
    }
    let mode = config["mode"].as_str().unwrap_or("AUTO");
    if !["AUTO", "ANY", "NONE", "VALIDATED"].contains(&mode) {
        return refused("Invalid value at 'tool_config.function_calling_config.mode'");
    }
    let names = list(&config["allowedFunctionNames"]);
    if !names.is_empty() && !matches!(mode, "ANY" | "VALIDATED") {
        return refused(
            "allowed_function_names should only be set when the function calling mode is ANY or VALIDATED.",
        );
    }
    if let Some(unknown) = names
        .iter()
        .find(|name| tools.iter().all(|tool| **name != *tool.name))
    {
        return refused(&format!(
            "allowed_function_names: {unknown} is not one of the function_declarations."
        ));
    }
    match (mode, names) {
        ("ANY", [name]) => Ok(RequestedCalls::Forced(
            name.as_str().unwrap_or_default().to_owned(),
        )),
        ("NONE", _) => Ok(RequestedCalls::Forbidden),
        _ => Ok(RequestedCalls::Free),
    }
}

/// Reads the contents. Adjacent ones of the user are one message.
fn read_contents(contents: &[Value]) -> Result<Vec<RequestMessage>, ModelRefusal> {
    let mut read: Vec<RequestMessage> = Vec::new();
    // The calls that are not answered yet: their own ids, and the names that they got here.
    let mut open: Vec<OpenCall> = Vec::new();
    let first_of_turn = first_of_turn(contents);
    for (index, content) in contents.iter().enumerate() {
        let bad = |what: &str| ModelRefusal::invalid_request(&format!("contents[{index}]: {what}"));
        known_fields(content, &["role", "parts"], "contents")?;
        let role = match content["role"].as_str() {
            Some("user") => RequestRole::User,
            Some("model") => RequestRole::Assistant,
            _ => return Err(bad("Please use a valid role: user, model.")),
        };
        let mut message = RequestMessage {
            role,
            text: String::new(),
            files: Vec::new(),
            calls: Vec::new(),
            results: Vec::new(),
        };
        let parts = list(&content["parts"]);
        if parts.is_empty() {
            return Err(bad("parts must not be empty."));
        }
        let mut words: Vec<&str> = Vec::new();
        for part in parts {
            known_fields(
                part,
                &[
                    "text",
                    "inlineData",
                    "thought",
                    "thoughtSignature",
                    "functionCall",
                    "functionResponse",
                ],
                "contents.parts",
            )?;
            let data = ["text", "inlineData", "functionCall", "functionResponse"];
            if data.iter().filter(|field| part.get(**field).is_some()).count() != 1 {
                return Err(bad("required oneof field 'data' must have one initialized field"));
            }
            if let Some(text) = part["text"].as_str() {
                if text.is_empty() && part.get("thoughtSignature").is_none() {
                    return Err(bad(
                        "Unable to submit request because it must have a text parameter.",
                    ));
                }
                if part["thought"] != true && !text.is_empty() {
                    words.push(text);
                }
            } else if let (Some(data), RequestRole::User) = (part.get("inlineData"), role) {
                known_fields(data, &["mimeType", "data"], "contents.parts.inline_data")?;
                let file = files::read(&data["mimeType"], &data["data"], FILES);
                message.files.push(file.map_err(|what| bad(&what))?);
            } else if let (Some(call), RequestRole::Assistant) = (part.get("functionCall"), role) {
                let is_signed = part["thoughtSignature"]
                    .as_str()
                    .is_some_and(|text| !text.is_empty());
                if message.calls.is_empty() && index > first_of_turn && !is_signed {
                    return Err(bad(
                        "Function call is missing a thought_signature in functionCall parts.",
                    ));
                }
                message.calls.push(read_call(call, index, message.calls.len())?);
            } else if let (Some(response), RequestRole::User) = (part.get("functionResponse"), role) {
                let result = read_response(response, &open, message.results.len()).map_err(bad)?;
                message.results.push(result);
            } else {
                return Err(bad("a part of this kind cannot have this role"));
            }
        }
        message.text = words.join("\n\n");
        if message.results.len() != open.len() {
            return Err(bad(
                "Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn.",
            ));
        }
        if !message.results.is_empty() && !message.text.is_empty() {
            return Err(bad("function responses and text are separate contents"));
        }
        let own_id = |part: &Value| id(&part["functionCall"]).map(str::to_owned);
        let own_ids = parts
            .iter()
            .filter(|part| part.get("functionCall").is_some())
            .map(own_id);
        open = message
            .calls
            .iter()
            .zip(own_ids)
            .map(|(call, own_id)| OpenCall {
                id: call.id.clone(),
                name: call.name.clone(),
                own_id,
            })
            .collect();
        add(&mut read, message);
    }
    Ok(read)
}

/// A call that the next content has to answer.
struct OpenCall {
    id: String,
    name: String,
    own_id: Option<String>,
}

/// Returns the place of the last content of the user with text: the calls after it are of the current turn, and only
/// these must be signed.
fn first_of_turn(contents: &[Value]) -> usize {
    let has_text = |content: &Value| {
        content["role"] == "user"
            && list(&content["parts"])
                .iter()
                .any(|part| part.get("text").is_some())
    };
    contents.iter().rposition(has_text).unwrap_or_default()
}

fn read_call(call: &Value, index: usize, number: usize) -> Result<RequestCall, ModelRefusal> {
    known_fields(call, &["id", "name", "args"], "contents.parts.function_call")?;
    Ok(RequestCall {
        id: id(call).map_or_else(|| format!("{index}.{number}"), str::to_owned),
        name: call["name"].as_str().unwrap_or_default().to_owned(),
        arguments: call.get("args").cloned().unwrap_or_else(|| serde_json::json!({})),
    })
}

/// Returns the id of a call or a result. An empty text is the same as none: the service reads JSON as
/// <https://protobuf.dev/programming-guides/json/> says.
fn id(of: &Value) -> Option<&str> {
    of["id"].as_str().filter(|id| !id.is_empty())
}

/// Reads a result. Without an id, it answers the call of the same place.
fn read_response(response: &Value, open: &[OpenCall], number: usize) -> Result<RequestResult, &'static str> {
    let unknown = "function response parts do not match the function call parts";
    known_fields(response, &["id", "name", "response"], "").map_err(|_| unknown)?;
    let call = match id(response) {
        Some(id) => open.iter().find(|call| call.own_id.as_deref() == Some(id)),
        None => open.get(number).filter(|call| call.own_id.is_none()),
    };
    let call = call
        .filter(|call| response["name"] == *call.name)
        .ok_or(unknown)?;
    let content = response["response"]
        .as_object()
        .ok_or("function_response.response must be a struct")?;
    let (is_error, content) = match (content.get("output"), content.get("error")) {
        (Some(output), None) => (false, output),
        (None, Some(error)) => (true, error),
        _ => return Err("a response has `output` or `error`"),
    };
    Ok(RequestResult {
        call: call.id.clone(),
        content: content.as_str().unwrap_or_default().to_owned(),
        is_error,
    })
}

fn add(read: &mut Vec<RequestMessage>, message: RequestMessage) {
    match read.last_mut() {
        // A text after results is part of the user's message.
        Some(last) if last.role == message.role && message.calls.is_empty() && message.results.is_empty() => {
            last.files.extend(message.files);
            if !last.text.is_empty() {
                last.text.push_str("\n\n");
            }
            last.text.push_str(&message.text);
        }
        Some(_) | None => read.push(message),
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}
