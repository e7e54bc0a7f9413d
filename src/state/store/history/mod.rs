//! Histories: the turns of a conversation that are part of its context, with their steps.

mod cache;

pub(super) use cache::HistoryCache;

use super::column::{parse, text};
use super::{StoreError, conversation, summary};
use crate::base::model::{ConversationId, History, HistoryError, Step, TrimBoundary, TurnId, json_bytes};
use rusqlite::{OptionalExtension, Transaction, params};
use std::sync::Arc;

/// The answer stored for a turn that a crash cut short.
const INTERRUPTED: &str = "(interrupted)";

/// The turns after a given one, newest first.
const NEWEST: &str = "SELECT id, user_text, continues, finished_at IS NOT NULL FROM turn
     WHERE conversation = ?1 AND id > ?2 ORDER BY id DESC LIMIT ?3";

/// The turns after a given one, with their steps, in the order of two indexes. Nothing is sorted, however long a step
/// is.
const STEPS: &str = "SELECT turn.id, turn.user_text, turn.continues, turn.finished_at IS NOT NULL, step.step
    FROM turn LEFT JOIN step ON step.turn = turn.id
    WHERE turn.conversation = ?1 AND turn.id > ?2
    ORDER BY turn.id, step.id";

/// The maximum size of a history.
#[derive(Clone, Copy, Debug)]
pub(super) struct HistoryLimits {
    /// The maximum number of stored turns.
    pub(super) turns: usize,
    /// The maximum number of bytes in a request.
    pub(super) bytes: usize,
}

/// The values on which a history depends, apart from its rows.
#[derive(Clone, Debug, PartialEq, Eq)]
struct HistoryBasis {
    /// The newest turn that is not part of the context any more.
    after: TurnId,
    /// The turns up to which the conversation was trimmed.
    boundary: TrimBoundary,
    /// The text that stands for the turns that are left out.
    summary: Option<Arc<str>>,
    /// The number of changes of its rows, without those that were added.
    changes: i64,
}

impl HistoryBasis {
    fn read(tx: &Transaction<'_>, id: ConversationId) -> Result<Self, StoreError> {
        let row: Option<(i64, i64, i64, i64)> = tx
            .prepare_cached(
                "SELECT MAX(cleared_turn, dropped_turn), trimmed_turn, dropped_turn, history_changes
                 FROM conversation WHERE id = ?1",
            )?
            .query_row([id.0], |row| row.try_into())
            .optional()?;
        let (after, trimmed, dropped, changes) = row.unwrap_or_default();
        Ok(Self {
            after: TurnId(after),
            boundary: conversation::boundary_of(trimmed, dropped),
            summary: summary::load(tx, id)?.map(Arc::from),
            changes,
        })
    }

    /// Returns the history without its turns, with this boundary.
    fn empty(&self, boundary: TrimBoundary) -> ReadHistory {
        let mut history = History::with_boundary(boundary);
        if let Some(summary) = &self.summary {
            history.begin_summary(Arc::clone(summary));
        }
        ReadHistory {
            history,
            newest: self.after,
            turns: 0,
            bytes: self.summary.as_deref().map_or(0, json_bytes),
            is_finished: true,
        }
    }
}

/// A history as it was read.
#[derive(Clone, Debug)]
struct ReadHistory {
    /// The turns. The last one is closed.
    history: History,
    /// The newest turn that was read.
    newest: TurnId,
    /// The number of stored turns.
    turns: usize,
    /// The size of what is stored, in a request.
    bytes: usize,
    /// True if all turns are finished, so that they get no more steps.
    is_finished: bool,
}

impl ReadHistory {
    /// Adds the turns that were stored after the newest one. Returns `None` if the limits are exceeded.
    fn with_newer(
        mut self,
        tx: &Transaction<'_>,
        id: ConversationId,
        limits: HistoryLimits,
    ) -> Result<Option<Self>, StoreError> {
        let boundary = self.history.boundary();
        let after = self.newest;
        let mut steps = tx.prepare_cached(STEPS)?;
        let mut rows = steps.query(params![id.0, after.0])?;
        let mut read = 0;
        while let Some(row) = rows.next()? {
            let turn = TurnId(row.get(0)?);
            if turn != self.newest {
                self.begin(StoredTurn {
                    id: turn,
                    user_text: row.get(1)?,
                    continues: row.get::<_, Option<i64>>(2)?.map(TurnId),
                    is_finished: row.get(3)?,
                })?;
            }
            let step: Option<String> = row.get(4)?;
            // What is stored of a trimmed step can be much longer than it is in a request.
            read += step.as_ref().map_or(0, String::len);
            if self.turns > limits.turns || self.bytes.max(read) > limits.bytes {
                return Ok(None);
            }
            if let Some(step) = step {
                self.push(read_step(&step, turn, boundary)?)?;
            }
        }
        self.history.close(INTERRUPTED);
        Ok((self.bytes <= limits.bytes).then_some(self))
    }

    /// Begins a turn, as one of its own or as a part of the last turn, which it continues. An earlier turn that is open is
    /// closed.
    fn begin(&mut self, turn: StoredTurn) -> Result<(), StoreError> {
        self.newest = turn.id;
        self.turns += 1;
        self.bytes += json_bytes(&turn.user_text);
        self.is_finished &= turn.is_finished;
        let history = &mut self.history;
        history.close(INTERRUPTED);
        let is_more = turn
            .continues
            .is_some_and(|earlier| history.reopen_stored(earlier, turn.id));
        match is_more {
            true => Ok(()),
            false => history.begin_stored(turn.id, turn.user_text).map_err(invalid),
        }
    }

    fn push(&mut self, step: Step) -> Result<(), StoreError> {
        self.bytes += step.bytes();
        self.history.push(step).map_err(invalid)
    }
}

/// A turn as stored.
struct StoredTurn {
    id: TurnId,
    user_text: String,
    continues: Option<TurnId>,
    is_finished: bool,
}

/// Returns the turns that are part of the context. Returns `None` if they exceed the limits.
pub(super) fn within(
    tx: &Transaction<'_>,
    id: ConversationId,
    limits: HistoryLimits,
) -> Result<Option<History>, StoreError> {
    let basis = HistoryBasis::read(tx, id)?;
    let read = basis.empty(basis.boundary).with_newer(tx, id, limits)?;
    Ok(read.map(|read| read.history))
}

/// Returns the newest turns of the context that fit both limits; no others are read, and the history says that they
/// are left out. The results of the turn that would exceed the bytes, and of those before it, become placeholders first.
pub(super) fn newest(
    tx: &Transaction<'_>,
    id: ConversationId,
    limits: HistoryLimits,
) -> Result<History, StoreError> {
    Ok(newest_of(tx, id, &HistoryBasis::read(tx, id)?, limits)?.history)
}

fn newest_of(
    tx: &Transaction<'_>,
    id: ConversationId,
    basis: &HistoryBasis,
    limits: HistoryLimits,
) -> Result<ReadHistory, StoreError> {
    let mut boundary = basis.boundary;
    let mut newest = tx.prepare_cached(NEWEST)?;
    let turns_read_max = i64::try_from(limits.turns.saturating_add(1)).unwrap_or(i64::MAX);
    let mut rows = newest.query(params![id.0, basis.after.0, turns_read_max])?;
    let (mut turns, mut left_out) = (Vec::new(), None);
    let mut bytes = basis.summary.as_deref().map_or(0, json_bytes);
    while let Some(row) = rows.next()? {
        let turn = StoredTurn {
            id: TurnId(row.get(0)?),
            user_text: row.get(1)?,
            continues: row.get::<_, Option<i64>>(2)?.map(TurnId),
            is_finished: row.get(3)?,
        };
        if turns.len() == limits.turns {
            left_out = Some(turn.id);
            break;
        }
        let mut steps = tx.prepare_cached("SELECT step FROM step WHERE turn = ?1 ORDER BY id")?;
        let mut rows = steps.query([turn.id.0])?;
        let mut steps = Vec::new();
        while let Some(row) = rows.next()? {
            steps.push(read_step(&text("step", row, 0)?, turn.id, boundary)?);
        }
        let size =
            |steps: &[Step]| json_bytes(&turn.user_text) + steps.iter().map(Step::bytes).sum::<usize>();
        if bytes + size(&steps) > limits.bytes && !boundary.is_trimmed(turn.id) {
            boundary.trimmed = Some(turn.id);
            steps = steps.into_iter().map(Step::trimmed).collect();
        }
        bytes += size(&steps);
        if bytes > limits.bytes {
            left_out = Some(turn.id);
            break;
        }
        turns.push((turn, steps));
    }
    let mut read = basis.empty(boundary);
    if let Some(turn) = left_out {
        read.history.leave_out_up_to(turn);
    }
    for (turn, steps) in turns.into_iter().rev() {
        read.begin(turn)?;
        for step in steps {
            read.push(step)?;
        }
    }
    read.history.close(INTERRUPTED);
    Ok(read)
}

/// Reads a step; one of a trimmed turn without its results.
fn read_step(text: &str, turn: TurnId, boundary: TrimBoundary) -> Result<Step, StoreError> {
    let step: Step = parse("step", text)?;
    Ok(match boundary.is_trimmed(turn) {
        true => step.trimmed(),
        false => step,
    })
}

fn invalid(error: HistoryError) -> StoreError {
    StoreError::Unreadable {
        what: "history",
        why: error.to_string(),
    }
}
