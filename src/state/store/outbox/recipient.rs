//! The people for whom an operation is alone: it is for them, or its place is their private chat.

use super::response_url::recipient;
use crate::base::model::{Op, Sender, UserId};
use crate::state::store::column::parse;
use crate::state::store::{StoreError, conversation, people, run};
use rusqlite::{OptionalExtension, Transaction};

/// Returns true if an operation itself shows that it is for nobody alone: it has no recipient, and its place is a group. Those
/// whose ids name their person come in private chats only.
pub(super) fn is_for_group(op: &Op) -> bool {
    let chat = op.place.account.platform.chat();
    recipient(op).is_none() && chat.is_some_and(|chat| (chat.is_group)(&op.place.chat))
}

/// Returns true if nobody but the person of this account reads an operation.
pub(super) fn is_for_alone(tx: &Transaction<'_>, op: &Op, account: &Sender) -> Result<bool, StoreError> {
    if is_for_group(op) {
        return Ok(false);
    }
    let is_theirs = recipient(op) == Some(account) || op.id.starts_with(&account.join_op_prefix());
    Ok(is_theirs || conversation::is_private_chat(tx, account, &op.place)?)
}

/// Returns the accounts for which an operation may be alone, whatever its place: the person for whom it is, the sender of the
/// message that it answers, the owner of its run or schedule, and the person or administrator who is asked.
pub(super) fn possible_readers(tx: &Transaction<'_>, op: &Op) -> Result<Vec<Sender>, StoreError> {
    let id = op.id.as_str();
    let mut readers: Vec<Sender> = recipient(op).cloned().into_iter().collect();
    if let Some(inbox) = number_after("inbox-", id) {
        let sender =
            "SELECT conversation.sender FROM inbox JOIN conversation ON conversation.id = inbox.conversation
            WHERE inbox.id = ?1";
        readers.extend(account(tx, sender, inbox)?);
    } else if let Some(number) = number_after("run-", id) {
        readers.extend(account(tx, "SELECT owner FROM run WHERE id = ?1", number)?);
        readers.extend(run::asked_accounts(tx, id)?);
    } else if let Some(schedule) = number_after("schedule-", id) {
        readers.extend(account(tx, "SELECT owner FROM schedule WHERE id = ?1", schedule)?);
    } else if let Some(administrator) = asked_administrator(id) {
        readers.extend(people::accounts(tx, administrator)?);
    }
    Ok(readers)
}

/// Returns the account that a query finds. The delivery does not stop at one that this version cannot read.
fn account(tx: &Transaction<'_>, query: &str, id: i64) -> Result<Option<Sender>, StoreError> {
    let stored: Option<String> = tx
        .prepare_cached(query)?
        .query_row([id], |row| row.get(0))
        .optional()?;
    Ok(stored.and_then(|text| parse("sender", &text).ok()))
}

/// Returns the number with which an id goes on after a prefix.
fn number_after(prefix: &str, id: &str) -> Option<i64> {
    let number = id.strip_prefix(prefix)?.split(['/', '-']).next()?;
    number.parse().ok()
}

/// Returns the administrator who gets a request for access: `access/DELIVERY/7/request`.
fn asked_administrator(id: &str) -> Option<UserId> {
    let (request, _) = id.strip_prefix("access/")?.rsplit_once('/')?;
    let (_, user) = request.rsplit_once('/')?;
    user.parse().ok().map(UserId)
}

#[cfg(test)]
mod tests {
    use super::{asked_administrator, number_after};
    use crate::base::model::UserId;

    #[test]
    fn the_people_of_an_operation_are_found_by_its_id() {
        for (prefix, id, number) in [
            ("inbox-", "inbox-7/CHG-1.patch/missing", Some(7)),
            ("run-", "run-12/message/4", Some(12)),
            ("run-", "run-12-0/question", Some(12)),
            ("schedule-", "schedule-3-1795262400000/paused", Some(3)),
            ("schedule-", "schedules-nightly-0a/unusable", None),
            ("inbox-", "form/inbox-7/words-1", None),
            ("inbox-", "inbox-", None),
        ] {
            assert_eq!(number_after(prefix, id), number, "{id}");
        }
        for (id, administrator) in [
            ("access/slack:Ev/1/7/request", Some(UserId(7))),
            ("access/Ev1/7/missing", Some(UserId(7))),
            ("access/7/request", None),
            ("inbox-1/access/7/request", None),
        ] {
            assert_eq!(asked_administrator(id), administrator, "{id}");
        }
    }
}
