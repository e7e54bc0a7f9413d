//! Tests of reservations, of the scopes of budgets and of allowances.

use super::{BudgetSubject, day, midnight};
use crate::base::model::{
    BudgetBound, BudgetRefusal, BudgetScope, BudgetWarning, InboxId, Money, Spending, TurnId, UserId,
};
use crate::state::store::fixture::{answer, at, begin, command, cost, fresh, person, reads};
use crate::state::store::people::add_person;
use crate::state::store::{AllowOutcome, BudgetRequest, Claim, Cost, ReservationId, Store, StoreError};

const PERSON_DAY: BudgetScope = BudgetScope::PersonDay;

fn spending(tokens: u64, cents: u64) -> Spending {
    Spending {
        tokens,
        money: Money::from_cents(cents),
    }
}

fn cents(max: u64) -> BudgetBound {
    BudgetBound {
        tokens_max: None,
        money_max: Some(Money::from_cents(max)),
    }
}

async fn admit(store: &Store, name: &'static str) -> UserId {
    let grant = ("editor".into(), "*".into(), vec!["**".into()]);
    let added = store.write(move |tx| add_person(tx, name, "operator", &person(name), &grant, at(0)));
    added.await.unwrap()
}

/// A running turn, with whose budgets it uses.
struct Running {
    claim: Claim,
    turn: TurnId,
    subject: BudgetSubject,
}

async fn running(store: &Store, name: &str, user: UserId, second: i64) -> Running {
    let (claim, inbox, turn) = begin(store, name, second).await;
    Running {
        claim,
        turn,
        subject: BudgetSubject {
            inbox,
            conversation: claim.conversation,
            user: Some(user),
        },
    }
}

async fn reserve(
    store: &Store,
    running: &Running,
    (scope, bound): (BudgetScope, BudgetBound),
    call: Spending,
) -> Result<ReservationId, BudgetRefusal> {
    let bounds = vec![(scope, bound)];
    let reserved = store.reserve_call(&running.claim, running.subject, bounds, call, at(5));
    reserved.await.unwrap().map(|reserved| reserved.id)
}

fn paid(cents: u64, reservation: Option<ReservationId>) -> Cost {
    Cost {
        money: Some(Money::from_cents(cents)),
        reservation,
        ..cost(10)
    }
}

/// T92
#[tokio::test]
async fn concurrent_calls_of_a_person_never_reserve_more_than_the_budget() {
    let (_directory, store) = fresh();
    let user = admit(&store, "U1").await;
    let running = running(&store, "U1", user, 1).await;
    let calls = (0..20).map(|_| reserve(&store, &running, (PERSON_DAY, cents(100)), spending(1, 30)));
    let granted = futures_util::future::join_all(calls).await;
    assert_eq!(granted.iter().filter(|granted| granted.is_ok()).count(), 3);
    let refused = granted.into_iter().find_map(Result::err).unwrap();
    assert_eq!((refused.spent, refused.call), (spending(3, 90), spending(1, 30)));
}

#[tokio::test]
async fn the_real_cost_replaces_the_reservation_in_one_transaction() {
    let (_directory, store) = fresh();
    let user = admit(&store, "U1").await;
    let running = running(&store, "U1", user, 1).await;
    let budget = (PERSON_DAY, cents(100));
    let reserved = reserve(&store, &running, budget, spending(1, 90)).await.unwrap();
    assert!(reserve(&store, &running, budget, spending(1, 20)).await.is_err());
    let step = answer("a");
    store
        .record_step(
            &running.claim,
            running.turn,
            &step,
            &paid(10, Some(reserved)),
            None,
            at(6),
        )
        .await
        .unwrap();
    let state = store
        .budget_states(running.subject, vec![budget], at(7))
        .await
        .unwrap();
    assert_eq!(state[0].spent, spending(11, 10));
    // A failed call costs nothing.
    let failed = reserve(&store, &running, budget, spending(1, 90)).await.unwrap();
    store.release_call(&running.claim, failed).await.unwrap();
    assert!(reserve(&store, &running, budget, spending(1, 90)).await.is_ok());
}

/// T92
#[tokio::test]
async fn a_lost_answer_counts_in_full_beside_the_answer_that_followed() {
    let (_directory, store) = fresh();
    let user = admit(&store, "U1").await;
    let running = running(&store, "U1", user, 1).await;
    let budget = (PERSON_DAY, cents(200));
    // The first attempt was lost, and the second one answered: the cost leaves the reservation.
    reserve(&store, &running, budget, spending(1, 90)).await.unwrap();
    let (step, cost) = (answer("a"), paid(10, None));
    let recorded = store.record_step(&running.claim, running.turn, &step, &cost, None, at(6));
    recorded.await.unwrap();
    let state = store.budget_states(running.subject, vec![budget], at(7));
    assert_eq!(state.await.unwrap()[0].spent, spending(12, 100));
    assert!(reserve(&store, &running, budget, spending(1, 101)).await.is_err());
    assert!(reserve(&store, &running, budget, spending(1, 100)).await.is_ok());
}

#[tokio::test]
async fn a_call_whose_process_ended_counts_in_full() {
    let (directory, store) = fresh();
    let user = admit(&store, "U1").await;
    let running = running(&store, "U1", user, 1).await;
    let budget = (PERSON_DAY, cents(100));
    reserve(&store, &running, budget, spending(1, 90)).await.unwrap();
    let subject = running.subject;
    drop(store);
    let store = Store::open(directory.path()).unwrap();
    let state = store.budget_states(subject, vec![budget], at(7)).await.unwrap();
    assert_eq!(state[0].spent, spending(1, 90));
    // The next day has a budget of its own.
    let tomorrow = at(7 + 24 * 60 * 60);
    let state = store
        .budget_states(subject, vec![budget], tomorrow)
        .await
        .unwrap();
    assert_eq!(state[0].spent, Spending::default());
}

#[tokio::test]
async fn each_scope_counts_its_own_calls() {
    let (_directory, store) = fresh();
    let (alice, bob) = (admit(&store, "U1").await, admit(&store, "U2").await);
    let scopes = [
        BudgetScope::Turn,
        BudgetScope::Conversation,
        BudgetScope::PersonDay,
        BudgetScope::Day,
    ];
    let bounds = scopes.map(|scope| (scope, cents(100))).to_vec();
    let mut turns = Vec::new();
    for (name, user, second, paid_cents) in [("U1", alice, 1, 10), ("U2", bob, 2, 20), ("U1", alice, 3, 5)] {
        let running = running(&store, name, user, second).await;
        let cost = paid(paid_cents, None);
        store
            .record_step(
                &running.claim,
                running.turn,
                &answer("a"),
                &cost,
                None,
                at(second),
            )
            .await
            .unwrap();
        store
            .dismiss(&running.claim, running.subject.inbox, Vec::new(), at(second))
            .await
            .unwrap();
        store.release(&running.claim).await.unwrap();
        turns.push(running.subject);
    }
    let states = store.budget_states(turns[2], bounds, at(7)).await.unwrap();
    let spent: Vec<Money> = states.iter().map(|state| state.spent.money).collect();
    assert_eq!(spent, [5, 15, 15, 35].map(Money::from_cents));
}

#[tokio::test]
async fn an_outdated_claim_reserves_nothing() {
    let (_directory, store) = fresh();
    let user = admit(&store, "U1").await;
    let running = running(&store, "U1", user, 1).await;
    store.release(&running.claim).await.unwrap();
    crate::state::store::fixture::claim(&store, "w").await.unwrap();
    let bounds = vec![(PERSON_DAY, cents(100))];
    let late = store.reserve_call(&running.claim, running.subject, bounds, spending(1, 1), at(5));
    assert_eq!(late.await, Err(StoreError::Fenced));
}

#[tokio::test]
async fn a_budget_is_raised_once_for_all_who_asked_and_only_on_its_day() {
    let (_directory, store) = fresh();
    let user = admit(&store, "U1").await;
    let running = running(&store, "U1", user, 1).await;
    let budget = (PERSON_DAY, cents(100));
    let refusal = reserve(&store, &running, budget, spending(1, 120))
        .await
        .unwrap_err();
    let ask = async |id: &str| {
        let request = BudgetRequest {
            id: id.to_owned(),
            subject: running.subject,
            refusal,
        };
        let stored = store.write(move |tx| super::insert_request(tx, &request, at(6)));
        stored.await.unwrap();
    };
    ask("a").await;
    ask("b").await;
    let (first, second) = (
        command(&store, "x", "c1", 6).await,
        command(&store, "y", "c2", 6).await,
    );
    let more = AllowOutcome::More {
        scope: PERSON_DAY,
        extra: spending(0, 50),
    };
    let allow = |id: &'static str, inbox: InboxId, second| {
        let store = store.clone();
        async move { store.allow_request(id, inbox, "bob", at(second)).await.unwrap() }
    };
    assert_eq!(allow("a", first, 7).await, more);
    // The command runs again after a crash: it finds its effect.
    assert_eq!(allow("a", first, 8).await, more);
    assert_eq!(allow("a", second, 8).await, AllowOutcome::Before);
    // The other turn that asked for more of the same budget has it as well.
    let third = command(&store, "z", "c3", 9).await;
    assert_eq!(allow("b", third, 9).await, AllowOutcome::Before);
    ask("c").await;
    let fourth = command(&store, "z", "c4", 9).await;
    assert_eq!(allow("c", fourth, 24 * 60 * 60 + 9).await, AllowOutcome::Late);
    let states = store
        .budget_states(running.subject, vec![budget], at(10))
        .await
        .unwrap();
    assert_eq!(states[0].bound, cents(150));
    assert!(reserve(&store, &running, budget, spending(1, 120)).await.is_ok());
}

#[test]
fn a_day_begins_at_midnight_in_utc() {
    // The fixture's time begins at eight in the morning.
    let (late, early) = (at(16 * 60 * 60 - 1), at(16 * 60 * 60));
    assert_eq!(day(late) + 1, day(early));
    assert_eq!(midnight(early) - midnight(late), 24 * 60 * 60 * 1_000);
    assert_eq!(midnight(early), early.as_millisecond());
}

const TURN: BudgetScope = BudgetScope::Turn;

/// Reserves a call in two budgets of a dollar. Returns the budgets of which the model is told.
async fn warned(store: &Store, running: &Running, second: i64) -> (ReservationId, Vec<BudgetScope>) {
    let bounds = vec![(TURN, cents(100)), (PERSON_DAY, cents(100))];
    let call = spending(1, 30);
    let reserved = store.reserve_call(&running.claim, running.subject, bounds, call, at(second));
    let reserved = reserved.await.unwrap().unwrap();
    let scopes = reserved.warnings.iter().map(BudgetWarning::scope);
    (reserved.id, scopes.collect())
}

/// Records the step of a call of 20 cents, which tells the model of these budgets.
async fn tells(store: &Store, running: &Running, call: ReservationId, told: &[BudgetScope], second: i64) {
    let cost = Cost {
        told: told.iter().copied().collect(),
        ..paid(20, Some(call))
    };
    let step = reads("text".to_owned());
    store
        .record_step(&running.claim, running.turn, &step, &cost, None, at(second))
        .await
        .unwrap();
}

async fn end(store: &Store, running: &Running, second: i64) {
    store
        .dismiss(&running.claim, running.subject.inbox, Vec::new(), at(second))
        .await
        .unwrap();
    store.release(&running.claim).await.unwrap();
}

/// T92: a question, a retry and a restart are other attempts in the same periods.
#[tokio::test]
async fn the_model_is_told_once_of_each_budget_in_each_period() {
    // The seconds until the next day in UTC.
    const MIDNIGHT: i64 = 57_600;
    assert_eq!(day(at(MIDNIGHT - 1)) + 1, day(at(MIDNIGHT)));
    let (_directory, store) = fresh();
    let user = admit(&store, "U1").await;
    let first = running(&store, "U1", user, 1).await;
    let (call, due) = warned(&store, &first, 2).await;
    assert_eq!(due, []);
    tells(&store, &first, call, &[], 2).await;
    // What no step has recorded was not told.
    let (call, due) = warned(&store, &first, 3).await;
    assert_eq!(due, [TURN, PERSON_DAY]);
    store.release_call(&first.claim, call).await.unwrap();
    let (call, due) = warned(&store, &first, 4).await;
    assert_eq!(due, [TURN, PERSON_DAY]);
    tells(&store, &first, call, &due, 4).await;
    let (call, due) = warned(&store, &first, 5).await;
    assert_eq!(due, []);
    store.release_call(&first.claim, call).await.unwrap();
    end(&store, &first, 6).await;
    // Another request has a budget of its own, and the day is the same.
    let second = running(&store, "U1", user, 7).await;
    let (call, due) = warned(&store, &second, 8).await;
    assert_eq!(due, []);
    tells(&store, &second, call, &due, 8).await;
    let (call, due) = warned(&store, &second, 9).await;
    assert_eq!(due, [TURN]);
    store.release_call(&second.claim, call).await.unwrap();
    end(&store, &second, 10).await;
    // A note belongs to the day in which its call was reserved.
    let third = running(&store, "U1", user, MIDNIGHT - 3).await;
    let (call, due) = warned(&store, &third, MIDNIGHT - 2).await;
    assert_eq!(due, []);
    tells(&store, &third, call, &[PERSON_DAY], MIDNIGHT + 1).await;
    let (call, due) = warned(&store, &third, MIDNIGHT + 2).await;
    assert_eq!(due, [TURN, PERSON_DAY]);
    tells(&store, &third, call, &due, MIDNIGHT + 2).await;
    let (call, due) = warned(&store, &third, MIDNIGHT + 3).await;
    assert_eq!(due, []);
    store.release_call(&third.claim, call).await.unwrap();
}

/// T92: what an administrator allows in addition is another budget, of which the model is told again.
#[tokio::test]
async fn the_model_is_told_again_after_more_was_allowed() {
    let (_directory, store) = fresh();
    let user = admit(&store, "U1").await;
    let running = running(&store, "U1", user, 1).await;
    let (call, _) = warned(&store, &running, 2).await;
    tells(&store, &running, call, &[TURN, PERSON_DAY], 2).await;
    let (call, due) = warned(&store, &running, 3).await;
    assert_eq!(due, []);
    store.release_call(&running.claim, call).await.unwrap();
    let allow = command(&store, "budget", "allow", 4).await;
    let by = (allow, "operator");
    store
        .allow_more(PERSON_DAY, running.subject, spending(0, 5), by, at(4))
        .await
        .unwrap();
    let (_, due) = warned(&store, &running, 5).await;
    assert_eq!(due, [PERSON_DAY]);
}

/// T92: while one turn is about to tell its model, another one does not.
#[tokio::test]
async fn a_budget_of_several_turns_is_told_by_one_of_them() {
    let (_directory, store) = fresh();
    let mut turns = Vec::new();
    for name in ["U1", "U2"] {
        let user = admit(&store, name).await;
        turns.push(running(&store, name, user, 1).await);
    }
    let warned = async |running: &Running| {
        let bounds = vec![(BudgetScope::Day, cents(100))];
        let reserved = store.reserve_call(&running.claim, running.subject, bounds, spending(1, 30), at(5));
        let reserved = reserved.await.unwrap().unwrap();
        (reserved.id, reserved.warnings.len())
    };
    let [first, second] = turns.as_slice() else {
        panic!()
    };
    let (earlier, told) = warned(first).await;
    assert_eq!(told, 0);
    let (call, told) = warned(first).await;
    assert_eq!(told, 1);
    store.release_call(&first.claim, earlier).await.unwrap();
    let (other, told) = warned(second).await;
    assert_eq!(told, 0);
    store.release_call(&second.claim, other).await.unwrap();
    // Its call failed, so nothing was told.
    store.release_call(&first.claim, call).await.unwrap();
    let (kept, told) = warned(first).await;
    assert_eq!(told, 0);
    let (_, told) = warned(second).await;
    assert_eq!(told, 1);
    store.release_call(&first.claim, kept).await.unwrap();
    // The call of a message that is done, whose process ended, tells nothing.
    end(&store, second, 6).await;
    let (_, told) = warned(first).await;
    assert_eq!(told, 1);
}
