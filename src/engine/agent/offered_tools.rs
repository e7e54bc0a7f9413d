//! The tools that a turn offers to the model: those that its person may use, and those of its verdict, its strategy, its
//! questions and its messages.

use super::context::{ContextStrategy, strategy};
use super::{Questions, Recipients, TurnContext, VerdictRule};
use crate::base::config::Config;
use crate::interfaces::tool::{self, Toolbox, ToolboxError};
use crate::state::access::{Access, Identity, Role};

/// The facts that decide which tools are offered.
#[derive(Clone, Copy)]
pub struct ToolOffer<'a> {
    /// All tools.
    pub toolbox: &'a Toolbox,
    /// The user on whose behalf a turn runs.
    pub identity: &'a Identity,
    /// The configured repository.
    pub repository: &'a str,
    /// The source of the verdict.
    pub verdict: VerdictRule,
    /// The way in which the conversation is shortened.
    pub strategy: &'a dyn ContextStrategy,
    /// The person who can be asked.
    pub questions: Questions<'a>,
    /// The people to whom the model may send messages.
    pub recipients: Recipients,
}

impl ToolOffer<'_> {
    /// Returns the offered tools.
    pub fn tools(self) -> Result<Toolbox, ToolboxError> {
        let mut offered = self.toolbox.for_identity(self.identity, self.repository);
        if self.verdict == VerdictRule::Asked {
            offered = offered.with(tool::conclude())?;
        }
        for tool in self.strategy.tools() {
            offered = offered.with(tool)?;
        }
        if !matches!(self.questions, Questions::Nobody) {
            offered = offered.with(tool::ask_user())?;
        }
        if self.recipients == Recipients::People {
            let tool = tool::send_user_message();
            offered = offered.with_permitted(tool, self.identity, self.repository)?;
        }
        Ok(offered)
    }
}

/// Returns every tool that a turn may offer with this configuration, whoever its person is and whatever its verdict.
pub(super) fn largest_offer(config: &Config, toolbox: &Toolbox) -> Result<Toolbox, ToolboxError> {
    let offer = ToolOffer {
        toolbox,
        identity: &Access::program_identity("start", Role::Admin),
        repository: "start",
        verdict: VerdictRule::Asked,
        strategy: strategy(config.limits.turn.context_strategy),
        questions: Questions::Stored,
        recipients: match config.messages.between_people {
            true => Recipients::People,
            false => Recipients::Nobody,
        },
    };
    offer.tools()
}

impl<'a> TurnContext<'a> {
    /// Returns the facts that decide which tools the turn offers.
    pub(super) fn tool_offer(&self) -> ToolOffer<'a> {
        ToolOffer {
            toolbox: self.toolbox,
            identity: self.identity,
            repository: self.workspace.repository.name(),
            verdict: self.verdict,
            strategy: self.strategy,
            questions: self.questions,
            recipients: self.recipients,
        }
    }
}
