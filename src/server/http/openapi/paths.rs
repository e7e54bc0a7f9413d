//! The paths of the API, with their requests and answers.

use super::super::personal::SECRET_CHARS_MAX;
use super::errors::references;
use super::runs;
use crate::state::access::TokenScope;
use serde_json::{Map, Value, json};

/// The schemas of documents that answers contain.
pub(super) struct AnswerSchemas<'a> {
    pub(super) change: &'a Value,
    pub(super) run: &'a Value,
    pub(super) list: &'a Value,
}

/// Returns the paths.
pub(super) fn paths(schemas: &AnswerSchemas<'_>) -> Value {
    json!({
        "/healthz": { "get": alive("isHealthy", "The same as `/livez`.") },
        "/livez": { "get": alive("isAlive", "Answers while the process runs, whatever it waits for.") },
        "/readyz": { "get": ready() },
        "/api/openapi.json": { "get": description() },
        "/api/login": { "post": log_in() },
        "/api/logout": { "post": log_out() },
        "/api/changes/{number}": { "get": get_change(schemas.change) },
        "/api/runs": { "get": runs::list(schemas.list), "post": runs::start(schemas.run) },
        "/api/runs/{number}": { "get": runs::show(schemas.run) },
        "/api/runs/{number}/events": { "get": runs::watch(schemas.run) },
        "/api/runs/{number}/cancel": { "post": runs::cancel(schemas.run) },
        "/api/runs/{number}/retry": { "post": runs::retry(schemas.run) },
    })
}

/// Returns the answers of an operation: those that are its own, and the errors with these statuses. Every operation can
/// fail, and its path answers other methods.
pub(super) fn answers(own: Value, errors: &[u16]) -> Value {
    let mut answers = references(&[errors, &[405, 500]].concat());
    if let Value::Object(own) = own {
        answers.extend(own);
    }
    answers.into()
}

pub(super) fn document(description: &str, schema: &Value) -> Value {
    json!({ "description": description, "content": { "application/json": { "schema": schema } } })
}

pub(super) fn object(properties: Value, required: &[&str]) -> Value {
    json!({
        "type": "object",
        "additionalProperties": false,
        "required": required,
        "properties": properties,
    })
}

fn alive(id: &str, description: &str) -> Value {
    let schema = object(json!({ "alive": { "const": true } }), &["alive"]);
    json!({
        "operationId": id,
        "summary": "Liveness",
        "description": description,
        "responses": answers(json!({ "200": document("The process runs.", &schema) }), &[]),
    })
}

fn ready() -> Value {
    let phrases = |description: &str| {
        json!({
            "type": "array",
            "minItems": 1,
            "items": { "type": "string" },
            "description": description,
        })
    };
    let state = |is_ready: bool| {
        let degraded = phrases("The parts that do not work properly while messages are still accepted.");
        let mut properties = Map::new();
        properties.insert("ready".to_owned(), json!({ "const": is_ready }));
        properties.insert("degraded".to_owned(), degraded);
        let mut required = vec!["ready"];
        if !is_ready {
            properties.insert("waiting_for".to_owned(), phrases("The missing parts."));
            required.push("waiting_for");
        }
        object(properties.into(), &required)
    };
    let own = json!({
        "200": document("Messages are accepted.", &state(true)),
        "503": document("A part is missing.", &state(false)),
    });
    json!({
        "operationId": "isReady",
        "summary": "Readiness",
        "responses": answers(own, &[]),
    })
}

fn description() -> Value {
    let own = json!({ "200": document("The document.", &json!({ "type": "object" })) });
    json!({
        "operationId": "describe",
        "summary": "Returns this document",
        "responses": answers(own, &[]),
    })
}

fn log_in() -> Value {
    let request = object(
        json!({ "code": {
            "type": "string",
            "maxLength": SECRET_CHARS_MAX,
            "description": "The code that `login` in a chat gave to the person. It works once, within 10 minutes.",
        } }),
        &["code"],
    );
    let login = object(
        json!({
            "token": { "type": "string", "description": "The token. It is shown in this answer only." },
            "name": { "type": "string", "description": "The name of the person." },
            "expires": { "type": "string", "format": "date-time", "description": "The end of the login." },
        }),
        &["expires", "name", "token"],
    );
    let own = json!({ "200": document("The machine is logged in.", &login) });
    json!({
        "operationId": "logIn",
        "summary": "Exchanges a code for the login of a machine",
        "description": "After ten wrong codes in a minute, from everybody, every code is refused until the minute is over.",
        "requestBody": { "required": true, "content": { "application/json": { "schema": request } } },
        "responses": answers(own, &[400, 401, 408, 413, 415, 429, 503]),
    })
}

fn log_out() -> Value {
    json!({
        "operationId": "logOut",
        "summary": "Ends the login of a machine",
        "description": "Ends the login whose token the request has. A token of `drydock token create` is not one, and cannot end another.",
        "security": [{ "token": [] }],
        "responses": answers(json!({ "200": { "description": "The login has ended." } }), &[401, 403, 503]),
    })
}

fn get_change(change: &Value) -> Value {
    let own = json!({ "200": document("The change at its newest revision.", change) });
    json!({
        "operationId": "getChange",
        "summary": "Returns a prepared change",
        "description": "Returns the open change of a conversation of the person, as `drydock pull` fetches it: the patch, the differences of each file, the checks that Drydock ran, and a warning if some fail. Changes of others read like changes that never existed. Each answer is recorded in the audit log.",
        "security": [{ "token": [TokenScope::ChangesRead.word()] }],
        "parameters": [{
            "name": "number",
            "in": "path",
            "required": true,
            "description": "The number of the change, such as `42` or `CHG-42`.",
            "schema": { "type": "string", "pattern": "^([Cc][Hh][Gg]-)?[0-9]{1,18}$" },
            "example": "CHG-42",
        }],
        "responses": answers(own, &[401, 403, 404, 409, 503]),
    })
}
