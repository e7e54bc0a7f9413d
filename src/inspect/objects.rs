//! The objects an environment renders to, with the values of `Secret`s hidden.

use super::learning::rendered;
use super::{Answer, CrossCheck, Document, InspectError, Inspector, chosen, file_name};
use crate::compare::{self, Broken};
use crate::jsonnet::{SecondOpinionWanted, yaml};
use crate::model::{counted, one_line, quoted};
use crate::redact::Redactor;
use crate::review::Masker;
use crate::tanka::{Filter, Object, Rendered, TankaError, Target};
use crate::workspace::Tree;
use serde_json::Value;
use std::sync::Arc;

/// A rendered environment as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// The name, and the number of objects.
    pub heading: String,
    /// The result of the cross-check by a second engine.
    pub cross_check: String,
    /// Hints to write something differently.
    pub warnings: Vec<String>,
    /// The objects.
    pub yaml: String,
}

impl Inspector<'_> {
    pub(super) async fn objects(&self, environment: &str) -> Result<Answer, InspectError> {
        let tree = self.workspace.guarded();
        let renderer = self.comparer.renderer(&(Arc::clone(&tree) as Arc<dyn Tree>));
        let target = Target {
            second_opinion: SecondOpinionWanted::Yes,
            ..chosen::chosen(&renderer, environment, self.cancel).await?
        };
        let everything = Filter::default();
        let rendered = match rendered(&renderer, &tree, &target, &everything, self.cancel).await {
            Ok(rendered) => rendered,
            Err(TankaError::Ambiguous { path, names }) => return Err(several(&path, &names)),
            Err(error) => return Err(fails(environment, error, &tree.guard().redactor)),
        };
        let Shown {
            heading,
            cross_check,
            warnings,
            yaml,
        } = shown(&rendered);
        let lines = [format!("{heading}."), cross_check].into_iter().chain(warnings);
        Ok(Answer {
            summary: lines.collect::<Vec<_>>().join("\n"),
            document: (!yaml.is_empty()).then(|| Document {
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
    let environment = chosen::plain(environment);
    let why = compare::redacted_reason(&error, redactor);
    let broken = Broken::by(environment, &error, redactor);
    if let InspectError::Cancelled = InspectError::from(error) {
        return InspectError::Cancelled;
    }
    let why = format!("{} does not render: {why}", quoted(environment));
    match broken {
        Some(broken) => InspectError::Fails { why, broken },
        None => InspectError::Told(why),
    }
}

/// Words the error for a file that holds several environments, of which one has to be named.
fn several(path: &str, names: &[String]) -> InspectError {
    const NAMES_MAX: usize = 10;
    let shown: Vec<String> = names.iter().take(NAMES_MAX).map(|name| quoted(name)).collect();
    let more = match names.len().saturating_sub(NAMES_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    InspectError::Told(format!(
        "{} holds several environments: {}{more}. Name one of them.",
        quoted(path),
        shown.join(", ")
    ))
}

/// A rendered environment without the values of `Secret`s; their names stay.
pub fn shown(rendered: &Rendered) -> Shown {
    let objects = rendered.objects.iter();
    let documents: Vec<String> = objects
        .map(|object| yaml::readable(&without_secrets(object)))
        .collect();
    Shown {
        heading: format!(
            "{}: {}",
            quoted(&rendered.environment.metadata.name),
            counted(rendered.objects.len(), "object", "objects")
        ),
        cross_check: CrossCheck::of(&rendered.second_opinion).sentence,
        warnings: rendered
            .warnings
            .iter()
            .map(|warning| one_line(warning))
            .collect(),
        yaml: documents.join("---\n"),
    }
}

/// An object as it is shown. It may be a `Secret`, hold some in lists and templates, or carry a copy of one in
/// an annotation.
fn without_secrets(object: &Object) -> Value {
    let mut value = object.value.clone();
    Masker::hiding().mask(&mut value);
    value
}
