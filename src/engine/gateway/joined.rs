//! The rights of a person in the conversation of another, which they joined.

use super::parts::Parts;
use crate::state::access::Identity;
use crate::state::store::{Conversation, StoreError};

impl Parts {
    /// Returns why a person may neither write nor act in the conversation of another; `None` if they may, or if the
    /// conversation is their own or that of a hook. Membership and grants are looked up each time.
    pub(super) async fn refusal_to_joined(
        &self,
        identity: &Identity,
        conversation: &Conversation,
    ) -> Result<Option<String>, StoreError> {
        if !self.is_of_another(identity, conversation) {
            return Ok(None);
        }
        if !self
            .store
            .is_thread_member(conversation.id, identity.sender())
            .await?
        {
            return Ok(Some("You are not part of this conversation any more.".to_owned()));
        }
        // Its history holds files of that repository.
        if let Some(bound) = &conversation.repository
            && identity.role(bound).is_none()
        {
            let why = format!("This conversation is about `{bound}`, and you have no grant for it.");
            return Ok(Some(why));
        }
        // What this person may not prepare would be withheld, and the change is that of another person.
        let change = self.store.current_change(conversation.id).await?;
        Ok(change.and_then(|change| {
            let why = identity.may_prepare(&change.repository, &change.needs).err()?;
            Some(format!(
                "{change} is prepared in this conversation: {why}. Nothing was done; ask in another thread."
            ))
        }))
    }

    /// True for a conversation of another person. A person may write with several accounts.
    pub(super) fn is_of_another(&self, identity: &Identity, conversation: &Conversation) -> bool {
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
