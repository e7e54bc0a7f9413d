//! The words of a form. They are in no message of their own, so Drydock shows them in the thread.

use super::commands;
use super::parts::Parts;
use crate::base::model::{Inbound, InboundKind, InboxId, Op, Reply, ReplyPart};
use crate::state::store::StoreError;

impl Parts {
    /// Returns the messages that show the words of a form; none for another message.
    pub(super) fn form_words(&self, inbound: &Inbound) -> Vec<Op> {
        let (Some(about), InboundKind::Text { text, .. }) = (&inbound.about, &inbound.kind) else {
            return Vec::new();
        };
        let Some(identity) = self.identity(inbound) else {
            return Vec::new();
        };
        let id = inbound.delivery.first().map_or("", String::as_str);
        let address = commands::address_of(inbound, format!("form/{id}"));
        let reply = Reply::text(format!("{} about {about}:", identity.name())).with(ReplyPart::Code {
            language: String::new(),
            text: text.replace("\r\n", "\n").replace('\r', "\n"),
        });
        let messages = address.split(&self.config, &reply).into_iter().enumerate();
        messages
            .map(|(index, message)| address.post(&format!("words-{}", index + 1), message))
            .collect()
    }

    /// Returns the messages like [`Self::form_words`] for a message that was held; none if its content is gone.
    pub(super) async fn released_form_words(&self, message: InboxId) -> Result<Vec<Op>, StoreError> {
        match self.store.inbound(message).await {
            Ok(inbound) => Ok(self.form_words(&inbound)),
            Err(error) if error.may_pass() => Err(error),
            Err(_) => Ok(Vec::new()),
        }
    }
}
