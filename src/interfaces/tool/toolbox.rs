//! The tools of a conversation, and the first phase of a call: it checks that the tool exists and may be used, and
//! that the arguments are JSON. Every problem becomes an answer to the model.

use super::adapter::ToolBody as _;
use super::nearest::nearest;
use super::read_output::ReadOutput;
use super::{Tool, ToolError, schema};
use crate::base::model::{Effect, ToolCall, group_thousands};
use crate::interfaces::provider::ToolSpec;
use crate::state::access::{Identity, Role};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A set of tools with their specifications, built once and sorted by name, so that a model always gets the same
/// bytes.
#[derive(Clone)]
pub struct Toolbox {
    tools: Vec<Arc<dyn Tool>>,
    specs: Vec<ToolSpec>,
    /// The tools that the identity may not use, with their effects.
    withheld: BTreeMap<&'static str, Effect>,
}

/// A call that is ready to run.
pub struct PreparedCall {
    /// The tool.
    pub tool: Arc<dyn Tool>,
    /// The arguments as JSON; the tool checks them against its schema.
    pub arguments: Value,
}

impl std::fmt::Debug for PreparedCall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Prepared")
            .field("tool", &self.tool.spec().name)
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Toolbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

/// The reason why a tool must not be offered. The program does not start with such a tool.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ToolboxError {
    /// Two tools have the same name.
    #[error("two tools are called `{0}`")]
    Duplicate(&'static str),
    /// The name has other characters than `a-z`, `0-9` and `_`, which all model APIs accept.
    #[error("`{0}` is not a name for a tool")]
    Name(&'static str),
    /// Some model APIs do not accept the schema.
    #[error("the schema of `{tool}` is malformed: {why}")]
    Schema {
        /// The tool.
        tool: &'static str,
        /// The problem of the schema.
        why: String,
    },
}

impl Toolbox {
    /// Builds a toolbox and checks the tools' specifications.
    pub fn new(mut tools: Vec<Arc<dyn Tool>>) -> Result<Self, ToolboxError> {
        tools.sort_by_key(|tool| tool.spec().name);
        let specs: Vec<ToolSpec> = tools.iter().map(|tool| tool.spec()).collect();
        let mut names = BTreeSet::new();
        for spec in &specs {
            check(spec)?;
            if !names.insert(spec.name) {
                return Err(ToolboxError::Duplicate(spec.name));
            }
        }
        Ok(Self {
            tools,
            specs,
            withheld: BTreeMap::new(),
        })
    }

    /// Returns the tools that an identity may use in a repository: none without a role, and read-only tools for
    /// viewers.
    pub fn for_identity(&self, identity: &Identity, repository: &str) -> Self {
        let role = identity.role(repository);
        let (offered, withheld): (Vec<_>, Vec<_>) = self
            .tools
            .iter()
            .zip(&self.specs)
            .partition(|(tool, _)| role.is_some_and(|role| allows(role, tool.effect())));
        let (tools, specs) = offered
            .into_iter()
            .map(|(tool, spec)| (Arc::clone(tool), spec.clone()))
            .unzip();
        Self {
            tools,
            specs,
            withheld: withheld
                .into_iter()
                .map(|(tool, spec)| (spec.name, tool.effect()))
                .collect(),
        }
    }

    /// Returns the toolbox with one more tool, for every person.
    pub fn with(&self, tool: Arc<dyn Tool>) -> Result<Self, ToolboxError> {
        let spec = tool.spec();
        check(&spec)?;
        let Err(place) = self.place(spec.name) else {
            return Err(ToolboxError::Duplicate(spec.name));
        };
        let (mut tools, mut specs) = (self.tools.clone(), self.specs.clone());
        tools.insert(place, tool);
        specs.insert(place, spec);
        Ok(Self {
            tools,
            specs,
            withheld: self.withheld.clone(),
        })
    }

    /// Returns the toolbox with one more tool, if an identity may use it in a repository.
    pub fn with_permitted(
        &self,
        tool: Arc<dyn Tool>,
        identity: &Identity,
        repository: &str,
    ) -> Result<Self, ToolboxError> {
        if is_permitted(identity, repository, tool.effect()) {
            return self.with(tool);
        }
        let mut withheld = self.withheld.clone();
        withheld.insert(tool.spec().name, tool.effect());
        Ok(Self {
            tools: self.tools.clone(),
            specs: self.specs.clone(),
            withheld,
        })
    }

    /// Returns the tools that only read.
    pub fn reading(&self) -> Result<Self, ToolboxError> {
        let reading = self.tools.iter().filter(|tool| tool.effect() == Effect::Read);
        Self::new(reading.cloned().collect())
    }

    /// Returns the tools of a list, with `read_output`, which only reads results of the same conversation.
    pub fn limited_to(&self, names: &BTreeSet<String>) -> Result<Self, ToolboxError> {
        let listed = self.tools.iter().filter(|tool| {
            let name = tool.spec().name;
            name == ReadOutput::NAME || names.contains(name)
        });
        Self::new(listed.cloned().collect())
    }

    /// Returns the specifications for the model, sorted by name.
    pub fn specs(&self) -> &[ToolSpec] {
        &self.specs
    }

    /// Returns the tool with exactly this name.
    pub fn find(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.tools.get(self.place(name).ok()?)
    }

    /// Returns the index of the tool with this name, or the index at which it would be.
    fn place(&self, name: &str) -> Result<usize, usize> {
        self.specs.binary_search_by(|spec| spec.name.cmp(name))
    }

    /// Prepares a call of the model. An `Err` is [`ToolError::Malformed`] or [`ToolError::Refused`], never fatal, and
    /// its text says what would work.
    pub fn prepare(&self, call: &ToolCall, arguments_bytes_max: usize) -> Result<PreparedCall, ToolError> {
        let Some(tool) = self.find(&call.name) else {
            return Err(self.no_such_tool(&call.name));
        };
        let bytes = call.arguments.text().len();
        if bytes > arguments_bytes_max {
            return Err(ToolError::Malformed(format!(
                "{}: the arguments have {} bytes; the limit is {}; do it in smaller steps",
                call.name,
                group_thousands(bytes as u64),
                group_thousands(arguments_bytes_max as u64)
            )));
        }
        Ok(PreparedCall {
            tool: Arc::clone(tool),
            arguments: value_of(call)?.clone(),
        })
    }

    fn no_such_tool(&self, name: &str) -> ToolError {
        if let Some(effect) = self.withheld.get(name) {
            let does = match effect {
                Effect::Notify => "writes to other people",
                Effect::Read | Effect::WriteWorkspace | Effect::Execute => "changes files",
            };
            return ToolError::Refused {
                answer: format!(
                    "`{name}` is not available to this person in this repository; available: {}",
                    self.listed()
                ),
                why: format!("you are a viewer here, and `{name}` {does}"),
            };
        }
        let shown: String = super::invisible::show(&name.chars().take(64).collect::<String>());
        let meant = match nearest(name, self.names()) {
            Some(meant) => format!(", did you mean `{meant}`?"),
            None => ";".to_owned(),
        };
        ToolError::Malformed(format!("no tool `{shown}`{meant} available: {}", self.listed()))
    }

    /// Returns the names of the tools, sorted.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.specs.iter().map(|spec| spec.name)
    }

    fn listed(&self) -> String {
        let names: Vec<String> = self.names().map(|name| format!("`{name}`")).collect();
        if names.is_empty() {
            "none".to_owned()
        } else {
            names.join(", ")
        }
    }
}

/// Returns the value of the arguments.
fn value_of(call: &ToolCall) -> Result<&Value, ToolError> {
    call.arguments.value().map_err(|err| {
        ToolError::Malformed(format!("{}: the arguments are not valid JSON: {err}", call.name))
    })
}

/// Returns true if the current role of an identity in a repository permits an effect.
pub(crate) fn is_permitted(identity: &Identity, repository: &str, effect: Effect) -> bool {
    identity.role(repository).is_some_and(|role| allows(role, effect))
}

fn allows(role: Role, effect: Effect) -> bool {
    match effect {
        Effect::Read => role >= Role::Viewer,
        Effect::WriteWorkspace | Effect::Execute | Effect::Notify => role >= Role::Editor,
    }
}

fn check(spec: &ToolSpec) -> Result<(), ToolboxError> {
    const NAME_BYTES_MAX: usize = 64;
    let is_name = spec.name.starts_with(|first: char| first.is_ascii_lowercase())
        && spec.name.len() <= NAME_BYTES_MAX
        && spec
            .name
            .bytes()
            .all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_'));
    if !is_name {
        return Err(ToolboxError::Name(spec.name));
    }
    schema::check(&spec.schema).map_err(|why| ToolboxError::Schema { tool: spec.name, why })
}

#[cfg(test)]
mod tests;
