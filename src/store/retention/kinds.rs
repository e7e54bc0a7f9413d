//! The rows of each kind: where they are, in which order they are looked at, and which may go.

use super::{DataKind, WEIGHT_BYTES};
use rusqlite::types::Value;

/// The rows of a kind, as parts of SQL statements. In all of it `?2` is the time before which rows are too old; where
/// rows are looked for, `?3` is now.
#[derive(Clone, Copy)]
pub(super) struct Rows {
    pub(super) kind: DataKind,
    table: &'static str,
    key: &'static str,
    start: fn() -> Value,
    /// True for a row that has only younger ones behind it. One from the future, when the clock was wrong, says
    /// nothing about those behind it.
    is_younger: &'static str,
    /// True for a row that may go.
    may_go: &'static str,
    /// True for a row that nothing asks for any more.
    is_obsolete: &'static str,
    /// Bytes of what goes with a row.
    bytes: &'static str,
    /// Rows of one read.
    pub(super) looked_at_max: u32,
}

impl Rows {
    pub(super) fn start(&self) -> Value {
        (self.start)()
    }

    /// Rows from `?1` on: key, whether it and all behind it are younger, whether it may go, what it weighs.
    pub(super) fn select(&self) -> String {
        let Self {
            table,
            key,
            is_younger,
            may_go,
            is_obsolete: is_settled,
            bytes,
            ..
        } = self;
        format!(
            "SELECT {key}, {is_younger}, COALESCE(({may_go}) AND ({is_settled}), FALSE), 1 + COALESCE(({bytes}), 0) / {WEIGHT_BYTES}
             FROM {table} AS this WHERE {key} > ?1 AND ?2 IS NOT NULL ORDER BY {key} LIMIT ?4"
        )
    }

    /// Returns the query that finds the row `?1` if it may go.
    pub(super) fn ask(&self) -> String {
        let Self {
            table,
            key,
            may_go,
            is_obsolete: is_settled,
            ..
        } = self;
        format!(
            "SELECT 1 FROM {table} AS this WHERE {key} = ?1 AND ?2 IS NOT NULL AND ({may_go}) AND ({is_settled})"
        )
    }

    /// Removes the row `?1`.
    pub(super) fn delete(&self) -> String {
        format!("DELETE FROM {} WHERE {} = ?1", self.table, self.key)
    }
}

/// Keys of rows that are numbered.
fn number() -> Value {
    Value::Integer(0)
}

/// A name of a delivery. What a body is called by its hash is kept thirty days longer: GitHub signs no time, so a delivery
/// that somebody captured is as good as new once that name is forgotten.
const DELIVERY: &str = "at < ?2 AND (name NOT LIKE '%sha256:%' OR at < ?2 - 2592000000)";

/// An answered message whose turns nobody works on. The newest message and the newest turn stay: their numbers
/// name what goes out, and must not be given again.
const MESSAGE: &str = "done_at < ?2 AND id < (SELECT MAX(id) FROM inbox) AND NOT EXISTS (
    SELECT 1 FROM turn WHERE turn.inbox = this.id AND (turn.id = (SELECT MAX(id) FROM turn) OR (
        turn.finished_at IS NULL AND EXISTS (
            SELECT 1 FROM conversation WHERE conversation.id = this.conversation AND owner IS NOT NULL))))";

const MESSAGE_BYTES: &str =
    "SELECT SUM(octet_length(step.step) + 4096) FROM turn JOIN step ON step.turn = turn.id
    WHERE turn.inbox = this.id AND this.done_at < ?2";

/// Condition under which an operation is needed no more: no message is to be answered, since its card is shown once
/// and filled in the end, and nothing of its chat and thread is to be sent, such as what fills a post.
const OBSOLETE: &str = "NOT EXISTS (SELECT 1 FROM inbox
        WHERE this.op GLOB 'inbox-*' AND inbox.id = CAST(SUBSTR(this.op, 7) AS INTEGER) AND inbox.done_at IS NULL)
    AND NOT EXISTS (SELECT 1 FROM outbox AS open
        WHERE open.channel = this.channel AND open.lane = this.lane AND open.done_at IS NULL)";

const OPERATION: &str = "state = 'delivered' AND done_at < ?2";

const DEAD_LETTER: &str = "state <> 'delivered' AND done_at < ?2";

/// A button that expired. One that a message pressed stays until the message is answered.
const BUTTON: &str = "expires_at < ?2 AND NOT EXISTS (
    SELECT 1 FROM inbox WHERE inbox.id = this.used_by AND inbox.done_at IS NULL)";

/// Edits, or an open change, of a conversation that is silent.
const EDITS: &str = "(edits <> '{}' OR change_number IS NOT NULL) AND pending = 0 AND owner IS NULL
    AND created_at < ?2 AND COALESCE(spoken_at, created_at) < ?2 AND NOT EXISTS (
        SELECT 1 FROM change WHERE change.number = this.change_number AND change.created_at >= ?2)";

/// A revision that is not what a conversation is at. The newest number stays, so that it is not given again.
const CHANGE: &str = "created_at < ?2 AND number < (SELECT MAX(number) FROM change) AND NOT (
    revision = (SELECT MAX(revision) FROM change WHERE change.number = this.number)
    AND EXISTS (SELECT 1 FROM conversation
                WHERE conversation.id = this.conversation AND conversation.change_number = this.number))";

/// A silent conversation without anything that names it. The newest one stays, so that its number is not
/// given again.
const CONVERSATION: &str = "edits = '{}' AND change_number IS NULL AND pending = 0 AND owner IS NULL
    AND created_at < ?2 AND COALESCE(spoken_at, created_at) < ?2 AND id < (SELECT MAX(id) FROM conversation)
    AND NOT EXISTS (SELECT 1 FROM inbox WHERE inbox.conversation = this.id AND done_at IS NULL)
    AND NOT EXISTS (SELECT 1 FROM inbox WHERE inbox.conversation = this.id AND done_at IS NOT NULL)
    AND NOT EXISTS (SELECT 1 FROM turn WHERE turn.conversation = this.id)
    AND NOT EXISTS (SELECT 1 FROM change WHERE change.conversation = this.id)
    AND NOT EXISTS (SELECT 1 FROM action WHERE action.conversation = this.id)";

/// The way in which rows of a kind are removed.
pub(super) enum RemovalMethod {
    /// Rows are removed one by one.
    Rows(Rows),
    /// Contents are removed when nothing names them any more.
    Contents,
    /// The log is cut from its beginning, as a chain.
    Audit,
}

/// Returns the way in which rows of a kind are removed.
pub(super) fn removal_method(kind: DataKind) -> RemovalMethod {
    let numbered = |table, is_younger, may_go| Rows {
        kind,
        table,
        key: "id",
        start: number,
        is_younger,
        may_go,
        is_obsolete: "TRUE",
        bytes: "0",
        looked_at_max: 500,
    };
    RemovalMethod::Rows(match kind {
        DataKind::Deliveries => Rows {
            key: "name",
            start: || Value::Text(String::new()),
            looked_at_max: 5_000,
            ..numbered("delivery", "FALSE", DELIVERY)
        },
        DataKind::Operations => Rows {
            bytes: "octet_length(body)",
            is_obsolete: OBSOLETE,
            ..numbered("outbox", "created_at BETWEEN ?2 AND ?3", OPERATION)
        },
        DataKind::DeadLetters => Rows {
            bytes: "octet_length(body)",
            is_obsolete: OBSOLETE,
            ..numbered("outbox", "created_at BETWEEN ?2 AND ?3", DEAD_LETTER)
        },
        DataKind::Buttons => Rows {
            key: "token_hash",
            start: || Value::Blob(Vec::new()),
            ..numbered("action", "FALSE", BUTTON)
        },
        DataKind::Invites => Rows {
            key: "rowid",
            ..numbered("invite", "created_at BETWEEN ?2 AND ?3", "expires_at < ?2")
        },
        DataKind::Messages => Rows {
            bytes: MESSAGE_BYTES,
            ..numbered("inbox", "accepted_at BETWEEN ?2 AND ?3", MESSAGE)
        },
        DataKind::Usage => numbered("usage", "at BETWEEN ?2 AND ?3", "at < ?2"),
        DataKind::Edits => numbered("conversation", "FALSE", EDITS),
        DataKind::Changes => numbered("change", "created_at BETWEEN ?2 AND ?3", CHANGE),
        DataKind::Conversations => numbered("conversation", "FALSE", CONVERSATION),
        DataKind::Contents => return RemovalMethod::Contents,
        DataKind::Audit => return RemovalMethod::Audit,
    })
}
