//! Tests of schedules whose times belong to pipelines, in the store.

use super::{WAITING, at, count, definition, edit, minute_later, new, only, start};
use crate::base::model::{
    FireOutcome, MissedRule, OverlapRule, PipelineSchedule, RunConflictRule, RunId, RunStatus,
    ScheduleDefinition, Sender,
};
use crate::state::store::fixture::{claim, fresh, new_run};
use crate::state::store::run::{create, end};
use crate::state::store::{
    ConfiguredSchedule, FireResult, GroupReach, NewRun, NewSchedule, PipelineScheduleOwner, RunAdvance,
    RunCreation, ScheduleChange, ScheduleEdit, ScheduleRow, Store, StoreError,
};

const ENDED: &str = "SELECT COUNT(*) FROM run WHERE ended_at IS NOT NULL";
const RUNS: &str = "SELECT COUNT(*) FROM run";

fn owner() -> Sender {
    Sender::of_schedule("nightly")
}

fn pipeline(name: &str, when: &str, due: i64) -> NewSchedule {
    let definition = ScheduleDefinition {
        words: String::new(),
        pipeline: Some(PipelineSchedule {
            name: name.to_owned(),
            trigger: 1,
            overlap: OverlapRule::LeaveOut,
        }),
        ..definition(when)
    };
    NewSchedule {
        definition,
        ..new(owner(), &format!("nightly/{name}"), when, due)
    }
}

async fn stored(store: &Store, schedules: Vec<NewSchedule>, second: i64) -> bool {
    let stored = store.store_pipeline_schedules(owner(), schedules, at(second));
    stored.await.unwrap()
}

/// Stores the schedule of one pipeline, which is due at second 10.
async fn drift(store: &Store) -> ScheduleRow {
    assert!(stored(store, vec![pipeline("drift", "daily 09:00", 10)], 0).await);
    only(store).await
}

fn run() -> NewRun {
    NewRun {
        pipeline: "drift".to_owned(),
        owner: owner(),
        trigger: "schedule nightly/drift".to_owned(),
        reach: GroupReach::All,
        ..new_run(&[("tell", "reply")])
    }
}

async fn fire(store: &Store, row: &ScheduleRow, due: i64) -> FireResult {
    let begun = store.begin_fire(start(row, due, Some(due + 10)), None, at(due));
    begun.await.unwrap()
}

/// Answers the message that waits.
async fn answer(store: &Store, new: Option<NewRun>, second: i64) -> Option<RunCreation> {
    let claim = claim(store, "w1").await.unwrap();
    let work = store.work(&claim, 40, usize::MAX).await.unwrap().unwrap();
    let started = store.start_fire_run(&claim, work.inbox, new, at(second));
    let (creation, _) = started.await.unwrap();
    store.release(&claim).await.unwrap();
    creation
}

/// Starts the run of the message that waits.
async fn started(store: &Store, second: i64) -> RunId {
    match answer(store, Some(run()), second).await {
        Some(RunCreation::Created(id)) => id,
        other => panic!("{other:?}"),
    }
}

async fn finish(store: &Store, id: RunId, status: RunStatus, second: i64) {
    let version = store.run(id).await.unwrap().unwrap().version;
    let moves = RunAdvance {
        finish: Some((status, None)),
        ..RunAdvance::default()
    };
    let moved = store.advance_run(id, version, moves, at(second)).await;
    assert!(moved.unwrap().is_some());
}

async fn last(store: &Store) -> Option<FireOutcome> {
    only(store).await.last.unwrap().outcome
}

#[tokio::test]
async fn a_fire_of_a_pipeline_ends_with_its_run_and_the_third_failure_pauses_it() {
    let (_directory, store) = fresh();
    let row = drift(&store).await;
    let ends = [
        (RunStatus::Failed, FireOutcome::Failed),
        (RunStatus::Succeeded, FireOutcome::Done),
        (RunStatus::Failed, FireOutcome::Failed),
        (RunStatus::Cancelled, FireOutcome::Stopped),
        (RunStatus::Failed, FireOutcome::Failed),
        (RunStatus::Failed, FireOutcome::Failed),
    ];
    for (index, (status, outcome)) in ends.into_iter().enumerate() {
        let due = 10 * (i64::try_from(index).unwrap() + 1);
        assert_eq!(fire(&store, &row, due).await, FireResult::Started, "{index}");
        let id = started(&store, due + 1).await;
        assert_eq!((last(&store).await, count(&store, WAITING).await), (None, 0));
        finish(&store, id, status, due + 2).await;
        assert_eq!(last(&store).await, Some(outcome), "{index}");
        assert_eq!(only(&store).await.off_why.is_some(), index == 5, "{index}");
    }
    let notices = "SELECT COUNT(*) FROM outbox WHERE op = 'schedule-60/paused'";
    assert_eq!(count(&store, notices).await, 1);
    assert_eq!(count(&store, RUNS).await, 6);
}

#[tokio::test]
async fn a_fire_starts_one_run_or_none_however_often_its_message_is_answered() {
    let (_directory, store) = fresh();
    let row = drift(&store).await;
    fire(&store, &row, 10).await;
    let claimed = claim(&store, "w1").await.unwrap();
    let work = store.work(&claimed, 40, usize::MAX).await.unwrap().unwrap();
    let again = || store.start_fire_run(&claimed, work.inbox, Some(run()), at(11));
    let (first, _) = again().await.unwrap();
    assert!(matches!(first, Some(RunCreation::Created(_))), "{first:?}");
    assert!(matches!(again().await, Err(StoreError::NotFound(_))));
    store.release(&claimed).await.unwrap();
    // The same event by another way.
    let same = NewRun {
        deliveries: vec![format!("schedule:{}:{}/run", row.id, at(10).as_millisecond())],
        ..run()
    };
    let known = store.create_run(same, None, at(12)).await.unwrap().0;
    assert!(matches!(known, RunCreation::Known(Some(_))), "{known:?}");
    assert_eq!(count(&store, RUNS).await, 1);

    // Nothing was to start.
    let id = RunId(1);
    finish(&store, id, RunStatus::Succeeded, 13).await;
    fire(&store, &row, 20).await;
    assert_eq!(answer(&store, None, 21).await, None);
    assert_eq!(last(&store).await, Some(FireOutcome::Skipped));
    // The schedule is gone before its message is answered.
    fire(&store, &row, 30).await;
    assert!(stored(&store, Vec::new(), 31).await);
    assert_eq!(answer(&store, Some(run()), 32).await, None);
    assert_eq!((count(&store, RUNS).await, count(&store, WAITING).await), (1, 0));
}

#[tokio::test]
async fn a_run_that_a_crash_cuts_short_leaves_the_fire_and_its_message() {
    let (_directory, store) = fresh();
    let row = drift(&store).await;
    fire(&store, &row, 10).await;
    let id = started(&store, 11).await;
    let cut = store.write(move |tx| {
        end(tx, id, "cancelled by alice", None, at(12))?;
        Err::<(), _>(StoreError::Failed("cut short".to_owned()))
    });
    assert!(cut.await.is_err());
    assert_eq!((last(&store).await, count(&store, ENDED).await), (None, 0));
    store
        .abandon_run(id, "it cannot be read", None, at(13))
        .await
        .unwrap();
    assert_eq!(last(&store).await, Some(FireOutcome::Failed));
    // The run of another event ends no fire.
    let other = NewRun {
        deliveries: vec!["schedule:1:x/run".to_owned()],
        ..run()
    };
    fire(&store, &row, 20).await;
    let ended = store.write(move |tx| match create(tx, &other, None, at(21))?.0 {
        RunCreation::Created(id) => end(tx, id, "cancelled by alice", None, at(21)),
        other => panic!("{other:?}"),
    });
    ended.await.unwrap();
    assert_eq!(last(&store).await, None);
}

#[tokio::test]
async fn a_time_is_left_out_while_a_run_goes_on_unless_the_pipeline_has_a_rule_for_it() {
    let (_directory, store) = fresh();
    let row = drift(&store).await;
    let left_out = FireResult::LeftOut(FireOutcome::Overlapped);
    fire(&store, &row, 10).await;
    let first = started(&store, 11).await;
    assert_eq!(fire(&store, &row, 20).await, left_out);
    finish(&store, first, RunStatus::Succeeded, 21).await;

    let mut ruled = pipeline("drift", "daily 09:00", 99);
    if let Some(pipeline) = &mut ruled.definition.pipeline {
        pipeline.overlap = OverlapRule::Concurrency;
    }
    assert!(stored(&store, vec![ruled], 22).await);
    assert_eq!(fire(&store, &row, 30).await, FireResult::Started);
    // Its message waits, and no other does.
    assert_eq!(fire(&store, &row, 40).await, left_out);
    let grouped = |rule| NewRun {
        group: Some("infra/repository/drift".to_owned()),
        on_conflict: rule,
        ..run()
    };
    let busy = answer(&store, Some(grouped(RunConflictRule::Skip)), 41).await;
    let Some(RunCreation::Created(busy)) = busy else {
        panic!("{busy:?}");
    };
    assert_eq!(fire(&store, &row, 50).await, FireResult::Started);
    let skipped = answer(&store, Some(grouped(RunConflictRule::Skip)), 51).await;
    assert_eq!(skipped, Some(RunCreation::Skipped(busy)));
    assert_eq!(last(&store).await, Some(FireOutcome::Skipped));
    assert_eq!(fire(&store, &row, 60).await, FireResult::Started);
    let newer = answer(&store, Some(grouped(RunConflictRule::Cancel)), 61).await;
    assert!(matches!(newer, Some(RunCreation::Created(_))), "{newer:?}");
    let fires = store.schedule_fires(row.id).await.unwrap();
    let outcomes: Vec<_> = fires.iter().map(|fire| fire.outcome).collect();
    assert_eq!(
        outcomes,
        [
            None,
            Some(FireOutcome::Skipped),
            Some(FireOutcome::Overlapped),
            Some(FireOutcome::Stopped),
            Some(FireOutcome::Overlapped),
            Some(FireOutcome::Done)
        ]
    );
}

#[tokio::test]
async fn a_schedule_that_is_turned_off_cancels_the_run_of_its_pipeline() {
    let (_directory, store) = fresh();
    let row = drift(&store).await;
    fire(&store, &row, 10).await;
    let id = started(&store, 11).await;
    let off = || ScheduleEdit::Disable(row.id, "turned off by the operator".to_owned());
    assert_eq!(edit(&store, off(), 12).await, ScheduleChange::Changed);
    let head = store.run(id).await.unwrap().unwrap().head;
    assert_eq!(
        (head.status, head.why.as_deref()),
        (RunStatus::Cancelled, Some("its schedule was turned off"))
    );
    assert_eq!(last(&store).await, Some(FireOutcome::Stopped));
    // A message that waits starts nothing any more.
    assert_eq!(
        store.begin_fire(start(&row, 13, None), None, at(13)).await,
        Ok(FireResult::Started)
    );
    let disabled = store.edit_schedule(off(), ("operator".to_owned(), None), at(14));
    assert_eq!(disabled.await.unwrap().1.len(), 1);
    assert_eq!(answer(&store, Some(run()), 15).await, None);
    assert_eq!(last(&store).await, Some(FireOutcome::Stopped));
    assert_eq!(count(&store, RUNS).await, 1);
}

#[tokio::test]
async fn the_times_of_pipelines_are_those_of_the_newest_definitions_and_what_is_off_stays_off() {
    let (_directory, store) = fresh();
    let two = || {
        vec![
            pipeline("audit", "daily 10:00", 20),
            pipeline("drift", "daily 09:00", 10),
        ]
    };
    assert!(stored(&store, two(), 0).await && !stored(&store, two(), 1).await);
    let rows = store.schedules(None).await.unwrap();
    let off = ScheduleEdit::Disable(rows[0].id, "turned off by the operator".to_owned());
    assert_eq!(edit(&store, off, 2).await, ScheduleChange::Changed);
    // The same times keep the next time, so that it is made up for; others have a new one.
    let changed = vec![
        pipeline("audit", "daily 11:00", 1_020),
        pipeline("drift", "daily 09:00", 1_010),
        pipeline("review", "daily 09:00", 1_010),
    ];
    assert!(stored(&store, changed, 1_000).await);
    let rows = store.schedules(None).await.unwrap();
    let found: Vec<_> = rows
        .iter()
        .map(|row| (row.name.as_str(), row.due, row.off_why.is_some()))
        .collect();
    assert_eq!(
        found,
        [
            ("nightly/audit", at(1_020), true),
            ("nightly/drift", at(10), false),
            ("nightly/review", at(1_010), false)
        ]
    );
    // A run goes on without its schedule.
    fire(&store, &rows[1], 10).await;
    let id = started(&store, 1_001).await;
    assert!(stored(&store, Vec::new(), 1_002).await);
    assert_eq!(store.schedules(None).await, Ok(Vec::new()));
    finish(&store, id, RunStatus::Succeeded, 1_003).await;
    let audited =
        "SELECT COUNT(*) FROM audit WHERE line LIKE '%schedule.changed%' AND line LIKE '%definition%'";
    assert_eq!(count(&store, audited).await, 7);
}

/// Returns the schedules of the triggers of one pipeline, which have these times.
fn triggers(times: &[(&str, i64)]) -> Vec<NewSchedule> {
    let trigger = |(number, (when, due)): (u32, &(&str, i64))| {
        let mut new = pipeline("drift", when, *due);
        if number > 1 {
            new.name = format!("nightly/drift#{number}");
        }
        if let Some(pipeline) = &mut new.definition.pipeline {
            pipeline.trigger = number;
        }
        new
    };
    (1..).zip(times).map(trigger).collect()
}

#[tokio::test]
async fn a_trigger_in_another_place_of_its_pipeline_is_the_same_schedule_and_stays_off() {
    let (_directory, store) = fresh();
    let (daily, weekly, hourly) = (("daily 09:00", 10), ("mondays 09:00", 20), ("every 1h", 30));
    assert!(stored(&store, triggers(&[daily, weekly]), 0).await);
    let rows = store.schedules(None).await.unwrap();
    assert_eq!(rows[1].definition.when, "mondays 09:00");
    let off = ScheduleEdit::Disable(rows[1].id, "turned off by the operator".to_owned());
    assert_eq!(edit(&store, off, 1).await, ScheduleChange::Changed);
    let later = |(when, due): (&'static str, i64)| (when, due + 1_000);
    let (moved_daily, moved_weekly) = (later(daily), later(weekly));
    for (times, expected) in [
        // One is added before the others, the two are exchanged, and the first one is removed.
        (
            vec![hourly, moved_daily, moved_weekly],
            vec![
                ("every 1h", 30, false),
                ("daily 09:00", 10, false),
                ("mondays 09:00", 20, true),
            ],
        ),
        (
            vec![moved_weekly, moved_daily],
            vec![("mondays 09:00", 20, true), ("daily 09:00", 10, false)],
        ),
        (vec![moved_daily], vec![("daily 09:00", 10, false)]),
    ] {
        assert!(stored(&store, triggers(&times), 1_000).await);
        assert!(!stored(&store, triggers(&times), 1_001).await);
        let rows = store.schedules(None).await.unwrap();
        let found: Vec<_> = rows
            .iter()
            .map(|row| {
                let place = row.definition.pipeline.as_ref().map(|pipeline| pipeline.trigger);
                (
                    row.name.as_str(),
                    place,
                    row.definition.when.as_str(),
                    row.due,
                    row.off_why.is_some(),
                )
            })
            .collect();
        let names = ["nightly/drift", "nightly/drift#2", "nightly/drift#3"];
        let named = names.into_iter().zip(1..).zip(expected);
        let expected: Vec<_> = named
            .map(|((name, place), (when, due, is_off))| (name, Some(place), when, at(due), is_off))
            .collect();
        assert_eq!(found, expected);
    }
}

#[tokio::test]
async fn other_times_with_the_same_next_time_are_computed_at_another_time() {
    let (_directory, store) = fresh();
    drift(&store).await;
    let timed_after = async |second| store.schedules_timed_after(at(second)).await.unwrap().len();
    let mut skipped = pipeline("drift", "daily 09:00", 10);
    skipped.definition.missed = MissedRule::Skip;
    assert!(stored(&store, vec![skipped], 5).await);
    assert_eq!((timed_after(-1).await, timed_after(0).await), (1, 0));
    assert!(stored(&store, vec![pipeline("drift", "every 1h", 10)], 5).await);
    assert_eq!((timed_after(4).await, timed_after(5).await), (1, 0));
}

#[tokio::test]
async fn the_configuration_keeps_the_times_of_pipelines_that_it_still_starts() {
    let (_directory, store) = fresh();
    let row = drift(&store).await;
    let configured = |settings: ScheduleDefinition| PipelineScheduleOwner {
        owner: owner(),
        settings,
    };
    let settings = ScheduleDefinition {
        channel: "team".to_owned(),
        missed: MissedRule::Skip,
        ..definition("")
    };
    let kept = vec![configured(settings.clone())];
    store
        .store_configured_schedules(Vec::new(), kept, (at(1), minute_later))
        .await
        .unwrap();
    let now = only(&store).await;
    assert_eq!(
        (now.id, now.due, now.definition.channel.as_str()),
        (row.id, row.due, "team")
    );
    assert_eq!(now.definition.pipeline, row.definition.pipeline);
    let elsewhere = configured(ScheduleDefinition {
        repository: "apps".to_owned(),
        ..settings
    });
    // A schedule with words beside it has its own row.
    let words = ConfiguredSchedule {
        owner: owner(),
        name: "nightly".to_owned(),
        definition: definition("daily 09:00"),
    };
    for pipelines in [vec![elsewhere], Vec::new()] {
        let stored = store.store_configured_schedules(vec![words.clone()], pipelines, (at(2), minute_later));
        stored.await.unwrap();
        assert_eq!(only(&store).await.name, "nightly");
    }
    assert!(!stored(&store, Vec::new(), 3).await);
    assert_eq!(only(&store).await.name, "nightly");
}
