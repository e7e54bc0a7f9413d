//! The paths of runs of pipelines, with their requests and answers.

use super::super::runs::{DIGITS_MAX, KEY_CHARS_MAX, LISTED, NUMBER_MAX};
use super::errors::{TOO_MANY, reference};
use super::paths::{answers, document, object};
use crate::base::model::RunStatus;
use crate::state::access::TokenScope;
use serde_json::{Value, json};

const ABOUT_KEY: &str = "A name of this request. If it comes again with the same key, nothing starts again, and the answer \
                         is the run that it started. The same key with another request is refused with 422. A key is known \
                         for at least two days, and as long as its run is kept.";

fn key() -> Value {
    json!({
        "name": "Idempotency-Key",
        "in": "header",
        "description": ABOUT_KEY,
        "schema": { "type": "string", "minLength": 1, "maxLength": KEY_CHARS_MAX, "pattern": "^[!-~]+$" },
        "example": "6f1f1a52-0c3b-4f6e-9a55-0a8d3f0f4a11",
    })
}

fn number() -> Value {
    json!({
        "name": "number",
        "in": "path",
        "required": true,
        "description": "The number of the run.",
        "schema": { "type": "string", "pattern": format!("^[0-9]{{1,{DIGITS_MAX}}}$") },
        "example": "12",
    })
}

fn query(name: &str, description: &str, schema: Value) -> Value {
    json!({ "name": name, "in": "query", "description": description, "schema": schema })
}

fn security(scope: TokenScope) -> Value {
    json!([{ "token": [scope.word()] }])
}

/// Returns the operations that take the number of the run of an answer.
fn links() -> Value {
    let link = |id: &str, description: &str| {
        json!({
            "operationId": id,
            "description": description,
            "parameters": { "number": "$response.body#/id" },
        })
    };
    json!({
        "show": link("getRun", "Returns the run as it is later."),
        "watch": link("watchRun", "Sends its states."),
        "cancel": link("cancelRun", "Cancels it."),
        "retry": link("retryRun", "Repeats it, once it has ended."),
    })
}

fn known(run: &Value) -> Value {
    let mut answer = document(
        "The run that an earlier request with the same key has started.",
        run,
    );
    answer["links"] = links();
    answer
}

fn created(description: &str, run: &Value) -> Value {
    let mut answer = document(description, run);
    answer["links"] = links();
    answer["headers"] = json!({
        "Location": { "required": true, "description": "The path of the run.", "schema": { "type": "string" } },
    });
    answer
}

/// Returns the schema of an event whose data has a schema.
fn event(name: &str, data: &Value) -> Value {
    let members = json!({
        "event": { "const": name },
        "data": { "type": "string", "contentMediaType": "application/json", "contentSchema": data },
    });
    object(members, &["event", "data"])
}

pub(super) fn start(run: &Value) -> Value {
    let scalar = json!({
        "anyOf": [{ "type": "string" }, { "type": "number" }, { "type": "boolean" }],
    });
    let request = object(
        json!({
            "pipeline": { "type": "string", "description": "The name of the pipeline." },
            "repository": {
                "type": ["string", "null"],
                "description": "The configured name of the repository; by default the only one that the person may read.",
            },
            "params": {
                "type": "object",
                "additionalProperties": scalar,
                "description": "The parameters of the pipeline, by name.",
            },
        }),
        &["pipeline"],
    );
    let own = json!({
        "200": known(run),
        "201": created("The run was started.", run),
        "429": reference(TOO_MANY),
    });
    json!({
        "operationId": "startRun",
        "summary": "Starts a run of a pipeline",
        "description": "Starts a run of a pipeline with the trigger `api`, as it is defined at the head of the trusted branch. The run belongs to the person of the token. A pipeline without this trigger, and one in a repository without a grant, read like one that does not exist.",
        "security": security(TokenScope::RunsWrite),
        "parameters": [key()],
        "requestBody": { "required": true, "content": { "application/json": {
            "schema": request,
            "example": { "pipeline": "review", "params": { "number": 7 } },
        } } },
        "responses": answers(own, &[400, 401, 403, 404, 408, 409, 413, 415, 422, 503]),
    })
}

pub(super) fn list(list: &Value) -> Value {
    let states: Vec<&str> = RunStatus::ALL.iter().map(|status| status.word()).collect();
    let (default, most) = LISTED;
    let own = json!({ "200": document("The runs, the newest first.", list) });
    json!({
        "operationId": "listRuns",
        "summary": "Lists runs",
        "description": "Lists the runs of the person, and those of services, in the repositories that the person may read.",
        "security": security(TokenScope::RunsRead),
        "parameters": [
            query("repository", "Only those of this repository.", json!({ "type": "string" })),
            query("pipeline", "Only those of this pipeline.", json!({ "type": "string" })),
            query("status", "Only those in this state.", json!({ "type": "string", "enum": states })),
            query("limit", "The most runs of the answer.", json!({ "type": "integer", "minimum": 1, "maximum": most, "default": default })),
            query("before", "Only those before the run of this number, such as `next` of the part before.", json!({ "type": "integer", "minimum": 0, "maximum": NUMBER_MAX })),
        ],
        "responses": answers(own, &[400, 401, 403, 503]),
    })
}

pub(super) fn show(run: &Value) -> Value {
    let own = json!({ "200": document("The run with the results of its steps.", run) });
    json!({
        "operationId": "getRun",
        "summary": "Returns a run",
        "description": "Returns a run that the person may see. Runs of others read like runs that never existed.",
        "security": security(TokenScope::RunsRead),
        "parameters": [number()],
        "responses": answers(own, &[401, 403, 404, 503]),
    })
}

pub(super) fn watch(run: &Value) -> Value {
    let event = json!({ "oneOf": [event("run", run), event("end", &object(json!({}), &[]))] });
    let events = json!({
        "description": "Events up to the end of the run; the schema is that of each. A client that is cut off asks again, and gets the whole state.",
        "content": { "text/event-stream": { "schema": event } },
    });
    let own = json!({ "200": events, "429": reference(TOO_MANY) });
    json!({
        "operationId": "watchRun",
        "summary": "Sends the state of a run after each change",
        "description": "Sends server-sent events: `run` with the whole run, as `GET /api/runs/{number}` returns it, at once and after each change, and `end` after the last state. A comment is sent while nothing changes. The answer also ends, without `end`, when the person may not see the run any more and when the server stops.",
        "security": security(TokenScope::RunsRead),
        "parameters": [number()],
        "responses": answers(own, &[401, 403, 404, 503]),
    })
}

pub(super) fn cancel(run: &Value) -> Value {
    let own = json!({ "200": document("The cancelled run.", run) });
    json!({
        "operationId": "cancelRun",
        "summary": "Cancels a run",
        "description": "Ends a run and stops its work. One that is cancelled already is returned as it is; another ended one is refused. Only an editor cancels a run of a service.",
        "security": security(TokenScope::RunsWrite),
        "parameters": [number()],
        "responses": answers(own, &[401, 403, 404, 409, 503]),
    })
}

pub(super) fn retry(run: &Value) -> Value {
    let own = json!({
        "200": known(run),
        "201": created("The new run.", run),
        "429": reference(TOO_MANY),
    });
    json!({
        "operationId": "retryRun",
        "summary": "Repeats a run that did not succeed",
        "description": "Starts a new run with the same plan and the same values. It begins with the first step that did not succeed. The run is one of the person, who may start its pipeline now.",
        "security": security(TokenScope::RunsWrite),
        "parameters": [number(), key()],
        "responses": answers(own, &[400, 401, 403, 404, 409, 422, 503]),
    })
}
