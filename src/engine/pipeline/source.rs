//! The file of a repository that defines its pipelines. A server reads it from the base commit of its trusted branch
//! only; an edit of the file is shown like any other, and never used.

use super::check::{self, OperatorLimits};
use super::definition::PipelineFile;
use super::document::{DocumentValue, from_json, from_yaml};
use super::problem::{DefinitionError, DefinitionProblem, FoundProblems};
use super::{FILE_BYTES_MAX, structure};
use crate::base::model::RepoPath;
use crate::rendering::jsonnet::{
    CrossCheckMode, CrossCheckResult, EntryPoint, EvalError, EvalRequest, Evaluation,
};
use crate::rendering::tanka::Evaluate;
use crate::state::workspace::{Tree, TreeError};
use bytes::Bytes;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// The file in YAML.
pub const YAML_FILE: &str = ".drydock/pipelines.yaml";
/// The program whose value is the file.
pub const JSONNET_FILE: &str = ".drydock/pipelines.jsonnet";
/// The directories in which imports of the program are searched, the last one first.
const LIBRARIES: [&str; 2] = ["vendor", "lib"];

/// The pipelines of a repository, without problems.
#[derive(Clone, Debug)]
pub struct LoadedPipelines {
    /// The path of the file.
    pub path: &'static str,
    /// The definitions.
    pub file: PipelineFile,
    document: DocumentValue,
}

impl LoadedPipelines {
    /// Returns the line of a key, such as `pipelines.review.steps[0]`; `None` if the file is a program.
    pub fn line(&self, key: &str) -> Option<u32> {
        self.document.line_at(key)
    }

    /// Reads the pipelines of a YAML text.
    pub fn from_yaml(text: &[u8], operator: &OperatorLimits) -> Result<Self, DefinitionError> {
        let text = std::str::from_utf8(text)
            .map_err(|_| DefinitionError::whole_file(YAML_FILE, "is not UTF-8 text; save it as UTF-8"))?;
        let mut problems = FoundProblems::default();
        let document = from_yaml(text, &mut problems);
        Self::checked(YAML_FILE, document, problems, operator)
    }

    /// Reads the pipelines of the value of a program.
    pub fn from_value(value: Value, operator: &OperatorLimits) -> Result<Self, DefinitionError> {
        let mut problems = FoundProblems::default();
        let document = from_json(value, &mut problems);
        Self::checked(JSONNET_FILE, document, problems, operator)
    }

    /// Reads the pipelines of a tree; `None` if it has no file of them. A program runs in the sandbox.
    pub async fn read(
        tree: Arc<dyn Tree>,
        evaluator: &dyn Evaluate,
        operator: &OperatorLimits,
        cancel: &CancellationToken,
    ) -> Result<Option<Self>, DefinitionError> {
        let yaml = content(tree.as_ref(), YAML_FILE)?;
        let program = content(tree.as_ref(), JSONNET_FILE)?;
        match (yaml, program) {
            (None, None) => Ok(None),
            (Some(_), Some(_)) => {
                let why = format!("{JSONNET_FILE} exists as well; keep one of them");
                Err(DefinitionError::whole_file(YAML_FILE, why))
            }
            (Some(text), None) => Self::from_yaml(&text, operator).map(Some),
            (None, Some(_)) => {
                let value = evaluated(tree, evaluator, cancel).await?;
                Self::from_value(value, operator).map(Some)
            }
        }
    }

    fn checked(
        path: &'static str,
        document: Option<DocumentValue>,
        mut problems: FoundProblems,
        operator: &OperatorLimits,
    ) -> Result<Self, DefinitionError> {
        let Some(document) = document else {
            problems.finish(path)?;
            return Err(DefinitionError::whole_file(path, "cannot be read"));
        };
        let value = structure::checked(&document, &mut problems);
        // A value that does not fit its schema has no type, so nothing more can be checked.
        problems.finish(path)?;
        let file = PipelineFile::from_json(value).map_err(|why| DefinitionError::whole_file(path, why))?;
        let mut problems = FoundProblems::default();
        check::check(&file, &document, operator, &mut problems);
        problems.finish(path)?;
        Ok(Self { path, file, document })
    }
}

/// Returns the content of a file; `None` if there is none.
fn content(tree: &dyn Tree, path: &str) -> Result<Option<Bytes>, DefinitionError> {
    let refused = |why: String| DefinitionError::whole_file(path, why);
    let name = RepoPath::parse(path).map_err(|error| refused(error.to_string()))?;
    let content = match tree.read(&name) {
        Ok(version) => version.content,
        Err(TreeError::NotFound { .. }) => return Ok(None),
        Err(error) => return Err(refused(error.to_string())),
    };
    if content.len() > FILE_BYTES_MAX {
        return Err(refused(super::document::too_large()));
    }
    Ok(Some(content))
}

/// Returns the value of the program. Both engines must agree on it, because runs rely on it.
async fn evaluated(
    tree: Arc<dyn Tree>,
    evaluator: &dyn Evaluate,
    cancel: &CancellationToken,
) -> Result<Value, DefinitionError> {
    let refused = |why: String| DefinitionError::whole_file(JSONNET_FILE, why);
    let entry = RepoPath::parse(JSONNET_FILE).map_err(|error| refused(error.to_string()))?;
    let request = EvalRequest {
        tree,
        entry: EntryPoint::File(entry),
        jpath: LIBRARIES.map(str::to_owned).to_vec(),
        ext_code: BTreeMap::new(),
        tla_code: BTreeMap::new(),
        max_stack: 0,
        cross_check: CrossCheckMode::On,
    };
    let Evaluation {
        json, cross_check, ..
    } = match evaluator.evaluate(request, cancel).await {
        Ok(evaluation) => evaluation,
        Err(error) => return Err(failed(&error)),
    };
    match cross_check {
        CrossCheckResult::Agrees | CrossCheckResult::NotRun => {}
        CrossCheckResult::Differs { path, .. } => {
            let path: String = path.chars().take(200).collect();
            return Err(refused(format!(
                "two evaluators disagree about {path}; write this value in another way"
            )));
        }
        CrossCheckResult::Failed(error) => {
            return Err(refused(format!(
                "the second evaluator failed: {}",
                shortened(&error)
            )));
        }
    }
    if json.len() > FILE_BYTES_MAX {
        return Err(refused(super::document::too_large()));
    }
    serde_json::from_slice(&json).map_err(|_| refused("has no value in JSON".to_owned()))
}

fn failed(error: &EvalError) -> DefinitionError {
    let line = match error {
        EvalError::Syntax { path, line, .. } if path == JSONNET_FILE => u32::try_from(*line).ok(),
        _ => None,
    };
    let problem = DefinitionProblem {
        line,
        key: String::new(),
        message: format!("cannot be evaluated: {}", shortened(error)),
    };
    DefinitionError {
        file: JSONNET_FILE.to_owned(),
        problems: vec![problem],
    }
}

/// Returns the first line of an error.
fn shortened(error: &EvalError) -> String {
    const SHOWN_CHARS_MAX: usize = 500;
    let text = error.to_string();
    let first = text.lines().next().unwrap_or_default();
    first.chars().take(SHOWN_CHARS_MAX).collect()
}
