//! The rights of a person in the conversation of another, which they joined.

use super::parts::Parts;
use crate::base::model::Change;
use crate::state::access::Identity;
use crate::state::store::{Conversation, StoreError};

/// The rights of a person in a conversation.
#[derive(Debug)]
pub(super) enum ConversationRights {
    /// Those of their grants: the conversation is their own, or that of a hook.
    Own,
    /// Those of their grants, in the conversation of another, which they joined.
    Joined,
    /// They joined, and may ask. They may neither change nor get what is prepared, for this reason.
    Questions(UncoveredChange),
    /// None, for this reason.
    Nothing(String),
}

/// The prepared change of another person, which the grants of a person do not cover.
#[derive(Debug)]
pub(super) struct UncoveredChange {
    name: String,
    why: String,
}

impl UncoveredChange {
    fn new(change: &Change, why: String) -> Self {
        Self {
            name: change.to_string(),
            why,
        }
    }

    /// Returns the answer to an attempt to change or get it.
    pub(super) fn refusal(&self) -> String {
        let Self { name, why } = self;
        format!("{name} is prepared in this conversation: {why}. Nothing was done; ask in another thread.")
    }

    /// Returns the line below the answer to a question.
    pub(super) fn remark(&self) -> String {
        let Self { name, why } = self;
        format!(
            "You can only ask here, because {name} is prepared: {why}. For changes, write in another thread."
        )
    }
}

impl Parts {
    /// Returns the rights of a person in a conversation. Membership and grants are looked up each time.
    pub(super) async fn conversation_rights(
        &self,
        identity: &Identity,
        conversation: &Conversation,
    ) -> Result<ConversationRights, StoreError> {
        if !self.is_of_another(identity, conversation) {
            return Ok(ConversationRights::Own);
        }
        if !self
            .store
            .is_thread_member(conversation.id, identity.sender())
            .await?
        {
            let why = "You are not part of this conversation any more.".to_owned();
            return Ok(ConversationRights::Nothing(why));
        }
        // Its history holds files of that repository.
        if let Some(bound) = &conversation.repository
            && identity.role(bound).is_none()
        {
            let why = format!("This conversation is about `{bound}`, and you have no grant for it.");
            return Ok(ConversationRights::Nothing(why));
        }
        // What this person may not prepare would be withheld, and the change is that of another person.
        let change = self.store.current_change(conversation.id).await?;
        Ok(match change {
            Some(change) => match identity.may_prepare(&change.repository, &change.needs) {
                Ok(()) => ConversationRights::Joined,
                Err(why) => ConversationRights::Questions(UncoveredChange::new(&change, why)),
            },
            None => ConversationRights::Joined,
        })
    }

    /// True for a conversation of another person. A person may write with several accounts.
    fn is_of_another(&self, identity: &Identity, conversation: &Conversation) -> bool {
        let owner = &conversation.key.user;
        let is_own = owner == identity.sender()
            || self
                .access
                .admit(owner)
                .is_some_and(|owner| owner.user() == identity.user());
        owner.platform.chat().is_some() && !is_own
    }

    /// True if the person of a conversation may read a repository.
    pub(super) fn owner_may_read(&self, conversation: &Conversation, repository: &str) -> bool {
        let owner = self.access.admit(&conversation.key.user);
        owner.is_some_and(|owner| owner.role(repository).is_some())
    }
}
