//! Tools: the functions that an agent may call. A tool has a specification, checks its own arguments and works on one
//! workspace. `CONTRIBUTING.md` describes how to add one.

// The tools.
mod ask_user;
mod charts;
mod conclude;
mod file_delete;
mod file_edit;
mod file_list;
mod file_read;
mod file_search;
mod file_write;
mod function_tool;
mod get_step_result;
mod git_diff;
mod git_log;
mod git_show;
mod git_status;
mod keep_note;
mod packages;
mod read_output;
mod send_user_message;
mod tanka_diff;
mod tanka_find_environments;
mod tanka_format_jsonnet;
mod tanka_show;
mod tanka_validate_jsonnet;
// The code that they share.
mod arguments;
#[cfg(test)]
mod calls;
mod comparing;
mod write_policy;
mod line_budget;
mod history;
mod invisible;
#[cfg(test)]
mod malformed_calls;
mod nearest;
mod outputs;
mod pattern;
mod rendering;
mod schema;
#[cfg(test)]
pub(crate) mod testing;
mod text;
mod toolbox;
mod adapter;

pub use ask_user::{ask_user, question_of_call};
pub use conclude::{CONCLUDE, Conclusion, conclude};
pub use function_tool::function_tool;
pub use get_step_result::get_step_result;
pub use git_diff::diff_for_model;
pub use git_log::commit_lines;
pub use keep_note::{keep_note, kept_note};
pub use outputs::{MemoryOutputs, OUTPUTS_BYTES_MAX, Outputs};
pub use send_user_message::{message_of_call, send_user_message};
pub(crate) use toolbox::is_permitted;
pub use toolbox::{PreparedCall, Toolbox, ToolboxError};

use crate::base::model::Effect;
use crate::interfaces::provider::ToolSpec;
use crate::rendering::bundler::Fetch;
use crate::rendering::compare::Comparer;
use crate::rendering::helm::Helm;
use crate::rendering::jsonnet::FairSlots;
use crate::rendering::tanka::Evaluate;
use crate::state::access::Identity;
use crate::state::download::DownloadObserver;
use crate::state::workspace::Workspace;
use adapter::ToolAdapter;
use async_trait::async_trait;
use serde_json::Value;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The number of concurrent calls that may hold large files or large trees; further ones get places in turn, by user.
const LARGE_AT_ONCE: usize = 4;
/// The number of concurrent calls that may download; further ones get places in turn, by user.
const DOWNLOADS_AT_ONCE: usize = 4;

/// The context of a call.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The turn's private copy of the repository's files.
    pub workspace: &'a Workspace,
    /// The identity on whose behalf the call is made. Grants are checked at every write, not only when tools are
    /// offered.
    pub identity: &'a Identity,
    /// The total number of files that the turn may write or delete.
    pub files_changed_max: usize,
    /// The total number of lines that the turn may add and remove.
    pub lines_changed_max: u64,
    /// The number of environments whose own files may differ from the base; 0 means no limit.
    pub environments_changed_max: usize,
    /// Fires when the turn is stopped, and when it runs out of time.
    pub cancel: &'a CancellationToken,
    /// Counts the active writes.
    pub writers: &'a TaskTracker,
    /// The observer of the call's downloads, which gets progress reports. Ends with the turn.
    pub watch: &'a DownloadObserver,
    /// The outputs of the conversation.
    pub outputs: &'a Arc<dyn Outputs>,
    /// The number of bytes of a result that are shown to the model.
    pub output_bytes_max: usize,
}

/// The failure of a call.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// The call failed. The model reads the message, which says what would work, and continues.
    #[error("{0}")]
    Failed(String),
    /// The arguments do not match the schema. The model reads the message as well.
    #[error("{0}")]
    Malformed(String),
    /// The call is forbidden by a grant, a role, a budget or a rule, whatever its arguments.
    #[error("{answer}")]
    Refused {
        /// The text that the model reads: the reason, and what would work.
        answer: String,
        /// The reason, as reported to users.
        why: String,
    },
    /// An internal error, which ends the turn.
    #[error(transparent)]
    Fatal(anyhow::Error),
}

impl ToolError {
    /// Creates a refusal with the same text for users and for the model.
    pub(crate) fn refused(why: impl Into<String>) -> Self {
        let why = why.into();
        Self::Refused {
            answer: why.clone(),
            why,
        }
    }

    /// Creates a refusal with advice for the model.
    pub(crate) fn refused_with_advice(why: impl Into<String>, instead: &str) -> Self {
        let why = why.into();
        Self::Refused {
            answer: format!("{why}{instead}"),
            why,
        }
    }
}

/// A tool that an agent may call.
#[async_trait]
pub trait Tool: Send + Sync {
    /// Returns the specification that the model gets.
    fn spec(&self) -> ToolSpec;

    /// Returns the effect that a call may have. Only [`Effect::Read`] calls run in parallel.
    fn effect(&self) -> Effect;

    /// Returns the argument that tells people what a call is about, such as its path. The arguments are as the model
    /// wrote them, so it may be missing.
    fn subject<'a>(&self, arguments: &'a Value) -> Option<&'a str> {
        let _ = arguments;
        None
    }

    /// Returns arguments of calls, as JSON, for a repository like that of the demo.
    fn examples(&self) -> &'static [&'static str] {
        &[]
    }

    /// Returns the terminal command with the same function, such as `jb list`, if there is one.
    fn command(&self) -> Option<&'static str> {
        None
    }

    /// Checks arguments as a call does, without a call.
    fn check(&self, arguments: Value) -> Result<(), ToolError> {
        let _ = arguments;
        Ok(())
    }

    /// Runs one call.
    async fn call(&self, cx: Context<'_>, arguments: Value) -> Result<String, ToolError>;
}

/// The services that tools use in addition to the files of a workspace.
#[derive(Clone)]
pub struct ToolServices {
    /// The source of Jsonnet packages.
    pub packages: Arc<dyn Fetch>,
    /// The evaluator of Jsonnet programs.
    pub evaluator: Arc<dyn Evaluate>,
    /// The comparer of a workspace with its base.
    pub comparer: Arc<Comparer>,
    /// The operator's helm, if configured.
    pub helm: Option<Arc<Helm>>,
}

/// Returns every tool, in a fixed order.
pub fn all(services: &ToolServices) -> Vec<Arc<dyn Tool>> {
    let downloads = FairSlots::new(DOWNLOADS_AT_ONCE);
    let mut tools = workspace_tools();
    tools.extend(packages::all(&services.packages, &downloads));
    tools.extend(charts::all(services.helm.as_ref(), &downloads));
    tools.extend(rendering(&services.evaluator));
    tools.extend(comparing(&services.comparer));
    tools
}

/// Returns the tools that need only a workspace, in a fixed order.
pub fn workspace_tools() -> Vec<Arc<dyn Tool>> {
    let large = FairSlots::new(LARGE_AT_ONCE);
    vec![
        Arc::new(ToolAdapter::<file_delete::FileDelete>::new()),
        Arc::new(ToolAdapter::<file_edit::FileEdit>::new()),
        Arc::new(ToolAdapter::<file_list::FileList>::new()),
        Arc::new(ToolAdapter::<file_read::FileRead>::new()),
        Arc::new(ToolAdapter::<file_search::FileSearch>::new().limited_by(&large)),
        Arc::new(ToolAdapter::<file_write::FileWrite>::new()),
        Arc::new(ToolAdapter::<git_diff::GitDiff>::new()),
        Arc::new(ToolAdapter::<git_log::GitLog>::new()),
        Arc::new(ToolAdapter::<git_show::GitShow>::new().limited_by(&large)),
        Arc::new(ToolAdapter::<git_status::GitStatus>::new()),
        Arc::new(ToolAdapter::<read_output::ReadOutput>::new()),
        Arc::new(ToolAdapter::<tanka_format_jsonnet::FormatJsonnet>::new().limited_by(&large)),
    ]
}

/// Returns the tools that render environments, in a fixed order.
fn rendering(evaluator: &Arc<dyn Evaluate>) -> Vec<Arc<dyn Tool>> {
    use tanka_find_environments::TankaFindEnvironments;
    use tanka_show::TankaShow;
    let context = || rendering::RenderingContext::with(evaluator);
    vec![
        Arc::new(ToolAdapter::<TankaFindEnvironments>::with_context(context())),
        Arc::new(ToolAdapter::<TankaShow>::with_context(context())),
    ]
}

/// Returns the tools that compare, in a fixed order.
fn comparing(comparer: &Arc<Comparer>) -> Vec<Arc<dyn Tool>> {
    use tanka_diff::TankaDiff;
    use tanka_validate_jsonnet::ValidateJsonnet;
    let context = || comparing::ComparingContext::with(comparer);
    vec![
        Arc::new(ToolAdapter::<TankaDiff>::with_context(context())),
        Arc::new(ToolAdapter::<ValidateJsonnet>::with_context(context())),
    ]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::testing::all_tools;
    use super::{Tool, Toolbox};
    use crate::base::model::Effect;
    use crate::interfaces::provider::ToolSpec;
    use serde_json::json;
    use std::collections::BTreeSet;

    /// TK-1, TK-24, TK-25, TK-37, TK-43, TK-83, TK-86, REP-5, REP-1
    #[test]
    fn every_tool_keeps_the_contract() {
        let mut names = BTreeSet::new();
        for tool in all_tools() {
            let spec = tool.spec();
            assert!(names.insert(spec.name), "{} is given twice", spec.name);
            assert_eq!(spec, tool.spec(), "{}: a spec never changes", spec.name);
            let sentences = spec.description.matches(". ").count() + 1;
            assert!(
                spec.description.ends_with('.') && sentences <= 2,
                "{}",
                spec.description
            );
            assert!(spec.schema.to_string().len() < 2_000, "{}", spec.name);
            for (parameter, schema) in spec.schema["properties"].as_object().unwrap() {
                let description = schema["description"].as_str().unwrap();
                assert!(
                    description.ends_with('.'),
                    "{} {parameter}: {description}",
                    spec.name
                );
            }
            assert_subject_is_shown(&*tool);
            assert!(!tool.examples().is_empty(), "{} has no example", spec.name);
            for example in tool.examples() {
                let arguments = serde_json::from_str(example).unwrap();
                let checked = tool.check(arguments).map_err(|err| err.to_string());
                assert_eq!(checked, Ok(()), "{example}");
            }
            assert_ne!(spec.name, "tanka_apply");
            assert_ne!(
                tool.effect(),
                Effect::Execute,
                "{} may run any command",
                spec.name
            );
            if spec.name.starts_with("git_") || spec.name.starts_with("tanka_") {
                assert_eq!(tool.effect(), Effect::Read, "{}", spec.name);
            }
        }
        Toolbox::new(all_tools()).unwrap();
    }

    /// Asserts that people see what a call is about: one of the texts that the tool requires, or its only one.
    fn assert_subject_is_shown(tool: &dyn Tool) {
        let ToolSpec { name, schema, .. } = tool.spec();
        let properties = schema["properties"].as_object().unwrap();
        let texts = properties
            .iter()
            .filter(|(_, property)| property["type"] == "string");
        let texts: Vec<&str> = texts.map(|(parameter, _)| parameter.as_str()).collect();
        let given = |parameter: &&str| serde_json::Value::from(format!("a {parameter}"));
        let arguments = texts
            .iter()
            .map(|parameter| ((*parameter).to_owned(), given(parameter)));
        let arguments = serde_json::Value::Object(arguments.collect());
        let Some(subject) = tool.subject(&arguments) else {
            assert_eq!(texts, Vec::<&str>::new(), "{name} has texts and no subject");
            return;
        };
        let parameter = subject.strip_prefix("a ").unwrap();
        let required = schema["required"].as_array();
        let is_required = |required: &Vec<serde_json::Value>| required.iter().any(|name| name == parameter);
        assert!(
            texts == [parameter] || required.is_some_and(is_required),
            "{name}: {parameter}"
        );
    }

    /// TK-27, TK-28, TK-29, TK-30, TK-31, TK-35, TK-36, TK-38, TK-39, TK-40, TK-41, TK-44, TK-45, TK-46, TK-47, TK-49, REP-1
    #[test]
    fn parameters_defaults_and_bounds_are_as_promised() {
        let mut promised = BTreeSet::new();
        for tool in all_tools() {
            let ToolSpec { name, schema, .. } = tool.spec();
            let mut properties = schema["properties"].clone();
            for property in properties.as_object_mut().unwrap().values_mut() {
                property.as_object_mut().unwrap().remove("description");
            }
            let promise = json!({
                "effect": tool.effect(),
                "properties": properties,
                "required": schema["required"],
            });
            insta::assert_snapshot!(name, format!("{promise:#}"));
            let module = module_path!().replace("::", "__");
            promised.insert(format!("{module}__{name}.snap"));
        }
        // A promise without its tool is broken as well.
        let snapshots = concat!(env!("CARGO_MANIFEST_DIR"), "/src/interfaces/tool/snapshots");
        let files = std::fs::read_dir(snapshots).unwrap();
        let files = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        assert_eq!(files.collect::<BTreeSet<_>>(), promised);
    }
}
