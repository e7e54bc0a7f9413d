//! Fixtures for tests of the store: a store in its own directory, and messages to store.

use super::people::GrantRow;
use super::question::TypedAnswer;
use super::{
    AcceptOutcome, Announcement, Claim, Claimable, ComposedWrite, Cost, FileEdits, FinishedTurn, GroupReach,
    NewChange, NewRun, ProspectiveChange, QueueKind, QueueLimits, Store, StoreError, StoredChange,
    TurnAnswer, TurnEnd, TurnStart, TurnWorker,
};
use crate::base::model::{
    Account, Action, AskedQuestion, Assistant, BudgetScopes, Change, ChangeOverview, ChatPlace, ContentBlock,
    ContextState, ConversationId, FileMode, FileVersion, Inbound, InboundKind, InboxId, Op, Platform, Reply,
    RepoPath, RunConflictRule, Sender, Step, StopReason, ToolCall, ToolResult, TurnId, Usage, UserId,
    Verdict, VerdictSource,
};
use bytes::Bytes;
use jiff::Timestamp;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

pub(super) fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

pub(super) fn worker(name: &str) -> TurnWorker {
    TurnWorker {
        name: name.to_owned(),
        turns_max: 40,
        bytes_max: usize::MAX,
        of_person_max: 8,
        run_starters: Arc::default(),
    }
}

pub(super) fn fresh() -> (TempDir, Store) {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(directory.path()).unwrap();
    (directory, store)
}

pub(super) fn person(name: &str) -> Sender {
    Sender {
        platform: Platform::Slack,
        account: "T1".into(),
        id: name.into(),
    }
}

pub(super) fn place(thread: Option<&str>) -> ChatPlace {
    ChatPlace {
        account: Account {
            platform: Platform::Slack,
            id: "T1".into(),
        },
        chat: "C1".into(),
        thread: thread.map(Into::into),
    }
}

/// Returns a message of `name` with `text` in thread `1.0`. Its delivery names are `names`.
pub(super) fn says(name: &str, text: &str, names: &[&str]) -> Inbound {
    Inbound {
        channel: "slack".into(),
        delivery: names.iter().map(|name| (*name).to_owned()).collect(),
        sender: person(name),
        place: place(Some("1.0")),
        direct: false,
        message: None,
        kind: InboundKind::Text {
            text: text.into(),
            quoted: None,
            addressed: true,
        },
        files: Vec::new(),
        about: None,
        response_url: None,
    }
}

pub(super) fn post(id: &str, thread: Option<&str>, text: &str) -> Op {
    Op {
        id: id.into(),
        channel: "slack".into(),
        place: place(thread),
        action: Action::Post {
            reply: Reply::text(text),
            reply_to: None,
            placeholder: false,
        },
        response_url: None,
    }
}

/// Returns a placeholder post that is filled later.
pub(super) fn placeholder(id: &str, thread: Option<&str>, text: &str) -> Op {
    let action = Action::Post {
        reply: Reply::text(text),
        reply_to: None,
        placeholder: true,
    };
    Op {
        action,
        ..post(id, thread, text)
    }
}

pub(super) fn fill(id: &str, post: &str, text: &str) -> Op {
    Op {
        id: id.into(),
        channel: "slack".into(),
        place: place(Some("1.0")),
        action: Action::Fill {
            post: post.into(),
            reply: Reply::text(text),
        },
        response_url: None,
    }
}

pub(super) fn edits(files: &[(&str, Option<&[u8]>)]) -> FileEdits {
    files
        .iter()
        .map(|(path, content)| {
            let version = content.map(|content| FileVersion {
                content: Bytes::copy_from_slice(content),
                mode: FileMode::Executable,
            });
            (RepoPath::parse(path).unwrap(), version)
        })
        .collect()
}

pub(super) fn answer(text: &str) -> Step {
    Step::new(Assistant::synthetic(text), Vec::new()).unwrap()
}

/// Returns a step that read a file with this content.
pub(super) fn reads(content: String) -> Step {
    let call = ToolCall {
        id: "c1".to_owned(),
        name: "file_read".to_owned(),
        arguments: "{}".into(),
    };
    let assistant = Assistant {
        blocks: vec![ContentBlock::Call(call)],
        raw: None,
        stop: StopReason::ToolUse,
        usage: Usage::default(),
    };
    let result = ToolResult {
        call: "c1".to_owned(),
        content,
        is_error: false,
    };
    Step::new(assistant, vec![result]).unwrap()
}

pub(super) fn cost(input: u64) -> Cost {
    Cost {
        provider: "anthropic".into(),
        model: "claude".into(),
        usage: Usage {
            input,
            output: 1,
            ..Usage::default()
        },
        money: None,
        reservation: None,
        told: BudgetScopes::default(),
    }
}

/// Reads a text as an answer.
fn plain_answer(_: ConversationId, question: &AskedQuestion, inbound: &Inbound) -> Option<TypedAnswer> {
    let InboundKind::Text { text, .. } = &inbound.kind else {
        return None;
    };
    Some(TypedAnswer {
        answer: question.read(text),
        beside: None,
    })
}

/// Returns limits with this number of waiting messages per conversation. Further ones must be delivered again.
pub(super) fn room(of_conversation_max: usize) -> QueueLimits {
    QueueLimits {
        answers: Some(Arc::new(plain_answer)),
        notices: Vec::new(),
        thread_question: None,
        of_conversation_max,
        of_hook_max: 200,
        refusal: None,
    }
}

/// Returns a run of one person with these steps, by their names and the kinds of their work. It may last 100 seconds, and has
/// no message.
pub(super) fn new_run(steps: &[(&str, &str)]) -> NewRun {
    let steps = steps.iter();
    NewRun {
        pipeline: "review".to_owned(),
        repository: "infra".to_owned(),
        owner: person("U1"),
        trigger: "chat".to_owned(),
        deliveries: Vec::new(),
        group: None,
        on_conflict: RunConflictRule::Serial,
        reach: GroupReach::Own,
        place: None,
        commit: "0".repeat(40),
        plan: "{}".to_owned(),
        inputs: "{}".to_owned(),
        steps: steps
            .map(|(name, kind)| ((*name).to_owned(), (*kind).to_owned()))
            .collect(),
        timeout: Duration::from_secs(100),
    }
}

/// Claims the conversation that has waited longest.
pub(super) async fn claim(store: &Store, name: &str) -> Option<Claim> {
    let claimed = store.claim(&worker(name), Claimable::ALL).await.unwrap();
    claimed.map(|claimed| claimed.claim)
}

/// Accepts a command.
pub(super) async fn command(store: &Store, text: &str, delivery: &str, second: i64) -> InboxId {
    let inbound = says("U1", text, &[delivery]);
    match store
        .accept(&inbound, QueueKind::Change, room(20), None, at(second))
        .await
        .unwrap()
    {
        AcceptOutcome::Stored { inbox, .. } => inbox,
        other => panic!("{other:?}"),
    }
}

/// Accepts a message for a turn.
pub(super) async fn accept(store: &Store, inbound: &Inbound, second: i64) -> (InboxId, ConversationId, u32) {
    match store
        .accept(inbound, QueueKind::Turn, room(20), None, at(second))
        .await
        .unwrap()
    {
        AcceptOutcome::Stored {
            inbox,
            conversation,
            queue_position,
            ..
        } => (inbox, conversation, queue_position),
        other => panic!("{other:?}"),
    }
}

/// Finds the conversation of a message.
pub(super) async fn find(store: &Store, inbound: &Inbound) -> Option<ConversationId> {
    let key = inbound.key();
    store
        .read(move |tx| super::conversation::find(tx, &key))
        .await
        .unwrap()
}

/// Accepts a message of Alice and begins its turn.
pub(super) async fn begin(store: &Store, name: &str, second: i64) -> (Claim, InboxId, TurnId) {
    let delivery = format!("{name}:{second}");
    accept(store, &says(name, "please", &[&delivery]), second).await;
    let claim = claim(store, "w1").await.unwrap();
    let inbox = store.work(&claim, 40, usize::MAX).await.unwrap().unwrap().inbox;
    let sender = super::column::json(&person(name)).unwrap();
    let admitted = "SELECT user_id FROM identity WHERE sender = ?1";
    let user = store.read(move |tx| {
        Ok(tx
            .query_row(admitted, [sender], |row| row.get(0).map(UserId))
            .ok())
    });
    let mut start = TurnStart::quiet("please");
    start.user = user.await.unwrap().unwrap_or(start.user);
    let begun = store.begin_turn(&claim, inbox, start, at(second)).await.unwrap();
    (claim, inbox, begun.turn)
}

/// Returns a change with this patch.
pub(super) fn patch(text: &'static str) -> Option<NewChange> {
    Some(NewChange {
        repository: "infra".into(),
        base: "0".repeat(40),
        patch: Bytes::from_static(text.as_bytes()),
        content: <sha2::Sha256 as sha2::Digest>::digest(text).into(),
        stats: Vec::new(),
        checks: Vec::new(),
        effects: "1 environment changes".to_owned(),
        overview: ChangeOverview {
            headline: "1 of 2 environments changes, 1 object".to_owned(),
            ..ChangeOverview::default()
        },
        needs: Vec::new(),
    })
}

/// Describes in a few words what a turn left prepared.
pub(super) fn named(leaves: StoredChange<'_>) -> String {
    match leaves {
        StoredChange::Nothing => String::new(),
        StoredChange::Closed(name) => format!("{name} is closed"),
        StoredChange::Change(numbered) => numbered.change.to_string(),
    }
}

/// The end of a turn before the name of its change is known.
pub(super) enum EndDraft {
    Answered(Box<AnswerDraft>),
    Refused(Vec<Op>, Option<Cost>),
}

/// An answer with a function that composes its announcement.
pub(super) struct AnswerDraft {
    pub(super) verdict: Verdict,
    pub(super) source: VerdictSource,
    pub(super) answer: Option<Step>,
    pub(super) cost: Option<Cost>,
    pub(super) change: Option<NewChange>,
    pub(super) withheld: Option<String>,
    pub(super) leaves_change: bool,
    pub(super) summary: serde_json::Value,
    pub(super) announce: Box<dyn FnOnce(StoredChange<'_>) -> Announcement>,
}

impl<T: std::fmt::Debug> ComposedWrite<T> {
    /// Returns the result of a write that was not outdated.
    pub(super) fn stored(self) -> T {
        match self {
            Self::Stored(value) => value,
            Self::Outdated(basis) => panic!("{basis:?}"),
        }
    }
}

impl Store {
    /// Returns a change as it would be stored now.
    pub(super) async fn prospect(
        &self,
        id: ConversationId,
        user: UserId,
        change: Option<NewChange>,
    ) -> Result<ProspectiveChange, StoreError> {
        Ok(self.prospective_change(self.change_basis(id, user).await?, change))
    }

    /// Ends a turn as the gateway does: by the current grants and the name that its change gets.
    pub(super) async fn finish_composed(
        &self,
        claim: &Claim,
        turn: TurnId,
        user: UserId,
        decide: impl FnOnce(Option<&[GrantRow]>) -> EndDraft,
        at: Timestamp,
    ) -> Result<FinishedTurn, StoreError> {
        let id = claim.conversation;
        let basis = self.change_basis(id, user).await?;
        let granted = self.prospective_change(basis.clone(), None);
        let (prospect, end) = match decide(granted.grants()) {
            EndDraft::Refused(ops, cost) => (granted, TurnEnd::Refused(ops, cost)),
            EndDraft::Answered(draft) => {
                let AnswerDraft {
                    verdict,
                    source,
                    answer,
                    cost,
                    change,
                    withheld,
                    leaves_change,
                    summary,
                    announce,
                } = *draft;
                let prospect = self.prospective_change(basis, change);
                let answer = TurnAnswer {
                    verdict,
                    source,
                    answer,
                    cost,
                    context: ContextState::default(),
                    withheld,
                    leaves_change,
                    summary,
                };
                let announcement = announce(answer.stored(&prospect));
                (prospect, TurnEnd::Answered(Box::new(answer), announcement))
            }
        };
        let finished = self.finish_turn(claim, turn, prospect, end, at).await?;
        Ok(finished.stored())
    }
}

/// Returns the end of a turn that posts the name of its change.
pub(super) fn ends(change: Option<NewChange>) -> AnswerDraft {
    AnswerDraft {
        verdict: Verdict::Pass,
        source: VerdictSource::Verified,
        answer: Some(answer("done")),
        cost: None,
        change,
        withheld: None,
        leaves_change: false,
        summary: json!({ "files": 1 }),
        announce: Box::new(|leaves| Announcement {
            ops: vec![post("result", None, &named(leaves))],
            actions: Vec::new(),
            budget_request: None,
            result: None,
            deliver_now: false,
        }),
    }
}

/// Runs a complete turn that leaves these files and this patch.
pub(super) async fn turn(
    store: &Store,
    second: i64,
    files: &[(&str, Option<&[u8]>)],
    change: Option<NewChange>,
) -> Option<Change> {
    let (claim, _, turn) = begin(store, "U1", second).await;
    store
        .record_step(
            &claim,
            turn,
            &answer("done"),
            &cost(1),
            Some(&edits(files)),
            at(second),
        )
        .await
        .unwrap();
    let finish = AnswerDraft {
        answer: None,
        ..ends(change)
    };
    let FinishedTurn { change, .. } = store
        .finish_composed(
            &claim,
            turn,
            UserId(1),
            move |_| EndDraft::Answered(Box::new(finish)),
            at(second),
        )
        .await
        .unwrap();
    store.release(&claim).await.unwrap();
    change
}
