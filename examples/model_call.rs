//! Makes one model call. It reads the call as JSON from standard input, and prints what Drydock understood of the answer
//! as JSON. `conformance/` compares it with other libraries:
//!
//! ```sh
//! echo '{"provider":"ollama","wire":"openai-chat","base_url":"http://localhost:11434/v1","model":"qwen3",
//!   "stream":true,"system":"Be brief.","tools":[],"answer_tokens_max":100,"turns":[{"user":"Hello","steps":[]}]}' |
//!   cargo run --example model_call
//! ```

#![allow(clippy::print_stdout, reason = "the result is the output of the program")]

use base64::{Engine, prelude::BASE64_STANDARD};
use drydock::base::config::{AnswerMode, Config, ConfigSources};
use drydock::base::http_client::api_client;
use drydock::base::model::{
    Assistant, Attachment, ContentBlock, History, MediaType, Step, StopReason, ToolCall, ToolResult, Usage,
};
use drydock::interfaces::provider::{self, Completion, Patience, ToolChoice, ToolSpec, TurnRequest};
use drydock::state::access::Access;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use tokio_util::sync::CancellationToken;

/// A call.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ModelCall {
    provider: String,
    wire: String,
    base_url: String,
    model: String,
    stream: bool,
    system: String,
    answer_tokens_max: u32,
    tools: Vec<OfferedTool>,
    turns: Vec<CallTurn>,
    /// The results of the calls of the answer. With them, the answer is sent back, and that of the second call is printed.
    #[serde(default)]
    then: Vec<StepResult>,
}

#[derive(Deserialize)]
struct OfferedTool {
    name: String,
    description: String,
    schema: Value,
}

#[derive(Deserialize)]
struct CallTurn {
    user: String,
    #[serde(default)]
    files: Vec<CallFile>,
    steps: Vec<CallStep>,
}

/// A file that is attached to a message.
#[derive(Deserialize)]
struct CallFile {
    name: String,
    media_type: MediaType,
    base64: String,
}

/// An answer of the model, with the results of its calls in their order.
#[derive(Deserialize)]
struct CallStep {
    text: String,
    calls: Vec<StepCall>,
    results: Vec<StepResult>,
}

#[derive(Deserialize)]
struct StepCall {
    id: String,
    name: String,
    arguments: String,
}

#[derive(Deserialize)]
struct StepResult {
    content: String,
    is_error: bool,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let call: ModelCall = serde_json::from_reader(std::io::stdin())?;
    let printed = match answer(&call).await? {
        Ok(completion) => printed(&completion),
        Err(error) => json!({"error": error}),
    };
    println!("{printed}");
    Ok(())
}

/// Makes the call. The service does not check the key.
async fn answer(call: &ModelCall) -> anyhow::Result<Result<Completion, String>> {
    let provider = &call.provider;
    let flags = [
        ("model.default".to_owned(), format!("{provider}/{}", call.model)),
        (format!("providers.{provider}.wire"), call.wire.clone()),
        (format!("providers.{provider}.base_url"), call.base_url.clone()),
        (
            format!("providers.{provider}.api_key.env"),
            "MODEL_CALL_KEY".to_owned(),
        ),
    ];
    let sources = ConfigSources {
        environment: BTreeMap::from([(
            "MODEL_CALL_KEY".to_owned(),
            "sent-to-nobody-0123456789".to_owned(),
        )]),
        flags: flags.into(),
        ..ConfigSources::default()
    };
    let config = Config::for_terminal(sources)?;
    let mode = if call.stream {
        AnswerMode::Streamed
    } else {
        AnswerMode::Whole
    };
    let providers = provider::build(&config.providers, api_client()?, mode);
    let (provider, model) = providers
        .resolve(&config.model.default)
        .map_err(anyhow::Error::msg)?;
    let mut history = history(call)?;
    let tools: Vec<ToolSpec> = call.tools.iter().map(tool).collect();
    let identity = Access::terminal_identity("you");
    let ask = async |history: &History| {
        let request = TurnRequest {
            identity: &identity,
            model: &model,
            system: &call.system,
            tools: &tools,
            tool_choice: ToolChoice::Free,
            turns: history.turns(),
            answer_tokens_max: call.answer_tokens_max,
            patience: Patience::Full,
        };
        let cancel = CancellationToken::new();
        let answer = provider.turn(request, &mut |_| (), &cancel).await;
        answer.map_err(|error| error.to_string())
    };
    let answer = ask(&history).await;
    match answer {
        Ok(answer) if !call.then.is_empty() => {
            let ids: Vec<String> = answer.assistant.calls().map(|call| call.id.clone()).collect();
            let results = ids.into_iter().zip(&call.then).map(|(call, result)| ToolResult {
                call,
                content: result.content.clone(),
                is_error: result.is_error,
            });
            history.push(Step::new(answer.assistant, results.collect())?)?;
            Ok(ask(&history).await)
        }
        answer => Ok(answer),
    }
}

fn tool(tool: &OfferedTool) -> ToolSpec {
    // Names and descriptions of tools live as long as the program.
    let kept = |text: &str| -> &'static str { Box::leak(text.to_owned().into_boxed_str()) };
    ToolSpec {
        name: kept(&tool.name),
        description: kept(&tool.description),
        schema: tool.schema.clone().into(),
    }
}

fn history(call: &ModelCall) -> anyhow::Result<History> {
    let mut history = History::default();
    for turn in &call.turns {
        let files = turn.files.iter().map(|file| {
            let content = BASE64_STANDARD.decode(&file.base64)?;
            Ok(Attachment::new(&file.name, file.media_type, &content))
        });
        let files: anyhow::Result<Vec<Attachment>> = files.collect();
        history.begin_attached(&turn.user, files?)?;
        for step in &turn.steps {
            let calls = step.calls.iter().map(|call| {
                ContentBlock::Call(ToolCall {
                    id: call.id.clone(),
                    name: call.name.clone(),
                    arguments: call.arguments.as_str().into(),
                })
            });
            let text = ContentBlock::Text {
                text: step.text.clone(),
            };
            let assistant = Assistant {
                blocks: std::iter::once(text).chain(calls).collect(),
                raw: None,
                stop: StopReason::EndTurn,
                usage: Usage::default(),
            };
            let results = step
                .calls
                .iter()
                .zip(&step.results)
                .map(|(call, result)| ToolResult {
                    call: call.id.clone(),
                    content: result.content.clone(),
                    is_error: result.is_error,
                });
            history.push(Step::new(assistant, results.collect())?)?;
        }
    }
    Ok(history)
}

fn printed(completion: &Completion) -> Value {
    let assistant = &completion.assistant;
    let calls = assistant.calls();
    let calls =
        calls.map(|call| json!({"id": call.id, "name": call.name, "arguments": call.arguments.text()}));
    json!({
        "text": assistant.text(), "calls": calls.collect::<Vec<_>>(), "stop": format!("{:?}", assistant.stop),
        "usage": completion.usage(), "model": completion.model,
    })
}
