//! The replies of runs. Each target is on a list of the operator, and each address comes from the event or the command that
//! started the run, never from a value of a step. The operations of a reply are stored with the end of its step, under
//! names of the run and the step, so they are sent once.

use super::Runs;
use super::moves::RunMove;
use super::slash::is_of_command;
use crate::base::model::{
    Account, Action, ChatPlace, Op, Reply, ReplyMessages, ReplyPart, Sender, StepEnd, reply_name,
};
use crate::engine::gateway::compose::{Address, MESSAGES_MAX};
use crate::engine::pipeline::run::RunInputs;
use crate::interfaces::channel;

/// The most answers of one reply to a command. Its address takes five in all, and two of them are about the run itself.
const RESPONSES_MAX: usize = 3;
/// The line in place of the messages that are too many.
const CUT: &str = "The text is cut here.";

/// The end of a reply.
enum ReplyOutcome {
    /// These operations send it.
    Sent(Vec<Op>),
    /// The run has no such address, because something else started it.
    Skipped(String),
    /// It cannot be sent.
    Failed(String),
}

impl Runs {
    /// Begins and ends a step that sends a text.
    pub(super) fn begin_reply(
        &self,
        moves: &mut RunMove<'_>,
        inputs: &RunInputs,
        step: usize,
        (to, text): (&str, &str),
    ) {
        let text = self.parts.redactor.redact(text).into_owned();
        match self.reply(moves, inputs, step, (to, &text)) {
            ReplyOutcome::Sent(ops) => {
                let end = StepEnd {
                    reply: Some(ReplyMessages::of(ops.len())),
                    ..StepEnd::succeeded(&text)
                };
                moves.advance.ops.extend(ops);
                moves.end(step, end);
            }
            ReplyOutcome::Skipped(why) => moves.end(step, StepEnd::skipped(why)),
            ReplyOutcome::Failed(why) => moves.end(step, StepEnd::failed(why)),
        }
    }

    fn reply(
        &self,
        moves: &RunMove<'_>,
        inputs: &RunInputs,
        step: usize,
        (to, text): (&str, &str),
    ) -> ReplyOutcome {
        let mut allowed = self.parts.config.pipelines.reply_targets.iter();
        if !allowed.any(|target| target == to) {
            return not_allowed(to);
        }
        let chat = to.strip_prefix("channel:").and_then(|to| to.split_once(':'));
        match (to, chat) {
            (_, Some(chat)) => self.to_chat(moves, step, (to, chat), text),
            ("github-comment", None) => self.to_issue(moves, inputs, step, text),
            ("slack-response", None) => self.to_command(moves, step, text),
            _ => ReplyOutcome::Failed(format!("a server sends no reply to {to}")),
        }
    }

    fn to_chat(
        &self,
        moves: &RunMove<'_>,
        step: usize,
        (to, (channel, chat)): (&str, (&str, &str)),
        text: &str,
    ) -> ReplyOutcome {
        if !self.parts.config.channels.contains_key(channel) {
            return not_allowed(to);
        }
        let place = ChatPlace {
            // That of the channel takes its place once it is connected.
            account: Account::of_schedules(),
            chat: chat.to_owned(),
            thread: None,
        };
        let address = self.reply_address(moves, step, (channel, &place));
        let parts = self
            .messages(&address, text, MESSAGES_MAX)
            .into_iter()
            .enumerate();
        let posts = parts.map(|(index, part)| address.post(&reply_name(index), part));
        ReplyOutcome::Sent(posts.collect())
    }

    /// Comments on the issue or pull request of the event.
    fn to_issue(&self, moves: &RunMove<'_>, inputs: &RunInputs, step: usize, text: &str) -> ReplyOutcome {
        let config = &self.parts.config;
        let owner = &moves.row.head.owner;
        let hook = config.hooks.get(&owner.id);
        let Some(hook) = hook.filter(|_| *owner == Sender::of_hook(&owner.id)) else {
            return ReplyOutcome::Skipped("the run was not started by an event of GitHub".to_owned());
        };
        let name = &owner.id;
        if hook.comments.is_none() {
            return ReplyOutcome::Failed(format!(
                "the hook {name} has no token for comments; its operator sets hooks.{name}.github_token"
            ));
        }
        let Some(issue) = &inputs.issue else {
            return ReplyOutcome::Failed("the event names no issue and no pull request".to_owned());
        };
        if !hook.sources.contains(&issue.repository) {
            return ReplyOutcome::Failed(format!(
                "the repository of the event may get no comments; its operator lists it in hooks.{name}.sources"
            ));
        }
        let place = ChatPlace {
            account: Account::of_hook(name),
            chat: issue.to_string(),
            thread: None,
        };
        let channel = channel::comment_channel(name);
        let address = self.reply_address(moves, step, (&channel, &place));
        let comment = channel::comment(&config.server, text);
        ReplyOutcome::Sent(vec![address.post(&reply_name(0), comment)])
    }

    /// Answers the slash command at its response address.
    fn to_command(&self, moves: &RunMove<'_>, step: usize, text: &str) -> ReplyOutcome {
        let head = &moves.row.head;
        let Some((channel, place)) = moves.row.place.as_ref().filter(|_| is_of_command(head)) else {
            return ReplyOutcome::Skipped("the run was not started by a slash command".to_owned());
        };
        let Some(url) = &moves.response_url else {
            let why = "the address for answers to the command has expired, half an hour after it";
            return ReplyOutcome::Failed(why.to_owned());
        };
        let address = Address {
            response_url: Some(url.clone()),
            ..self.reply_address(moves, step, (channel, place))
        };
        let parts = self
            .messages(&address, text, RESPONSES_MAX)
            .into_iter()
            .enumerate();
        let answers = parts.map(|(index, reply)| {
            let action = Action::Respond {
                to: head.owner.clone(),
                reply,
            };
            address.op(&reply_name(index), action)
        });
        ReplyOutcome::Sent(answers.collect())
    }

    fn reply_address(&self, moves: &RunMove<'_>, step: usize, place: (&str, &ChatPlace)) -> Address {
        let run = moves.row.head.id;
        Address {
            prefix: format!("run-{run}-{step}"),
            ..self.address(run, place, None)
        }
    }

    /// Returns a text as a few messages.
    fn messages(&self, address: &Address, text: &str, messages_max: usize) -> Vec<Reply> {
        let reply = Reply {
            parts: vec![ReplyPart::Markdown {
                text: text.to_owned(),
            }],
        };
        let mut parts = address.split(&self.parts.config, &reply);
        if parts.len() > messages_max {
            parts.truncate(messages_max - 1);
            parts.push(Reply::text(CUT));
        }
        parts
    }
}

fn not_allowed(to: &str) -> ReplyOutcome {
    ReplyOutcome::Failed(format!(
        "the server allows no reply to {to}; its operator lists it in pipelines.reply_targets"
    ))
}
