//! The description of the HTTP API, as an OpenAPI document. The documents of answers come from the types that write them;
//! a test compares the paths with the table of routes.

mod errors;
mod paths;
mod runs;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

use super::answer::{self, Answer};
use crate::base::model::PulledChange;
use crate::engine::gateway::{RunDocument, RunListDocument};
use bytes::Bytes;
use paths::AnswerSchemas;
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};
use std::sync::LazyLock;

/// The path of the document.
pub(super) const PATH: &str = "/api/openapi.json";
/// The version of the API. It grows when an answer or a request changes so that its users must change as well.
const VERSION: &str = "1";
/// The place of the schemas in the document.
const SCHEMAS: &str = "/components/schemas";

const ABOUT: &str = "The requests that a Drydock server answers, beside those of chat platforms and hooks below `/in/`.\n\n\
A request for a person has the header `Authorization: Bearer TOKEN`, with the login of a machine or a token of \
`drydock token create`. A token proves who asks; what its person may have is decided at each request. A service of the \
configuration counts as a person here.\n\n\
Each path of GET also answers HEAD. Paths are compared as they were sent: a slash at the end or an encoded character \
makes another path, which is not found. A request that is not HTTP is answered with 400, and one with too many or too \
large headers with 431, without a body. If there are too many connections, a new one is answered with 429 or 503, without \
a body.";

static DOCUMENT: LazyLock<Bytes> = LazyLock::new(|| Bytes::from(document().to_string()));

/// Answers with the document. It says nothing about the server, so it needs no token.
pub(super) async fn description() -> Answer {
    answer::described(DOCUMENT.clone())
}

/// Returns the document.
fn document() -> Value {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let mut schemas = settings
        .with(|settings| settings.definitions_path = SCHEMAS.into())
        .into_generator();
    let change = schemas.subschema_for::<PulledChange>();
    let run = schemas.subschema_for::<RunDocument>();
    let list = schemas.subschema_for::<RunListDocument>();
    let paths = paths::paths(&AnswerSchemas {
        change: change.as_value(),
        run: run.as_value(),
        list: list.as_value(),
    });
    json!({
        "openapi": "3.1.0",
        "info": { "title": "Drydock", "version": VERSION, "description": ABOUT },
        "paths": paths,
        "components": {
            "schemas": schemas.take_definitions(true),
            "responses": errors::responses(),
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "The login of a machine, or a token of `drydock token create` with the named scope.",
                },
            },
        },
    })
}
