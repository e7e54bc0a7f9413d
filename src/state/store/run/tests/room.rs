//! Tests of the messages of services that wait until one of their runs has ended.

use super::{ends_with, new};
use crate::base::model::{Account, ChatPlace, Inbound, InboxId, RunId, RunStatus, Sender};
use crate::state::store::command::stop_message;
use crate::state::store::fixture::{accept, at, fresh, person, place, room, says, worker};
use crate::state::store::run::create;
use crate::state::store::{
    AcceptOutcome, Claim, Claimable, NewRun, OPEN_RUNS_MAX, OPEN_RUNS_OF_OWNER_MAX, QueueKind, RunCreation,
    RunStarter, Store, TurnWorker,
};

fn ci() -> Sender {
    Sender::of_hook("ci")
}

/// Returns a worker that knows the hook.
fn knowing() -> TurnWorker {
    let starter = RunStarter {
        sender: ci(),
        account: Account::of_hook("ci"),
    };
    TurnWorker {
        run_starters: [starter].into(),
        ..worker("w1")
    }
}

/// Returns a message of an account in a place of its own.
fn sent(sender: Sender, account: Account, name: &str) -> Inbound {
    Inbound {
        sender,
        place: ChatPlace {
            account,
            thread: Some(name.to_owned()),
            ..place(None)
        },
        ..says("U1", "", &[name])
    }
}

fn event(name: &str) -> Inbound {
    sent(ci(), Account::of_hook("ci"), name)
}

async fn open(store: &Store, owner: Sender, count: u32) {
    let new = NewRun { owner, ..new(&[]) };
    let opened = store.write(move |tx| {
        for _ in 0..count {
            let (creation, _) = create(tx, &new, None, at(0))?;
            assert!(matches!(creation, RunCreation::Created(_)), "{creation:?}");
        }
        Ok(())
    });
    opened.await.unwrap();
}

async fn end(store: &Store, id: i64) {
    let ended = super::advance(store, RunId(id), ends_with(RunStatus::Succeeded), 1).await;
    assert!(ended.is_some());
}

/// Claims what has waited longest, and returns the claim with its message.
async fn next(store: &Store) -> Option<(Claim, InboxId)> {
    let claimed = store.claim(&knowing(), Claimable::ALL).await.unwrap()?;
    let message = store.next_message(&claimed.claim).await.unwrap().unwrap();
    Some((claimed.claim, message))
}

/// Accepts an event for an idle worker, and returns its claim if it was claimed at once.
async fn arrives(store: &Store, name: &str) -> Option<Claim> {
    let (event, worker) = (event(name), knowing());
    let accepted = store.accept(&event, QueueKind::Turn, room(20), Some(&worker), at(1));
    match accepted.await.unwrap() {
        AcceptOutcome::Stored { direct_claim, .. } => direct_claim.map(|direct| direct.claim),
        other => panic!("{other:?}"),
    }
}

/// I10
#[tokio::test]
async fn an_event_without_room_for_its_run_waits_until_one_has_ended_and_the_oldest_goes_first() {
    let (directory, store) = fresh();
    open(&store, ci(), OPEN_RUNS_OF_OWNER_MAX - 1).await;
    let (first, _, _) = accept(&store, &event("e1"), 0).await;
    let (second, _, _) = accept(&store, &event("e2"), 0).await;
    // The last room is that of one event, which may start its run.
    let (claim, message) = next(&store).await.unwrap();
    assert_eq!(message, first);
    assert_eq!(next(&store).await, None);
    assert_eq!(arrives(&store, "e3").await, None);
    open(&store, ci(), 1).await;
    store.release(&claim).await.unwrap();
    // It has more runs to start, and waits like the others, also after a restart.
    assert_eq!(next(&store).await, None);
    drop(store);
    let store = Store::open(directory.path()).unwrap();
    assert_eq!(next(&store).await, None);

    // Nobody else waits: neither the steps of the runs nor another hook nor a person.
    let step = sent(ci(), Account::of_pipelines(), "1:0");
    let other = sent(Sender::of_hook("ci2"), Account::of_hook("ci2"), "of ci2");
    for free in [step, other, says("U2", "please", &["1"])] {
        let (accepted, _, _) = accept(&store, &free, 2).await;
        assert_eq!(next(&store).await.map(|(_, message)| message), Some(accepted));
    }

    end(&store, 1).await;
    let (claim, message) = next(&store).await.unwrap();
    assert_eq!((message, next(&store).await), (first, None));
    store.release(&claim).await.unwrap();
    // While earlier ones wait, one that arrives is not claimed before them.
    assert_eq!(arrives(&store, "e4").await, None);
    end(&store, 2).await;
    let both = [next(&store).await.unwrap().1, next(&store).await.unwrap().1];
    assert_eq!(both, [first, second]);
}

#[tokio::test]
async fn an_event_is_claimed_at_once_while_there_is_room_and_none_before_it_waits() {
    let (_directory, store) = fresh();
    assert!(arrives(&store, "e1").await.is_some());
    open(&store, ci(), OPEN_RUNS_OF_OWNER_MAX - 2).await;
    assert!(arrives(&store, "e2").await.is_some());
    assert_eq!(arrives(&store, "e3").await, None);
}

#[tokio::test]
async fn an_event_waits_while_the_server_has_too_many_runs_unless_it_is_stopped() {
    let (_directory, store) = fresh();
    for number in 0..OPEN_RUNS_MAX / OPEN_RUNS_OF_OWNER_MAX {
        open(&store, person(&format!("U{number}")), OPEN_RUNS_OF_OWNER_MAX).await;
    }
    let (waits, conversation, _) = accept(&store, &event("e1"), 0).await;
    assert_eq!(next(&store).await, None);
    let stopped = store.write(move |tx| stop_message(tx, (conversation, waits), waits, at(1)));
    stopped.await.unwrap();
    let (claim, message) = next(&store).await.unwrap();
    assert_eq!(message, waits);
    store.release(&claim).await.unwrap();
    let (later, _, _) = accept(&store, &event("e2"), 2).await;
    end(&store, 1).await;
    let both = [next(&store).await.unwrap().1, next(&store).await.unwrap().1];
    assert_eq!(both, [waits, later]);
}
