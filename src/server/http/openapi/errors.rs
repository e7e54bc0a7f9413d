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
    /// The problems of single fields are there as well.
    WithProblems,
    Missing,
}

const RETRY_AFTER: Option<(&str, &str, &str)> = Some((
    "Retry-After",
    "The seconds after which a repeat may succeed.",
    "integer",
));

/// The name of the answer to a request for which there is too much of something, in place of that about wrong codes.
pub(super) const TOO_MANY: &str = "TooMany";

const ERRORS: [ErrorAnswer; 13] = [
    ErrorAnswer {
        status: 400,
        name: "Malformed",
        word: "malformed",
        detail: Detail::Given,
        header: None,
        description: "The body, the query or a header cannot be read.",
    },
    ErrorAnswer {
        status: 401,
        name: "Unauthenticated",
        word: "unauthenticated",
        detail: Detail::Missing,
        header: Some(("WWW-Authenticate", "The scheme of tokens, `Bearer`.", "string")),
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
        status: 422,
        name: "Unprocessable",
        word: "unprocessable",
        detail: Detail::WithProblems,
        header: None,
        description: "The request cannot be followed as it is. The problems name the fields or parameters.",
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

const TOO_MANY_OPEN: ErrorAnswer = ErrorAnswer {
    status: 429,
    name: TOO_MANY,
    word: "too many",
    detail: Detail::Given,
    header: RETRY_AFTER,
    description: "Too many runs or requests of the person, or of all people, are open.",
};

/// Returns all these answers by name.
pub(super) fn responses() -> Map<String, Value> {
    let named = |error: &ErrorAnswer| (error.name.to_owned(), response(error));
    ERRORS.iter().chain([&TOO_MANY_OPEN]).map(named).collect()
}

/// Returns a reference to an answer.
pub(super) fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/components/responses/{name}") })
}

/// Returns references to the answers with these statuses.
pub(super) fn references(statuses: &[u16]) -> Map<String, Value> {
    let listed = ERRORS.iter().filter(|error| statuses.contains(&error.status));
    listed
        .map(|error| (error.status.to_string(), reference(error.name)))
        .collect()
}

fn problem() -> Value {
    json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["field", "problem"],
        "properties": {
            "field": { "type": "string", "description": "The name of the field or of the parameter." },
            "problem": { "type": "string", "description": "The problem, for people." },
        },
    })
}

fn response(error: &ErrorAnswer) -> Value {
    let mut schema = json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["error"],
        "properties": { "error": { "const": error.word } },
    });
    if error.detail != Detail::Missing {
        schema["required"] = json!(["error", "detail"]);
        schema["properties"]["detail"] =
            json!({ "type": "string", "description": "The reason, for people." });
    }
    if error.detail == Detail::WithProblems {
        schema["required"] = json!(["error", "detail", "problems"]);
        schema["properties"]["problems"] = json!({ "type": "array", "items": problem() });
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
