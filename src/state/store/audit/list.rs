//! Search in the audit log for operators: newest lines first, filtered by kind, person and time.

use super::super::column::{parse, time};
use super::super::{Store, StoreError};
use crate::base::model::Sender;
use jiff::Timestamp;
use rusqlite::{OptionalExtension, Transaction, params};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Maximum number of lines read in one search.
const LINES_READ_MAX: usize = 500_000;

/// All kinds of lines.
pub const AUDIT_KINDS: [&str; 43] = [
    "access.requested",
    "audit.cut",
    "auth.denied",
    "budget.allowed",
    "change.closed",
    "change.discarded",
    "change.expired",
    "change.pulled",
    "change.taken",
    "change.undone",
    "ingress.full",
    "ingress.ignored",
    "ingress.rejected",
    "invite.burned",
    "invite.issued",
    "invite.redeemed",
    "login.asked",
    "login.begun",
    "login.ended",
    "message.accepted",
    "message.asked",
    "message.blocked",
    "message.refused",
    "message.sent",
    "outbox.drop",
    "outbox.retry",
    "question.asked",
    "question.closed",
    "run.ended",
    "run.retried",
    "run.started",
    "schedule.changed",
    "secret.retired",
    "session.exported",
    "thread.joined",
    "thread.left",
    "token.created",
    "token.revoked",
    "turn.finished",
    "turn.refused",
    "user.created",
    "user.granted",
    "user.revoked",
];

/// A search by an operator. Lines must match all given filters.
#[derive(Clone, Debug, Default)]
pub struct AuditSearch {
    /// A kind, or the part before the dot that several kinds share.
    pub kind: Option<String>,
    /// The person whom the line is about, or who caused it.
    pub person: Option<AuditPerson>,
    /// The earliest time to include.
    pub since: Option<Timestamp>,
    /// Maximum number of lines.
    pub limit: usize,
}

/// A person, by all the identifiers in audit lines.
#[derive(Clone, Debug, Default)]
pub struct AuditPerson {
    /// The user id, if the person was admitted.
    pub user: Option<i64>,
    /// The name of the person.
    pub name: Option<String>,
    /// The accounts of the person, such as `slack:T0ACME:U0ALICE`.
    pub senders: Vec<String>,
}

/// A line of the log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AuditLine {
    /// The number of the line.
    pub row: i64,
    /// The time it was written.
    pub at: Timestamp,
    /// The kind of the line.
    pub kind: String,
    /// The account that the line is about, if known.
    pub sender: Option<String>,
    /// The data of the line.
    pub data: Value,
}

/// The result of a search.
#[derive(Clone, Debug, PartialEq)]
pub struct AuditPage {
    /// The lines, newest first.
    pub lines: Vec<AuditLine>,
    /// True if there may be older matching lines.
    pub has_more: bool,
}

impl Store {
    /// Searches for the newest matching lines.
    pub async fn search_audit(&self, search: AuditSearch) -> Result<AuditPage, StoreError> {
        self.read(move |tx| found(tx, &search)).await
    }
}

fn found(tx: &Transaction<'_>, search: &AuditSearch) -> Result<AuditPage, StoreError> {
    let mut statement = tx.prepare_cached("SELECT id, line FROM audit ORDER BY id DESC")?;
    let mut rows = statement.query([])?;
    let mut lines = Vec::new();
    let mut looked_at = 0;
    while let Some(row) = rows.next()? {
        if lines.len() >= search.limit || looked_at >= LINES_READ_MAX {
            return Ok(AuditPage {
                lines,
                has_more: true,
            });
        }
        looked_at += 1;
        let text = row.get_ref(1)?.as_str().unwrap_or_default();
        let line = line(tx, row.get(0)?, text)?;
        if search.since.is_some_and(|since| line.at < since) {
            // Lines are in commit order, which can differ from the order of their times.
            continue;
        }
        if search.fits(&line) {
            lines.push(line);
        }
    }
    Ok(AuditPage {
        lines,
        has_more: false,
    })
}

fn line(tx: &Transaction<'_>, row: i64, text: &str) -> Result<AuditLine, StoreError> {
    let mut line: Value = parse("audit line", text)?;
    let data = line["data"].take();
    let sender = match (data["sender"].as_str(), data["conversation"].as_i64()) {
        (Some(sender), _) => Some(sender.to_owned()),
        (None, Some(conversation)) => sender_of(tx, conversation, (&data["turn"], &data["command"]))?,
        (None, None) => None,
    };
    Ok(AuditLine {
        row,
        at: time(line["at"].as_i64().unwrap_or_default())?,
        kind: line["event"].as_str().unwrap_or_default().to_owned(),
        sender,
        data,
    })
}

/// Returns the account whose turn or command a line is about, or else that of its conversation, if that still exists.
fn sender_of(
    tx: &Transaction<'_>,
    conversation: i64,
    (turn, command): (&Value, &Value),
) -> Result<Option<String>, StoreError> {
    // Somebody who joined the conversation may write with several accounts.
    let sender: Option<String> = tx
        .prepare_cached(
            "SELECT COALESCE(
                 (SELECT json_extract(inbound, '$.sender') FROM inbox WHERE id = ?3 AND json_valid(inbound)),
                 (SELECT MIN(identity.sender) FROM turn JOIN identity ON identity.user_id = turn.person
                  WHERE turn.id = ?2 AND turn.person IS NOT
                      (SELECT user_id FROM identity AS own WHERE own.sender = conversation.sender)),
                 sender)
             FROM conversation WHERE id = ?1",
        )?
        .query_row(params![conversation, turn.as_i64(), command.as_i64()], |row| {
            row.get(0)
        })
        .optional()?;
    let sender = sender
        .map(|sender| parse::<Sender>("sender", &sender))
        .transpose()?;
    Ok(sender.map(|sender| sender.to_string()))
}

impl AuditSearch {
    fn fits(&self, line: &AuditLine) -> bool {
        let is_of_kind = self.kind.as_ref().is_none_or(|kind| {
            line.kind
                .strip_prefix(kind.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        });
        is_of_kind && self.person.as_ref().is_none_or(|person| person.is_in(line))
    }
}

impl AuditPerson {
    fn is_in(&self, line: &AuditLine) -> bool {
        let data = &line.data;
        let is_account =
            |text: Option<&str>| text.is_some_and(|text| self.senders.iter().any(|own| own == text));
        let is_about = line.kind.starts_with("user.") || line.kind.starts_with("invite.");
        // A line about another person with the same name has another user id.
        let is_named = || match data["user"].as_i64() {
            Some(user) => Some(user) == self.user,
            None => self.name.is_some() && data["name"].as_str() == self.name.as_deref(),
        };
        is_account(line.sender.as_deref())
            || ["bound_to", "by", "issued_by", "invited_by"]
                .iter()
                .any(|key| is_account(data[*key].as_str()))
            || (self.user.is_some() && data["by_user"].as_i64() == self.user)
            || (is_about && is_named())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::{AuditPerson, AuditSearch};
    use crate::state::store::fixture::{at, fresh};
    use serde_json::json;

    #[tokio::test]
    async fn lines_are_found_by_kind_person_and_time_the_newest_first() {
        let (_directory, store) = fresh();
        let alice = "slack:T0ACME:U0ALICE";
        for (second, kind, data) in [
            (1, "user.created", json!({ "name": "alice", "sender": alice })),
            (
                2,
                "ingress.rejected",
                json!({ "name": "alice", "reason": "hook.forged", "count": 1 }),
            ),
            (
                3,
                "user.granted",
                json!({ "by": "operator", "name": "alice", "user": 7 }),
            ),
            (
                4,
                "user.revoked",
                json!({ "by": "operator", "name": "alice", "user": 3 }),
            ),
            (5, "invite.issued", json!({ "issued_by": alice, "name": "bob" })),
            (
                6,
                "ingress.ignored",
                json!({ "name": "release", "reason": "hook.ping", "count": 1 }),
            ),
        ] {
            store.audit(kind, data, at(second)).await.unwrap();
        }
        let found = async |search: AuditSearch| {
            let found = store.search_audit(search).await.unwrap();
            let rows: Vec<i64> = found.lines.iter().map(|line| line.row).collect();
            (rows, found.has_more)
        };
        let all = || AuditSearch {
            limit: 100,
            ..AuditSearch::default()
        };
        let kind = |kind: &str| AuditSearch {
            kind: Some(kind.to_owned()),
            ..all()
        };
        assert_eq!(found(all()).await, (vec![6, 5, 4, 3, 2, 1], false));
        assert_eq!(found(AuditSearch { limit: 2, ..all() }).await, (vec![6, 5], true));
        assert_eq!(found(kind("ingress")).await.0, [6, 2]);
        assert_eq!(found(kind("ingress.rejected")).await.0, [2]);
        assert_eq!(found(kind("ingress.reject")).await.0, [0; 0]);
        let since = Some(at(4));
        assert_eq!(
            found(AuditSearch { since, ..all() }).await,
            (vec![6, 5, 4], false)
        );
        // A hook or an earlier person with the same name is not this person.
        let person = AuditPerson {
            user: Some(7),
            name: Some("alice".to_owned()),
            senders: vec![alice.to_owned()],
        };
        let person = Some(person);
        let hers = || AuditSearch {
            person: person.clone(),
            ..all()
        };
        assert_eq!(found(hers()).await.0, [5, 3, 1]);
        // Whom this person admitted is decided by user id, not by name.
        for (second, by) in [(7, 7), (8, 3)] {
            let let_in = json!({ "by": "alice", "by_user": by, "name": "eve", "user": 9 });
            store.audit("user.created", let_in, at(second)).await.unwrap();
        }
        assert_eq!(found(hers()).await.0, [7, 5, 3, 1]);
    }
}
