//! `conclude`: ends a turn with a verdict of the model. The loop handles a call that stands alone; only turns that are
//! asked for a verdict offer the tool.

use super::adapter::{ToolAdapter, ToolBody, ToolFunction};
use super::arguments::ToolArguments;
use super::{Context, Tool, ToolError};
use crate::base::model::{Effect, ToolCall, Verdict};
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::{Arc, LazyLock};

/// The name of the tool.
pub const CONCLUDE: &str = "conclude";

pub(super) struct Conclude;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ConcludeArguments {
    /// The verdict: `pass` or `fail`.
    verdict: String,
    /// The reasons for the verdict, as the person reads them.
    summary: String,
}

impl ToolArguments for ConcludeArguments {
    const SUBJECT: Option<&'static str> = Some("verdict");
}

/// The tool needs nothing of the context.
pub(super) struct NoContext;

impl From<Context<'_>> for NoContext {
    fn from(_: Context<'_>) -> Self {
        Self
    }
}

impl ToolBody for Conclude {
    type Arguments = ConcludeArguments;
    type CallContext = NoContext;

    const NAME: &'static str = CONCLUDE;
    const DESCRIPTION: &'static str = "Ends the work with your verdict, `pass` or `fail`, and the reasons. Call it alone, when you have read the \
                                       results of all other calls.";
    const EFFECT: Effect = Effect::Read;
    const EXAMPLES: &'static [&'static str] = &[r#"{"verdict":"pass","summary":"No risk found."}"#];
    const RUN: ToolFunction<Self> = ToolFunction::Blocking(|_, arguments| {
        let why = match conclusion(arguments).is_some() {
            true => "not concluded: call `conclude` alone, when you have read the results of the other calls",
            false => "not concluded: `verdict` is `pass` or `fail`, and `summary` gives the reasons",
        };
        Err(ToolError::Failed(why.to_owned()))
    });
}

/// Returns the tool.
pub fn conclude() -> Arc<dyn Tool> {
    static TOOL: LazyLock<Arc<dyn Tool>> = LazyLock::new(|| Arc::new(ToolAdapter::<Conclude>::new()));
    Arc::clone(&TOOL)
}

/// A verdict of the model, with its reasons.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conclusion {
    /// Pass or fail.
    pub verdict: Verdict,
    /// The reasons.
    pub summary: String,
}

impl Conclusion {
    /// Returns the conclusion of a call of the tool; `None` for another call or malformed arguments.
    pub fn of_call(call: &ToolCall) -> Option<Self> {
        if call.name != CONCLUDE {
            return None;
        }
        let arguments = call.arguments.value().ok()?.clone();
        conclusion(serde_json::from_value(arguments).ok()?)
    }
}

fn conclusion(arguments: ConcludeArguments) -> Option<Conclusion> {
    let verdict = match arguments.verdict.trim().to_ascii_lowercase().as_str() {
        "pass" => Verdict::Pass,
        "fail" => Verdict::Fail,
        _ => return None,
    };
    let summary = arguments.summary.trim();
    (!summary.is_empty()).then(|| Conclusion {
        verdict,
        summary: summary.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::{CONCLUDE, Conclusion};
    use crate::base::model::{ToolCall, Verdict};

    /// CI-6
    #[test]
    fn a_conclusion_is_pass_or_fail_with_reasons() {
        let of = |name: &str, arguments: &str| {
            let conclusion = Conclusion::of_call(&ToolCall {
                id: "1".to_owned(),
                name: name.to_owned(),
                arguments: arguments.into(),
            });
            conclusion.map(|conclusion| (conclusion.verdict, conclusion.summary))
        };
        assert_eq!(
            of(CONCLUDE, r#"{"verdict":"pass","summary":" It holds. "}"#),
            Some((Verdict::Pass, "It holds.".to_owned()))
        );
        assert_eq!(
            of(CONCLUDE, r#"{"verdict":"FAIL","summary":"It breaks."}"#),
            Some((Verdict::Fail, "It breaks.".to_owned()))
        );
        for arguments in [
            r#"{"verdict":"maybe","summary":"x"}"#,
            r#"{"verdict":"pass","summary":" "}"#,
            r#"{"verdict":"pass"}"#,
            r#"{"verdict":"pass","summary":"x","more":1}"#,
            "{",
        ] {
            assert_eq!(of(CONCLUDE, arguments), None, "{arguments}");
        }
        assert_eq!(of("git_diff", r#"{"verdict":"pass","summary":"x"}"#), None);
    }
}
