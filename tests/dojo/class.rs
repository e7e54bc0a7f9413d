//! The run of a class: plays its cases, prints its line, and fails if anything was violated.

use super::expansion::DojoCase;
use super::extent::TableExtent;
use super::fixture::AttackFixture;
use super::memory::{forget_peak, peak_bytes, resident_bytes};
use super::options::FixtureOptions;
use super::run_case::run_case;
use super::table::{AttackClass, WireFormat, class_names};
use super::{bystander, judge};
use futures_util::{StreamExt, stream};
use std::io::Write;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

/// The lock that a class with a memory bound holds exclusively.
static MEMORY_LOCK: RwLock<()> = RwLock::const_new(());
/// The time at which the first class began.
static STARTED_AT: OnceLock<Instant> = OnceLock::new();
/// The number of classes that have ended.
static CLASSES_ENDED: AtomicUsize = AtomicUsize::new(0);
/// The number of cases that were played.
static CASES_PLAYED: AtomicUsize = AtomicUsize::new(0);
/// The environment variable with the milliseconds that a case may take on average. It is set on known machines.
const CASE_MS_MAX: &str = "DRYDOCK_DOJO_CASE_MS_MAX";
/// The most violations that are listed one by one.
const LISTED_MAX: usize = 200;

/// Waits until no other fixture runs, and keeps others out.
pub(crate) async fn lock_exclusive() -> RwLockWriteGuard<'static, ()> {
    MEMORY_LOCK.write().await
}

/// Waits for shared access: other classes may run, and the memory of this process is not measured.
pub(crate) async fn lock_shared() -> RwLockReadGuard<'static, ()> {
    MEMORY_LOCK.read().await
}

/// Plays every case of a class. The last class also prints the total time.
pub(crate) async fn run(name: &str) {
    let begun = *STARTED_AT.get_or_init(Instant::now);
    run_named_class(name).await;
    if CLASSES_ENDED.fetch_add(1, Ordering::SeqCst) + 1 < class_names().len() {
        return;
    }
    let (elapsed, cases) = (begun.elapsed(), CASES_PLAYED.load(Ordering::SeqCst));
    let mean = elapsed.as_millis() / cases.max(1) as u128;
    let seconds = elapsed.as_secs_f32();
    print_line(&format!(
        "all {cases} cases took {seconds:.1} s, {mean} ms each\n"
    ));
    let max = std::env::var(CASE_MS_MAX).ok();
    if let Some(max) = max.map(|max| max.parse::<u128>().expect("a number of milliseconds")) {
        assert!(mean <= max, "a case took {mean} ms; {CASE_MS_MAX} is {max}");
    }
}

async fn run_named_class(name: &str) {
    let class = AttackClass::read(name);
    let Some(options) = class.fixture_options() else {
        return;
    };
    let (cases, violations) = run_class(&class, &options).await;
    CASES_PLAYED.fetch_add(cases, Ordering::SeqCst);
    let count = violations.len();
    assert!(
        violations.is_empty(),
        "{count} violations in {cases} cases of `{name}`:\n{}",
        violations
            .iter()
            .take(LISTED_MAX)
            .cloned()
            .collect::<Vec<_>>()
            .join("\n")
    );
}

/// Plays every case of a class and prints its line. Returns the number of cases, and the violations.
pub(crate) async fn run_class(class: &AttackClass, options: &FixtureOptions) -> (usize, Vec<String>) {
    let (_alone, _together) = match class.memory_mib_max {
        Some(_) => (Some(lock_exclusive().await), None),
        None => (None, Some(lock_shared().await)),
    };
    let started = Instant::now();
    let (mut cases, mut violations) = (0, Vec::new());
    let extent = class.extent(TableExtent::chosen());
    for wire in WireFormat::ALL {
        let has_cases = class
            .attack
            .iter()
            .chain(&class.benign)
            .any(|row| row.wires(extent).contains(&wire));
        if has_cases {
            let (played, wrong) = run_on_wire(class, options, wire).await;
            cases += played;
            violations.extend(wrong);
        }
    }
    let seconds = started.elapsed().as_secs_f32();
    let promises = class.promises.join(" ");
    let count = violations.len();
    let (name, about) = (&class.class, &class.about);
    print_line(&format!(
        "{name:<16} {promises:<12} {cases:>4} cases {count:>3} violations {seconds:>6.1} s  {about}\n"
    ));
    (cases, violations)
}

/// Prints past the capture of the test harness, because the table is the purpose of this program.
fn print_line(line: &str) {
    std::io::stderr()
        .write_all(line.as_bytes())
        .expect("stderr takes a line");
}

async fn run_on_wire(
    class: &AttackClass,
    options: &FixtureOptions,
    wire: WireFormat,
) -> (usize, Vec<String>) {
    let (mut fixture, cases) =
        AttackFixture::new(wire, options, |values| class.cases(values, TableExtent::chosen())).await;
    let idle = resident_bytes();
    if class.memory_mib_max.is_some() {
        forget_peak();
    }
    let mut violations = Vec::new();
    let playing = stream::iter(&cases)
        .map(|case| case_report(&fixture, case))
        .buffer_unordered(class.at_once);
    let playing = playing.collect::<Vec<_>>();
    match class.bystander_seconds_max {
        None => violations.extend(playing.await.into_iter().flatten()),
        Some(max) => {
            let (played, slowest) = bystander::run_alongside(&fixture, playing).await;
            violations.extend(played.into_iter().flatten());
            violations.extend(bystander::wait_violation(slowest, Duration::from_secs(max)));
        }
    }
    if let Some(max) = class.memory_mib_max {
        let more = peak_bytes().saturating_sub(idle) >> 20;
        if more > max {
            violations.push(format!("{more} MiB more memory was in use than before"));
        }
    }
    if let Some(app) = fixture.app.take() {
        app.shutdown().await;
    }
    violations.extend(judge::fixture_violations(&fixture, &cases));
    (cases.len(), violations)
}

async fn case_report(fixture: &AttackFixture, case: &DojoCase) -> Vec<String> {
    let played = run_case(fixture, case).await;
    let wrong = judge::case_violations(fixture, case, &played);
    let reported = wrong
        .into_iter()
        .map(|what| format!("  {:?} {}: {what}", case.kind, case.title));
    reported.collect()
}
