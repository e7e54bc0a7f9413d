//! Tests of runs and their steps in the store, and the runs that they begin with.

mod endings;
mod groups;
mod moves;
mod open_runs;
mod quiet;
mod room;
mod starts;

use super::{GroupReach, NewRun, RunAdvance, RunCreation, RunRow, StepBegin};
use crate::base::model::{ChatPlace, Inbound, RunConflictRule, RunId, RunStatus, UserId};
use crate::state::store::fixture::{AnswerDraft, EndDraft, at, claim, cost, new_run, place, says};
use crate::state::store::{Claim, ClaimedWork, StoppedWork, Store, TurnStart};

/// Returns a run of two agent steps and a reply, which may last 100 seconds.
fn new(deliveries: &[&str]) -> NewRun {
    NewRun {
        deliveries: deliveries.iter().map(|name| (*name).to_owned()).collect(),
        reach: GroupReach::All,
        place: Some(("slack".to_owned(), place(Some("1.0")))),
        ..new_run(&[("look", "agent"), ("judge", "agent"), ("tell", "reply")])
    }
}

async fn created(store: &Store, new: NewRun, second: i64) -> RunRow {
    match store.create_run(new, None, at(second)).await.unwrap().0 {
        RunCreation::Created(id) => read(store, id).await,
        other => panic!("{other:?}"),
    }
}

async fn read(store: &Store, id: RunId) -> RunRow {
    store.run(id).await.unwrap().unwrap()
}

/// Returns the message of an agent step.
fn message(run: RunId, step: usize) -> Inbound {
    Inbound {
        place: ChatPlace {
            thread: Some(format!("{run}:{step}")),
            ..place(None)
        },
        ..says("U1", "please", &[&format!("run:{run}:{step}")])
    }
}

fn begins(run: RunId, step: usize) -> RunAdvance {
    RunAdvance {
        begin: vec![(step, StepBegin::Message(Box::new(message(run, step))))],
        ..RunAdvance::default()
    }
}

fn ends_with(status: RunStatus) -> RunAdvance {
    RunAdvance {
        finish: Some((status, None)),
        ..RunAdvance::default()
    }
}

async fn advance(store: &Store, id: RunId, moves: RunAdvance, second: i64) -> Option<Vec<StoppedWork>> {
    let version = read(store, id).await.version;
    store.advance_run(id, version, moves, at(second)).await.unwrap()
}

async fn due(store: &Store, second: i64) -> Vec<i64> {
    let runs = store.run_work(at(second), 10).await.unwrap().due;
    runs.into_iter().map(|id| id.0).collect()
}

async fn count(store: &Store, sql: &'static str) -> i64 {
    let counted = store.read(move |tx| Ok(tx.query_row(sql, [], |row| row.get(0))?));
    counted.await.unwrap()
}

/// Claims the message that waits.
async fn claimed(store: &Store) -> (Claim, ClaimedWork) {
    let claim = claim(store, "w1").await.unwrap();
    let work = store.work(&claim, 40, usize::MAX).await.unwrap().unwrap();
    (claim, work)
}

/// Runs the turn of the message that waits, with one model call.
async fn run_turn(store: &Store, draft: AnswerDraft, second: i64) {
    let (claim, work) = claimed(store).await;
    let begun = store.begin_turn(&claim, work.inbox, TurnStart::quiet("please"), at(second));
    let turn = begun.await.unwrap().turn;
    let draft = AnswerDraft {
        cost: Some(cost(5)),
        ..draft
    };
    store
        .finish_composed(
            &claim,
            turn,
            UserId(1),
            move |_| EndDraft::Answered(Box::new(draft)),
            at(second),
        )
        .await
        .unwrap();
    store.release(&claim).await.unwrap();
}

fn grouped(on_conflict: RunConflictRule) -> NewRun {
    NewRun {
        group: Some("infra/deploy".to_owned()),
        on_conflict,
        ..new(&[])
    }
}
