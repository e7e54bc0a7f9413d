//! The errors about requests that a server has refused: what it said, and what a person can do.

use super::client::{RunOrderToServer, RunServer};
use super::token::{MAKE_A_TOKEN, RequestTokenPlace};
use crate::base::model::{RunId, short_line};
use crate::cli::CliError;
use crate::cli::server_request::{REASON_CHARS_MAX, ServerAnswer, strange_answer};
use reqwest::StatusCode;
use serde_json::Value;

/// The most problems of parameters that are shown.
const PROBLEMS_MAX: usize = 20;

/// Returns the reason in an answer, as one line.
pub(super) fn reason(answer: &ServerAnswer) -> Option<String> {
    Some(line(document(answer)?["detail"].as_str()?))
}

/// Returns the error of a request that never reached a server.
pub(super) fn of_unreached(server: &RunServer<'_>, why: &str) -> CliError {
    CliError::failed(format!(
        "{} does not answer: {why}; nothing was started; check the address of --server, and that the server runs",
        server.url
    ))
}

/// Returns the error of a run that was not started.
pub(super) fn of_start(
    server: &RunServer<'_>,
    order: &RunOrderToServer<'_>,
    answer: &ServerAnswer,
) -> CliError {
    let url = server.url;
    let why = reason(answer);
    let because = || why.as_ref().map_or_else(String::new, |why| format!(": {why}"));
    match answer.status {
        StatusCode::UNAUTHORIZED => not_accepted(server),
        StatusCode::FORBIDDEN => forbidden(server, &because()),
        StatusCode::NOT_FOUND if document(answer).is_some() => CliError::usage(format!(
            "{url} has no pipeline {} for you; it needs the trigger `api: {{}}` on the trusted branch, and you need a grant \
             for its repository{}",
            line(order.pipeline),
            order.repository.map_or_else(
                || ", which --repository names".to_owned(),
                |repository| format!(" {}", line(repository))
            )
        )),
        StatusCode::CONFLICT => CliError::failed(format!("nothing was started{}", because())),
        StatusCode::UNPROCESSABLE_ENTITY => unprocessable(answer, &because()),
        StatusCode::PAYLOAD_TOO_LARGE => CliError::usage(format!(
            "nothing was started: the parameters are too long for {url}; give shorter ones"
        )),
        StatusCode::TOO_MANY_REQUESTS => CliError::failed(format!(
            "nothing was started{}; try again in {} s",
            because(),
            answer.seconds.unwrap_or(1)
        )),
        status if why.is_some() => CliError::failed(format!(
            "{url} refuses the request ({}){}",
            status.as_u16(),
            because()
        )),
        status => strange_answer(url, &format!("the answer {}", status.as_u16()), ""),
    }
}

/// Returns the error of a run that was started, and is not shown any more.
pub(super) fn of_watch(server: &RunServer<'_>, id: RunId, answer: &ServerAnswer) -> CliError {
    let started = format!(
        "run {id} was started on {}, and its steps are not shown here",
        server.url
    );
    let why = match answer.status {
        StatusCode::UNAUTHORIZED => format!("{} is not accepted any more", server.token.place.words()),
        StatusCode::FORBIDDEN => format!(
            "{}; a token with the scope runs:read as well shows them, and --detach does not ask for them",
            reason(answer).unwrap_or_else(|| "the token does not permit it".to_owned())
        ),
        StatusCode::NOT_FOUND => "you may not see it any more".to_owned(),
        status => format!("the answer is {}", status.as_u16()),
    };
    CliError::failed(format!("{started}: {why}"))
}

fn not_accepted(server: &RunServer<'_>) -> CliError {
    CliError::failed(format!(
        "{} does not accept {}: it is wrong, was revoked, or has expired; {MAKE_A_TOKEN}",
        server.url,
        server.token.place.words()
    ))
}

fn forbidden(server: &RunServer<'_>, because: &str) -> CliError {
    let lacks_scope = because.contains("no scope");
    let advice = match server.token.place {
        RequestTokenPlace::Login => format!("; it is only for `drydock pull`; {MAKE_A_TOKEN}"),
        RequestTokenPlace::File | RequestTokenPlace::Variable if lacks_scope => format!("; {MAKE_A_TOKEN}"),
        RequestTokenPlace::File | RequestTokenPlace::Variable => String::new(),
    };
    CliError::failed(format!(
        "{} does not permit it with {}{because}{advice}",
        server.url,
        server.token.place.words()
    ))
}

/// Returns the error about the parameters, each on its line.
fn unprocessable(answer: &ServerAnswer, because: &str) -> CliError {
    let document = document(answer).unwrap_or_default();
    let problems = document["problems"].as_array().into_iter().flatten();
    let lines: Vec<String> = problems.take(PROBLEMS_MAX).filter_map(problem_line).collect();
    let message = match lines.as_slice() {
        [] if because.contains("Idempotency-Key") => format!("--key: nothing was started{because}"),
        [] => format!("nothing was started{because}"),
        lines => lines.join("\n"),
    };
    CliError::usage(message)
}

fn problem_line(problem: &Value) -> Option<String> {
    let (field, why) = (problem["field"].as_str()?, problem["problem"].as_str()?);
    let (field, why) = (line(field), line(why));
    let is_named =
        why.starts_with(&format!("{field} is required")) || why.starts_with("there is no parameter ");
    Some(match field.as_str() {
        "repository" if why.starts_with("is required, because you have several") => {
            format!("--repository: {why}")
        }
        _ if is_named => format!("--param: {why}"),
        _ => format!("--param: {field}: {why}"),
    })
}

/// Returns the object of an answer; `None` for what no server of this program sends.
fn document(answer: &ServerAnswer) -> Option<Value> {
    let document: Value = serde_json::from_slice(&answer.body).ok()?;
    document["error"].is_string().then_some(document)
}

fn line(text: &str) -> String {
    short_line(text, REASON_CHARS_MAX)
}

#[cfg(test)]
mod tests {
    use super::{RequestTokenPlace, RunOrderToServer, RunServer, ServerAnswer, of_start, of_watch};
    use crate::base::model::{RunId, Secret};
    use crate::cli::run::remote::token::RequestToken;
    use reqwest::StatusCode;

    fn answer(status: StatusCode, body: &str) -> ServerAnswer {
        ServerAnswer {
            status,
            seconds: Some(30),
            body: body.as_bytes().to_vec(),
        }
    }

    /// Returns the exit code and the words about an answer to a request to start a run.
    fn said(place: RequestTokenPlace, status: StatusCode, body: &str) -> Option<(u8, String)> {
        let token = RequestToken {
            secret: Secret::new("t".to_owned()),
            place,
        };
        let server = RunServer::new("https://drydock.example.com", &token).ok()?;
        let order = RunOrderToServer {
            pipeline: "review",
            repository: None,
            params: &[],
            key: "one".to_owned(),
        };
        let error = of_start(&server, &order, &answer(status, body));
        Some((error.code, error.message))
    }

    #[test]
    fn each_refusal_of_a_server_says_what_to_do() {
        let file = RequestTokenPlace::File;
        let scope = r#"{"error":"forbidden","detail":"the token has no scope `runs:write`"}"#;
        for (place, status, body, code, words) in [
            (
                file,
                401,
                r#"{"error":"unauthenticated"}"#,
                1,
                "does not accept the token of --token-file",
            ),
            (
                file,
                403,
                scope,
                1,
                "no scope `runs:write`; the operator of the server makes a token",
            ),
            (
                RequestTokenPlace::Login,
                403,
                scope,
                1,
                "it is only for `drydock pull`",
            ),
            (
                file,
                403,
                r#"{"error":"forbidden","detail":"needs an editor."}"#,
                1,
                "does not permit it with the token of --token-file: needs an editor.",
            ),
            (
                file,
                404,
                r#"{"error":"not found"}"#,
                2,
                "has no pipeline review for you; it needs the trigger",
            ),
            (file, 404, "<html>", 1, "is it the address of a Drydock server"),
            (
                file,
                409,
                r#"{"error":"refused","detail":"a busy group"}"#,
                1,
                "nothing was started: a busy group",
            ),
            (
                file,
                422,
                r#"{"error":"unprocessable","detail":"x","problems":[{"field":"n\u001b","problem":"is no integer"}]}"#,
                2,
                "--param: n<U+001B>: is no integer",
            ),
            (
                file,
                422,
                r#"{"error":"unprocessable","detail":"this `Idempotency-Key` belongs to another","problems":[]}"#,
                2,
                "--key: nothing was started: this `Idempotency-Key` belongs to another",
            ),
            (
                file,
                429,
                r#"{"error":"too many","detail":"too many runs are open"}"#,
                1,
                "try again in 30 s",
            ),
            (
                file,
                422,
                r#"{"error":"unprocessable","detail":"x","problems":[{"field":"n","problem":"n is required: give it a value"}]}"#,
                2,
                "--param: n is required: give it a value",
            ),
            (
                file,
                413,
                r#"{"error":"too large"}"#,
                2,
                "the parameters are too long",
            ),
            (file, 301, "", 1, "the answer 301"),
        ] {
            let status = StatusCode::from_u16(status).unwrap_or_default();
            let found = said(place, status, body);
            let is_said = |(found, text): &(u8, String)| *found == code && text.contains(words);
            assert!(found.as_ref().is_some_and(is_said), "{words}: {found:?}");
        }
    }

    #[test]
    fn a_run_that_cannot_be_watched_is_still_named() {
        let token = RequestToken {
            secret: Secret::new("t".to_owned()),
            place: RequestTokenPlace::Variable,
        };
        let server = RunServer::new("https://drydock.example.com", &token);
        for (status, words) in [
            (
                StatusCode::UNAUTHORIZED,
                "the token of DRYDOCK_TOKEN is not accepted any more",
            ),
            (StatusCode::FORBIDDEN, "--detach does not ask for them"),
            (StatusCode::NOT_FOUND, "you may not see it any more"),
        ] {
            let error = server
                .as_ref()
                .map(|server| of_watch(server, RunId(7), &answer(status, "")));
            let text = error.map_or_else(|_| String::new(), |error| error.message);
            assert!(
                text.starts_with("run 7 was started") && text.contains(words),
                "{text}"
            );
        }
    }
}
