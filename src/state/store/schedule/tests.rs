//! Tests of schedules and their fires in the store.

mod pipelines;

use super::fire::{self, begin};
use super::{
    ConfiguredSchedule, FireResult, FireStart, FireWork, NewSchedule, NewTime, SCHEDULES_OF_PERSON_MAX,
    ScheduleChange, ScheduleEdit, ScheduleRow,
};
use crate::base::model::{
    Account, ChatPlace, FireOutcome, Inbound, InboundKind, MissedRule, ScheduleDefinition, ScheduleId,
    ScheduledWork, Sender, UserId,
};
use crate::state::store::fixture::{EndDraft, at, claim, command, ends, fresh, person, place, post, says};
use crate::state::store::people::{add_person, revoke};
use crate::state::store::{Store, StoreError, TurnStart};
use jiff::{SignedDuration, Timestamp};

fn definition(when: &str) -> ScheduleDefinition {
    ScheduleDefinition {
        when: when.to_owned(),
        zone: "UTC".to_owned(),
        words: "please".to_owned(),
        repository: "infra".to_owned(),
        channel: "slack".to_owned(),
        place: place(None),
        missed: MissedRule::Once,
        quiet: false,
        pipeline: None,
    }
}

fn new(owner: Sender, name: &str, when: &str, due: i64) -> NewSchedule {
    NewSchedule {
        owner,
        name: name.to_owned(),
        definition: definition(when),
        due: at(due),
    }
}

/// Returns the next time of any schedule of the configuration.
fn minute_later(_: &ScheduleDefinition, after: Timestamp) -> Option<Timestamp> {
    after.checked_add(SignedDuration::from_mins(1)).ok()
}

async fn edit(store: &Store, edit: ScheduleEdit, second: i64) -> ScheduleChange {
    let by = ("alice".to_owned(), None);
    store.edit_schedule(edit, by, at(second)).await.unwrap().0
}

/// Creates a schedule that is due at second 10.
async fn created(store: &Store) -> ScheduleRow {
    let new = Box::new(new(person("U1"), "nightly", "daily 09:00", 10));
    assert_eq!(
        edit(store, ScheduleEdit::Create(new), 0).await,
        ScheduleChange::Changed
    );
    only(store).await
}

async fn only(store: &Store) -> ScheduleRow {
    let mut rows = store.schedules(None).await.unwrap();
    assert_eq!(rows.len(), 1);
    rows.remove(0)
}

async fn retime(store: &Store, id: ScheduleId, (due, next): (i64, i64), second: i64) {
    let time = NewTime {
        id,
        due: at(due),
        next: at(next),
    };
    store.retime_schedules(vec![time], at(second)).await.unwrap();
}

fn message(row: &ScheduleRow, due: i64) -> Inbound {
    let place = ChatPlace {
        account: Account::of_schedules(),
        thread: Some(format!("{}:{due}", row.id)),
        ..place(None)
    };
    let work = ScheduledWork {
        schedule: row.name.clone(),
        due: at(due),
        words: row.definition.words.clone(),
        repository: "infra".to_owned(),
        place: row.definition.place.clone(),
        quiet: false,
        pipeline: None,
    };
    Inbound {
        place,
        kind: InboundKind::Schedule(work),
        ..says("U1", "", &[&format!("schedule:{}:{due}", row.id)])
    }
}

fn start(row: &ScheduleRow, due: i64, next: Option<i64>) -> FireStart {
    let pause = post(&format!("schedule-{due}/paused"), None, "It is paused.");
    FireStart {
        id: row.id,
        due: at(due),
        next: next.map(at),
        work: FireWork::Message(Box::new(message(row, due)), Box::new(pause)),
    }
}

async fn count(store: &Store, sql: &'static str) -> i64 {
    let counted = store.read(move |tx| Ok(tx.query_row(sql, [], |row| row.get(0))?));
    counted.await.unwrap()
}

const WAITING: &str = "SELECT COUNT(*) FROM inbox WHERE done_at IS NULL";

/// STK-8
#[tokio::test]
async fn a_time_fires_once_with_its_message_and_the_next_time() {
    let (directory, store) = fresh();
    let row = created(&store).await;
    assert_eq!(store.next_schedule_due().await, Ok(Some(at(10))));
    assert_eq!(store.due_schedules(at(9), 10).await, Ok(Vec::new()));
    assert_eq!(store.due_schedules(at(10), 10).await.unwrap().len(), 1);
    let fire = || store.begin_fire(start(&row, 10, Some(20)), None, at(11));
    assert_eq!(fire().await, Ok(FireResult::Started));
    assert_eq!(fire().await, Ok(FireResult::Gone));
    assert_eq!(count(&store, WAITING).await, 1);
    let fired = only(&store).await;
    assert_eq!(fired.due, at(20));
    let last = fired.last.unwrap();
    assert_eq!((last.due, last.fired_at, last.outcome), (at(10), at(11), None));
    // The clock goes back, and the program starts again.
    drop(store);
    let store = Store::open(directory.path()).unwrap();
    assert_eq!(store.due_schedules(at(10), 10).await, Ok(Vec::new()));
    assert_eq!(
        store.begin_fire(start(&row, 10, Some(20)), None, at(5)).await,
        Ok(FireResult::Gone)
    );
    assert_eq!(count(&store, WAITING).await, 1);
}

#[tokio::test]
async fn a_fire_that_a_crash_cuts_short_leaves_nothing_and_comes_again() {
    let (_directory, store) = fresh();
    let row = created(&store).await;
    let (cut, pepper) = (start(&row, 10, Some(20)), store.pepper());
    let broken = store.write(move |tx| {
        assert_eq!(begin(tx, &cut, pepper, at(11)), Ok(FireResult::Started));
        Err::<(), _>(StoreError::Failed("cut short".to_owned()))
    });
    assert!(broken.await.is_err());
    for table in [
        "SELECT COUNT(*) FROM schedule_fire",
        "SELECT COUNT(*) FROM inbox",
        "SELECT COUNT(*) FROM conversation",
        "SELECT COUNT(*) FROM delivery",
    ] {
        assert_eq!(count(&store, table).await, 0, "{table}");
    }
    assert_eq!(only(&store).await, row);
    let again = store.begin_fire(start(&row, 10, Some(20)), None, at(12)).await;
    assert_eq!(again, Ok(FireResult::Started));
    assert_eq!(count(&store, WAITING).await, 1);
}

/// Runs the waiting message of a schedule, which is refused, or answered if `is_answered` says so.
async fn run(store: &Store, second: i64, outcome: FireOutcome) {
    let claim = claim(store, "w1").await.unwrap();
    let work = store.work(&claim, 40, usize::MAX).await.unwrap().unwrap();
    match outcome {
        FireOutcome::Done => {
            let begin = TurnStart::quiet("please");
            let begun = store
                .begin_turn(&claim, work.inbox, begin, at(second))
                .await
                .unwrap();
            let end = EndDraft::Answered(Box::new(ends(None)));
            store
                .finish_composed(&claim, begun.turn, UserId(1), move |_| end, at(second))
                .await
                .unwrap();
        }
        _ => store
            .dismiss(&claim, work.inbox, Vec::new(), at(second))
            .await
            .unwrap(),
    }
    store.release(&claim).await.unwrap();
}

#[tokio::test]
async fn the_end_of_the_turn_ends_the_fire_and_the_third_failure_pauses_the_schedule() {
    let (_directory, store) = fresh();
    let row = created(&store).await;
    let outcomes = [
        FireOutcome::Failed,
        FireOutcome::Failed,
        FireOutcome::Done,
        FireOutcome::Failed,
        FireOutcome::Failed,
        FireOutcome::Failed,
    ];
    for (index, outcome) in outcomes.into_iter().enumerate() {
        let due = 10 * (i64::try_from(index).unwrap() + 1);
        let begun = store.begin_fire(start(&row, due, Some(due + 10)), None, at(due));
        assert_eq!(begun.await, Ok(FireResult::Started), "{index}");
        run(&store, due + 1, outcome).await;
        let fired = only(&store).await;
        assert_eq!(fired.last.unwrap().outcome, Some(outcome), "{index}");
        assert_eq!(fired.off_why.is_some(), index == 5, "{index}");
    }
    let paused = only(&store).await;
    assert_eq!(paused.off_why.as_deref(), Some("3 fires in a row failed"));
    assert_eq!(store.next_schedule_due().await, Ok(None));
    let notices = "SELECT COUNT(*) FROM outbox WHERE op = 'schedule-60/paused'";
    assert_eq!(count(&store, notices).await, 1);
    assert_eq!(
        count(&store, "SELECT COUNT(*) FROM outbox WHERE op LIKE 'schedule-%'").await,
        1
    );
    let fire = store.begin_fire(start(&row, 70, Some(80)), None, at(70));
    assert_eq!(fire.await, Ok(FireResult::Gone));
    // It goes on as if nothing had failed.
    let on = ScheduleEdit::TurnOn(row.id, at(100));
    assert_eq!(edit(&store, on.clone(), 90).await, ScheduleChange::Changed);
    assert_eq!(edit(&store, on, 90).await, ScheduleChange::Unchanged);
    let on = only(&store).await;
    assert_eq!((on.off_why, on.due, on.failures), (None, at(100), 0));
    let outcomes: Vec<_> = store.schedule_fires(row.id).await.unwrap();
    let outcomes: Vec<_> = outcomes.into_iter().filter_map(|fire| fire.outcome).collect();
    assert_eq!(outcomes.len(), 6);
}

#[tokio::test]
async fn a_time_is_left_out_while_earlier_work_runs_or_if_it_was_missed() {
    let (_directory, store) = fresh();
    let row = created(&store).await;
    let begin = |due, next, at_second| store.begin_fire(start(&row, due, next), None, at(at_second));
    assert_eq!(begin(10, Some(20), 10).await, Ok(FireResult::Started));
    let left = FireResult::LeftOut(FireOutcome::Overlapped);
    assert_eq!(begin(20, Some(30), 20).await, Ok(left));
    // A person who starts the work now is told so.
    assert_eq!(begin(21, None, 21).await, Ok(left));
    assert_eq!(count(&store, WAITING).await, 1);
    let missed = FireStart {
        work: FireWork::Missed,
        ..start(&row, 30, Some(40))
    };
    let left = FireResult::LeftOut(FireOutcome::Missed);
    assert_eq!(store.begin_fire(missed, None, at(39)).await, Ok(left));
    run(&store, 40, FireOutcome::Failed).await;
    assert_eq!(begin(40, Some(50), 40).await, Ok(FireResult::Started));
    assert_eq!(only(&store).await.failures, 1);
}

#[tokio::test]
async fn a_command_that_runs_again_changes_nothing_twice() {
    let (_directory, store) = fresh();
    let create = |name: &str| ScheduleEdit::Create(Box::new(new(person("U1"), name, "daily 09:00", 10)));
    let asked = command(&store, "!schedule add", "m1", 0).await;
    let by = || ("alice".to_owned(), Some(asked));
    for _ in 0..2 {
        let created = store.edit_schedule(create("a"), by(), at(0)).await;
        assert_eq!(created, Ok((ScheduleChange::Changed, Vec::new())));
    }
    assert_eq!(edit(&store, create("a"), 0).await, ScheduleChange::NameTaken);
    let row = only(&store).await;
    let asked = command(&store, "!schedule trigger a", "m2", 1).await;
    for second in [1, 2] {
        let begun = store.begin_fire(start(&row, second, None), Some(asked), at(second));
        assert_eq!(begun.await, Ok(FireResult::Started));
    }
    assert_eq!(store.schedule_fires(row.id).await.unwrap().len(), 1);
    for number in 1..SCHEDULES_OF_PERSON_MAX {
        let name = format!("a{number}");
        assert_eq!(edit(&store, create(&name), 0).await, ScheduleChange::Changed);
    }
    assert_eq!(edit(&store, create("b"), 0).await, ScheduleChange::TooMany);
    assert_eq!(
        edit(&store, ScheduleEdit::Remove(row.id), 3).await,
        ScheduleChange::Changed
    );
    assert_eq!(
        edit(&store, ScheduleEdit::Remove(row.id), 3).await,
        ScheduleChange::Gone
    );
    // The end of its work has nothing to record.
    run(&store, 4, FireOutcome::Failed).await;
}

#[tokio::test]
async fn the_schedules_of_the_configuration_are_stored_as_they_are_now() {
    let (_directory, store) = fresh();
    created(&store).await;
    let configured = |name: &str, when: &str| ConfiguredSchedule {
        owner: Sender::of_schedule(name),
        name: name.to_owned(),
        definition: definition(when),
    };
    let stored = |names: Vec<ConfiguredSchedule>, second| {
        store.store_configured_schedules(names, Vec::new(), (at(second), minute_later))
    };
    stored(
        vec![configured("a", "daily 09:00"), configured("b", "daily 10:00")],
        40,
    )
    .await
    .unwrap();
    // After the times have passed, the same times stay due, so that they are made up for.
    let mut words = configured("a", "daily 09:00");
    words.definition.words = "other words".to_owned();
    stored(vec![words, configured("b", "daily 11:00")], 1_140)
        .await
        .unwrap();
    let rows = store.schedules(None).await.unwrap();
    let found: Vec<_> = rows
        .iter()
        .map(|row| (row.name.as_str(), row.due, row.definition.words.as_str()))
        .collect();
    assert_eq!(
        found,
        [
            ("a", at(100), "other words"),
            ("b", at(1_200), "please"),
            ("nightly", at(10), "please")
        ]
    );
    // What is stored as it is configured is not even parsed, and keeps its time.
    let unreadable = "UPDATE schedule SET due = ?1 WHERE name = 'a'";
    let unreadable = store.write(move |tx| Ok(tx.execute(unreadable, [i64::MAX])?));
    assert_eq!(unreadable.await, Ok(1));
    let mut same = configured("a", "daily 09:00");
    same.definition.words = "other words".to_owned();
    stored(vec![same, configured("c", "daily 12:00")], 1_200)
        .await
        .unwrap();
    let names =
        "SELECT COUNT(*) FROM schedule WHERE name = 'c' OR (name = 'a' AND due = 9223372036854775807)";
    assert_eq!(count(&store, names).await, 2);
    assert_eq!(count(&store, "SELECT COUNT(*) FROM schedule").await, 3);
    let readable = store.write(|tx| Ok(tx.execute("UPDATE schedule SET due = 0 WHERE name = 'a'", [])?));
    assert_eq!(readable.await, Ok(1));
    stored(Vec::new(), 2_000).await.unwrap();
    assert_eq!(only(&store).await.name, "nightly");
}

#[tokio::test]
async fn a_time_that_was_brought_forward_fires_once() {
    let (_directory, store) = fresh();
    let row = created(&store).await;
    let begin = |due, next| store.begin_fire(start(&row, due, Some(next)), None, at(due));
    assert_eq!(begin(10, 1_000).await, Ok(FireResult::Started));
    run(&store, 11, FireOutcome::Failed).await;
    for (due, then) in [(999, 1_000), (1_000, 10)] {
        retime(&store, row.id, (due, 10), 5).await;
        assert_eq!(only(&store).await.due, at(then));
    }
    assert_eq!(begin(10, 20).await, Ok(FireResult::Gone));
    assert_eq!(count(&store, WAITING).await, 0);
    assert_eq!(begin(20, 30).await, Ok(FireResult::Started));
}

#[tokio::test]
async fn a_next_time_is_looked_at_again_only_if_the_clock_was_ahead_when_it_was_computed() {
    let (_directory, store) = fresh();
    let row = created(&store).await;
    let timed_after = async |second| store.schedules_timed_after(at(second)).await.unwrap().len();
    assert_eq!((timed_after(-1).await, timed_after(0).await), (1, 0));
    let begin = store.begin_fire(start(&row, 10, Some(1_000)), None, at(20));
    assert_eq!(begin.await, Ok(FireResult::Started));
    assert_eq!((timed_after(19).await, timed_after(20).await), (1, 0));
    retime(&store, row.id, (1_000, 50), 5).await;
    assert_eq!((timed_after(4).await, timed_after(5).await), (1, 0));
    let off = ScheduleEdit::Disable(row.id, "turned off by alice".to_owned());
    edit(&store, off, 6).await;
    assert_eq!(timed_after(4).await, 0);
    edit(&store, ScheduleEdit::TurnOn(row.id, at(100)), 7).await;
    assert_eq!((timed_after(6).await, timed_after(7).await), (1, 0));
    // So it was stored before the time of the computation was.
    let forget = store.write(|tx| Ok(tx.execute("UPDATE schedule SET timed_at = NULL", [])?));
    assert_eq!(forget.await, Ok(1));
    assert_eq!(timed_after(7).await, 1);
}

#[tokio::test]
async fn a_schedule_that_is_disabled_or_removed_stops_its_work() {
    let (_directory, store) = fresh();
    let row = created(&store).await;
    let disable = |second| {
        let edit = ScheduleEdit::Disable(row.id, "turned off by alice".to_owned());
        store.edit_schedule(edit, ("alice".to_owned(), None), at(second))
    };
    let begin = |second| store.begin_fire(start(&row, second, None), None, at(second));
    assert_eq!(disable(1).await, Ok((ScheduleChange::Changed, Vec::new())));
    // A person may start its work although it is off.
    assert_eq!(begin(2).await, Ok(FireResult::Started));
    let (changed, stopped) = disable(3).await.unwrap();
    let [stopped] = stopped.as_slice() else {
        panic!("{stopped:?}");
    };
    assert_eq!(changed, ScheduleChange::Unchanged);
    let claim = claim(&store, "w1").await.unwrap();
    let work = store.work(&claim, 40, usize::MAX).await.unwrap().unwrap();
    assert_eq!(
        (claim.conversation, work.inbox, work.is_stopped),
        (stopped.conversation, stopped.message, true)
    );
    store
        .dismiss(&claim, work.inbox, Vec::new(), at(4))
        .await
        .unwrap();
    store.release(&claim).await.unwrap();
    let ended = only(&store).await;
    assert_eq!(ended.last.unwrap().outcome, Some(FireOutcome::Stopped));
    assert_eq!(ended.failures, 0);
    assert_eq!(disable(5).await, Ok((ScheduleChange::Unchanged, Vec::new())));

    assert_eq!(begin(6).await, Ok(FireResult::Started));
    let asked = command(&store, "!schedule remove nightly", "m1", 7).await;
    let by = || ("alice".to_owned(), Some(asked));
    let remove = || store.edit_schedule(ScheduleEdit::Remove(row.id), by(), at(8));
    let removed = remove().await.unwrap();
    assert!(removed.1.len() == 1 && removed.1[0].message != stopped.message);
    assert_eq!(remove().await, Ok(removed));
    let stops = "SELECT COUNT(*) FROM inbox WHERE stopped_by IS NOT NULL AND done_at IS NULL";
    assert_eq!(count(&store, stops).await, 1);
    // Its number is in the names of messages that are known, so another schedule gets another one.
    assert!(created(&store).await.id > row.id);
}

#[tokio::test]
async fn the_schedules_of_a_revoked_person_are_off_and_nothing_is_posted_about_them() {
    let (_directory, store) = fresh();
    let mut users = Vec::new();
    for sender in [person("U1"), Sender::of_schedule("a")] {
        let grant = ("editor".to_owned(), "*".to_owned(), vec!["**".to_owned()]);
        let added = store.write(move |tx| add_person(tx, "someone", "operator", &sender, &grant, at(0)));
        users.push(added.await.unwrap());
    }
    let row = created(&store).await;
    for (owner, name) in [
        (person("U1"), "weekly"),
        (person("U2"), "other"),
        (Sender::of_schedule("a"), "a"),
    ] {
        let create = ScheduleEdit::Create(Box::new(new(owner, name, "daily 09:00", 10)));
        assert_eq!(edit(&store, create, 0).await, ScheduleChange::Changed);
    }
    // The work that runs is the third that fails.
    let failed = store.write(|tx| Ok(tx.execute("UPDATE schedule SET failures = 2", [])?));
    failed.await.unwrap();
    let begun = store.begin_fire(start(&row, 10, Some(20)), None, at(10));
    assert_eq!(begun.await, Ok(FireResult::Started));
    for user in users {
        store.write(move |tx| revoke(tx, user, at(11))).await.unwrap();
    }
    run(&store, 12, FireOutcome::Failed).await;
    let mut off: Vec<_> = store.schedules(None).await.unwrap();
    off.retain(|row| row.off_why.as_deref() == Some("access was revoked"));
    let off: Vec<_> = off.iter().map(|row| row.name.as_str()).collect();
    assert_eq!(off, ["nightly", "weekly"]);
    let notices = "SELECT COUNT(*) FROM outbox WHERE op LIKE 'schedule-%'";
    assert_eq!(count(&store, notices).await, 0);
    assert_eq!(store.due_schedules(at(20), 10).await.unwrap().len(), 2);
}

#[test]
fn a_stored_fire_is_read_with_its_outcome() {
    let fire = fire::fire(1_000, (2_000, Some("overlapped".to_owned()), Some(2_000))).unwrap();
    assert_eq!(fire.outcome, Some(FireOutcome::Overlapped));
    assert!(fire::fire(1_000, (2_000, Some("other".to_owned()), None)).is_err());
}
