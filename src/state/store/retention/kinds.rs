//! The rows of each kind: their table, their order and which may be removed.

use super::{DataKind, WEIGHT_BYTES};
use rusqlite::types::Value;

/// The rows of a kind, as parts of SQL statements. `?2` is always the time before which rows are too old. In queries
/// for rows, `?3` is the current time.
#[derive(Clone, Copy)]
pub(super) struct Rows {
    pub(super) kind: DataKind,
    table: &'static str,
    key: &'static str,
    start: fn() -> Value,
    /// True for a row whose later rows are all younger. A row from the future, due to a wrong clock, does not count.
    is_younger: &'static str,
    /// True for a row that may be removed.
    may_go: &'static str,
    /// True for a row that is not needed any more.
    is_obsolete: &'static str,
    /// Bytes that are removed with a row.
    bytes: &'static str,
    /// Maximum number of rows per read.
    pub(super) looked_at_max: u32,
}

impl Rows {
    pub(super) fn start(&self) -> Value {
        (self.start)()
    }

    /// Returns the query for rows after `?1`: the key, whether the row and all later ones are younger, whether it may
    /// be removed, and its weight.
    pub(super) fn select(&self) -> String {
        let Self {
            table,
            key,
            is_younger,
            may_go,
            is_obsolete,
            bytes,
            ..
        } = self;
        format!(
            "SELECT {key}, {is_younger}, COALESCE(({may_go}) AND ({is_obsolete}), FALSE), 1 + COALESCE(({bytes}), 0) / {WEIGHT_BYTES}
             FROM {table} AS this WHERE {key} > ?1 AND ?2 IS NOT NULL ORDER BY {key} LIMIT ?4"
        )
    }

    /// Returns the query that finds the row `?1` if it may be removed.
    pub(super) fn ask(&self) -> String {
        let Self {
            table,
            key,
            may_go,
            is_obsolete,
            ..
        } = self;
        format!(
            "SELECT 1 FROM {table} AS this WHERE {key} = ?1 AND ?2 IS NOT NULL AND ({may_go}) AND ({is_obsolete})"
        )
    }

    /// Returns the statement that removes the row `?1`.
    pub(super) fn delete(&self) -> String {
        format!("DELETE FROM {} WHERE {} = ?1", self.table, self.key)
    }
}

/// Returns the start position for numbered rows.
fn number() -> Value {
    Value::Integer(0)
}

/// A delivery name. Hashes of bodies are kept thirty days longer: GitHub signs no timestamp, so a captured delivery
/// could be replayed as soon as its hash is forgotten.
const DELIVERY: &str = "at < ?2 AND (name NOT LIKE '%sha256:%' OR at < ?2 - 2592000000)";

/// An answered message whose turns have ended. The newest message and turn stay, because their numbers are part of
/// operation ids and must not be reused.
const MESSAGE: &str = "done_at < ?2 AND id < (SELECT MAX(id) FROM inbox) AND NOT EXISTS (
    SELECT 1 FROM turn WHERE turn.inbox = this.id AND (turn.id = (SELECT MAX(id) FROM turn) OR (
        turn.finished_at IS NULL AND EXISTS (
            SELECT 1 FROM conversation WHERE conversation.id = this.conversation AND owner IS NOT NULL))))";

const MESSAGE_BYTES: &str =
    "SELECT SUM((SELECT COALESCE(SUM(octet_length(step) + 4096), 0) FROM step WHERE step.turn = turn.id)
              + (SELECT COALESCE(SUM(octet_length(text)), 0) FROM output WHERE output.turn = turn.id))
    FROM turn WHERE turn.inbox = this.id AND this.done_at < ?2";

const RUN_BYTES: &str = "octet_length(plan) + octet_length(inputs) + (
    SELECT COALESCE(SUM(4096 + octet_length(COALESCE(result, ''))), 0) FROM run_step WHERE run_step.run = this.id)";

/// Condition for an operation that is not needed any more. There is no message to answer, whose card is shown once and
/// finally filled, and no run that may still edit its message or close its question. A reply that may still be lost, also
/// after it was sent again, edits the message of its run. There is also nothing left to send in its chat and thread, such as
/// the fill of a post.
const OBSOLETE: &str = "NOT EXISTS (SELECT 1 FROM inbox
        WHERE this.op GLOB 'inbox-*' AND inbox.id = CAST(SUBSTR(this.op, 7) AS INTEGER) AND inbox.done_at IS NULL)
    AND NOT EXISTS (SELECT 1 FROM run
        WHERE this.op GLOB 'run-*' AND run.id = CAST(SUBSTR(this.op, 5) AS INTEGER)
          AND (run.ended_at IS NULL OR run.due = 1))
    AND NOT EXISTS (SELECT 1 FROM outbox AS reply
        WHERE this.op GLOB 'run-*/message' AND reply.op > REPLACE(this.op, '/message', '-')
          AND reply.op < REPLACE(this.op, '/message', '.') AND reply.op GLOB '*/reply-*'
          AND (reply.done_at IS NULL OR reply.state IN ('failed', 'ambiguous')))
    AND NOT EXISTS (SELECT 1 FROM outbox AS open
        WHERE open.channel = this.channel AND open.lane = this.lane AND open.done_at IS NULL)";

const OPERATION: &str = "state = 'delivered' AND done_at < ?2";

const DEAD_LETTER: &str = "state <> 'delivered' AND done_at < ?2";

/// An expired button. One that a message clicked stays until the message is answered.
const BUTTON: &str = "expires_at < ?2 AND NOT EXISTS (
    SELECT 1 FROM inbox WHERE inbox.id = this.used_by AND inbox.done_at IS NULL)";

/// Edits, or an open change, of an inactive conversation.
const EDITS: &str = "(edits <> '{}' OR change_number IS NOT NULL) AND pending = 0 AND owner IS NULL
    AND created_at < ?2 AND COALESCE(spoken_at, created_at) < ?2 AND NOT EXISTS (
        SELECT 1 FROM change WHERE change.number = this.change_number AND change.created_at >= ?2)";

/// A revision that is not the current one of a conversation. The newest number stays, so that it is not reused.
const CHANGE: &str = "created_at < ?2 AND number < (SELECT MAX(number) FROM change) AND NOT (
    revision = (SELECT MAX(revision) FROM change WHERE change.number = this.number)
    AND EXISTS (SELECT 1 FROM conversation
                WHERE conversation.id = this.conversation AND conversation.change_number = this.number))";

/// An inactive conversation without references to it. The newest one stays, so that its number is not reused.
const CONVERSATION: &str = "edits = '{}' AND change_number IS NULL AND pending = 0 AND owner IS NULL
    AND created_at < ?2 AND COALESCE(spoken_at, created_at) < ?2 AND id < (SELECT MAX(id) FROM conversation)
    AND NOT EXISTS (SELECT 1 FROM inbox WHERE inbox.conversation = this.id AND done_at IS NULL)
    AND NOT EXISTS (SELECT 1 FROM inbox WHERE inbox.conversation = this.id AND done_at IS NOT NULL)
    AND NOT EXISTS (SELECT 1 FROM turn WHERE turn.conversation = this.id)
    AND NOT EXISTS (SELECT 1 FROM change WHERE change.conversation = this.id)
    AND NOT EXISTS (SELECT 1 FROM action WHERE action.conversation = this.id)";

pub(super) enum RemovalMethod {
    /// Rows are removed one by one.
    Rows(Rows),
    /// Contents are removed when nothing refers to them.
    Contents,
    /// The log is cut from its start and stays a chain.
    Audit,
}

/// Returns how rows of a kind are removed.
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
        DataKind::Logins => numbered("login", "FALSE", "expires_at < ?2"),
        DataKind::Messages => Rows {
            bytes: MESSAGE_BYTES,
            ..numbered("inbox", "accepted_at BETWEEN ?2 AND ?3", MESSAGE)
        },
        DataKind::PersonMessages => numbered("person_message", "at BETWEEN ?2 AND ?3", "at < ?2"),
        DataKind::Runs => Rows {
            bytes: RUN_BYTES,
            ..numbered("run", "created_at BETWEEN ?2 AND ?3", "ended_at < ?2")
        },
        DataKind::Usage => numbered("usage", "at BETWEEN ?2 AND ?3", "at < ?2"),
        DataKind::Reservations => numbered("reservation", "at BETWEEN ?2 AND ?3", "at < ?2"),
        DataKind::BudgetRequests => Rows {
            start: || Value::Text(String::new()),
            ..numbered("budget_request", "FALSE", "asked_at < ?2")
        },
        DataKind::Allowances => numbered("allowance", "at BETWEEN ?2 AND ?3", "at < ?2"),
        DataKind::Edits => numbered("conversation", "FALSE", EDITS),
        DataKind::Changes => numbered("change", "created_at BETWEEN ?2 AND ?3", CHANGE),
        DataKind::Conversations => numbered("conversation", "FALSE", CONVERSATION),
        DataKind::Contents => return RemovalMethod::Contents,
        DataKind::Audit => return RemovalMethod::Audit,
    })
}
