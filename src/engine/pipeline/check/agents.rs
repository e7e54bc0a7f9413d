//! The checks of agent steps: a model, known tools and servers, and permissions for them.

use super::{DefinitionChecker, KnownValues};
use crate::engine::pipeline::STEP_TIME_MAX;
use crate::engine::pipeline::definition::{
    AgentSettings, AgentStep, Identifier, McpServer, McpTransport, PipelineDefinition, ServerChoice,
    StepTool, ToolName,
};
use crate::engine::pipeline::problem::name_hint;
use std::collections::{BTreeMap, BTreeSet};

impl DefinitionChecker<'_> {
    pub(super) fn agent(
        &mut self,
        at: &str,
        agent: &AgentStep,
        pipeline: &PipelineDefinition,
        known: &KnownValues<'_>,
    ) {
        self.values(&format!("{at}.params"), &agent.params, known);
        self.environment_values(at, &agent.settings, known);
        self.agent_settings(at, &agent.settings);
        self.environments(&format!("{at}.permissions"), &agent.permissions);
        let models = [&agent.settings, &pipeline.defaults, &self.file.defaults];
        if models.iter().all(|settings| settings.model.is_none()) {
            let why = "is required, as provider/model; set it here, or in `defaults` of the pipeline or of the file";
            self.problem(&format!("{at}.model"), why);
        }
        self.tools(at, agent, pipeline);
        self.servers(at, agent, pipeline);
    }

    /// Checks settings on their own, at any level.
    pub(super) fn agent_settings(&mut self, at: &str, settings: &AgentSettings) {
        self.time(&format!("{at}.timeout"), settings.timeout, STEP_TIME_MAX);
    }

    fn tools(&mut self, at: &str, agent: &AgentStep, pipeline: &PipelineDefinition) {
        let own = agent.tools.iter().filter_map(|choice| match choice {
            StepTool::Named(_) => None,
            StepTool::Inline(tool) => Some(tool.name.as_str()),
        });
        let defined = pipeline.tools.keys().chain(self.file.tools.keys());
        let mut names: BTreeSet<&str> = own.chain(defined.map(Identifier::as_str)).collect();
        names.extend(self.operator.tools.iter().map(String::as_str));
        let mut used = BTreeSet::new();
        for (index, choice) in agent.tools.iter().enumerate() {
            let at = format!("{at}.tools[{index}]");
            let name = match choice {
                StepTool::Named(name) => name.as_str(),
                StepTool::Inline(tool) => tool.name.as_str(),
            };
            if !used.insert(name) {
                self.problem(&at, format!("{name} is listed twice; keep one of them"));
            }
            if let StepTool::Inline(_) = choice {
                self.own_tool(&at, name);
            }
            if !names.contains(name) {
                let hint = name_hint(name, names.iter().copied());
                self.problem(&at, format!("there is no tool {name}{hint}"));
                continue;
            }
            let levels = [
                ("the file", &self.file.permissions.tools),
                ("the pipeline", &pipeline.permissions.tools),
                ("the step", &agent.permissions.tools),
            ];
            for (level, allowed) in levels {
                let is_refused = |allowed: &Vec<ToolName>| !allowed.iter().any(|tool| tool.as_str() == name);
                if allowed.as_ref().is_some_and(is_refused) {
                    self.problem(&at, format!("permissions.tools of {level} does not list {name}"));
                }
            }
            if let Some(allowed) = self
                .operator
                .server
                .as_ref()
                .and_then(|server| server.pipelines.tools.as_ref())
                && !allowed.iter().any(|tool| tool == name)
            {
                let why =
                    format!("the server does not allow {name}; its operator lists it in pipelines.tools");
                self.problem(&at, why);
            }
        }
    }

    /// Checks the names of the tools of a pipeline or the file.
    pub(super) fn own_tools<'t>(&mut self, at: &str, names: impl Iterator<Item = &'t Identifier>) {
        for name in names {
            self.own_tool(&format!("{at}.{name}"), name.as_str());
        }
    }

    /// Refuses a tool with the name of one of Drydock: an operator who allows that one allows nothing else.
    fn own_tool(&mut self, at: &str, name: &str) {
        if self.operator.tools.contains(name) {
            self.problem(
                at,
                format!("{name} is a tool of Drydock; give this one another name"),
            );
        }
    }

    fn servers(&mut self, at: &str, agent: &AgentStep, pipeline: &PipelineDefinition) {
        let defined = pipeline.mcp_servers.keys().chain(self.file.mcp_servers.keys());
        let names: BTreeSet<&str> = defined.map(Identifier::as_str).collect();
        for (index, choice) in agent.mcp_servers.iter().enumerate() {
            let at = format!("{at}.mcp_servers[{index}]");
            match choice {
                ServerChoice::Inline(server) => self.mcp_server(&at, server),
                ServerChoice::Named(name) if names.contains(name.as_str()) => {}
                ServerChoice::Named(name) => {
                    let hint = name_hint(name.as_str(), names.iter().copied());
                    self.problem(&at, format!("there is no MCP server {name}{hint}"));
                }
            }
        }
    }

    pub(super) fn mcp_servers(&mut self, at: &str, servers: &BTreeMap<Identifier, McpServer>) {
        for (name, server) in servers {
            self.mcp_server(&format!("{at}.{name}"), server);
        }
    }

    fn mcp_server(&mut self, at: &str, server: &McpServer) {
        let (needed, has_needed, others) = match server.transport {
            McpTransport::Http => {
                let others = [
                    ("command", server.command.is_some()),
                    ("args", !server.args.is_empty()),
                    ("env", !server.env.is_empty()),
                ];
                ("url", server.url.is_some(), others)
            }
            McpTransport::Stdio => {
                let others = [
                    ("url", server.url.is_some()),
                    ("auth", server.auth.is_some()),
                    ("", false),
                ];
                ("command", server.command.is_some(), others)
            }
        };
        let word = match server.transport {
            McpTransport::Http => "http",
            McpTransport::Stdio => "stdio",
        };
        if !has_needed {
            self.problem(
                &format!("{at}.{needed}"),
                format!("is required for the type {word}"),
            );
        }
        for (key, _) in others.iter().filter(|(_, is_set)| *is_set) {
            self.problem(&format!("{at}.{key}"), format!("is not for the type {word}"));
        }
    }
}
