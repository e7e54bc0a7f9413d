//! The operations that must not be sent any more, because of what was decided about a person after they were enqueued.

use crate::base::model::PersonMessage;
use crate::state::store::{Store, StoreError, person_message, run};
use rusqlite::Transaction;

impl Store {
    /// Returns the reason why an operation must not be sent any more. It shows a message between people, or asks about
    /// messages, and its recipient has blocked the sender, or one of both was revoked. Or it shows the question of a run in
    /// the private chat of a person who was revoked. An operation that was in flight when that was decided is not withdrawn
    /// yet.
    pub async fn reason_to_withdraw(&self, op: &str) -> Result<Option<&'static str>, StoreError> {
        if PersonMessage::people_of_operation(op).is_none() && run::question_of_operation(op).is_none() {
            return Ok(None);
        }
        let op = op.to_owned();
        self.read(move |tx| reason_to_withdraw(tx, &op)).await
    }
}

/// Returns the reason like [`Store::reason_to_withdraw`].
pub(super) fn reason_to_withdraw(tx: &Transaction<'_>, op: &str) -> Result<Option<&'static str>, StoreError> {
    match run::question_of_operation(op) {
        Some(place) => run::reason_to_withhold(tx, place),
        None => person_message::reason_to_withdraw(tx, op),
    }
}
