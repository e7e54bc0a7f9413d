//! Agent steps of pipelines as turns: the message with which one begins, and what its definition leaves of the rights of the
//! person or service that the run belongs to.

use super::intake;
use super::parts::Parts;
use crate::base::model::{
    Account, AgentBounds, ChatPlace, Inbound, InboundKind, PipelineWork, Sender, truncated_result,
};
use crate::base::redact::Redactor;
use crate::engine::agent::{ModelChain, prompt};
use crate::interfaces::tool::{self, Toolbox, ToolboxError};
use crate::state::access::Identity;

/// The channel of these messages. Nothing is sent over it.
const CHANNEL: &str = "pipeline";

/// Returns the message that starts an agent step for the owner of its run. Its conversation is its own.
pub(super) fn message(owner: &Sender, work: PipelineWork, redactor: &Redactor) -> Inbound {
    let name = format!("{}:{}", work.run, work.step);
    let inbound = Inbound {
        channel: CHANNEL.to_owned(),
        delivery: vec![format!("pipeline:{name}")],
        sender: owner.clone(),
        place: ChatPlace {
            account: Account::of_pipelines(),
            chat: work.run.to_string(),
            thread: Some(name),
        },
        direct: false,
        message: None,
        about: None,
        kind: InboundKind::Pipeline(Box::new(work)),
        files: Vec::new(),
        response_url: None,
    };
    intake::without_secrets(inbound, redactor)
}

/// Returns the owner of a run with what the definition of a step allows. It never allows more than the grants.
pub(super) fn limited(owner: &Identity, bounds: &AgentBounds) -> Identity {
    let identity = match bounds.may_edit {
        true => owner.clone(),
        false => owner.reading_only(),
    };
    match &bounds.environments {
        Some(lists) => identity.within_environments(lists),
        None => identity,
    }
}

/// Returns the request of a step for the model: its words, and its values as marked data, each within the bounds of a result.
/// Secrets are removed before a value is cut, because a cut secret would not be recognised.
pub(super) fn request(work: &PipelineWork, words: &str, redactor: &Redactor) -> String {
    let (head, tail) = (work.bounds.truncate_head, work.bounds.truncate_tail);
    let shortened = |(name, value): &(String, String)| {
        let value = redactor.redact(value);
        (name.clone(), truncated_result(&value, head, tail).into_owned())
    };
    let data: Vec<(String, String)> = work.data.iter().map(shortened).collect();
    prompt::step_request(words, &work.pipeline, &data, &work.results)
}

impl Parts {
    /// Returns the tools of a step: those that its definition lists, and that for the results of earlier steps, if there are
    /// any.
    pub(super) fn step_tools(&self, work: &PipelineWork) -> Result<Toolbox, ToolboxError> {
        let PipelineWork { bounds, results, .. } = work;
        let listed = self.toolbox.limited_to(&bounds.tools)?;
        match results.is_empty() {
            true => Ok(listed),
            false => listed.with(tool::get_step_result(
                results.clone(),
                bounds.truncate_head,
                bounds.truncate_tail,
            )),
        }
    }

    /// Returns the model of a step, if the operator has configured it.
    pub(super) fn step_model(&self, bounds: &AgentBounds) -> Result<ModelChain, String> {
        ModelChain::of_step(&self.config, &self.providers, bounds)
    }
}
