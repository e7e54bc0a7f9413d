//! Plays a class, prints its line, and fails if anything was violated.

use super::arena::Arena;
use super::ground::Ground;
use super::play::play;
use super::table::{Case, Class, Wire, names};
use super::watch::memory::{forget_peak, peak_mib, resident_mib};
use super::{bystander, judge};
use futures_util::{StreamExt, stream};
use std::io::Write;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Held alone by a class whose memory is measured.
static ROOM: RwLock<()> = RwLock::const_new(());
/// The first class began then.
static BEGUN: OnceLock<Instant> = OnceLock::new();
/// Classes that have ended.
static ENDED: AtomicUsize = AtomicUsize::new(0);
/// The variable that is set where the machine is known: the seconds in which all classes have to end.
const SECONDS_MAX: &str = "DRYDOCK_DOJO_SECONDS_MAX";
/// Violations told one by one.
const TOLD_MAX: usize = 200;

/// Waits until no arena is there but one's own, and keeps others out.
pub(crate) async fn alone() -> RwLockWriteGuard<'static, ()> {
    ROOM.write().await
}

/// Others may be there meanwhile, and nobody measures this process.
pub(crate) async fn together() -> RwLockReadGuard<'static, ()> {
    ROOM.read().await
}

/// Plays every case of a class. The last one says how long all took.
pub(crate) async fn run(name: &str) {
    let begun = *BEGUN.get_or_init(Instant::now);
    run_one(name).await;
    if ENDED.fetch_add(1, Ordering::SeqCst) + 1 < names().len() {
        return;
    }
    let seconds = begun.elapsed().as_secs_f32();
    tell(&format!("all classes took {seconds:.1} s\n"));
    let max = std::env::var(SECONDS_MAX).ok();
    if let Some(max) = max.map(|max| max.parse::<f32>().expect("a number of seconds")) {
        assert!(
            seconds <= max,
            "all classes took {seconds:.1} s; {SECONDS_MAX} is {max}"
        );
    }
}

async fn run_one(name: &str) {
    let class = Class::read(name);
    let Some(ground) = class.ground() else { return };
    let (cases, violations) = played(&class, &ground).await;
    let count = violations.len();
    assert!(
        violations.is_empty(),
        "{count} violations in {cases} cases of `{name}`:\n{}",
        violations
            .iter()
            .take(TOLD_MAX)
            .cloned()
            .collect::<Vec<_>>()
            .join("\n")
    );
}

/// Plays every case of a class and prints its line; how many there were, and what was violated.
pub(crate) async fn played(class: &Class, ground: &Ground) -> (usize, Vec<String>) {
    let (_alone, _together) = match class.memory_mib_max {
        Some(_) => (Some(alone().await), None),
        None => (None, Some(together().await)),
    };
    let started = Instant::now();
    let (mut cases, mut violations) = (0, Vec::new());
    for wire in [Wire::Anthropic, Wire::Openai] {
        let has_cases = class
            .attack
            .iter()
            .chain(&class.benign)
            .any(|row| row.wire.contains(&wire));
        if has_cases {
            let (played, wrong) = on(class, ground, wire).await;
            cases += played;
            violations.extend(wrong);
        }
    }
    let seconds = started.elapsed().as_secs_f32();
    let promises = class.promises.join(" ");
    let count = violations.len();
    let (name, about) = (&class.class, &class.about);
    tell(&format!(
        "{name:<16} {promises:<12} {cases:>4} cases {count:>3} violations {seconds:>6.1} s  {about}\n"
    ));
    (cases, violations)
}

/// Past the capture of the test harness: the table is what this program is for.
fn tell(line: &str) {
    std::io::stderr()
        .write_all(line.as_bytes())
        .expect("stderr takes a line");
}

async fn on(class: &Class, ground: &Ground, wire: Wire) -> (usize, Vec<String>) {
    let (mut arena, cases) = Arena::new(wire, ground, |values| class.cases(values)).await;
    let idle = resident_mib();
    if class.memory_mib_max.is_some() {
        forget_peak();
    }
    let mut violations = Vec::new();
    let playing = stream::iter(&cases)
        .map(|case| one(&arena, case))
        .buffer_unordered(class.at_once);
    let playing = playing.collect::<Vec<_>>();
    match class.bystander_seconds_max {
        None => violations.extend(playing.await.into_iter().flatten()),
        Some(max) => {
            let (played, slowest) = bystander::beside(&arena, playing).await;
            violations.extend(played.into_iter().flatten());
            violations.extend(bystander::verdict(slowest, Duration::from_secs(max)));
        }
    }
    if let Some(max) = class.memory_mib_max {
        let more = peak_mib().saturating_sub(idle);
        if more > max {
            violations.push(format!("{more} MiB more memory was in use than before"));
        }
    }
    if let Some(app) = arena.app.take() {
        app.shutdown().await;
    }
    violations.extend(judge::of_arena(&arena, &cases));
    (cases.len(), violations)
}

async fn one(arena: &Arena, case: &Case) -> Vec<String> {
    let played = play(arena, case).await;
    let wrong = judge::of_case(arena, case, &played);
    let told = wrong
        .into_iter()
        .map(|what| format!("  {:?} {}: {what}", case.kind, case.title));
    told.collect()
}
