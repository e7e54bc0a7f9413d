//! The errors of finding, loading and rendering an environment. Messages that also exist in Tanka keep its wording,
//! because people search for them.

use crate::base::model::{PathError, one_line, quoted};
use crate::rendering::jsonnet::EvalError;
use crate::rendering::jsonnet::yaml::{GoYamlVersion, document};
use crate::state::workspace::TreeError;
use serde_json::Value;
use std::collections::BTreeMap;

/// A reason why an environment cannot be found, loaded or rendered.
#[derive(Debug, thiserror::Error)]
pub enum TankaError {
    /// No parent directory contains a project marker.
    #[error(
        "unable to identify the project root.\nTried to find 'tkrc.yaml' or 'jsonnetfile.json' in the parent directories.\nPlease refer to https://tanka.dev/directory-structure for more information"
    )]
    NoRoot,
    /// No parent directory contains the entry point of an environment.
    #[error(
        "Unable to identify the environments base directory.\nTried to find '{file}' in the parent directories.\nPlease refer to https://tanka.dev/directory-structure for more information"
    )]
    NoBase {
        /// The name of the missing file.
        file: String,
    },
    /// The path is outside the repository.
    #[error(transparent)]
    Path(#[from] PathError),
    /// The tree could not be read.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// The settings of an environment are malformed.
    #[error("parsing {}: {why}", quoted(.path))]
    Spec {
        /// The file, or the name of the inline environment.
        path: String,
        /// The reason.
        why: String,
    },
    /// The evaluation of the Jsonnet program failed.
    #[error("evaluating jsonnet: {0}")]
    Evaluation(#[from] EvalError),
    /// The value is nested too deeply to process.
    #[error("the value of the program cannot be used: {0}")]
    Value(String),
    /// A value is not a Kubernetes object where one was expected.
    #[error(
        "{}found invalid Kubernetes object (at {at}): {reason}\n\n{}",
        extracting(.environment.as_deref()), containing(.object.as_deref())
    )]
    Primitive {
        /// The environment, if it is known.
        environment: Option<String>,
        /// The path of the value, such as `.a.[0].b`.
        at: String,
        /// The attribute that the nearest object lacks.
        reason: PrimitiveReason,
        /// The nearest object; `None` if the whole value contains none.
        object: Option<Box<Value>>,
    },
    /// A Kubernetes object lacks required fields.
    #[error(
        "{}{at} has missing or invalid fields:\n{}\nPlease check below object:\n{}",
        extracting(.environment.as_deref()), listed(.fields), indented(.object)
    )]
    Schema {
        /// The environment, if it is known.
        environment: Option<String>,
        /// The path of the object.
        at: String,
        /// The errors by field.
        fields: BTreeMap<String, String>,
        /// The object.
        object: Box<Value>,
    },
    /// An environment has both a `spec.json` and an inline definition.
    #[error(
        "found a tanka Environment resource. Check that you aren't using a spec.json and inline environments simultaneously"
    )]
    BothKinds,
    /// A file defines several environments, and no name was given.
    #[error(
        "found multiple Environments in {path:?}. Use `--name` to select a single one: \n - {}",
        one_each(.names)
    )]
    Ambiguous {
        /// The searched path.
        path: String,
        /// The names of all environments, sorted.
        names: Vec<String>,
    },
    /// Several environments of a file have names that contain the given name.
    #[error(
        "found multiple Environments in {path:?} matching {name:?}. Provide a more specific name that matches a single one: \n - {}",
        one_each(.names)
    )]
    AmbiguousName {
        /// The searched path.
        path: String,
        /// The given name.
        name: String,
        /// The names of all matches, sorted.
        names: Vec<String>,
    },
    /// A file defines no environment, or none with the given name.
    #[error("found no matching environments; run 'drydock tanka env list {path}' to view available options")]
    NoMatch {
        /// The searched path.
        path: String,
    },
    /// The given text is neither a path in the tree nor the name of an environment.
    #[error(
        "found no matching environments; run 'drydock tanka env list .' to view available options.\n{}",
        not_found_message(.path)
    )]
    NotFound {
        /// The given path or name.
        path: String,
    },
    /// The environment requires another version of Tanka than the one implemented here.
    #[error(
        "current version '{current}' does not satisfy the version required by the environment: '{expected}'. You likely need to use another version of Tanka"
    )]
    Version {
        /// The Tanka version implemented here.
        current: &'static str,
        /// The version that the environment expects.
        expected: String,
    },
    /// The expected version is not a valid constraint.
    #[error("parsing version constraint: '{0}' is not a constraint such as `>=0.20.0`")]
    VersionConstraint(String),
    /// The environment label needs a field that does not exist.
    #[error("`spec.tankaEnvLabelFromFields`: the environment has no text at `{0}`")]
    LabelField(String),
    /// A target is not a valid regular expression.
    #[error(
        "`{target}` is not a regular expression: {why}.\nSee https://tanka.dev/output-filtering/#regular-expressions for details on regular expressions."
    )]
    Filter {
        /// The given expression.
        target: String,
        /// The reason.
        why: String,
    },
    /// A label selector is malformed.
    #[error("`{selector}` is not a label selector: {why}")]
    Selector {
        /// The given selector.
        selector: String,
        /// The reason.
        why: String,
    },
    /// A name cannot be passed to a Jsonnet function.
    #[error("`{0}` is not the name of a top-level argument")]
    ArgumentName(String),
    /// An internal failure of Drydock.
    #[error("rendering ended with an internal error: {0}")]
    Internal(String),
}

/// The reason why a value is not a Kubernetes object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PrimitiveReason {
    /// `apiVersion` or `kind` is missing.
    #[error("missing attribute {0:?}")]
    Missing(&'static str),
    /// `apiVersion` or `kind` is not a string.
    #[error("attribute {attribute:?} is not a string, it is a {kind}")]
    NotText {
        /// The attribute.
        attribute: &'static str,
        /// The Go name of its actual type.
        kind: &'static str,
    },
    /// `apiVersion` or `kind` is empty.
    #[error("attribute {0:?} is empty")]
    Empty(&'static str),
    /// The value is not an object.
    #[error("%!s(<nil>)")]
    NoObject,
}

impl TankaError {
    /// Adds the name of the environment to an error without one.
    pub(super) fn in_environment(self, name: &str) -> Self {
        match self {
            Self::Primitive {
                at, reason, object, ..
            } => Self::Primitive {
                environment: Some(name.to_owned()),
                at,
                reason,
                object,
            },
            Self::Schema {
                at, fields, object, ..
            } => Self::Schema {
                environment: Some(name.to_owned()),
                at,
                fields,
                object,
            },
            other => other,
        }
    }
}

/// Returns the message that nothing exists at a path or under a name.
pub(crate) fn not_found_message(path: &str) -> String {
    format!(
        "{} is not in the repository, neither as a path nor as the name of an environment.",
        quoted(path)
    )
}

/// Formats names as a list with one name per line.
fn one_each(names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| one_line(name)).collect();
    names.join("\n - ")
}

fn extracting(environment: Option<&str>) -> String {
    environment.map_or_else(String::new, |name| {
        format!("got an error while extracting env {}: ", quoted(name))
    })
}

fn containing(object: Option<&Value>) -> String {
    object.map_or_else(|| "{}\n".to_owned(), |object| document(GoYamlVersion::V3, object))
}

fn listed(fields: &BTreeMap<String, String>) -> String {
    fields
        .iter()
        .map(|(field, why)| format!("  - {field}: {why}\n"))
        .collect()
}

fn indented(object: &Value) -> String {
    let text = document(GoYamlVersion::V2, object);
    let lines: Vec<String> = text.lines().map(|line| format!("  {line}")).collect();
    lines.join("\n")
}
