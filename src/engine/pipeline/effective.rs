//! The effective values of a pipeline, each with its source. The innermost definition wins: step, pipeline, file, then
//! the default. Permissions are the intersection of all levels, and a budget is at most that of the server.

mod values;

pub use values::{
    EffectiveAgent, EffectiveBudget, EffectivePermissions, EffectivePipeline, EffectiveStep, LimitedBy,
    Sourced, ValueSource,
};

use super::check::OperatorLimits;
use super::definition::{
    AgentSettings, AgentStep, ContainerTool, ImageName, McpServer, PipelineDefinition, PipelineFile,
    PipelineName, PipelinePermissions, PipelineValue, ServerChoice, StepRef, StepTool, StepWork, TimeLimit,
    VariableName,
};
use std::collections::BTreeMap;

/// Returns the effective values of a pipeline; `None` if the file has none of this name.
pub fn effective<'a>(
    file: &'a PipelineFile,
    name: &str,
    operator: &OperatorLimits,
) -> Option<EffectivePipeline<'a>> {
    let definition = file.pipelines.get(name)?;
    let levels = Levels {
        file,
        pipeline: definition,
        at: format!("pipelines.{name}"),
        operator,
    };
    let mut previous = None;
    let mut steps = Vec::new();
    for (index, step) in definition.steps.iter().enumerate() {
        let key = format!("{}.steps[{index}]", levels.at);
        let inner = step.parallel().iter().enumerate();
        let inner: Vec<_> = inner
            .map(|(index, inner)| {
                levels.step(
                    format!("{key}.parallel[{index}]"),
                    inner.borrowed(),
                    previous.as_ref(),
                )
            })
            .collect();
        let outer = levels.step(key, step.borrowed(), previous.as_ref());
        steps.push(outer);
        steps.extend(inner);
        // The image of a group is that of its last step that has one.
        previous = steps.iter().rev().find_map(image_of).or(previous);
    }
    Some(EffectivePipeline {
        definition,
        budget: levels.budget(),
        permissions: levels.permissions(None),
        programs: operator.settings().programs.into_keys().collect(),
        steps,
        key: levels.at,
    })
}

/// The defaults of agent steps.
const DEFAULT_STEPS: u32 = 20;
const DEFAULT_HEAD_BYTES: u32 = 4_096;
const DEFAULT_TAIL_BYTES: u32 = 61_440;
const DEFAULT_TIME: TimeLimit = TimeLimit::from_seconds(600);

/// An image, and the step that has it.
type StepImage = (String, ImageName);

fn image_of(step: &EffectiveStep<'_>) -> Option<StepImage> {
    let image = match (&step.agent, step.step.work) {
        (Some(agent), _) => agent.image.as_ref().map(|image| image.value.clone()),
        (None, Some(StepWork::Task(task))) => task.image.clone(),
        _ => None,
    };
    Some((step.step.name.to_string(), image?))
}

struct Levels<'a, 'o> {
    file: &'a PipelineFile,
    pipeline: &'a PipelineDefinition,
    /// The key of the pipeline.
    at: String,
    operator: &'o OperatorLimits,
}

impl<'a> Levels<'a, '_> {
    fn step(&self, key: String, step: StepRef<'a>, previous: Option<&StepImage>) -> EffectiveStep<'a> {
        let agent = match step.work {
            Some(StepWork::Agent(agent)) => Some(self.agent(&format!("{key}.agent"), agent, previous)),
            _ => None,
        };
        EffectiveStep { key, step, agent }
    }

    fn agent(&self, at: &str, agent: &AgentStep, previous: Option<&StepImage>) -> EffectiveAgent {
        let settings = AgentLevels {
            step: (at, &agent.settings),
            pipeline: (&self.at, &self.pipeline.defaults),
            file: &self.file.defaults,
        };
        let permissions = self.permissions(Some((at, &agent.permissions)));
        let image = settings.innermost("image", |settings| settings.image.clone());
        let inherited = previous.map(|(step, image)| Sourced {
            value: image.clone(),
            source: ValueSource::PreviousStep(step.clone()),
        });
        EffectiveAgent {
            model: settings.innermost("model", |settings| settings.model.clone()),
            image: image.or(inherited),
            base_url: settings.innermost("base_url", |settings| settings.base_url.clone()),
            env: settings.env(),
            workspace: settings.or("workspace", |settings| settings.workspace, false),
            max_steps: settings.or("max_steps", |settings| settings.max_steps, DEFAULT_STEPS),
            max_tokens: settings.or("max_tokens", |settings| settings.max_tokens, 0),
            truncate_head: settings.or(
                "truncate_head",
                |settings| settings.truncate_head,
                DEFAULT_HEAD_BYTES,
            ),
            truncate_tail: settings.or(
                "truncate_tail",
                |settings| settings.truncate_tail,
                DEFAULT_TAIL_BYTES,
            ),
            timeout: settings.or("timeout", |settings| settings.timeout, DEFAULT_TIME),
            tools: self.tools(at, agent, &permissions),
            mcp_servers: self.servers(at, agent),
            permissions,
        }
    }

    /// Returns the listed tools, or else all tools of Drydock, without those that are not permitted.
    fn tools(
        &self,
        at: &str,
        agent: &AgentStep,
        permissions: &EffectivePermissions,
    ) -> BTreeMap<String, Sourced<Option<ContainerTool>>> {
        let mut tools = BTreeMap::new();
        for (index, choice) in agent.tools.iter().enumerate() {
            let (name, tool) = match choice {
                StepTool::Named(name) => (name.as_str(), self.named_tool(name.as_str())),
                StepTool::Inline(tool) => {
                    let source = ValueSource::Step(format!("{at}.tools[{index}]"));
                    let value = Some(tool.tool.clone());
                    (tool.name.as_str(), Some(Sourced { value, source }))
                }
            };
            tools.extend(tool.map(|tool| (name.to_owned(), tool)));
        }
        if agent.tools.is_empty() {
            let built_in = self.operator.tools.iter();
            tools.extend(built_in.filter_map(|name| Some((name.clone(), self.named_tool(name)?))));
        }
        if let Some(allowed) = &permissions.tools.limit {
            tools.retain(|name, _| allowed.contains(name));
        }
        tools
    }

    /// Returns the innermost tool of a name: of the pipeline, the file, or Drydock.
    fn named_tool(&self, name: &str) -> Option<Sourced<Option<ContainerTool>>> {
        let defined = |tool: &ContainerTool, source| {
            let value = Some(tool.clone());
            Some(Sourced { value, source })
        };
        if let Some(tool) = self.pipeline.tools.get(name) {
            return defined(tool, ValueSource::Pipeline(format!("{}.tools.{name}", self.at)));
        }
        if let Some(tool) = self.file.tools.get(name) {
            return defined(tool, ValueSource::File(format!("tools.{name}")));
        }
        self.operator.tools.contains(name).then_some(Sourced {
            value: None,
            source: ValueSource::BuiltIn,
        })
    }

    fn servers(&self, at: &str, agent: &AgentStep) -> Vec<Sourced<McpServer>> {
        let servers = agent
            .mcp_servers
            .iter()
            .enumerate()
            .filter_map(|(index, choice)| match choice {
                ServerChoice::Inline(server) => Some(Sourced {
                    value: server.clone(),
                    source: ValueSource::Step(format!("{at}.mcp_servers[{index}]")),
                }),
                ServerChoice::Named(name) => {
                    let key = format!("mcp_servers.{name}");
                    let of_pipeline = self.pipeline.mcp_servers.get(name);
                    let of_pipeline = of_pipeline
                        .map(|server| (server, ValueSource::Pipeline(format!("{}.{key}", self.at))));
                    let of_file = || {
                        self.file
                            .mcp_servers
                            .get(name)
                            .map(|server| (server, ValueSource::File(key.clone())))
                    };
                    let (server, source) = of_pipeline.or_else(of_file)?;
                    Some(Sourced {
                        value: server.clone(),
                        source,
                    })
                }
            });
        servers.collect()
    }

    fn budget(&self) -> EffectiveBudget {
        let own = &self.pipeline.budget;
        let settings = self.operator.settings();
        let source = |key: &str| ValueSource::Pipeline(format!("{}.budget.{key}", self.at));
        let run_time_max = TimeLimit::from_seconds(settings.run_time_max.as_secs());
        EffectiveBudget {
            max_steps: smaller(
                own.max_steps,
                source("max_steps"),
                settings.run_steps_max,
                "pipelines.run_steps_max",
            ),
            max_tokens: bounded(
                own.max_tokens,
                source("max_tokens"),
                settings.run_tokens_max,
                "pipelines.run_tokens_max",
            ),
            max_cents: bounded(
                own.max_cents,
                source("max_cents"),
                settings.run_cents_max,
                "pipelines.run_cents_max",
            ),
            timeout: smaller(
                own.timeout,
                source("timeout"),
                run_time_max,
                "pipelines.run_seconds_max",
            ),
        }
    }

    fn permissions(&self, step: Option<(&str, &PipelinePermissions)>) -> EffectivePermissions {
        let mut all = EffectivePermissions::default();
        if let Some(operator) = &self.operator.server {
            let settings = &operator.pipelines;
            let texts = |list: &Vec<String>| list.iter().cloned().collect();
            all.tools.intersect(
                settings.tools.as_ref().map(texts),
                ValueSource::Server("pipelines.tools"),
            );
            all.replies.intersect(
                Some(texts(&settings.reply_targets)),
                ValueSource::Server("pipelines.reply_targets"),
            );
        }
        let of_file = |key: &str| ValueSource::File(format!("permissions.{key}"));
        all.intersect(&self.file.permissions, of_file);
        all.intersect(&self.pipeline.permissions, |key| {
            ValueSource::Pipeline(format!("{}.permissions.{key}", self.at))
        });
        if let Some((at, permissions)) = step {
            all.intersect(permissions, |key| {
                ValueSource::Step(format!("{at}.permissions.{key}"))
            });
        }
        all
    }
}

/// The settings of an agent step at each level, with their keys.
struct AgentLevels<'a> {
    step: (&'a str, &'a AgentSettings),
    pipeline: (&'a str, &'a AgentSettings),
    file: &'a AgentSettings,
}

impl AgentLevels<'_> {
    fn innermost<T>(&self, key: &str, get: fn(&AgentSettings) -> Option<T>) -> Option<Sourced<T>> {
        let of_step = || {
            Some((
                get(self.step.1)?,
                ValueSource::Step(format!("{}.{key}", self.step.0)),
            ))
        };
        let of_pipeline = || {
            let key = format!("{}.defaults.{key}", self.pipeline.0);
            Some((get(self.pipeline.1)?, ValueSource::Pipeline(key)))
        };
        let of_file = || Some((get(self.file)?, ValueSource::File(format!("defaults.{key}"))));
        let found = of_step().or_else(of_pipeline).or_else(of_file);
        found.map(|(value, source)| Sourced { value, source })
    }

    fn or<T>(&self, key: &str, get: fn(&AgentSettings) -> Option<T>, default: T) -> Sourced<T> {
        self.innermost(key, get).unwrap_or(Sourced {
            value: default,
            source: ValueSource::BuiltIn,
        })
    }

    /// Joins the variables of all levels.
    fn env(&self) -> BTreeMap<VariableName, Sourced<PipelineValue>> {
        let mut env = BTreeMap::new();
        let mut add = |settings: &AgentSettings, source: &dyn Fn(&VariableName) -> ValueSource| {
            for (name, value) in &settings.env {
                let source = source(name);
                env.insert(
                    name.clone(),
                    Sourced {
                        value: value.clone(),
                        source,
                    },
                );
            }
        };
        add(self.file, &|name| {
            ValueSource::File(format!("defaults.env.{name}"))
        });
        add(self.pipeline.1, &|name| {
            ValueSource::Pipeline(format!("{}.defaults.env.{name}", self.pipeline.0))
        });
        add(self.step.1, &|name| {
            ValueSource::Step(format!("{}.env.{name}", self.step.0))
        });
        env
    }
}

/// Returns the smaller of two bounds.
fn smaller<T: PartialOrd>(own: Option<T>, source: ValueSource, server: T, key: &'static str) -> Sourced<T> {
    match own {
        Some(value) if value <= server => Sourced { value, source },
        _ => Sourced {
            value: server,
            source: ValueSource::Server(key),
        },
    }
}

/// Returns the smaller of two bounds, where 0 of the server means none.
fn bounded(own: Option<u64>, source: ValueSource, server: u64, key: &'static str) -> Sourced<u64> {
    match own {
        Some(value) if server == 0 => Sourced { value, source },
        own => smaller(own, source, server, key),
    }
}

/// Returns the name of a pipeline that a misspelt one probably means.
pub fn similar_pipeline<'a>(file: &'a PipelineFile, name: &str) -> Option<&'a str> {
    super::problem::similar_name(name, file.pipelines.keys().map(PipelineName::as_str))
}
