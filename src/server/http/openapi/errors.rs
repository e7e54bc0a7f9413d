//! The answers to requests that fail. All of them have the same form.

use serde_json::{Map, Value, json};

/// An answer to a request that fails.
struct ErrorAnswer {
    status: u16,
    /// The name of the answer in the document.
    name: &'static str,
    /// The value of `error`.
    word: &'static str,
    detail: Detail,
    /// A header of the answer, with its description and its type.
    header: Option<(&'static str, &'static str, &'static str)>,
    description: &'static str,
}

/// The presence of a text about the reason.
#[derive(PartialEq, Eq)]
enum Detail {
    Given,
    Missing,
}

const RETRY_AFTER: Option<(&str, &str, &str)> = Some((
    "Retry-After",
    "The seconds after which a repeat may succeed.",
    "integer",
));

const ERRORS: [ErrorAnswer; 12] = [
    ErrorAnswer {
        status: 400,
        name: "Malformed",
        word: "malformed",
        detail: Detail::Given,
        header: None,
        description: "The body cannot be read.",
    },
    ErrorAnswer {
        status: 401,
        name: "Unauthenticated",
        word: "unauthenticated",
        detail: Detail::Missing,
        header: None,
        description: "There is no valid code or token. The reason is never shown.",
    },
    ErrorAnswer {
        status: 403,
        name: "Forbidden",
        word: "forbidden",
        detail: Detail::Given,
        header: None,
        description: "The token is valid, and does not permit this request.",
    },
    ErrorAnswer {
        status: 404,
        name: "NotFound",
        word: "not found",
        detail: Detail::Missing,
        header: None,
        description: "There is nothing of this name that the person may have.",
    },
    ErrorAnswer {
        status: 405,
        name: "MethodNotAllowed",
        word: "method not allowed",
        detail: Detail::Missing,
        header: Some(("Allow", "The methods of this path.", "string")),
        description: "The path exists for other methods only.",
    },
    ErrorAnswer {
        status: 408,
        name: "TooSlow",
        word: "too slow",
        detail: Detail::Missing,
        header: None,
        description: "The body did not arrive in time.",
    },
    ErrorAnswer {
        status: 409,
        name: "Refused",
        word: "refused",
        detail: Detail::Given,
        header: None,
        description: "The person may not have it as it is now. The text says why, and what they can do.",
    },
    ErrorAnswer {
        status: 413,
        name: "TooLarge",
        word: "too large",
        detail: Detail::Missing,
        header: None,
        description: "The body is larger than `server.body_bytes_max`.",
    },
    ErrorAnswer {
        status: 415,
        name: "Unsupported",
        word: "unsupported",
        detail: Detail::Given,
        header: None,
        description: "The body has a content encoding.",
    },
    ErrorAnswer {
        status: 429,
        name: "TooManyAttempts",
        word: "too many attempts",
        detail: Detail::Missing,
        header: RETRY_AFTER,
        description: "There were too many wrong codes.",
    },
    ErrorAnswer {
        status: 500,
        name: "Failed",
        word: "internal",
        detail: Detail::Missing,
        header: None,
        description: "A defect of the server. Its log has the details.",
    },
    ErrorAnswer {
        status: 503,
        name: "Unavailable",
        word: "unavailable",
        detail: Detail::Missing,
        header: RETRY_AFTER,
        description: "The store or the repository failed, and may work later.",
    },
];

/// Returns all these answers by name.
pub(super) fn responses() -> Map<String, Value> {
    let named = |error: &ErrorAnswer| (error.name.to_owned(), response(error));
    ERRORS.iter().map(named).collect()
}

/// Returns references to the answers with these statuses.
pub(super) fn references(statuses: &[u16]) -> Map<String, Value> {
    let listed = ERRORS.iter().filter(|error| statuses.contains(&error.status));
    let reference = |error: &ErrorAnswer| {
        let reference = json!({ "$ref": format!("#/components/responses/{}", error.name) });
        (error.status.to_string(), reference)
    };
    listed.map(reference).collect()
}

fn response(error: &ErrorAnswer) -> Value {
    let mut schema = json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["error"],
        "properties": { "error": { "const": error.word } },
    });
    if error.detail == Detail::Given {
        schema["required"] = json!(["error", "detail"]);
        schema["properties"]["detail"] =
            json!({ "type": "string", "description": "The reason, for people." });
    }
    let mut response = json!({
        "description": error.description,
        "content": { "application/json": { "schema": schema } },
    });
    if let Some((name, description, kind)) = error.header {
        response["headers"] = json!({
            name: { "required": true, "description": description, "schema": { "type": kind } },
        });
    }
    response
}
