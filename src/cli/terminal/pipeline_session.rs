//! The agent steps of a pipeline at a terminal. Each has a conversation, a model, limits and tools of its own, and all of
//! them edit the same files.

use super::checking::{ChangeCheck, CheckedChange};
use super::kept_calls::KeptCalls;
use super::opening::system;
use super::session_model::SessionModel;
use super::{CommonTerminalOptions, SessionStart, Terminal, TerminalOptions, results};
use crate::base::config::Config;
use crate::base::model::{AgentBounds, BudgetBound, Budgets, History, Limits, Money, StepSpending};
use crate::base::redact::Redactor;
use crate::base::spool::Spool;
use crate::cli::output::Output;
use crate::cli::{CliError, Global};
use crate::engine::agent::prompt::step_request;
use crate::engine::agent::{Questions, TurnOutcome, VerdictRule};
use crate::engine::pipeline::traced_calls;
use crate::interfaces::tool::{Toolbox, get_step_result};
use crate::state::access::{Identity, Role};
use crate::state::recording::{DueNotes, Redact, SessionUsage};
use crate::state::workspace::patch::Patch;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The session of the agent steps of one run.
pub(in crate::cli) struct PipelineSession {
    terminal: Terminal,
    /// The models of the steps, by name.
    models: BTreeMap<String, SessionModel>,
    /// The limits, budgets, rights and tools without those of a step.
    limits: Limits,
    budgets: Budgets,
    identity: Identity,
    toolbox: Toolbox,
}

/// The work of an agent step.
pub(in crate::cli) struct SessionWork<'a> {
    /// The name of the pipeline.
    pub(in crate::cli) pipeline: &'a str,
    /// The request.
    pub(in crate::cli) words: &'a str,
    /// Values that the model reads as data, with their names.
    pub(in crate::cli) data: &'a [(String, String)],
    /// The limits.
    pub(in crate::cli) bounds: &'a AgentBounds,
    /// The outputs of earlier steps, by name of the step.
    pub(in crate::cli) results: BTreeMap<String, String>,
}

/// An agent step that ended.
pub(in crate::cli) struct SessionStep {
    /// The request as the model read it.
    pub(in crate::cli) request: String,
    /// The end of its turn.
    pub(in crate::cli) outcome: TurnOutcome,
    /// The answer without secrets.
    pub(in crate::cli) answer: String,
    /// The calls of the model, each with its text, tools and tokens.
    pub(in crate::cli) trace: Vec<Value>,
    /// The use of the step.
    pub(in crate::cli) spent: StepSpending,
}

impl PipelineSession {
    /// Opens the session of a run whose first agent step has this model. No model is asked.
    pub(in crate::cli) fn open(
        model: &str,
        options: &CommonTerminalOptions,
        global: &Global,
        output: Output,
    ) -> Result<Self, CliError> {
        check_provider(model, global)?;
        // The steps are recorded as traces.
        let mut options = options.clone();
        options.record = None;
        let options = TerminalOptions::of_model(model, options);
        let mut terminal = Terminal::open(&options, &SessionStart::New, global, output)?;
        terminal.verdict = VerdictRule::Asked;
        Ok(Self {
            limits: terminal.config.limits.turn.clone(),
            budgets: terminal.config.budgets.bounds,
            identity: terminal.identity.clone(),
            // All tools. A step gets those of its definition.
            toolbox: terminal.toolbox.clone(),
            models: BTreeMap::new(),
            terminal,
        })
    }

    /// Prepares the model of a step. The error says what is missing, or why it is not asked.
    pub(in crate::cli) fn prepare(&mut self, bounds: &AgentBounds) -> Result<(), CliError> {
        if !self.models.contains_key(&bounds.model) {
            check_provider(&bounds.model, &self.terminal.global)?;
            let SessionModel { config, models } = self.terminal.find_model(&bounds.model)?;
            // A step names its model, so no fallback of the person answers for it.
            let models = models.without_fallbacks();
            self.models
                .insert(bounds.model.clone(), SessionModel { config, models });
        }
        let Some(model) = self.models.get(&bounds.model) else {
            return Ok(());
        };
        let Some(url) = &bounds.base_url else {
            return Ok(());
        };
        // The definition is a file of the repository, and the key is that of the person.
        let name = model.config.model.default.split_once('/');
        let name = name.map_or("", |(provider, _)| provider);
        let provider = model.config.providers.get(name);
        let configured = provider.map_or("", |provider| provider.base_url.as_str());
        match is_same_address(url, configured) {
            true => Ok(()),
            false => Err(CliError::config(format!(
                "the step would send its requests, and your key, to {url}, and your configuration has {configured}; \
                 set providers.{name}.base_url in your own configuration if you trust it, or remove base_url"
            ))),
        }
    }

    /// Returns a model of the steps whose prices are not known.
    pub(in crate::cli) fn unpriced_model(&self) -> Option<&str> {
        let mut models = self.models.iter();
        let unpriced = models.find(|(_, model)| model.models.default_facts().price.is_none());
        unpriced.map(|(name, _)| name.as_str())
    }

    /// Returns true if the run may edit files among uncommitted changes.
    pub(in crate::cli) async fn may_begin(&mut self) -> Result<bool, CliError> {
        self.terminal.may_begin().await
    }

    /// Runs the turn of a step. Ctrl-C stops it and keeps its edits.
    pub(in crate::cli) async fn run(&mut self, work: SessionWork<'_>) -> Result<SessionStep, CliError> {
        let redacted = |text: &str| self.terminal.redactor.redact(text).into_owned();
        let data: Vec<(String, String)> = work
            .data
            .iter()
            .map(|(name, value)| (name.clone(), redacted(value)))
            .collect();
        let request = step_request(&redacted(work.words), work.pipeline, &data, &work.results);
        self.begin(work.bounds, work.results)?;
        let before = self.terminal.used();
        let outcome = Box::pin(self.terminal.turn(&request, Questions::Nobody)).await?;
        let cost = self.terminal.used().cost.saturating_sub(before.cost);
        let turn = self.terminal.history.turns().last();
        Ok(SessionStep {
            request,
            answer: self.redacted(&outcome.answer),
            trace: turn
                .map(|turn| results::trace(turn, &outcome))
                .unwrap_or_default(),
            spent: StepSpending {
                calls: outcome.steps,
                tokens: outcome.usage.total(),
                cost,
            },
            outcome,
        })
    }

    /// Returns the calls of the last step, with their results. A step that ended with an error has no outcome.
    pub(in crate::cli) fn calls(&self, outcome: Option<&TurnOutcome>) -> KeptCalls {
        let terminal = &self.terminal;
        let outputs = terminal.outputs.all();
        let turn = terminal.history.turns().last();
        let answers = turn.map(|turn| results::answers(turn, outcome));
        let source = outcome.map(|outcome| outcome.source);
        let traced = traced_calls(answers.unwrap_or_default(), &outputs, source);
        let spool = Spool::in_directory(&terminal.config.sandbox.programs.scratch);
        KeptCalls::new(traced, &spool)
    }

    /// Returns the use of all steps.
    pub(in crate::cli) fn used(&self) -> SessionUsage {
        self.terminal.used()
    }

    /// Returns the use of a step that ended with an error and began with this use of the session.
    pub(in crate::cli) fn spent_since(&self, before: SessionUsage) -> StepSpending {
        let used = self.terminal.used();
        let tokens = used.usage.total().saturating_sub(before.usage.total());
        let turn = self.terminal.history.turns().last();
        let recorded = turn.map_or(0, |turn| turn.steps().len());
        StepSpending {
            // The answer whose recording failed is no step of the conversation.
            calls: match tokens {
                0 => 0,
                _ => u32::try_from(recorded).unwrap_or(u32::MAX).max(1),
            },
            tokens,
            cost: used.cost.saturating_sub(before.cost),
        }
    }

    /// Sets the model, the limits, the rights and the tools of a step, with an empty conversation.
    fn begin(&mut self, bounds: &AgentBounds, results: BTreeMap<String, String>) -> Result<(), CliError> {
        let terminal = &mut self.terminal;
        // First, so that a step that cannot begin has no calls of the step before it.
        terminal.history = History::default();
        terminal.outputs.clear();
        let Some(model) = self.models.get(&bounds.model) else {
            return Err(CliError::failed(format!(
                "the model {} was not prepared",
                bounds.model
            )));
        };
        terminal.use_model(model);
        terminal.config.limits.turn = self.limits.of_step(bounds);
        terminal.config.budgets.bounds = Budgets {
            turn: self.budgets.turn.tightened(money_bound(bounds.max_cents)),
            ..self.budgets
        };
        let globs = bounds.environments.as_deref().unwrap_or_default();
        terminal.identity = match bounds.may_edit {
            true => self.identity.within_environments(globs),
            false => self.identity.reading_only(),
        };
        terminal.toolbox = self.toolbox.limited_to(&bounds.tools).map_err(CliError::failed)?;
        if !results.is_empty() {
            let tool = get_step_result(results, bounds.truncate_head, bounds.truncate_tail);
            terminal.toolbox = terminal.toolbox.with(tool).map_err(CliError::failed)?;
        }
        let workspace = &terminal.workspace;
        let role = terminal.identity.role(workspace.repository.name());
        let role = role.unwrap_or(Role::Viewer);
        let innermost = globs.last().map(Vec::as_slice).unwrap_or_default();
        terminal.system = system(&workspace.repository, workspace.tree.as_ref(), role, innermost)?;
        terminal.checking.subject = match role {
            Role::Viewer => CheckedChange::EarlierSteps,
            Role::Editor | Role::Admin => CheckedChange::Step(terminal.changes()?),
        };
        terminal.due = DueNotes::default();
        terminal.effects_shown = String::new();
        Ok(())
    }

    /// Prints the answer of the last step, with what is to be said about it.
    pub(in crate::cli) async fn print(&mut self, step: &SessionStep) -> Result<(), CliError> {
        self.terminal.print(&step.outcome).await
    }

    /// Returns the changes of all steps.
    pub(in crate::cli) fn patch(&self) -> Result<Patch, CliError> {
        self.terminal.patch()
    }

    /// Checks the changes of all steps.
    pub(in crate::cli) async fn check(&mut self) -> Result<ChangeCheck, CliError> {
        self.terminal.checking.subject = CheckedChange::Session;
        self.terminal.check_changes().await
    }

    /// Returns the function that removes the secrets that are known by now.
    pub(in crate::cli) fn redact(&self) -> Redact {
        let redactor = Arc::clone(&self.terminal.redactor);
        Arc::new(move |text: &str| redactor.redact(text).into_owned())
    }

    /// Returns the redactor that knows the secrets of this session.
    pub(in crate::cli) fn redactor(&self) -> Arc<Redactor> {
        Arc::clone(&self.terminal.redactor)
    }

    /// Returns a text without secrets.
    pub(in crate::cli) fn redacted(&self, text: &str) -> String {
        self.terminal.redactor.redact(text).into_owned()
    }
}

/// Returns an error unless the provider of `provider/model` is known or configured. A step names its provider, so the
/// provider of the person's own configuration never answers for it.
fn check_provider(model: &str, global: &Global) -> Result<(), CliError> {
    let name = model.split_once('/').map_or(model, |(provider, _)| provider);
    match Config::has_provider(&global.model_sources()?, name) {
        true => Ok(()),
        false => Err(CliError::config(format!(
            "the provider {name} of the model {model} is not known; choose another model, or add [providers.{name}] to \
             your own configuration"
        ))),
    }
}

fn money_bound(cents: u64) -> BudgetBound {
    BudgetBound {
        tokens_max: None,
        money_max: (cents > 0).then(|| Money::from_cents(cents)),
    }
}

/// Returns true if two addresses differ at most by a `/` at their end.
fn is_same_address(one: &str, other: &str) -> bool {
    one.trim_end_matches('/') == other.trim_end_matches('/')
}
