//! The tab in which a platform shows the source diff of a change, in the place of a file.

use super::CommandRunner;
use crate::base::model::{Action, Change, ChangeName, ConversationId, DiffTab, Op};
use crate::engine::gateway::compose::Address;

impl CommandRunner {
    /// Returns the operation that shows the source diff of a change in a tab; `None` if the place has no tab for it.
    pub(super) async fn diff_in_tab(
        &self,
        address: &Address,
        conversation: ConversationId,
        change: &Change,
    ) -> anyhow::Result<Option<Op>> {
        let address = self.shared_address(address, conversation).await?;
        let is_shown = self.tab_bytes_max(&address) >= Some(change.patch.len());
        let tab = DiffTab {
            change: Change::name(change.number, 1),
            repository: change.repository.clone(),
            base: self.parts.repositories.branch(&change.repository).to_owned(),
            head: change.to_string(),
        };
        Ok(is_shown.then(|| address.show_diff(change, tab)))
    }

    /// Returns the operation that closes the tab of a discarded change; `None` if its place has no tabs.
    pub(super) async fn tab_closing(
        &self,
        address: &Address,
        conversation: ConversationId,
        discarded: &str,
    ) -> anyhow::Result<Option<Op>> {
        let address = self.shared_address(address, conversation).await?;
        let channel = self.outgoing.channel(&address.channel);
        let has_tabs = channel.is_some_and(|channel| channel.may_have_diff_tab(&address.place));
        let name = discarded.parse::<ChangeName>().ok().filter(|_| has_tabs);
        Ok(name.map(|name| {
            let change = Change::name(name.number, 1);
            address.op("close-diff", Action::CloseDiff { change })
        }))
    }

    fn tab_bytes_max(&self, address: &Address) -> Option<usize> {
        let channel = self.outgoing.channel(&address.channel)?;
        channel.diff_bytes_max(&address.place)
    }

    /// Returns the address of what cannot be shown to one person alone, such as a file: the thread of the conversation,
    /// if the answer is for one person.
    pub(super) async fn shared_address(
        &self,
        address: &Address,
        conversation: ConversationId,
    ) -> anyhow::Result<Address> {
        let mut address = address.clone();
        if address.ephemeral_to.is_some() {
            address.place = self.parts.store.conversation(conversation).await?.key.place;
        }
        Ok(address)
    }
}
