//! Answers to questions about the environments of a workspace, without a model: which there are, what
//! one renders to, how it differs from the base, what imports a file, and what may go wrong. The same
//! answers in chats and in the terminal; the tools of a model share their texts.
//!
//! No answer holds a secret: values of `Secret`s are hidden, and all text is redacted.

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

use crate::compare::{self, BrokenEnvironment, CompareError, Comparer, Sides};
use crate::jsonnet::EvalError;
use crate::redact::Redactor;
use crate::tanka::{Renderer, TankaError};
use crate::workspace::{Tree, Workspace};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// A question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// The list of environments, with those that the workspace changes.
    Environments,
    /// The objects an environment renders to.
    Objects {
        /// The environment's directory, a file in it, its name, or the last components of either.
        environment: String,
    },
    /// The differences of an environment's objects from the base.
    Difference {
        /// The environment, named as in [`Question::Objects`].
        environment: String,
    },
    /// The entry points that depend on a file or on anything in a directory.
    Importers {
        /// The file or directory.
        path: String,
    },
    /// The risks of what the workspace changes.
    Risks,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InspectAnswer {
    /// Sentences and short lines.
    pub summary: String,
    /// The whole of it, where that is more.
    pub document: Option<AnswerDocument>,
    /// The environments that it says of that they fail, and where, for a terminal.
    pub broken: Vec<BrokenEnvironment>,
}

/// A text of any length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnswerDocument {
    /// The name of the file: `environments-dev.yaml`.
    pub file_name: String,
    /// `yaml`, `diff` or empty.
    pub language: &'static str,
    /// The lines.
    pub text: String,
}

/// A reason why there is no answer.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum InspectError {
    /// The caller did not want to wait any longer.
    #[error("stopped")]
    Cancelled,
    /// The words for the person: nothing of the kind is there, or it does not render.
    #[error("{0}")]
    NoAnswer(String),
    /// The words for the person about a program that fails.
    #[error("{why}")]
    Fails {
        /// The words for the person.
        why: String,
        /// The place at which it fails, for a terminal.
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

/// The workspace that is looked at, and the means to do so.
#[derive(Clone, Copy)]
pub struct Inspector<'a> {
    /// The files, and what they were.
    pub workspace: &'a Workspace,
    /// Renders and compares.
    pub comparer: &'a Arc<Comparer>,
    /// Ends it.
    pub cancel: &'a CancellationToken,
}

impl Inspector<'_> {
    /// Answers one question. Every text of it, and of an error, is redacted.
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
            Question::Importers { path } => self.importers(path).await,
            Question::Risks => self.risks().await,
        }
    }

    fn renderer(&self) -> Renderer {
        let tree: Arc<dyn Tree> = self.workspace.guarded_tree();
        self.comparer.renderer(&tree)
    }

    /// The base and the workspace. Reads files.
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

/// A file named after an environment or a path: no secret, no separators, nothing a shell would read.
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

/// Reading trees may block.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, InspectError> + Send + 'static,
) -> Result<T, InspectError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => Err(InspectError::NoAnswer(format!(
            "looking at the files broke down: {error}"
        ))),
    }
}
