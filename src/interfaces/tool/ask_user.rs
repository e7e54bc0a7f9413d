//! `ask_user`: asks the person of the turn for a decision. The tool checks the question; the loop asks it once all calls
//! of the step have run. Only turns whose person can answer offer the tool.

use super::adapter::{ToolAdapter, ToolBody, ToolFunction};
use super::arguments::{ToolArguments, bind};
use super::conclude::NoContext;
use super::{Tool, ToolError, schema};
use crate::base::model::{ASK_USER, AskedQuestion, Effect, ToolCall};
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::{Arc, LazyLock};

/// The number of minutes that a question waits if the model names none.
const MINUTES_DEFAULT: u32 = 60;

pub(super) struct AskUser;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct QuestionArguments {
    /// The question, in at most 500 characters.
    question: String,
    /// 2 to 5 different choices of at most 40 characters; leave it out if the person should answer in their own words.
    #[serde(default)]
    choices: Vec<String>,
    /// The choice that applies if nobody answers in time.
    #[serde(default)]
    default: Option<String>,
    /// Minutes to wait for the answer.
    #[serde(default = "minutes_default")]
    #[schemars(range(min = 1, max = 10_080))]
    minutes: u32,
}

fn minutes_default() -> u32 {
    MINUTES_DEFAULT
}

impl ToolArguments for QuestionArguments {
    const SUBJECT: Option<&'static str> = Some("question");
}

impl ToolBody for AskUser {
    type Arguments = QuestionArguments;
    type CallContext = NoContext;

    const NAME: &'static str = ASK_USER;
    const DESCRIPTION: &'static str = "Asks the person for a decision that only they can make, and waits for the answer. Call it rarely: first look \
                                       in the files, and do not ask whether to do what they requested.";
    const EFFECT: Effect = Effect::Read;
    const EXAMPLES: &'static [&'static str] = &[
        r#"{"question":"Which replica count should prod get?","choices":["3","5"],"default":"3"}"#,
        r#"{"question":"Who owns the payments service?","minutes":10}"#,
    ];
    const RUN: ToolFunction<Self> = ToolFunction::Blocking(|_, arguments| {
        let checked = question(&arguments);
        checked
            .map(|_| AskedQuestion::WAITING.to_owned())
            .map_err(ToolError::Failed)
    });
}

/// Returns the tool.
pub fn ask_user() -> Arc<dyn Tool> {
    static TOOL: LazyLock<Arc<dyn Tool>> = LazyLock::new(|| Arc::new(ToolAdapter::<AskUser>::new()));
    Arc::clone(&TOOL)
}

/// Returns the question of a call; `None` for another call or malformed arguments.
pub fn question_of_call(call: &ToolCall) -> Option<AskedQuestion> {
    if call.name != ASK_USER {
        return None;
    }
    let arguments = call.arguments.value().ok()?.clone();
    let arguments = bind(ASK_USER, &schema::render::<QuestionArguments>(), arguments).ok()?;
    question(&arguments).ok()
}

fn question(arguments: &QuestionArguments) -> Result<AskedQuestion, String> {
    AskedQuestion::new(
        &arguments.question,
        &arguments.choices,
        arguments.default.as_deref(),
        arguments.minutes,
    )
}

#[cfg(test)]
mod tests {
    use super::question_of_call;
    use crate::base::model::ASK_USER;
    use crate::base::model::ToolCall;

    #[test]
    fn a_question_is_read_from_its_call() {
        let of = |name: &str, arguments: &str| {
            question_of_call(&ToolCall {
                id: "1".to_owned(),
                name: name.to_owned(),
                arguments: arguments.into(),
            })
        };
        let asked = of(
            ASK_USER,
            r#"{"question":"Which?","choices":["a","b"],"default":"B","minutes":"5"}"#,
        );
        let facts = asked.map(|asked| {
            let default = asked.default_choice().map(str::to_owned);
            (
                asked.text().to_owned(),
                asked.choices().to_vec(),
                default,
                asked.minutes(),
            )
        });
        let choices = vec!["a".to_owned(), "b".to_owned()];
        assert_eq!(
            facts,
            Some(("Which?".to_owned(), choices, Some("b".to_owned()), 5))
        );
        for arguments in [
            "{}",
            r#"{"question":"Which?","choices":["a"]}"#,
            r#"{"question":"Which?","minutes":0}"#,
            r#"{"question":"Which?","to":"U0BOB"}"#,
        ] {
            assert_eq!(of(ASK_USER, arguments), None, "{arguments}");
        }
        assert_eq!(of("conclude", r#"{"question":"Which?"}"#), None);
    }
}
