//! Parses and checks a chat completions request.

use crate::simulation::emulator::model::conversation::{
    RequestCall, RequestMessage, RequestResult, RequestRole, RequestTool, RequestedCalls, check,
};
use crate::simulation::emulator::model::files::{self, DOCUMENTS, FileRules, IMAGES, RequestFile};
use crate::simulation::emulator::model::server::{KeyPolicy, ModelRefusal, ParsedRequest, UsageEvent};
use http::HeaderMap;
use serde_json::Value;

/// The maximum number of bytes of a file, in base64: <https://developers.openai.com/api/docs/guides/pdf-files>.
const FILE_BASE64_MAX: usize = 50_000_000;

/// Parses a request, or returns the error of the API.
pub(in crate::simulation::emulator::model) fn read(
    headers: &HeaderMap,
    body: &Value,
    key: KeyPolicy,
) -> Result<ParsedRequest, ModelRefusal> {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let bearer = header("authorization").and_then(|value| value.strip_prefix("Bearer "));
    let api_key = bearer.or_else(|| header("api-key")).filter(|key| !key.is_empty());
    if api_key.is_none() && key == KeyPolicy::Required {
        return Err(ModelRefusal {
            status: 401,
            why: "You didn't provide an API key.".to_owned(),
        });
    }
    let model = body["model"].as_str().filter(|model| !model.is_empty());
    let model = model.ok_or_else(|| ModelRefusal::invalid_request("you must provide a model parameter"))?;
    let bounds = [&body["max_completion_tokens"], &body["max_tokens"]];
    if bounds
        .iter()
        .filter(|bound| bound.as_u64().is_some_and(|tokens| tokens > 0))
        .count()
        != 1
    {
        return Err(ModelRefusal::invalid_request(
            "one of max_completion_tokens and max_tokens must be positive",
        ));
    }
    let tools: Result<Vec<RequestTool>, ModelRefusal> = list(&body["tools"]).iter().map(read_tool).collect();
    let tools = tools?;
    let (system, messages) = match list(&body["messages"]) {
        [first, rest @ ..] if first["role"] == "system" => {
            (first["content"].as_str().unwrap_or_default(), rest)
        }
        messages => ("", messages),
    };
    let messages = read_messages(messages)?;
    check(system, &tools, &messages).map_err(|why| ModelRefusal::invalid_request(&why))?;
    let tool_choice = tool_choice(&body["tool_choice"], &tools)?;
    Ok(ParsedRequest {
        model: model.to_owned(),
        is_streamed: body["stream"].as_bool().unwrap_or_default(),
        usage_event: match body["stream_options"]["include_usage"].as_bool() {
            Some(true) => UsageEvent::Sent,
            Some(false) | None => UsageEvent::Omitted,
        },
        system: system.to_owned(),
        tools,
        tool_choice,
        messages,
        api_key: api_key.map(str::to_owned),
    })
}

/// Returns the function that the model has to call: <https://developers.openai.com/api/reference/resources/chat>, `tool_choice`.
fn tool_choice(choice: &Value, tools: &[RequestTool]) -> Result<RequestedCalls, ModelRefusal> {
    if choice.is_null() {
        return Ok(RequestedCalls::Free);
    }
    let refused = |why: &str| Err(ModelRefusal::invalid_request(why));
    if tools.is_empty() {
        return refused(
            "Invalid value for 'tool_choice': 'tool_choice' is only allowed when 'tools' are specified.",
        );
    }
    match choice.as_str() {
        Some("none") => return Ok(RequestedCalls::Forbidden),
        Some("auto" | "required") => return Ok(RequestedCalls::Free),
        Some(_) => return refused("Invalid value for 'tool_choice'."),
        None => {}
    }
    if choice["type"] != "function" {
        return refused("Invalid value: 'tool_choice.type'. Supported values are: 'function'.");
    }
    let Some(name) = choice["function"]["name"].as_str() else {
        return refused("Missing required parameter: 'tool_choice.function.name'.");
    };
    match tools.iter().any(|tool| tool.name == name) {
        true => Ok(RequestedCalls::Forced(name.to_owned())),
        false => refused(&format!(
            "Invalid value for 'tool_choice': no function named '{name}' was specified in the 'tools' parameter."
        )),
    }
}

fn read_tool(tool: &Value) -> Result<RequestTool, ModelRefusal> {
    if tool["type"] != "function" {
        return Err(ModelRefusal::invalid_request("tools: type must be function"));
    }
    Ok(RequestTool {
        name: tool["function"]["name"].as_str().unwrap_or_default().to_owned(),
        schema: tool["function"]["parameters"].clone(),
    })
}

fn read_messages(messages: &[Value]) -> Result<Vec<RequestMessage>, ModelRefusal> {
    let mut read: Vec<RequestMessage> = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        let bad = |what: &str| ModelRefusal::invalid_request(&format!("messages.{index}: {what}"));
        let (content, files) = read_content(message).map_err(|what| bad(&what))?;
        let content = content.as_str();
        if content.trim().is_empty() && list(&message["tool_calls"]).is_empty() {
            return Err(bad("content is empty"));
        }
        match message["role"].as_str() {
            Some("tool") => add_result(&mut read, message, content).map_err(|what| bad(&what))?,
            Some("user") if files.is_empty() => add_user_text(&mut read, content),
            Some("user") => {
                let text = text_message(RequestRole::User, content, Vec::new());
                read.push(RequestMessage { files, ..text });
            }
            Some("assistant") => {
                let calls: Result<Vec<RequestCall>, String> =
                    list(&message["tool_calls"]).iter().map(read_call).collect();
                read.push(text_message(
                    RequestRole::Assistant,
                    content,
                    calls.map_err(|what| bad(&what))?,
                ));
            }
            _ => return Err(bad("role must be user, assistant or tool")),
        }
    }
    Ok(read)
}

/// Reads the text of a message, and the files of one of the user.
fn read_content(message: &Value) -> Result<(String, Vec<RequestFile>), String> {
    let Some(parts) = message["content"].as_array() else {
        return Ok((
            message["content"].as_str().unwrap_or_default().to_owned(),
            Vec::new(),
        ));
    };
    let (mut texts, mut files) = (Vec::new(), Vec::new());
    for part in parts {
        let kind = part["type"].as_str().unwrap_or_default();
        match (kind, message["role"].as_str()) {
            ("text", _) => texts.push(part["text"].as_str().unwrap_or_default()),
            ("image_url", Some("user")) => {
                files.push(files::read_url(&part["image_url"]["url"], rules(IMAGES))?)
            }
            ("file", Some("user")) => {
                let name = part["file"]["filename"].as_str().filter(|name| !name.is_empty());
                let name = name.ok_or("Missing required parameter: 'file.filename'.")?;
                let file = files::read_url(&part["file"]["file_data"], rules(DOCUMENTS))?;
                files.push(RequestFile {
                    name: Some(name.to_owned()),
                    ..file
                });
            }
            _ => return Err(format!("content: Invalid value: '{kind}'.")),
        }
    }
    Ok((texts.join("\n\n"), files))
}

fn rules(types: &'static [&'static str]) -> FileRules {
    FileRules {
        types,
        base64_max: FILE_BASE64_MAX,
    }
}

/// Adds a text of the user. A text after results is part of their message.
fn add_user_text(read: &mut Vec<RequestMessage>, content: &str) {
    match read.last_mut() {
        Some(last) if !last.results.is_empty() && last.text.is_empty() => content.clone_into(&mut last.text),
        Some(_) | None => read.push(text_message(RequestRole::User, content, Vec::new())),
    }
}

/// Adds a result. Consecutive tool messages are one message of the user.
fn add_result(read: &mut Vec<RequestMessage>, message: &Value, content: &str) -> Result<(), String> {
    let result = RequestResult {
        call: message["tool_call_id"].as_str().unwrap_or_default().to_owned(),
        content: content.to_owned(),
        is_error: false,
    };
    match read.last_mut() {
        Some(last) if !last.results.is_empty() && last.text.is_empty() => last.results.push(result),
        Some(last) if last.role == RequestRole::Assistant => {
            let mut results = text_message(RequestRole::User, "", Vec::new());
            results.results.push(result);
            read.push(results);
        }
        Some(_) | None => return Err("a tool message must follow a message with tool_calls".to_owned()),
    }
    Ok(())
}

fn read_call(call: &Value) -> Result<RequestCall, String> {
    if call["type"] != "function" {
        return Err("tool_calls: type must be function".to_owned());
    }
    let text = call["function"]["arguments"]
        .as_str()
        .ok_or("tool_calls: arguments must be a string")?;
    Ok(RequestCall {
        id: call["id"].as_str().unwrap_or_default().to_owned(),
        name: call["function"]["name"].as_str().unwrap_or_default().to_owned(),
        arguments: serde_json::from_str(text).map_err(|_| "tool_calls: arguments are not JSON".to_owned())?,
    })
}

fn text_message(role: RequestRole, text: &str, calls: Vec<RequestCall>) -> RequestMessage {
    RequestMessage {
        role,
        text: text.to_owned(),
        files: Vec::new(),
        calls,
        results: Vec::new(),
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}
