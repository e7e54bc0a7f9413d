//! The behaviour of a bot: the decisions that the program around it makes for each message.

use super::injection::Injector;
use super::messenger::{BotConversation, BotMessage, Messenger};
use crate::base::model::{Step, Turn, Usage};
use crate::interfaces::tool::{self, Tool};
use crate::rendering::change_checks::CheckOutcome;
use crate::state::access::Role;
use crate::state::workspace::Workspace;
use async_trait::async_trait;
use jiff::Timestamp;
use std::any::Any;
use std::borrow::Cow;
use std::sync::Arc;

/// Anything that the program adds to the work on one message, for its tools.
pub type BotExtra = Arc<dyn Any + Send + Sync>;

/// The work on one message, for the tools and the prompt that are built for it.
#[derive(Clone)]
pub struct BotContext {
    /// The conversation.
    pub conversation: BotConversation,
    /// The time when the message was processed.
    pub at: Timestamp,
    /// The result of [`BotBehaviour::build_extra`].
    pub extra: BotExtra,
    /// Places texts into other conversations.
    pub injector: Arc<Injector>,
    /// Sends messages.
    pub messenger: Arc<dyn Messenger>,
}

/// Something that was appended to a conversation.
#[derive(Clone, Copy, Debug)]
pub enum BotAppended<'a> {
    /// The text of the person, with what was injected.
    User(&'a str),
    /// An answer of the model with its usage, its calls and their results.
    Step(&'a Step),
    /// The tokens of an answer that was paid and is no part of the conversation: it was empty, broke off, its turn failed, or it
    /// is a summary.
    Unused(Usage),
}

/// The decisions of a bot. For each message they are made in this order: `handle_start`, `authorise`, `build_extra`,
/// `build_tools`, `build_prompt`; then the model is called.
#[async_trait]
pub trait BotBehaviour: Send + Sync {
    /// Answers `/start`, with the text after it, before the sender is authorised; `None` lets the message continue.
    async fn handle_start(&self, message: &BotMessage, payload: &str) -> anyhow::Result<Option<String>> {
        let _ = (message, payload);
        Ok(None)
    }

    /// Returns the role of the sender. An error is the text of the rejection; then no model is called.
    async fn authorise(&self, message: &BotMessage) -> Result<Role, String>;

    /// Returns what the tools of this message need beside the files.
    async fn build_extra(&self, message: &BotMessage) -> anyhow::Result<BotExtra> {
        let _ = message;
        Ok(Arc::new(()))
    }

    /// Returns the tools for this message; by default those for files and their history.
    async fn build_tools(&self, context: &BotContext) -> anyhow::Result<Vec<Arc<dyn Tool>>> {
        let _ = context;
        Ok(tool::workspace_tools())
    }

    /// Returns the instructions for this message; `None` for those of the options.
    async fn build_prompt(&self, context: &BotContext) -> anyhow::Result<Option<String>> {
        let _ = context;
        Ok(None)
    }

    /// Returns the earlier turns that the model sees, from those of the conversation. The current turn follows them.
    fn convert<'a>(&self, earlier: &'a [Turn]) -> Cow<'a, [Turn]> {
        Cow::Borrowed(earlier)
    }

    /// Checks the edits at the end of a turn. While a check fails, the answer goes back to the model. By default nothing is
    /// checked, and the answer says so.
    async fn check_edits(&self, context: &BotContext, workspace: &Workspace) -> anyhow::Result<CheckOutcome> {
        let _ = (context, workspace);
        Ok(CheckOutcome::Incomplete("this bot checks no edits".to_owned()))
    }

    /// Receives everything that is appended to a conversation, before the next model call.
    async fn on_append(&self, context: &BotContext, appended: BotAppended<'_>) -> anyhow::Result<()> {
        let _ = (context, appended);
        Ok(())
    }
}
