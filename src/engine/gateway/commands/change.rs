//! Commands about the prepared change: show it or send it, and who may do what with it.

use super::CommandRunner;
use super::environments::LookedInto;
use crate::base::model::{
    Change, ChangeName, ConversationId, InvalidChangeName, Op, Reply, ReplyPart, totals,
};
use crate::engine::command::Verb;
use crate::engine::gateway::change_view;
use crate::engine::gateway::compose::{self, Address};
use crate::rendering::inspect::Question;
use crate::state::access::Identity;
use crate::state::store::StoreError;

/// The reply when there is no change to show or discard.
pub(super) const NOTHING_PREPARED: &str = "Nothing is prepared here.";

impl CommandRunner {
    /// Returns the prepared change of a conversation, if this person may see it now.
    pub(in crate::engine::gateway) async fn prepared_state(
        &self,
        identity: &Identity,
        conversation: ConversationId,
    ) -> Result<PreparedState, StoreError> {
        let store = &self.parts.store;
        if let Some(why) = store.withheld(conversation).await? {
            return Ok(PreparedState::Withheld(why));
        }
        let Some(change) = store.current_change(conversation).await? else {
            return Ok(PreparedState::Nothing);
        };
        Ok(match identity.may_prepare(&change.repository, &change.needs) {
            Ok(()) => PreparedState::Prepared(Box::new(change)),
            Err(why) => PreparedState::Withheld(why),
        })
    }

    /// Returns the prepared change of a conversation, or the reply if there is none, or if `arguments` names another
    /// change or an older revision.
    pub(super) async fn named_change(
        &self,
        (verb, done): (Verb, &str),
        arguments: &str,
        identity: &Identity,
        conversation: ConversationId,
    ) -> anyhow::Result<Result<Box<Change>, Reply>> {
        let Ok(meant) = named(arguments) else {
            return Ok(Err(invalid_name_reply(verb, done)));
        };
        let change = match self.prepared_state(identity, conversation).await? {
            PreparedState::Prepared(change) => change,
            other => return Ok(Err(other.fallback_reply())),
        };
        Ok(
            match meant.filter(|meant| !meant.is_of(change.number, change.revision)) {
                None => Ok(change),
                Some(meant) => Err(Reply::text(
                    replaced_text(meant, &change.to_string()).unwrap_or_else(|| {
                        format!(
                            "{meant} is not prepared here any more; `{}` alone is about {change}.",
                            verb.word()
                        )
                    }),
                )),
            },
        )
    }

    /// Shows the prepared change. Shows nothing if `arguments` names another change or revision.
    pub(super) async fn diff(
        &self,
        arguments: &str,
        address: &Address,
        identity: &Identity,
        conversation: ConversationId,
    ) -> anyhow::Result<Vec<Op>> {
        let mut change = match self
            .named_change((Verb::Diff, "shown"), arguments, identity, conversation)
            .await?
        {
            Ok(change) => *change,
            Err(reply) => return Ok(vec![address.post("answer", reply)]),
        };
        change.patch = compose::masked(&change.patch, &self.parts.redactor);
        let shown = |inline_max| {
            let mut reply = titled(&change);
            reply.parts.extend(change_view::failures(&change));
            reply.parts.extend(change_view::overview(&change));
            reply.parts.push(change_view::checks(&change));
            reply
                .parts
                .extend(change_view::opened(change_view::diff(&change, inline_max)));
            reply
        };
        let mut inline_max = self.parts.config.limits.inline_diff_bytes_max;
        let mut reply = shown(inline_max);
        if self.is_long(address, &reply) {
            inline_max = 0;
            reply = shown(inline_max);
        }
        let mut ops = self.posts(address, &reply);
        if !change_view::fits_inline(&change, inline_max) {
            ops.push(self.upload(address, conversation, &change, "diff").await?);
        }
        Ok(ops)
    }

    /// Shows the rendered difference of every environment, and the source diff in a tab. Without a tab, sends the source
    /// diff if its result did not show it. Does nothing if `name` is another change or an older revision.
    pub(super) async fn full_diff(
        &self,
        name: &str,
        address: &Address,
        identity: &Identity,
        conversation: ConversationId,
    ) -> anyhow::Result<Vec<Op>> {
        let shown = (Verb::Diff, "shown");
        let mut change = match self.named_change(shown, name, identity, conversation).await? {
            Ok(change) => *change,
            Err(reply) => return Ok(vec![address.post("answer", reply)]),
        };
        // A turn may be editing further, or may have ended meanwhile.
        let mut row = self.parts.store.conversation(conversation).await?;
        let edits = match self.parts.store.change_with_edits(conversation).await? {
            Some((current, edits)) if current.to_string() == change.to_string() => edits,
            Some(_) | None => {
                let text = format!(
                    "{change} was replaced or edited further just now; `diff` shows what is prepared."
                );
                return Ok(vec![address.post("answer", Reply::text(text))]);
            }
        };
        row.base = Some(change.base.clone());
        change.patch = compose::masked(&change.patch, &self.parts.redactor);
        let looking = self.look_into(
            (&change.repository, edits),
            &Question::AllDifferences,
            &row,
            address,
            identity,
        );
        let looked = Box::pin(looking).await?;
        let mut ops = match looked {
            LookedInto::Answered(ops) => ops,
            LookedInto::Refused(ops) => return Ok(ops),
        };
        // It may have taken long, and the grants may be others now.
        if let Err(why) = identity.may_prepare(&change.repository, &change.needs) {
            return Ok(vec![address.post("answer", Reply::text(compose::withheld(&why)))]);
        }
        let inline_max = self.parts.config.limits.inline_diff_bytes_max;
        match self.diff_in_tab(address, conversation, &change).await? {
            Some(shown) => ops.push(shown),
            None if change_view::fits_inline(&change, inline_max) => {}
            None => ops.push(self.upload(address, conversation, &change, "diff").await?),
        }
        Ok(ops)
    }

    /// Sends a file to the conversation's thread. A file cannot be ephemeral.
    async fn upload(
        &self,
        address: &Address,
        conversation: ConversationId,
        change: &Change,
        extension: &str,
    ) -> anyhow::Result<Op> {
        let address = self.shared_address(address, conversation).await?;
        Ok(address.upload(change, extension))
    }

    /// Sends the prepared change as a file. Sends nothing if `arguments` names another change or none.
    pub(super) async fn patch(
        &self,
        arguments: &str,
        address: &Address,
        identity: &Identity,
        conversation: ConversationId,
    ) -> anyhow::Result<Vec<Op>> {
        let mut change = match self
            .named_change((Verb::Patch, "sent"), arguments, identity, conversation)
            .await?
        {
            Ok(change) => *change,
            Err(reply) => return Ok(vec![address.post("answer", reply)]),
        };
        change.patch = compose::masked(&change.patch, &self.parts.redactor);
        let upload = self.upload(address, conversation, &change, "patch").await?;
        let base = compose::short(&change.base);
        let text = match compose::is_masked(&change) {
            true => format!("{change}, against {base}. A secret in it is masked, so it does not apply."),
            false => format!(
                "{change}, against {base}. `git apply CHG-{}.patch` applies it to your working tree.",
                change.number
            ),
        };
        Ok(vec![address.post("answer", Reply::text(text)), upload])
    }

    /// Returns the refusal if the person's grant no longer covers the prepared change. Its files must not be shown
    /// then.
    pub(in crate::engine::gateway) async fn missing_grant_reply(
        &self,
        verb: Verb,
        identity: &Identity,
        conversation: ConversationId,
    ) -> anyhow::Result<Option<Reply>> {
        match verb {
            Verb::Diff | Verb::Patch | Verb::Undo => {}
            Verb::Envs | Verb::Render | Verb::WhoImports | Verb::Risk => {}
            Verb::Help
            | Verb::Status
            | Verb::Discard
            | Verb::Clear
            | Verb::Context
            | Verb::Export
            | Verb::Usage
            | Verb::Budget
            | Verb::Stop
            | Verb::Retry
            | Verb::Accept
            | Verb::Block
            | Verb::Schedule
            | Verb::Zone
            | Verb::Run
            | Verb::Runs
            | Verb::Login
            | Verb::User => return Ok(None),
        }
        let change = self.parts.store.current_change(conversation).await?;
        Ok(change
            .filter(|change| identity.role(&change.repository).is_none())
            .map(|change| {
                Reply::text(format!(
                    "You have no grant for `{}` any more; {change} is kept.",
                    change.repository
                ))
            }))
    }
}

/// The prepared change of a conversation, for one person.
pub(in crate::engine::gateway) enum PreparedState {
    Prepared(Box<Change>),
    /// A change that this person may not see, with the reason.
    Withheld(String),
    Nothing,
}

impl PreparedState {
    /// Returns the reply that is shown instead of the change.
    fn fallback_reply(&self) -> Reply {
        match self {
            Self::Withheld(why) => Reply::text(compose::withheld(why)),
            Self::Prepared(_) | Self::Nothing => Reply::text(NOTHING_PREPARED),
        }
    }
}

/// Parses the name of a change in a command's arguments. Empty arguments mean the prepared change. Buttons always name
/// their change and its revision.
pub(super) fn named(arguments: &str) -> Result<Option<ChangeName>, InvalidChangeName> {
    match arguments.trim_matches('`').trim() {
        "" => Ok(None),
        name => name.parse().map(Some),
    }
}

/// Returns the reply to a command with an invalid change name.
pub(super) fn invalid_name_reply(verb: Verb, done: &str) -> Reply {
    let word = verb.word();
    Reply::text(format!(
        "That names no change, so nothing is {done}. Write `{word}` alone for the change that is prepared here, or \
         add a name, such as `{word} CHG-42`."
    ))
}

/// Returns the reply to a command that names an older revision than the prepared one.
pub(super) fn replaced_text(meant: ChangeName, newest: &str) -> Option<String> {
    let named: ChangeName = newest.parse().ok()?;
    let is_older = |revision: &u32| *revision < named.revision.unwrap_or(1);
    let revision = meant.revision.filter(|_| named.number == meant.number);
    let revision = revision.filter(is_older)?;
    Some(format!(
        "That was rev {revision}, so nothing was done; {newest} is the newest, and `diff` shows it."
    ))
}

fn titled(change: &Change) -> Reply {
    Reply {
        parts: vec![ReplyPart::Heading {
            text: format!("{change}: {}", totals(&change.stats)),
        }],
    }
}
