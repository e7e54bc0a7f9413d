//! The rendered objects of an environment, with the values of `Secret`s hidden.

use super::learning::render_and_learn;
use super::{
    AnswerDocument, CrossCheck, InspectAnswer, InspectError, Inspector, environment_choice, file_name,
};
use crate::base::model::{one_line, pluralize, quoted};
use crate::base::redact::Redactor;
use crate::rendering::compare::{self, BrokenEnvironment};
use crate::rendering::jsonnet::{CrossCheckMode, yaml};
use crate::rendering::review::Masker;
use crate::rendering::tanka::{Filter, Object, RenderedEnvironment, TankaError, Target};
use crate::state::workspace::Tree;
use serde_json::Value;
use std::sync::Arc;

/// The displayed form of a rendered environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnvironmentView {
    /// The name and the number of objects.
    pub heading: String,
    /// The result of the cross-check.
    pub cross_check: String,
    /// Warnings about deprecated or questionable text.
    pub warnings: Vec<String>,
    /// The objects as YAML.
    pub yaml: String,
}

impl Inspector<'_> {
    pub(super) async fn objects(&self, environment: &str) -> Result<InspectAnswer, InspectError> {
        let tree = self.workspace.guarded_tree();
        let renderer = self.comparer.renderer(&(Arc::clone(&tree) as Arc<dyn Tree>));
        let target = Target {
            cross_check: CrossCheckMode::On,
            ..environment_choice::choose_environment(&renderer, environment, self.cancel).await?
        };
        let everything = Filter::default();
        let rendered = match render_and_learn(&renderer, &tree, &target, &everything, self.cancel).await {
            Ok(rendered) => rendered,
            Err(TankaError::Ambiguous { path, names }) => return Err(several_environments(&path, &names)),
            Err(error) => return Err(fails(environment, error, &tree.guard().redactor)),
        };
        let EnvironmentView {
            heading,
            cross_check,
            warnings,
            yaml,
        } = environment_view(&rendered);
        let lines = [format!("{heading}."), cross_check].into_iter().chain(warnings);
        Ok(InspectAnswer {
            summary: lines.collect::<Vec<_>>().join("\n"),
            document: (!yaml.is_empty()).then(|| AnswerDocument {
                file_name: file_name(
                    &rendered.environment.metadata.name,
                    "yaml",
                    &tree.guard().redactor,
                ),
                language: "yaml",
                text: yaml,
            }),
            broken: Vec::new(),
        })
    }
}

fn fails(environment: &str, error: TankaError, redactor: &Redactor) -> InspectError {
    let environment = environment_choice::strip_code_marks(environment);
    let why = compare::redacted_reason(&error, redactor);
    let broken = BrokenEnvironment::from_error(environment, &error, redactor);
    if let InspectError::Cancelled = InspectError::from(error) {
        return InspectError::Cancelled;
    }
    let why = format!("{} does not render: {why}", quoted(environment));
    match broken {
        Some(broken) => InspectError::Fails { why, broken },
        None => InspectError::NoAnswer(why),
    }
}

/// Returns the error for a file with several environments, one of which must be named.
fn several_environments(path: &str, names: &[String]) -> InspectError {
    const NAMES_MAX: usize = 10;
    let shown: Vec<String> = names.iter().take(NAMES_MAX).map(|name| quoted(name)).collect();
    let more = match names.len().saturating_sub(NAMES_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    InspectError::NoAnswer(format!(
        "{} holds several environments: {}{more}. Name one of them.",
        quoted(path),
        shown.join(", ")
    ))
}

/// Returns a rendered environment without the values of `Secret`s. Their names are kept.
pub fn environment_view(rendered: &RenderedEnvironment) -> EnvironmentView {
    let objects = rendered.objects.iter();
    let documents: Vec<String> = objects
        .map(|object| yaml::readable(&without_secrets(object)))
        .collect();
    EnvironmentView {
        heading: format!(
            "{}: {}",
            quoted(&rendered.environment.metadata.name),
            pluralize(rendered.objects.len(), "object", "objects")
        ),
        cross_check: CrossCheck::from_verdict(&rendered.cross_check).sentence,
        warnings: rendered
            .warnings
            .iter()
            .map(|warning| one_line(warning))
            .collect(),
        yaml: documents.join("---\n"),
    }
}

/// Returns an object without secret values. It may be a `Secret`, contain some in lists and templates, or have a
/// copy of one in an annotation.
fn without_secrets(object: &Object) -> Value {
    let mut value = object.value.clone();
    Masker::with_hidden_marks().mask(&mut value);
    value
}
