//! `get_step_result`: returns the result of an earlier step of a pipeline. Only agent steps of pipelines offer the tool.

use super::adapter::{ToolAdapter, ToolBody, ToolFunction};
use super::arguments::ToolArguments;
use super::{Context, Tool, ToolError};
use crate::base::model::{Effect, quoted, truncated_result};
use crate::base::redact::Redactor;
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Bytes of an answer that are left for the line about the missing part.
const NOTE_BYTES_MAX: usize = 64;

struct GetStepResult;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct StepResultArguments {
    /// The name of the step.
    name: String,
}

impl ToolArguments for StepResultArguments {
    const SUBJECT: Option<&'static str> = Some("name");
    const ALIASES: &'static [(&'static str, &'static str)] = &[("step", "name")];
}

/// The results of earlier steps, and the bytes of them that are shown.
struct StepResultContext {
    results: Arc<BTreeMap<String, String>>,
    head: u32,
    tail: u32,
    redactor: Arc<Redactor>,
    bytes_max: usize,
}

impl ToolBody for GetStepResult {
    type Arguments = StepResultArguments;
    type CallContext = StepResultContext;

    const NAME: &'static str = "get_step_result";
    const DESCRIPTION: &'static str = "Returns the result of an earlier step of this pipeline. A long result loses its middle, and a line says how \
                                       much is missing.";
    const EFFECT: Effect = Effect::Read;
    const EXAMPLES: &'static [&'static str] = &[r#"{"name":"scan"}"#];
    const RUN: ToolFunction<Self> = ToolFunction::Blocking(run);
}

fn run(context: &StepResultContext, arguments: StepResultArguments) -> Result<String, ToolError> {
    let name = arguments.name.trim();
    let Some(result) = context.results.get(name) else {
        let names: Vec<&str> = context.results.keys().map(String::as_str).collect();
        let there = match names.is_empty() {
            true => "no earlier step has one".to_owned(),
            false => format!("there are results of {}", names.join(", ")),
        };
        return Err(ToolError::Failed(format!(
            "there is no result of a step {}; {there}",
            quoted(name)
        )));
    };
    // A secret that became known after the step is removed before the text is cut.
    let result = context.redactor.redact(result);
    let (mut head, mut tail) = (context.head, context.tail);
    if result.len() > context.bytes_max || result.len() > bytes(head).saturating_add(bytes(tail)) {
        // Otherwise the answer itself would be shortened again, and its line would be wrong.
        let room = context.bytes_max.saturating_sub(NOTE_BYTES_MAX);
        let room = u32::try_from(room).unwrap_or(u32::MAX);
        head = head.min(room);
        tail = tail.min(room - head);
    }
    Ok(truncated_result(&result, head, tail).into_owned())
}

fn bytes(bound: u32) -> usize {
    usize::try_from(bound).unwrap_or(usize::MAX)
}

/// Returns the tool with the results of earlier steps, of which it shows `head` and `tail` bytes.
pub fn get_step_result(results: BTreeMap<String, String>, head: u32, tail: u32) -> Arc<dyn Tool> {
    let results = Arc::new(results);
    Arc::new(ToolAdapter::<GetStepResult>::with_context(
        move |cx: Context<'_>| StepResultContext {
            results: Arc::clone(&results),
            head,
            tail,
            redactor: Arc::clone(&cx.workspace.guard.redactor),
            bytes_max: cx.output_bytes_max,
        },
    ))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::{StepResultArguments, StepResultContext, ToolError, run};
    use crate::base::redact::Redactor;
    use std::collections::BTreeMap;
    use std::sync::Arc;

    fn context(text: &str, head: u32, tail: u32, bytes_max: usize) -> StepResultContext {
        StepResultContext {
            results: Arc::new(BTreeMap::from([("scan".to_owned(), text.to_owned())])),
            head,
            tail,
            redactor: Arc::new(Redactor::new([])),
            bytes_max,
        }
    }

    fn result(context: &StepResultContext, name: &str) -> Result<String, ToolError> {
        let name = name.to_owned();
        run(context, StepResultArguments { name })
    }

    /// CI-5
    #[test]
    fn the_result_of_an_earlier_step_keeps_head_and_tail_and_is_shortened_once() {
        for (text, head, tail, bytes_max, shown) in [
            (
                "abcdef".repeat(10),
                4,
                4,
                65_536,
                "abcd\n[...truncated 52 bytes...]\ncdef".to_owned(),
            ),
            ("a".repeat(65_536), 4_096, 61_440, 65_536, "a".repeat(65_536)),
            (
                "a".repeat(65_537),
                4_096,
                61_440,
                65_536,
                format!(
                    "{}\n[...truncated 65 bytes...]\n{}",
                    "a".repeat(4_096),
                    "a".repeat(61_376)
                ),
            ),
            (
                "a".repeat(2_000),
                1_048_576,
                1_048_576,
                1_024,
                format!("{}\n[...truncated 1040 bytes...]\n", "a".repeat(960)),
            ),
        ] {
            let context = context(&text, head, tail, bytes_max);
            let answer = result(&context, " scan ").unwrap();
            assert!(answer.len() <= bytes_max, "{}", answer.len());
            assert_eq!(answer, shown);
        }
    }

    #[test]
    fn a_step_without_a_result_is_refused_with_the_names_that_have_one() {
        let context = context("x", 1, 1, 1_024);
        let why = result(&context, "scna").unwrap_err().to_string();
        assert_eq!(
            why,
            "there is no result of a step `scna`; there are results of scan"
        );
    }

    #[test]
    fn a_secret_that_became_known_after_the_step_is_removed_before_the_text_is_cut() {
        let secret = "kept-to-ourselves-4711";
        let context = context(&format!("{secret}{}", "x".repeat(100)), 10, 4, 1_024);
        let redactor = &context.redactor;
        redactor.learn(&redactor.secrets_in_entry("opens", secret));
        let shown = result(&context, "scan").unwrap();
        assert!(!shown.contains("kept"), "{shown}");
    }
}
