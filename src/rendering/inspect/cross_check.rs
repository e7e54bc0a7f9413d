//! Reports whether the rendered value of an environment was cross-checked: whether a second, independent engine has
//! the same value.

use crate::base::model::{one_line, quoted};
use crate::rendering::compare;
use crate::rendering::jsonnet::CrossCheckResult;
use crate::rendering::review::FailureKind;

/// The result of the cross-check of a rendering.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrossCheck {
    /// The state, for programs.
    pub state: CrossCheckState,
    /// The sentence, for people.
    pub sentence: String,
}

/// The outcome of a cross-check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CrossCheckState {
    /// The second engine has the same value, or one with only known differences.
    Agrees,
    /// The second engine has another value, or none.
    Disagrees,
    /// The second engine did not finish.
    Unfinished,
    /// The second engine was not run.
    NotAsked,
}

impl CrossCheck {
    /// Describes the result of a cross-check. Values are left out, because they may be secrets.
    pub fn from_verdict(verdict: &CrossCheckResult) -> Self {
        let (state, sentence) = match verdict {
            CrossCheckResult::Agrees => (
                CrossCheckState::Agrees,
                "Cross-checked: a second engine has the same value.".to_owned(),
            ),
            CrossCheckResult::Differs {
                known: Some(known), ..
            } => (
                CrossCheckState::Agrees,
                format!(
                    "Cross-checked: a second engine has the same value except for {known}, a known difference \
                     (docs/tanka.md)."
                ),
            ),
            CrossCheckResult::Differs { path, .. } => (
                CrossCheckState::Disagrees,
                format!(
                    "Do not rely on it: a second engine has another value at {}.",
                    quoted(path)
                ),
            ),
            CrossCheckResult::Failed(error) => {
                let why = one_line(&error.to_string());
                match compare::kind_of_evaluation(error) {
                    FailureKind::Program => (
                        CrossCheckState::Disagrees,
                        format!("Do not rely on it: a second engine has no value: {why}"),
                    ),
                    _ => (
                        CrossCheckState::Unfinished,
                        format!("Not cross-checked: the second engine did not finish: {why}"),
                    ),
                }
            }
            CrossCheckResult::NotRun => (
                CrossCheckState::NotAsked,
                "Not cross-checked: the second engine was not used.".to_owned(),
            ),
        };
        Self { state, sentence }
    }
}

#[cfg(test)]
mod tests {
    use super::{CrossCheck, CrossCheckState};
    use crate::rendering::jsonnet::{CrossCheckResult, EvalError, KnownDifference};

    #[test]
    fn each_cross_check_result_is_reported_without_the_values() {
        let differs = |known| CrossCheckResult::Differs {
            path: "$.a".to_owned(),
            first: "hunter2".to_owned(),
            second: "hunter3".to_owned(),
            known,
        };
        let failed = |error| CrossCheckResult::Failed(Box::new(error));
        let program = EvalError::ImportDenied {
            path: "../x".to_owned(),
            importer: "main.jsonnet".to_owned(),
            trace: Vec::new(),
        };
        for (verdict, state, words) in [
            (
                CrossCheckResult::Agrees,
                CrossCheckState::Agrees,
                "has the same value.",
            ),
            (
                differs(Some(KnownDifference::Digits)),
                CrossCheckState::Agrees,
                "except for how many digits fractions have in texts",
            ),
            (
                differs(None),
                CrossCheckState::Disagrees,
                "another value at `$.a`",
            ),
            (
                failed(program),
                CrossCheckState::Disagrees,
                "has no value: import",
            ),
            (
                failed(EvalError::Time { seconds: 1 }),
                CrossCheckState::Unfinished,
                "did not finish: evaluation exceeded 1 s (`sandbox.seconds_max`)",
            ),
            (
                CrossCheckResult::NotRun,
                CrossCheckState::NotAsked,
                "was not used",
            ),
        ] {
            let check = CrossCheck::from_verdict(&verdict);
            assert_eq!(check.state, state, "{verdict:?}");
            assert!(check.sentence.contains(words), "{check:?}");
            assert!(!check.sentence.contains("hunter"), "{check:?}");
        }
    }
}
