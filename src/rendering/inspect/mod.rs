//! Answers to questions about the environments of a workspace, written without a model: the list, the rendered objects
//! of one, its differences from the base, the importers of a file, and the risks. [`crate::rendering::compare`] does the work. Chats
//! and the terminal give the same answers, and the tools of a model share their texts.
//!
//! No answer contains a secret: values of `Secret`s are hidden, and all text is redacted.

mod environment_choice;
mod cross_check;
mod difference;
mod environments;
mod importers;
mod learning;
mod objects;
mod risks;
#[cfg(test)]
mod tests;

pub use cross_check::{CrossCheck, CrossCheckState};
pub use difference::checks;
pub use environments::list_environments;
pub use learning::{list_and_learn, render_and_learn};
pub use objects::{EnvironmentView, environment_view};

use crate::base::redact::Redactor;
use crate::rendering::compare::{self, BrokenEnvironment, CompareError, Comparer, Sides};
use crate::rendering::jsonnet::EvalError;
use crate::rendering::tanka::{Renderer, TankaError};
use crate::state::workspace::{Tree, Workspace};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// A question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// The list of environments, with marks for those that the workspace changes.
    Environments,
    /// The rendered objects of an environment.
    Objects {
        /// The directory of the environment, a file in it, its name, or the last components of either.
        environment: String,
    },
    /// The differences between an environment's objects and those of the base.
    Difference {
        /// The environment, named as in [`Question::Objects`].
        environment: String,
    },
    /// The differences of all environments.
    AllDifferences,
    /// The entry points that depend on a file or on anything in a directory.
    Importers {
        /// The file or directory.
        path: String,
    },
    /// The risks of the workspace's changes.
    Risks,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InspectAnswer {
    /// Sentences and short lines.
    pub summary: String,
    /// The full text, if it is longer.
    pub document: Option<AnswerDocument>,
    /// The environments that fail, and the positions of the failures, for a terminal.
    pub broken: Vec<BrokenEnvironment>,
}

/// A text of any length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnswerDocument {
    /// The file name, such as `environments-dev.yaml`.
    pub file_name: String,
    /// The language: `yaml`, `diff` or empty.
    pub language: &'static str,
    /// The lines.
    pub text: String,
}

/// A reason why there is no answer.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum InspectError {
    /// The caller cancelled the question.
    #[error("stopped")]
    Cancelled,
    /// The answer for a person if nothing matches or nothing renders.
    #[error("{0}")]
    NoAnswer(String),
    /// A program fails.
    #[error("{why}")]
    Fails {
        /// The message for the person.
        why: String,
        /// The position of the failure, for a terminal.
        broken: BrokenEnvironment,
    },
}

impl From<TankaError> for InspectError {
    fn from(error: TankaError) -> Self {
        match error {
            TankaError::Evaluation(EvalError::Cancelled) => Self::Cancelled,
            TankaError::NoRoot => Self::NoAnswer(format!("There are {}.", compare::NO_ENVIRONMENTS)),
            error => Self::NoAnswer(compare::reason(&error)),
        }
    }
}

impl From<CompareError> for InspectError {
    fn from(error: CompareError) -> Self {
        match error {
            CompareError::Cancelled => Self::Cancelled,
            CompareError::Tanka(error) => error.into(),
            other => Self::NoAnswer(other.to_string()),
        }
    }
}

/// Answers questions about one workspace.
#[derive(Clone, Copy)]
pub struct Inspector<'a> {
    /// The files and their history.
    pub workspace: &'a Workspace,
    /// The comparer, which renders and compares.
    pub comparer: &'a Arc<Comparer>,
    /// Cancels the work.
    pub cancel: &'a CancellationToken,
}

impl Inspector<'_> {
    /// Answers one question. Every text in the answer or the error is redacted.
    pub async fn answer(&self, question: &Question) -> Result<InspectAnswer, InspectError> {
        let answer = tokio::select! {
            biased;
            () = self.cancel.cancelled() => Err(InspectError::Cancelled),
            answer = self.answer_unredacted(question) => answer,
        };
        let redactor = &self.workspace.guard.redactor;
        let redacted = |text: String| redactor.redact(&text).into_owned();
        match answer {
            Ok(answer) => Ok(InspectAnswer {
                summary: redacted(answer.summary),
                document: answer.document.map(|document| AnswerDocument {
                    text: redacted(document.text),
                    ..document
                }),
                broken: answer.broken,
            }),
            Err(InspectError::NoAnswer(why)) => Err(InspectError::NoAnswer(redacted(why))),
            Err(InspectError::Fails { why, broken }) => Err(InspectError::Fails {
                why: redacted(why),
                broken,
            }),
            Err(InspectError::Cancelled) => Err(InspectError::Cancelled),
        }
    }

    async fn answer_unredacted(&self, question: &Question) -> Result<InspectAnswer, InspectError> {
        match question {
            Question::Environments => self.environments().await,
            Question::Objects { environment } => self.objects(environment).await,
            Question::Difference { environment } => self.difference(environment).await,
            Question::AllDifferences => self.all_differences().await,
            Question::Importers { path } => self.importers(path).await,
            Question::Risks => self.risks().await,
        }
    }

    fn renderer(&self) -> Renderer {
        let tree: Arc<dyn Tree> = self.workspace.guarded_tree();
        self.comparer.renderer(&tree)
    }

    /// Returns the base and the workspace. Reads files.
    async fn sides(&self) -> Result<Sides, InspectError> {
        let workspace = self.workspace.clone();
        blocking(move || Ok(Sides::from_workspace(&workspace)?)).await
    }
}

impl InspectAnswer {
    fn only(summary: impl Into<String>) -> Self {
        Self {
            summary: summary.into(),
            document: None,
            broken: Vec::new(),
        }
    }
}

/// Builds a file name from the name of an environment or a path, without secrets, separators and shell characters.
fn file_name(name: &str, extension: &str, redactor: &Redactor) -> String {
    const NAME_CHARS_MAX: usize = 100;
    let name = redactor.redact(name);
    let plain = |character: char| match character {
        character if character.is_ascii_alphanumeric() => character,
        '.' | '_' | '-' => character,
        _ => '-',
    };
    let name: String = name.chars().take(NAME_CHARS_MAX).map(plain).collect();
    match name.trim_matches(['-', '.']) {
        "" => format!("environment.{extension}"),
        name => format!("{name}.{extension}"),
    }
}

/// Runs work that may block, such as reading a tree.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, InspectError> + Send + 'static,
) -> Result<T, InspectError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => Err(InspectError::NoAnswer(format!(
            "an internal error occurred while the files were read: {error}"
        ))),
    }
}
