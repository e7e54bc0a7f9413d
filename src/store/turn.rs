//! From one message to its reply. Every write names the claim it is made under, and fails once a
//! newer claim exists.

use super::NewAction;
use super::NewChange;
use super::Store;
use super::StoreError;
use super::action;
use super::audit::audit_in;
use super::change;
use super::column::count;
use super::column::json;
use super::column::millis;
use super::column::of_word;
use super::column::parse;
use super::column::time;
use super::column::word;
use super::conversation;
use super::conversation::Claim;
use super::edits;
use super::edits::Edits;
use super::inbox;
use super::outbox;
use super::usage;
use super::usage::Cost;
use crate::model::Change;
use crate::model::ConversationId;
use crate::model::Inbound;
use crate::model::InboxId;
use crate::model::Op;
use crate::model::Source;
use crate::model::Step;
use crate::model::TurnId;
use crate::model::Usage;
use crate::model::Verdict;
use jiff::Timestamp;
use rusqlite::OptionalExtension;
use rusqlite::Transaction;
use rusqlite::params;
use serde_json::Value;

/// How a turn ends, in one transaction.
pub struct Finish {
    /// How it ended.
    pub verdict: Verdict,
    /// Who says so.
    pub source: Source,
    /// The final answer where the model gave none: after a stop, a limit, an error. `None` when the
    /// last recorded step is one.
    pub answer: Option<Step>,
    /// What was prepared, if anything.
    pub change: Option<NewChange>,
    /// The facts of the turn, for `/status` and the record.
    pub summary: Value,
    /// What is said about it, given the change as it was numbered. Runs inside the transaction: it
    /// computes, and waits for nothing.
    pub announce: Box<dyn FnOnce(Option<&Change>) -> Announcement + Send>,
}

/// What goes out with the end of a turn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Announcement {
    /// Operations for the outbox, in order.
    pub ops: Vec<Op>,
    /// The buttons they carry.
    pub actions: Vec<NewAction>,
}

/// A turn as `/status` and `session show` tell it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnSummary {
    /// Its row.
    pub id: TurnId,
    /// What the person said.
    pub user_text: String,
    /// When it began.
    pub began_at: Timestamp,
    /// When it ended; `None` while it runs, or if a crash cut it short.
    pub finished_at: Option<Timestamp>,
    /// How it ended.
    pub verdict: Option<Verdict>,
    /// Who says so.
    pub source: Option<Source>,
    /// The facts given with its end.
    pub summary: Value,
    /// Model calls with their results.
    pub steps: u64,
    /// Tokens of all its model calls.
    pub usage: Usage,
}

impl Store {
    /// The oldest unfinished message of the claimed conversation.
    pub async fn next_message(&self, claim: &Claim) -> Result<Option<(InboxId, Inbound)>, StoreError> {
        let claim = *claim;
        self.read(move |tx| {
            conversation::check_fence(tx, claim)?;
            inbox::next(tx, claim.conversation)
        })
        .await
    }

    /// How often a turn was begun for a message: more than once means that a crash cut one short.
    pub async fn attempts(&self, inbox: InboxId) -> Result<u32, StoreError> {
        self.read(move |tx| {
            let turns = tx
                .prepare_cached("SELECT COUNT(*) FROM turn WHERE inbox = ?1")?
                .query_row([inbox.0], |row| row.get(0))?;
            Ok(turns)
        })
        .await
    }

    /// Begins a turn for a message. A turn of the same conversation that a crash cut short ends here,
    /// as an error of ours; its steps and edits stay.
    pub async fn begin_turn(
        &self,
        claim: &Claim,
        inbox: InboxId,
        user_text: &str,
        at: Timestamp,
    ) -> Result<TurnId, StoreError> {
        let (claim, user_text) = (*claim, user_text.to_owned());
        self.write(move |tx| {
            conversation::check_fence(tx, claim)?;
            tx.prepare_cached(
                "UPDATE turn SET finished_at = ?2, verdict = ?3, source = ?4
                 WHERE conversation = ?1 AND finished_at IS NULL",
            )?
            .execute(params![
                claim.conversation.0,
                millis(at),
                word(&Verdict::Error)?,
                word(&Source::Harness)?
            ])?;
            let edits = edits::snapshot(tx, claim.conversation)?;
            tx.prepare_cached(
                "INSERT INTO turn (conversation, inbox, user_text, began_at, edits_before, edits_after)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?5)",
            )?
            .execute(params![claim.conversation.0, inbox.0, user_text, millis(at), edits])?;
            Ok(TurnId(tx.last_insert_rowid()))
        })
        .await
    }

    /// Notes something before it happens: a model call, the start and end of a tool, a send.
    pub async fn journal(
        &self,
        claim: &Claim,
        turn: TurnId,
        kind: &str,
        data: Value,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        let (claim, kind) = (*claim, kind.to_owned());
        self.write(move |tx| {
            check_open(tx, claim, turn)?;
            tx.prepare_cached("INSERT INTO journal (turn, kind, data, at) VALUES (?1, ?2, ?3, ?4)")?
                .execute(params![turn.0, kind, json(&data)?, millis(at)])?;
            Ok(())
        })
        .await
    }

    /// What was noted about a turn, in order.
    pub async fn journal_of(&self, turn: TurnId) -> Result<Vec<(String, Value)>, StoreError> {
        self.read(move |tx| {
            let mut statement =
                tx.prepare_cached("SELECT kind, data FROM journal WHERE turn = ?1 ORDER BY id")?;
            let mut rows = statement.query([turn.0])?;
            let mut entries = Vec::new();
            while let Some(row) = rows.next()? {
                entries.push((row.get(0)?, parse("journal entry", &row.get::<_, String>(1)?)?));
            }
            Ok(entries)
        })
        .await
    }

    /// Records a model call with the results of its tools, what it cost, and the edits as they are
    /// now, where they changed: all or nothing.
    pub async fn record_step(
        &self,
        claim: &Claim,
        turn: TurnId,
        step: &Step,
        cost: &Cost,
        edits: Option<&Edits>,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        let (claim, step, cost, edits) = (*claim, json(step)?, cost.clone(), edits.cloned());
        self.write(move |tx| {
            check_open(tx, claim, turn)?;
            insert_step(tx, turn, &step, at)?;
            usage::record(tx, claim.conversation, turn, &cost, at)?;
            if let Some(edits) = edits {
                let snapshot = edits::store(tx, &edits)?;
                edits::set(tx, claim.conversation, &snapshot)?;
                tx.prepare_cached("UPDATE turn SET edits_after = ?2 WHERE id = ?1")?
                    .execute(params![turn.0, snapshot])?;
            }
            Ok(())
        })
        .await
    }

    /// Ends a turn: verdict, final answer, change, replies, buttons, audit line and the message's
    /// "done", in one transaction.
    pub async fn finish_turn(
        &self,
        claim: &Claim,
        turn: TurnId,
        finish: Finish,
        at: Timestamp,
    ) -> Result<Option<Change>, StoreError> {
        let claim = *claim;
        self.write(move |tx| finish_turn(tx, claim, turn, finish, at))
            .await
    }

    /// Answers a message of the turn lane without a turn: its sender is not allowed any more, or it is
    /// nothing we read.
    pub async fn dismiss(
        &self,
        claim: &Claim,
        inbox: InboxId,
        ops: Vec<Op>,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        let claim = *claim;
        self.write(move |tx| {
            conversation::check_fence(tx, claim)?;
            if inbox::finish(tx, claim.conversation, inbox, at)? {
                outbox::enqueue(tx, &ops, at)?;
            }
            Ok(())
        })
        .await
    }

    /// The newest turns of a conversation, newest first.
    pub async fn turns(&self, id: ConversationId, limit: u32) -> Result<Vec<TurnSummary>, StoreError> {
        self.read(move |tx| {
            let mut statement = tx.prepare_cached(
                "SELECT id, user_text, began_at, finished_at, verdict, source, summary,
                        (SELECT COUNT(*) FROM step WHERE step.turn = turn.id)
                 FROM turn WHERE conversation = ?1 ORDER BY id DESC LIMIT ?2",
            )?;
            let mut rows = statement.query(params![id.0, limit])?;
            let mut turns = Vec::new();
            while let Some(row) = rows.next()? {
                turns.push(summary(tx, row)?);
            }
            Ok(turns)
        })
        .await
    }
}

fn summary(tx: &Transaction<'_>, row: &rusqlite::Row<'_>) -> Result<TurnSummary, StoreError> {
    let turn = TurnId(row.get(0)?);
    let text: Option<String> = row.get(6)?;
    Ok(TurnSummary {
        id: turn,
        user_text: row.get(1)?,
        began_at: time(row.get(2)?)?,
        finished_at: row.get::<_, Option<i64>>(3)?.map(time).transpose()?,
        verdict: row.get::<_, Option<String>>(4)?.map(|text| of_word("verdict", text)).transpose()?,
        source: row.get::<_, Option<String>>(5)?.map(|text| of_word("source", text)).transpose()?,
        summary: text.map_or(Ok(Value::Null), |text| parse("summary", &text))?,
        steps: count(row.get(7)?),
        usage: usage::of_turn(tx, turn)?,
    })
}

fn finish_turn(
    tx: &Transaction<'_>,
    claim: Claim,
    turn: TurnId,
    finish: Finish,
    at: Timestamp,
) -> Result<Option<Change>, StoreError> {
    let inbox = check_open(tx, claim, turn)?;
    if let Some(answer) = &finish.answer {
        insert_step(tx, turn, &json(answer)?, at)?;
    }
    tx.prepare_cached(
        "UPDATE turn SET finished_at = ?2, verdict = ?3, source = ?4, summary = ?5 WHERE id = ?1",
    )?
    .execute(params![
        turn.0,
        millis(at),
        word(&finish.verdict)?,
        word(&finish.source)?,
        json(&finish.summary)?
    ])?;
    let change = finish
        .change
        .map(|change| change::prepare(tx, claim.conversation, change, at))
        .transpose()?;
    inbox::finish(tx, claim.conversation, inbox, at)?;
    let announcement = (finish.announce)(change.as_ref());
    outbox::enqueue(tx, &announcement.ops, at)?;
    action::insert(tx, &announcement.actions)?;
    let data = serde_json::json!({
        "change": change.as_ref().map(ToString::to_string),
        "conversation": claim.conversation,
        "source": finish.source,
        "turn": turn,
        "verdict": finish.verdict,
    });
    audit_in(tx, "turn.finished", data, at)?;
    Ok(change)
}

fn insert_step(tx: &Transaction<'_>, turn: TurnId, step: &str, at: Timestamp) -> Result<(), StoreError> {
    tx.prepare_cached("INSERT INTO step (turn, step, at) VALUES (?1, ?2, ?3)")?
        .execute(params![turn.0, step, millis(at)])?;
    Ok(())
}

/// Fails unless the claim is the newest and the turn is an unfinished one of its conversation. Says
/// which message the turn answers.
fn check_open(tx: &Transaction<'_>, claim: Claim, turn: TurnId) -> Result<InboxId, StoreError> {
    conversation::check_fence(tx, claim)?;
    tx.prepare_cached("SELECT inbox FROM turn WHERE id = ?1 AND conversation = ?2 AND finished_at IS NULL")?
        .query_row(params![turn.0, claim.conversation.0], |row| row.get(0).map(InboxId))
        .optional()?
        .ok_or_else(|| StoreError::NotFound(format!("unfinished turn {turn}")))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::Announcement;
    use super::Finish;
    use crate::model::Change;
    use crate::model::Source;
    use crate::model::TurnId;
    use crate::model::Usage;
    use crate::model::Verdict;
    use crate::store::Claim;
    use crate::store::NewChange;
    use crate::store::Store;
    use crate::store::StoreError;
    use crate::store::fixture::LEASE;
    use crate::store::fixture::accept;
    use crate::store::fixture::answer;
    use crate::store::fixture::at;
    use crate::store::fixture::begin;
    use crate::store::fixture::cost;
    use crate::store::fixture::edits;
    use crate::store::fixture::fresh;
    use crate::store::fixture::post;
    use crate::store::fixture::says;
    use bytes::Bytes;
    use serde_json::json;

    fn patch(text: &'static str) -> Option<NewChange> {
        Some(NewChange {
            repository: "infra".into(),
            base: "0".repeat(40),
            patch: Bytes::from_static(text.as_bytes()),
            stats: Vec::new(),
            checks: Vec::new(),
        })
    }

    fn ends(change: Option<NewChange>) -> Finish {
        Finish {
            verdict: Verdict::Pass,
            source: Source::Verified,
            answer: Some(answer("done")),
            change,
            summary: json!({ "files": 1 }),
            announce: Box::new(|change| Announcement {
                ops: vec![post("result", None, &change.map(ToString::to_string).unwrap_or_default())],
                actions: Vec::new(),
            }),
        }
    }

    /// A whole turn that leaves these files and this patch.
    async fn turn(store: &Store, second: i64, files: &[(&str, Option<&[u8]>)], change: Option<NewChange>) -> Option<Change> {
        let (claim, _, turn) = begin(store, "U1", second).await;
        store
            .record_step(&claim, turn, &answer("done"), &cost(1), Some(&edits(files)), at(second))
            .await
            .unwrap();
        let finish = Finish { answer: None, ..ends(change) };
        let change = store.finish_turn(&claim, turn, finish, at(second)).await.unwrap();
        store.release(&claim, at(second)).await.unwrap();
        change
    }

    #[tokio::test]
    async fn the_end_of_a_turn_is_one_transaction() {
        let (_directory, store) = fresh();
        let (claim, _, id) = begin(&store, "U1", 0).await;
        store.journal(&claim, id, "tool.started", json!({ "name": "file_read" }), at(1)).await.unwrap();
        let change = store.finish_turn(&claim, id, ends(patch("diff")), at(2)).await.unwrap().unwrap();
        assert_eq!(change.to_string(), "CHG-1");
        assert_eq!(store.next_message(&claim).await, Ok(None));
        assert_eq!(store.journal_of(id).await, Ok(vec![("tool.started".into(), json!({ "name": "file_read" }))]));
        let due = store.due("slack", at(2), 10).await.unwrap();
        assert_eq!(due[0].op, post("result", None, "CHG-1"));
        let turns = store.turns(claim.conversation, 5).await.unwrap();
        assert_eq!(turns.len(), 1);
        assert_eq!((turns[0].verdict, turns[0].source, turns[0].finished_at), (Some(Verdict::Pass), Some(Source::Verified), Some(at(2))));
        assert_eq!(turns[0].summary, json!({ "files": 1 }));
        assert_eq!(store.audit_lines(1).await.unwrap()[0].0, 1);
        // Twice is an error and changes nothing.
        let again = store.finish_turn(&claim, id, ends(patch("other")), at(3)).await;
        assert!(matches!(again, Err(StoreError::NotFound(_))), "{again:?}");
        assert_eq!(store.current_change(claim.conversation).await, Ok(Some(change)));
    }

    #[tokio::test]
    async fn a_worker_that_lost_its_claim_can_write_nothing() {
        let (_directory, store) = fresh();
        let (old, inbox, id) = begin(&store, "U1", 0).await;
        let new = store.claim("w2", at(61), LEASE).await.unwrap().unwrap();
        let fenced = Err(StoreError::Fenced);
        let files = edits(&[("a", Some(b"late"))]);
        assert_eq!(store.record_step(&old, id, &answer("late"), &cost(1), Some(&files), at(62)).await, fenced);
        assert_eq!(store.journal(&old, id, "x", json!(null), at(62)).await, fenced);
        assert_eq!(store.finish_turn(&old, id, ends(None), at(62)).await, Err(StoreError::Fenced));
        assert_eq!(store.begin_turn(&old, inbox, "x", at(62)).await, Err(StoreError::Fenced));
        assert_eq!(store.dismiss(&old, inbox, Vec::new(), at(62)).await, fenced);
        assert_eq!(store.edits(new.conversation).await, Ok(edits(&[])));
        assert_eq!(store.next_message(&new).await.unwrap().map(|(inbox, _)| inbox), Some(inbox));
    }

    #[tokio::test]
    async fn a_crash_leaves_the_message_and_the_edits_and_no_lease() {
        let (directory, store) = fresh();
        let (claim, inbox, id) = begin(&store, "U1", 0).await;
        let files = edits(&[("a", Some(b"half"))]);
        store.record_step(&claim, id, &answer("thinking"), &cost(1), Some(&files), at(1)).await.unwrap();
        drop(store);
        let store = Store::open(directory.path()).unwrap();
        let next = store.claim("w2", at(2), LEASE).await.unwrap().unwrap();
        assert_eq!(next, Claim { conversation: claim.conversation, fence: claim.fence + 1 });
        assert_eq!(store.next_message(&next).await.unwrap().map(|(inbox, _)| inbox), Some(inbox));
        assert_eq!(store.edits(next.conversation).await, Ok(files));
        store.begin_turn(&next, inbox, "please", at(2)).await.unwrap();
        let cut = store.turns(next.conversation, 5).await.unwrap().pop().unwrap();
        assert_eq!((cut.id, cut.verdict, cut.source), (id, Some(Verdict::Error), Some(Source::Harness)));
    }

    #[tokio::test]
    async fn undo_brings_back_the_same_bytes_turn_by_turn() {
        let (_directory, store) = fresh();
        let bytes: Vec<u8> = (0..=255).collect();
        let first: &[(&str, Option<&[u8]>)] = &[("a/b", Some(&bytes)), ("gone", None)];
        turn(&store, 0, first, None).await;
        turn(&store, 1, &[("a/b", Some(b"two")), ("c", Some(b""))], None).await;
        // A turn that changes nothing is not one to take back.
        turn(&store, 2, &[("a/b", Some(b"two")), ("c", Some(b""))], None).await;
        let id = store.find_conversation(&says("U1", "", &[]).key()).await.unwrap().unwrap();
        assert_eq!(store.undo(id, at(3)).await, Ok(Some(edits(first))));
        assert_eq!(store.edits(id).await, Ok(edits(first)));
        assert_eq!(store.undo(id, at(4)).await, Ok(Some(edits(&[]))));
        assert_eq!(store.undo(id, at(5)).await, Ok(None));
        turn(&store, 6, &[("new", Some(b"x"))], None).await;
        assert_eq!(store.undo(id, at(7)).await, Ok(Some(edits(&[]))));
        assert_eq!(store.undo(id, at(8)).await, Ok(None));
    }

    #[tokio::test]
    async fn a_change_keeps_its_number_while_it_is_open() {
        let (_directory, store) = fresh();
        let mut shown = Vec::new();
        for (second, text) in [(0, "one"), (1, "one"), (2, "two"), (3, "one")] {
            let change = turn(&store, second, &[("a", Some(text.as_bytes()))], patch(text)).await;
            shown.push(change.unwrap().to_string());
        }
        assert_eq!(shown, ["CHG-1", "CHG-1", "CHG-1 rev 2", "CHG-1 rev 3"]);
        let id = store.find_conversation(&says("U1", "", &[]).key()).await.unwrap().unwrap();
        let discarded = store.discard(id, at(4)).await.unwrap().unwrap();
        assert_eq!(discarded.to_string(), "CHG-1 rev 3");
        assert_eq!(store.current_change(id).await, Ok(None));
        assert_eq!(store.edits(id).await, Ok(edits(&[])));
        assert_eq!(store.undo(id, at(5)).await, Ok(None));
        let next = turn(&store, 6, &[("a", Some(b"one"))], patch("one")).await.unwrap();
        assert_eq!(next.to_string(), "CHG-2");
        assert_eq!(store.change(discarded.number).await, Ok(Some((discarded, id))));
    }

    #[tokio::test]
    async fn edits_stay_with_a_new_base_and_go_with_another_repository() {
        let (_directory, store) = fresh();
        turn(&store, 0, &[("a", Some(b"1"))], patch("one")).await;
        let id = store.find_conversation(&says("U1", "", &[]).key()).await.unwrap().unwrap();
        store.bind(id, "infra", "a1").await.unwrap();
        store.bind(id, "infra", "b2").await.unwrap();
        assert_eq!(store.edits(id).await, Ok(edits(&[("a", Some(b"1"))])));
        store.bind(id, "apps", "c3").await.unwrap();
        assert_eq!(store.edits(id).await, Ok(edits(&[])));
        assert_eq!(store.current_change(id).await, Ok(None));
        let bound = store.conversation(id).await.unwrap();
        assert_eq!((bound.repository.as_deref(), bound.base.as_deref()), (Some("apps"), Some("c3")));
    }

    #[tokio::test]
    async fn a_message_can_be_answered_without_a_turn() {
        let (_directory, store) = fresh();
        let (inbox, id, _) = accept(&store, &says("U1", "x", &["1"]), 0).await;
        let claim = store.claim("w", at(0), LEASE).await.unwrap().unwrap();
        store.dismiss(&claim, inbox, vec![post("no", None, "Access was revoked.")], at(1)).await.unwrap();
        store.dismiss(&claim, inbox, vec![post("no2", None, "Access was revoked.")], at(1)).await.unwrap();
        store.release(&claim, at(1)).await.unwrap();
        assert_eq!(store.claim("w", at(2), LEASE).await, Ok(None));
        assert_eq!(store.unsent("slack").await, Ok(1));
        assert_eq!(store.turns(id, 5).await, Ok(Vec::new()));
    }

    #[tokio::test]
    async fn the_tokens_of_a_turn_add_up() {
        let (_directory, store) = fresh();
        let (claim, _, id) = begin(&store, "U1", 0).await;
        store.record_step(&claim, id, &answer("a"), &cost(10), None, at(1)).await.unwrap();
        let usage = store.turns(claim.conversation, 1).await.unwrap()[0].usage;
        assert_eq!(usage, Usage { input: 10, output: 1, ..Usage::default() });
        assert_eq!(store.turns(claim.conversation, 1).await.unwrap()[0].id, TurnId(id.0));
    }
}
