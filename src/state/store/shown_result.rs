//! The message that shows a revision of a change. Its buttons are taken off as soon as they would refer to something old:
//! when another revision replaces it, and when the change is closed or discarded.

use super::column::{json, parse};
use super::{StoreError, change, outbox};
use crate::base::model::{Action, Change, ChangeNumber, ConversationId, Op, Reply, ReplyPart, cut_to};
use jiff::Timestamp;
use rusqlite::{Transaction, params};

/// The name of the operation that takes the buttons off a result.
pub const REPLACED: &str = "replaced";
/// Longest line that says what became of a result, in characters. A result leaves room for it.
pub const RESULT_LINE_CHARS_MAX: usize = 300;

/// Returns true for the id of an operation that takes the buttons off a result.
pub(super) fn takes_buttons_off(op: &str) -> bool {
    op.rsplit_once('/').is_some_and(|(_, name)| name == REPLACED)
}

/// Takes the buttons off the messages of all earlier results of a change, and remembers the newest one. `result` is the
/// operation that edits its message: an [`Action::Fill`] with the content of the message, without its buttons.
pub(super) fn replace(
    tx: &Transaction<'_>,
    change: &Change,
    result: &Op,
    at: Timestamp,
) -> Result<(), StoreError> {
    retire(tx, change.number, &format!("Replaced by {change} below."), at)?;
    tx.prepare_cached("UPDATE change SET result = ?3 WHERE number = ?1 AND revision = ?2")?
        .execute(params![change.number.0, change.revision, json(result)?])?;
    Ok(())
}

/// Takes the buttons off the messages of all results of a change, each once. A line in each message says why.
pub(super) fn retire(
    tx: &Transaction<'_>,
    number: ChangeNumber,
    line: &str,
    at: Timestamp,
) -> Result<(), StoreError> {
    let mut ops = Vec::new();
    {
        let mut shown =
            tx.prepare_cached("SELECT result FROM change WHERE number = ?1 AND result IS NOT NULL")?;
        let mut rows = shown.query([number.0])?;
        while let Some(row) = rows.next()? {
            // One that cannot be read keeps its buttons, which are refused when they are pressed.
            let op: Result<Op, StoreError> = parse("change", &row.get::<_, String>(0)?);
            ops.extend(op.ok().map(|op| lined(op, line)));
        }
    }
    tx.prepare_cached("UPDATE change SET result = NULL WHERE number = ?1 AND result IS NOT NULL")?
        .execute([number.0])?;
    outbox::enqueue(tx, &ops, at)
}

/// Closes the open change of a conversation like [`change::close`], and takes the buttons off its result.
pub(super) fn close(
    tx: &Transaction<'_>,
    id: ConversationId,
    at: Timestamp,
) -> Result<Option<String>, StoreError> {
    let number = change::current_number(tx, id)?;
    let name = change::close(tx, id)?;
    if let Some((number, name)) = number.zip(name.as_ref()) {
        retire(tx, number, &format!("{name} is closed."), at)?;
    }
    Ok(name)
}

/// Puts a line before the last one of the message of an operation.
fn lined(op: Op, line: &str) -> Op {
    let action = match op.action {
        Action::Fill { post, reply } => Action::Fill {
            post,
            reply: with_line(reply, line),
        },
        action => action,
    };
    Op { action, ..op }
}

/// Puts a line before the last one of a message. A longer line than [`RESULT_LINE_CHARS_MAX`] is cut.
pub fn with_line(mut reply: Reply, line: &str) -> Reply {
    let line = cut_to(line, RESULT_LINE_CHARS_MAX).into_owned();
    match reply.parts.last_mut() {
        Some(ReplyPart::Footer { text }) => *text = format!("{line} {text}"),
        _ => reply.parts.push(ReplyPart::Footer { text: line }),
    }
    reply
}
