//! The script of the demo's model: a few known requests, answered with real tool calls in the real wire format. To
//! any other request the model answers with the list of known ones.

mod alert;

use crate::base::model::Usage;
use crate::engine::agent::REMARK_PREFIX;
use crate::simulation::emulator::model::{
    AnswerFault, ModelRequest, RequestMessage, RequestRole, ScriptedAnswer, calls, says,
};
use serde_json::{Value, json};
use std::time::Duration;

/// The model that answers when the default model is overloaded.
pub const FALLBACK: &str = "backup/second";

/// The turn that a request belongs to.
struct ScriptedTurn<'a> {
    /// The number of finished steps.
    step: usize,
    /// The name of the model that is asked.
    model: &'a str,
    /// The messages since the person's last words.
    messages: &'a [RequestMessage],
}

/// A request that the script can answer.
struct ScriptedRequest {
    /// Words that must all be in the request, in lower case.
    words: &'static [&'static str],
    /// An example of the request, as a visitor would type it.
    example: &'static str,
    /// Returns the model's answer at a step of the turn.
    play: fn(turn: &ScriptedTurn<'_>) -> ScriptedAnswer,
}

const LINES: [ScriptedRequest; 14] = [
    ScriptedRequest {
        words: &["ran out of memory"],
        example: "(the agent step of the pipeline that an alert starts)",
        play: alert::more_memory,
    },
    ScriptedRequest {
        words: &["web", "4 replicas"],
        example: "bump web to 4 replicas and 512Mi in dev",
        play: bump_web,
    },
    ScriptedRequest {
        words: &["make it 3", "staging"],
        example: "make it 3, and do staging too",
        play: make_it_three,
    },
    ScriptedRequest {
        words: &["api", "staging", "memory"],
        example: "give api 1Gi of memory in staging",
        play: api_memory,
    },
    ScriptedRequest {
        words: &["released version"],
        example: "(the release webhook)",
        play: release,
    },
    ScriptedRequest {
        words: &["worker", "debug"],
        example: "set the worker log level to debug in prod",
        play: worker_debug,
    },
    ScriptedRequest {
        words: &["default memory", "192"],
        example: "raise the default memory of an app to 192Mi",
        play: default_memory,
    },
    ScriptedRequest {
        words: &["set api to 3 replicas"],
        example: "set api to 3 replicas in dev",
        play: api_replicas,
    },
    ScriptedRequest {
        words: &["while you worked", "staging"],
        example: "(the same in staging, while the turn runs)",
        play: api_replicas_in_staging,
    },
    ScriptedRequest {
        words: &["scale api"],
        example: "scale api in prod for the sale",
        play: scale_api,
    },
    ScriptedRequest {
        words: &["cache", "7.4.2"],
        example: "use cache 7.4.2 in dev",
        play: cache_image,
    },
    ScriptedRequest {
        words: &["compare the replicas"],
        example: "(compare the replicas of all environments, which uses up the budget of the day)",
        play: compare_replicas,
    },
    ScriptedRequest {
        words: &["audit"],
        example: "audit every environment",
        play: audit,
    },
    ScriptedRequest {
        words: &["which environments"],
        example: "which environments are there?",
        play: environments,
    },
];

/// Returns an example of each request that the script can answer.
pub fn known_requests() -> impl Iterator<Item = &'static str> {
    LINES
        .iter()
        .map(|line| line.example)
        .filter(|example| !example.starts_with('('))
}

/// Returns the model's next answer. `pace` is the simulated thinking time.
pub fn answer(asked: &ModelRequest, pace: Duration) -> ScriptedAnswer {
    // Only a user's message begins a turn; an answer that was sent back continues it.
    let said_by_a_person = |message: &RequestMessage| {
        message.role == RequestRole::User
            && !message.text.is_empty()
            && !message.text.starts_with(REMARK_PREFIX)
    };
    let turn_started = asked.messages.iter().rposition(said_by_a_person);
    let request = turn_started.and_then(|index| asked.messages.get(index));
    let request = request.map_or_else(String::new, |message| message.text.to_lowercase());
    let after = turn_started.and_then(|index| asked.messages.get(index + 1..));
    let messages = after.unwrap_or_default();
    let turn = ScriptedTurn {
        // Each step of a turn consists of an assistant message and the message with its results.
        step: messages.len() / 2,
        model: &asked.model,
        messages,
    };
    let line = LINES
        .iter()
        .find(|line| line.words.iter().all(|word| request.contains(word)));
    let answer = line.map_or_else(unknown, |line| (line.play)(&turn));
    match answer.fault {
        Some(_) => answer,
        None => answer.with_fault(AnswerFault::Delay(pace)),
    }
}

fn unknown() -> ScriptedAnswer {
    let examples: Vec<String> = known_requests().map(|example| format!("- {example}")).collect();
    says(format!(
        "This is the demo model; I know these requests:\n\n{}",
        examples.join("\n")
    ))
}

fn main_of(environment: &str) -> String {
    format!("environments/{environment}/main.jsonnet")
}

fn edit(environment: &str, old: &str, new: &str) -> Value {
    json!({ "path": main_of(environment), "old": old, "new": new })
}

fn read(environment: &str) -> Value {
    json!({ "path": main_of(environment) })
}

fn bump_web(turn: &ScriptedTurn<'_>) -> ScriptedAnswer {
    match turn.step {
        0 => says("First I list the environments.")
            .with_call(
                "file_list",
                json!({ "glob_pattern": "environments/**/main.jsonnet" }),
            )
            .with_call(
                "file_search",
                json!({ "glob_pattern": "**/*.jsonnet", "text_query": "web" }),
            ),
        // The delay is long enough for a status card: very short turns have none.
        1 => calls("file_read", read("dev")).with_fault(AnswerFault::Delay(Duration::from_millis(500))),
        2 => calls(
            "file_edit",
            edit(
                "dev",
                "web:1.8.3',\n    replicas: 2,\n    memory: '256Mi',",
                "web:1.8.3',\n    replicas: 4,\n    memory: '512Mi',",
            ),
        ),
        3 => calls("git_diff", json!({})),
        _ => says(
            "`web` in **dev** now has 4 replicas with 512Mi each; it had 2 with 256Mi. No other environment uses \
             this file.",
        ),
    }
}

fn make_it_three(turn: &ScriptedTurn<'_>) -> ScriptedAnswer {
    match turn.step {
        0 => calls("file_edit", edit("dev", "    replicas: 4,", "    replicas: 3,"))
            .with_call("file_read", read("staging")),
        1 => calls(
            "file_edit",
            edit(
                "staging",
                "web:1.8.3',\n    replicas: 2,\n    memory: '256Mi',",
                "web:1.8.3',\n    replicas: 3,\n    memory: '512Mi',",
            ),
        ),
        _ => says("`web` now has 3 replicas with 512Mi in **dev** and in **staging**."),
    }
}

fn api_memory(turn: &ScriptedTurn<'_>) -> ScriptedAnswer {
    match turn.step {
        0 => calls("file_read", read("staging")),
        1 => calls(
            "file_edit",
            edit("staging", "    memory: '512Mi',", "    memory: '1Gi',"),
        ),
        _ => says("`api` in **staging** may now use 1Gi; the limit was 512Mi."),
    }
}

fn release(turn: &ScriptedTurn<'_>) -> ScriptedAnswer {
    let image = |tag: &str| format!("registry.example.com/web:{tag}");
    match turn.step {
        0 => calls(
            "file_search",
            json!({ "glob_pattern": "environments/**", "text_query": image("1.8.3") }),
        ),
        1 => calls("file_edit", edit("dev", &image("1.8.3"), &image("1.9.0")))
            .with_call("file_edit", edit("staging", &image("1.8.3"), &image("1.9.0"))),
        _ => says(
            "`web` 1.9.0 is prepared for **dev** and **staging**. `prod` stays at 1.8.3, as the instructions say.",
        ),
    }
}

/// Plays a mistake: the first edit names text that does not exist; the model reads the file and corrects itself.
fn worker_debug(turn: &ScriptedTurn<'_>) -> ScriptedAnswer {
    match turn.step {
        0 => calls(
            "file_edit",
            edit("prod", "LOG_LEVEL: \"info\"", "LOG_LEVEL: \"debug\""),
        ),
        1 => calls("file_read", read("prod")),
        2 => calls(
            "file_edit",
            edit("prod", "LOG_LEVEL: 'info'", "LOG_LEVEL: 'debug'"),
        ),
        _ => says(
            "`worker` in **prod** logs at `debug` now. My first edit did not match the quotes in the file; the second one did.",
        ),
    }
}

/// Plays a mistake: the first edit does not parse; the checks report it and the model fixes it.
fn default_memory(turn: &ScriptedTurn<'_>) -> ScriptedAnswer {
    let path = "lib/app.libsonnet";
    match turn.step {
        0 => calls("file_read", json!({ "path": path })),
        1 => calls(
            "file_edit",
            json!({ "path": path, "old": "memoryMi:: 128,", "new": "memoryMi:: 192Mi," }),
        ),
        2 => says("The default memory is 192Mi now."),
        3 => calls(
            "file_edit",
            json!({ "path": path, "old": "memoryMi:: 192Mi,", "new": "memoryMi:: 192," }),
        ),
        _ => says(
            "An app gets **192Mi** by default now; it was 128Mi. This affects `worker` in every environment; in \
             `prod` it gets twice the default. My first edit was not valid Jsonnet; it is fixed.",
        ),
    }
}

fn api_in(environment: &str, replicas: u32) -> Value {
    let of = |count: u32| format!("api:4.2.0',\n    replicas: {count},");
    edit(environment, &of(2), &of(replicas))
}

/// Holds its first answer back behind the words, so that a message can be sent while the model works.
fn api_replicas(turn: &ScriptedTurn<'_>) -> ScriptedAnswer {
    match turn.step {
        0 => says("I begin with dev, where api has 2 replicas.")
            .with_call("file_edit", api_in("dev", 3))
            .with_fault(AnswerFault::HeldBefore("tool_use")),
        _ => says("`api` has 3 replicas in **dev** now; it had 2."),
    }
}

fn api_replicas_in_staging(turn: &ScriptedTurn<'_>) -> ScriptedAnswer {
    match turn.step {
        0 => calls("file_edit", api_in("staging", 3)),
        _ => says("`api` has 3 replicas in **dev** and in **staging** now; it had 2 in each."),
    }
}

/// Asks the person for a number, and uses it.
fn scale_api(turn: &ScriptedTurn<'_>) -> ScriptedAnswer {
    let results = turn.messages.iter().flat_map(|message| &message.results);
    let mut answers = results.filter(|result| result.content.starts_with("The person "));
    let answer = answers.next_back().map_or("", |result| &result.content);
    let number = |word: &str| word.parse::<u32>().ok();
    // The default of the question.
    let replicas = answer.split_whitespace().find_map(number).unwrap_or(4);
    match turn.step {
        0 => calls("file_read", read("prod")).with_call(
            "ask_user",
            json!({
                "question": "How many replicas should api have in prod?",
                "choices": ["4 replicas", "8 replicas"],
                "default": "4 replicas",
            }),
        ),
        1 => calls("file_edit", api_in("prod", replicas)),
        _ if answer.is_empty() => says(format!("`api` in **prod** has {replicas} replicas, the default.")),
        _ => says(format!(
            "`api` in **prod** has {replicas} replicas, as you chose."
        )),
    }
}

/// Is overloaded, unless the fallback model is asked.
fn cache_image(turn: &ScriptedTurn<'_>) -> ScriptedAnswer {
    if !FALLBACK.ends_with(turn.model) {
        return says("").with_fault(overloaded());
    }
    match turn.step {
        0 => calls("file_read", read("dev")),
        1 => calls("file_edit", edit("dev", "cache:7.4.1", "cache:7.4.2")),
        _ => says("`cache` in **dev** uses 7.4.2 now; it used 7.4.1."),
    }
}

/// Returns the documented error of Anthropic's API while it is overloaded:
/// <https://docs.claude.com/en/api/errors>.
fn overloaded() -> AnswerFault {
    let error = json!({
        "type": "error",
        "error": { "type": "overloaded_error", "message": "Overloaded" },
        "request_id": "req_011CSHoEeqs5C35K2UUqR7Fy",
    });
    AnswerFault::Status {
        status: 529,
        headers: Vec::new(),
        body: error.to_string(),
    }
}

/// Uses up the budget of a person for one day.
fn compare_replicas(turn: &ScriptedTurn<'_>) -> ScriptedAnswer {
    let usage = Usage {
        input: 140_000,
        output: 1_000,
        ..Usage::default()
    };
    match turn.step {
        0 => calls("file_read", read("dev"))
            .with_call("file_read", read("staging"))
            .with_call("file_read", read("prod"))
            .with_usage(usage),
        _ => says(
            "Only **prod** differs: `web` has 2 replicas in **dev** and in **staging**, and 6 in **prod**. `api` has \
             2 everywhere.",
        ),
    }
}

/// Plays an endless turn: it continues slowly until a user stops it.
fn audit(turn: &ScriptedTurn<'_>) -> ScriptedAnswer {
    let step = turn.step;
    let environment = ["dev", "staging", "prod"][step % 3];
    let offset = step / 3;
    let slowly = AnswerFault::Delay(Duration::from_millis(if step == 0 { 50 } else { 30_000 }));
    calls(
        "file_read",
        json!({ "path": main_of(environment), "offset": offset }),
    )
    .with_fault(slowly)
}

fn environments(turn: &ScriptedTurn<'_>) -> ScriptedAnswer {
    match turn.step {
        0 => calls("file_list", json!({ "glob_pattern": "environments/*/spec.json" })),
        _ => says(
            "There are three environments: `dev`, `staging` and `prod`. Each is a directory below `environments`.",
        ),
    }
}
