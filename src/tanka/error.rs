//! The errors of finding, loading and rendering an environment. Messages that Tanka has are worded as there, because people search for
//! them.

use crate::jsonnet::EvalError;
use crate::jsonnet::yaml::{GoYamlVersion, document};
use crate::model::{PathError, one_line, quoted};
use crate::workspace::TreeError;
use serde_json::Value;
use std::collections::BTreeMap;

/// The reason an environment cannot be found, loaded or rendered.
#[derive(Debug, thiserror::Error)]
pub enum TankaError {
    /// No directory above has a marker of a project.
    #[error(
        "unable to identify the project root.\nTried to find 'tkrc.yaml' or 'jsonnetfile.json' in the parent directories.\nPlease refer to https://tanka.dev/directory-structure for more information"
    )]
    NoRoot,
    /// No directory above has the file an environment starts with.
    #[error(
        "Unable to identify the environments base directory.\nTried to find '{file}' in the parent directories.\nPlease refer to https://tanka.dev/directory-structure for more information"
    )]
    NoBase {
        /// The file that was looked for.
        file: String,
    },
    /// The path is not one inside the repository.
    #[error(transparent)]
    Path(#[from] PathError),
    /// The tree could not be read.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// An environment's settings are malformed.
    #[error("parsing {}: {why}", quoted(.path))]
    Spec {
        /// The file, or the environment that is written inline.
        path: String,
        /// The reason.
        why: String,
    },
    /// The Jsonnet program has no value.
    #[error("evaluating jsonnet: {0}")]
    Evaluation(#[from] EvalError),
    /// The value is no JSON that can be worked on: it nests too deeply.
    #[error("the value of the program cannot be used: {0}")]
    Value(String),
    /// A value that is no Kubernetes object, where one was expected.
    #[error(
        "{}found invalid Kubernetes object (at {at}): {reason}\n\n{}",
        extracting(.environment.as_deref()), containing(.object.as_deref())
    )]
    Primitive {
        /// The environment, once it is known.
        environment: Option<String>,
        /// The path of the value: `.a.[0].b`.
        at: String,
        /// The attribute the nearest object lacks.
        reason: PrimitiveReason,
        /// The nearest object; `None` when the whole value is none.
        object: Option<Box<Value>>,
    },
    /// A Kubernetes object without what every object needs.
    #[error(
        "{}{at} has missing or invalid fields:\n{}\nPlease check below object:\n{}",
        extracting(.environment.as_deref()), listed(.fields), indented(.object)
    )]
    Schema {
        /// The environment, once it is known.
        environment: Option<String>,
        /// The path of the object.
        at: String,
        /// The mistakes, by field.
        fields: BTreeMap<String, String>,
        /// The object.
        object: Box<Value>,
    },
    /// Both ways of writing an environment are used for one.
    #[error(
        "found a tanka Environment resource. Check that you aren't using a spec.json and inline environments simultaneously"
    )]
    BothKinds,
    /// A file has several environments, and none was named.
    #[error(
        "found multiple Environments in {path:?}. Use `--name` to select a single one: \n - {}",
        one_each(.names)
    )]
    Ambiguous {
        /// The path that was searched.
        path: String,
        /// The names of all, sorted.
        names: Vec<String>,
    },
    /// Several environments of a file have the name in theirs.
    #[error(
        "found multiple Environments in {path:?} matching {name:?}. Provide a more specific name that matches a single one: \n - {}",
        one_each(.names)
    )]
    AmbiguousName {
        /// The path that was searched.
        path: String,
        /// The name that was asked for.
        name: String,
        /// The names of all that match, sorted.
        names: Vec<String>,
    },
    /// No environment, or none of that name.
    #[error("found no matching environments; run 'drydock tanka env list {path}' to view available options")]
    NoMatch {
        /// The path that was searched.
        path: String,
    },
    /// The given text is neither a path of the tree nor the name of an environment.
    #[error(
        "found no matching environments; run 'drydock tanka env list .' to view available options.\n{}",
        not_found_message(.path)
    )]
    NotFound {
        /// The given path or name.
        path: String,
    },
    /// The environment asks for another version of Tanka than the one that is followed here.
    #[error(
        "current version '{current}' does not satisfy the version required by the environment: '{expected}'. You likely need to use another version of Tanka"
    )]
    Version {
        /// The version whose behaviour this is.
        current: &'static str,
        /// The version the environment expects.
        expected: String,
    },
    /// The expected version is no constraint.
    #[error("parsing version constraint: '{0}' is not a constraint such as `>=0.20.0`")]
    VersionConstraint(String),
    /// The label that marks an environment's objects needs a field that is not there.
    #[error("`spec.tankaEnvLabelFromFields`: the environment has no text at `{0}`")]
    LabelField(String),
    /// A target is no regular expression.
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
    /// A name that cannot be passed to a Jsonnet function.
    #[error("`{0}` is not the name of a top-level argument")]
    ArgumentName(String),
    /// A failure of Drydock itself.
    #[error("rendering broke down: {0}")]
    Internal(String),
}

/// The reason a value is not taken for a Kubernetes object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PrimitiveReason {
    /// One of `apiVersion` and `kind` is missing.
    #[error("missing attribute {0:?}")]
    Missing(&'static str),
    /// One of the two attributes is no text.
    #[error("attribute {attribute:?} is not a string, it is a {kind}")]
    NotText {
        /// The attribute.
        attribute: &'static str,
        /// The type it has instead, as Go calls it.
        kind: &'static str,
    },
    /// One of the two attributes is empty.
    #[error("attribute {0:?} is empty")]
    Empty(&'static str),
    /// No object at all.
    #[error("%!s(<nil>)")]
    NoObject,
}

impl TankaError {
    /// An error of one environment, when the same was found elsewhere under no name.
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

/// Says of a path or name that nothing is there.
pub(crate) fn not_found_message(path: &str) -> String {
    format!(
        "{} is not in the repository, neither as a path nor as the name of an environment. Chats see what is committed and the changes to it, without what git ignores",
        quoted(path)
    )
}

/// Names below each other, a line each.
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
