//! Conversations: the history of one person in one place, bound to a repository and base.

use super::claim::TurnWorker;
use super::column::{json, millis};
use super::edits::FileEdits;
use super::history::HistoryLimits;
use super::inbox::QueueKind;
use super::{Store, StoreError, edits, history, key, summary, thread};
use crate::base::model::{
    Account, ChatPlace, ContextState, ConversationId, ConversationKey, History, Inbound, InboxId,
    OutputNumber, Sender, TrimBoundary, TurnId,
};
use hmac::{Hmac, KeyInit, Mac};
use jiff::Timestamp;
use rusqlite::{OptionalExtension, Transaction, params};
use sha2::Sha256;

/// Maximum number of turns to read. The window for a model is smaller.
const TURNS_MAX: u16 = 1_000;
/// The newest turns since the last clear, oldest first, with the words that they took while they ran. The text of a turn
/// that continues another is that of the other.
const TURNS: &str = "SELECT id, user_text FROM
    (SELECT id, CASE WHEN continues IS NOT NULL THEN said WHEN said = '' THEN user_text
                ELSE user_text || char(10) || said END AS user_text FROM turn
     WHERE conversation = ?1 AND id > (SELECT cleared_turn FROM conversation WHERE id = ?1)
       AND (continues IS NULL OR said <> '')
     ORDER BY id DESC LIMIT ?2) AS newest ORDER BY id";

/// The conversation with the newest turn message before a command. If all messages of a conversation are gone, the time
/// of its last one counts.
const LATEST: &str = "SELECT id FROM (SELECT id, spoken_at, MAX(
        COALESCE((SELECT MAX(id) FROM inbox WHERE inbox.conversation = conversation.id
                  AND done_at IS NULL AND lane = 'turn' AND id < ?3), 0),
        COALESCE((SELECT MAX(id) FROM inbox WHERE inbox.conversation = conversation.id
                  AND done_at IS NOT NULL AND lane = 'turn' AND id < ?3), 0)) AS newest
      FROM conversation WHERE key > ?1 AND key < ?2 AND spoken_at IS NOT NULL)
    WHERE newest > 0 OR spoken_at <= (SELECT accepted_at FROM inbox WHERE id = ?3)
    ORDER BY newest DESC, spoken_at DESC, id DESC LIMIT 1";

/// A conversation as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conversation {
    /// The row of the conversation.
    pub id: ConversationId,
    /// The person and the chat and thread.
    pub key: ConversationKey,
    /// The configured name of its channel.
    pub channel: String,
    /// The name of its recording: 32 hex digits that cannot be guessed.
    pub session: String,
    /// The configured repository of its workspace, once bound.
    pub repository: Option<String>,
    /// The base commit of its workspace as 40 hex digits.
    pub base: Option<String>,
    /// The newest number of its outputs; 0 if there was none.
    pub last_output: OutputNumber,
    /// The state of its context.
    pub context: ContextState,
}

impl Store {
    /// Returns a conversation.
    pub async fn conversation(&self, id: ConversationId) -> Result<Conversation, StoreError> {
        self.read(move |tx| load(tx, id)).await
    }

    /// Returns the conversation of this person in this chat that had the newest turn message when `command` was
    /// accepted. All threads of the chat count, and later messages do not. A command typed outside a thread means this
    /// conversation.
    pub async fn latest_conversation(
        &self,
        sender: &Sender,
        account: &Account,
        chat: &str,
        command: InboxId,
    ) -> Result<Option<ConversationId>, StoreError> {
        let key = ConversationKey {
            user: sender.clone(),
            place: ChatPlace {
                account: account.clone(),
                chat: chat.to_owned(),
                thread: None,
            },
        };
        self.read(move |tx| latest(tx, &key, command)).await
    }

    /// True if a place is the private chat of this account with the bot.
    pub async fn is_private_chat(&self, sender: Sender, place: ChatPlace) -> Result<bool, StoreError> {
        self.read(move |tx| is_private_chat(tx, &sender, &place)).await
    }

    /// Finds a conversation: by the name of its session (32 hex digits), its row id, or a change such as `CHG-42`.
    pub async fn find_conversation(&self, which: &str) -> Result<Option<ConversationId>, StoreError> {
        let which = which.to_owned();
        self.read(move |tx| {
            let number = |text: &str| text.parse::<i64>().ok();
            let conversation = which.strip_prefix("CHG-").and_then(number).map(|change| {
                let sql = "SELECT conversation FROM change WHERE number = ?1 ORDER BY revision DESC LIMIT 1";
                tx.prepare_cached(sql)?
                    .query_row([change], |row| row.get::<_, i64>(0))
                    .optional()
            });
            let id = conversation.transpose()?.flatten().or_else(|| number(&which));
            let found = tx
                .prepare_cached("SELECT id FROM conversation WHERE id = ?1 OR session = ?2")?
                .query_row(params![id, which], |row| row.get(0))
                .optional()?;
            Ok(found.map(ConversationId))
        })
        .await
    }

    /// Binds the workspace to a repository at a base commit. If only the base changes, edits stay. For another
    /// repository, the edits and the open change are dropped, because they do not fit.
    pub async fn bind(&self, id: ConversationId, repository: &str, base: &str) -> Result<(), StoreError> {
        let (repository, base) = (repository.to_owned(), base.to_owned());
        self.write(move |tx| bind(tx, id, &repository, &base)).await
    }

    /// Returns the edits of the workspace.
    pub async fn edits(&self, id: ConversationId) -> Result<FileEdits, StoreError> {
        self.read(move |tx| edits::load(tx, &edits::snapshot(tx, id)?))
            .await
    }

    /// Returns the turns that are part of the context. A turn that was cut short is closed with `(interrupted)`, so
    /// that the next one can begin.
    pub async fn history(&self, id: ConversationId) -> Result<History, StoreError> {
        let limits = HistoryLimits {
            turns: usize::from(TURNS_MAX),
            bytes: usize::MAX,
        };
        self.read(move |tx| history::newest(tx, id, limits)).await
    }

    /// Returns the person's messages since the last clear, oldest first.
    pub async fn user_messages(&self, id: ConversationId) -> Result<Vec<String>, StoreError> {
        self.read(move |tx| {
            let mut statement = tx.prepare_cached(TURNS)?;
            let said = statement.query_map(params![id.0, TURNS_MAX], |row| row.get(1))?;
            Ok(said.collect::<rusqlite::Result<_>>()?)
        })
        .await
    }
}

/// True if a place is the private chat of this account with the bot.
pub(super) fn is_private_chat(
    tx: &Transaction<'_>,
    sender: &Sender,
    place: &ChatPlace,
) -> Result<bool, StoreError> {
    let (after, before) = key::chat_key_range(sender, &place.account, &place.chat)?;
    let is_private = tx
        .prepare_cached("SELECT 1 FROM conversation WHERE key > ?1 AND key < ?2 AND direct = 1")?
        .exists([after, before])?;
    Ok(is_private)
}

/// Clears the history. The workspace stays.
pub(super) fn clear_history(tx: &Transaction<'_>, id: ConversationId) -> Result<(), StoreError> {
    let cleared = tx
        .prepare_cached(
            "UPDATE conversation SET switched = 0,
               cleared_turn = COALESCE((SELECT MAX(id) FROM turn WHERE conversation = ?1), 0)
             WHERE id = ?1",
        )?
        .execute([id.0])?;
    summary::clear(tx, id)?;
    require_row(cleared, id)
}

/// Binds the workspace like [`Store::bind`], within another write.
pub(super) fn bind(
    tx: &Transaction<'_>,
    id: ConversationId,
    repository: &str,
    base: &str,
) -> Result<(), StoreError> {
    let bound = load(tx, id)?.repository;
    if bound.is_some_and(|bound| bound != repository) {
        edits::forget(tx, id)?;
        thread::close_to_others(tx, id)?;
    }
    tx.prepare_cached("UPDATE conversation SET repository = ?2, base = ?3 WHERE id = ?1")?
        .execute(params![id.0, repository, base])?;
    Ok(())
}

pub(super) fn boundary_of(trimmed: i64, dropped: i64) -> TrimBoundary {
    let turn = |id: i64| (id > 0).then_some(TurnId(id));
    TrimBoundary {
        trimmed: turn(trimmed),
        dropped: turn(dropped),
    }
}

/// Returns the conversation like [`Store::latest_conversation`], for the person and the chat of a key.
pub(super) fn latest(
    tx: &Transaction<'_>,
    key: &ConversationKey,
    command: InboxId,
) -> Result<Option<ConversationId>, StoreError> {
    let place = &key.place;
    let (after, before) = key::chat_key_range(&key.user, &place.account, &place.chat)?;
    let id = tx
        .prepare_cached(LATEST)?
        .query_row(params![after, before, command.0], |row| {
            row.get(0).map(ConversationId)
        })
        .optional()?;
    Ok(id)
}

/// Stores the state of the context. A boundary that was stored only moves forward, with the summary of the turns before
/// it.
pub(super) fn set_context(
    tx: &Transaction<'_>,
    id: ConversationId,
    context: &ContextState,
) -> Result<(), StoreError> {
    let turn = |turn: Option<TurnId>| turn.map_or(0, |turn| turn.0);
    let TrimBoundary { trimmed, dropped } = context.boundary;
    let set = tx
        .prepare_cached(
            "UPDATE conversation SET trimmed_turn = MAX(trimmed_turn, ?2), dropped_turn = MAX(dropped_turn, ?3),
               bytes_per_1000_tokens = COALESCE(?4, bytes_per_1000_tokens)
             WHERE id = ?1",
        )?
        .execute(params![
            id.0,
            turn(trimmed),
            turn(dropped),
            context.bytes_per_1000_tokens
        ])?;
    if let (Some(text), Some(turn)) = (&context.summary, dropped) {
        summary::set(tx, id, turn, text)?;
    }
    require_row(set, id)
}

pub(super) fn load(tx: &Transaction<'_>, id: ConversationId) -> Result<Conversation, StoreError> {
    type Row = (
        String,
        String,
        String,
        Option<String>,
        Option<String>,
        i64,
        i64,
        i64,
        Option<u32>,
    );
    let row: Row = tx
        .prepare_cached(
            "SELECT key, channel, session, repository, base, last_output, trimmed_turn, dropped_turn,
                    bytes_per_1000_tokens
             FROM conversation WHERE id = ?1",
        )?
        .query_row([id.0], |row| row.try_into())
        .optional()?
        .ok_or_else(|| not_found(id))?;
    let (key, channel, session, repository, base, last_output, trimmed, dropped, bytes_per_1000_tokens) = row;
    Ok(Conversation {
        id,
        key: key::from_text(&key)?,
        channel,
        session,
        repository,
        base,
        last_output: OutputNumber(last_output),
        context: ContextState {
            boundary: boundary_of(trimmed, dropped),
            bytes_per_1000_tokens,
            summary: None,
        },
    })
}

fn not_found(id: ConversationId) -> StoreError {
    StoreError::NotFound(format!("conversation {id}"))
}

/// Returns an error if no row was changed.
pub(super) fn require_row(rows: usize, id: ConversationId) -> Result<(), StoreError> {
    match rows {
        0 => Err(not_found(id)),
        _ => Ok(()),
    }
}

/// Finds the conversation with this key.
pub(super) fn find(
    tx: &Transaction<'_>,
    key: &ConversationKey,
) -> Result<Option<ConversationId>, StoreError> {
    find_text(tx, &key::text(key)?)
}

/// Finds the conversation with the key of this text.
pub(super) fn find_text(tx: &Transaction<'_>, key: &str) -> Result<Option<ConversationId>, StoreError> {
    let id = tx
        .prepare_cached("SELECT id FROM conversation WHERE key = ?1")?
        .query_row([key], |row| row.get(0).map(ConversationId))
        .optional()?;
    Ok(id)
}

/// True if a conversation has a turn message, not only commands and clicks.
pub(super) fn has_turn_message(
    tx: &Transaction<'_>,
    conversation: ConversationId,
) -> Result<bool, StoreError> {
    let mut statement =
        tx.prepare_cached("SELECT 1 FROM conversation WHERE id = ?1 AND spoken_at IS NOT NULL")?;
    Ok(statement.exists([conversation.0])?)
}

/// Creates the conversation for its first message, which is stored next, with the text of its key. If that is a turn
/// message, the conversation waits, or is claimed by `worker` if given.
pub(super) fn create(
    tx: &Transaction<'_>,
    (inbound, key): (&Inbound, &str),
    queue_kind: QueueKind,
    worker: Option<&TurnWorker>,
    pepper: [u8; 32],
    at: Timestamp,
) -> Result<Conversation, StoreError> {
    let session = session_name(pepper, key)?;
    let at = millis(at);
    let (pending, spoken_at) = match queue_kind {
        QueueKind::Turn => (1, Some(at)),
        QueueKind::Command | QueueKind::Change => (0, None),
    };
    tx.prepare_cached(
        "INSERT INTO conversation
           (key, sender, channel, session, edits, cleared_turn, owner, fence, pending,
            due, spoken_at, created_at, direct)
         VALUES (?1, ?2, ?3, ?4, '{}', 0, ?5, ?6, ?7, (SELECT COALESCE(MAX(id), 0) + 1 FROM inbox), ?8, ?9, ?10)",
    )?
    .execute(params![
        key,
        json(&inbound.sender)?,
        inbound.channel,
        session,
        worker.map(|worker| worker.name.as_str()),
        i64::from(worker.is_some()),
        pending,
        spoken_at,
        at,
        inbound.direct,
    ])?;
    Ok(Conversation {
        id: ConversationId(tx.last_insert_rowid()),
        key: inbound.key(),
        channel: inbound.channel.clone(),
        session,
        repository: None,
        base: None,
        last_output: OutputNumber(0),
        context: ContextState::default(),
    })
}

// Hex from a keyed hash. So a person's input cannot reach a file name, and the name cannot be guessed.
fn session_name(pepper: [u8; 32], key: &str) -> Result<String, StoreError> {
    let mut mac = Hmac::<Sha256>::new_from_slice(&pepper).map_err(|err| StoreError::Unreadable {
        what: "pepper",
        why: err.to_string(),
    })?;
    mac.update(b"session\0");
    mac.update(key.as_bytes());
    Ok(hex::encode(&mac.finalize().into_bytes()[..16]))
}

/// Marks a one-to-one chat with the bot that an earlier version has stored.
pub(super) fn mark_direct(tx: &Transaction<'_>, id: ConversationId) -> Result<(), StoreError> {
    tx.prepare_cached("UPDATE conversation SET direct = 1 WHERE id = ?1 AND direct = 0")?
        .execute([id.0])?;
    Ok(())
}

/// Counts one more turn message, which is stored next.
pub(super) fn add_pending(
    tx: &Transaction<'_>,
    id: ConversationId,
    inbound: &Inbound,
    at: Timestamp,
) -> Result<(), StoreError> {
    tx.prepare_cached(
        "UPDATE conversation SET due = CASE WHEN pending = 0 THEN (SELECT COALESCE(MAX(id), 0) + 1 FROM inbox) ELSE due END,
           pending = pending + 1, spoken_at = ?2, direct = MAX(direct, ?3)
         WHERE id = ?1",
    )?
    .execute(params![id.0, millis(at), inbound.direct])?;
    Ok(())
}

/// Counts one waiting message less. The next one decides how long the conversation has waited.
pub(super) fn remove_pending(tx: &Transaction<'_>, id: ConversationId) -> Result<(), StoreError> {
    tx.prepare_cached(
        "UPDATE conversation SET pending = pending - 1, due = COALESCE(
           (SELECT MIN(id) FROM inbox WHERE conversation = ?1 AND lane = ?2 AND done_at IS NULL), due)
         WHERE id = ?1",
    )?
    .execute(params![id.0, QueueKind::Turn.as_str()])?;
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests;
