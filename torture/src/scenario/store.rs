//! Faults below the database: another process holds its lock, the disk is full or read-only, or no file descriptor is
//! left. While the program cannot store, it answers 503 and loses nothing. Afterwards it continues without a restart.

use super::ScenarioContext;
use super::directed::DirectedTestbed;
use crate::conversation::{CommandInput, UserConversation};
use crate::explain::CommandKind;
use crate::tally::Tally;
use crate::testbed::{Testbed, TestbedOptions};
use anyhow::Context;
use rusqlite::Connection;
use std::io::Write;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// R15: while it cannot store, an event is answered within this time.
const REFUSED_MAX: Duration = Duration::from_secs(3);
/// The most status requests of one person while the database is locked.
const STATUS_MAX: usize = 400;
/// R14: the time within which it is ready again.
const HEALED_MAX: Duration = Duration::from_secs(5);

/// R15: a backup, or a shell, locks the database while many people write.
pub(super) async fn locked(cx: &ScenarioContext<'_>) -> anyhow::Result<Tally> {
    const TALKS: usize = 8;
    let plan = TestbedOptions {
        may_fail: true,
        ..cx.plan(cx.binary())
    };
    let mut directed = DirectedTestbed::new(Testbed::start_with_people(plan).await?);
    let holds: &[u64] = cx.lane().either(&[1, 6], &[1, 6, 6, 30]);
    for seconds in holds {
        let mut talking = JoinSet::new();
        let is_over = Arc::new(AtomicBool::new(false));
        for _ in 0..TALKS {
            talking.spawn(chatters(directed.start_conversation(), Arc::clone(&is_over)));
        }
        // Answers are in delivery, and their results must be stored.
        tokio::time::sleep(Duration::from_millis(400)).await;
        let database = directed.testbed.launch().data.join("drydock.db");
        let world = Arc::clone(&directed.testbed);
        let seconds = *seconds;
        let holder = tokio::task::spawn_blocking(move || hold(&world, &database, seconds));
        // An event in the meantime is refused in time, or durable.
        let mut more = directed.start_conversation();
        while !holder.is_finished() {
            in_time(&directed.testbed, &mut more).await;
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
        is_over.store(true, Ordering::SeqCst);
        holder.await??;
        more.ask(more.task(1)).await;
        let mut talks = vec![more];
        while let Some(talk) = talking.join_next().await {
            talks.push(talk?);
        }
        for mut talk in talks {
            talk.check_final_patch().await;
            directed.talks.push(talk);
        }
        let shown = directed.testbed.slack.with_state(|state| {
            let mut messages = state.messages.iter();
            messages.any(|message| crate::slack_thread::shown(message).contains("database is locked"))
        });
        if shown {
            directed
                .testbed
                .report_violation("a message says that the database is locked".to_owned());
        }
    }
    let mut tally = directed.close(cx).await;
    tally.faults = holds.len();
    Ok(tally)
}

/// Sends a request, and then status requests until `is_over` is set.
async fn chatters(mut talk: UserConversation, is_over: Arc<AtomicBool>) -> UserConversation {
    talk.ask(talk.task(2)).await;
    talk.until_answered().await;
    for _ in 0..STATUS_MAX {
        talk.command(CommandKind::Status, CommandInput::Text).await;
        talk.until_commands_are_answered().await;
        if talk.is_stuck || is_over.load(Ordering::SeqCst) {
            break;
        }
    }
    talk
}

/// Locks the database from outside.
fn hold(world: &Testbed, database: &Path, seconds: u64) -> anyhow::Result<()> {
    let holder = Connection::open(database)?;
    holder.busy_timeout(Duration::from_secs(5))?;
    holder.execute_batch("BEGIN EXCLUSIVE")?;
    world.note(&format!("the database is locked for {seconds} s"));
    std::thread::sleep(Duration::from_secs(seconds));
    holder.execute_batch("COMMIT")?;
    world.note("the database is free");
    Ok(())
}

/// Sends a message while nothing can be stored. Checks that no attempt takes too long.
async fn in_time(world: &Testbed, talk: &mut UserConversation) {
    let answer = talk.ask_once(talk.task(1)).await;
    let took = std::mem::take(&mut talk.slowest_answer);
    if took >= REFUSED_MAX {
        world.report_violation(format!(
            "an event was answered {answer:?} after {:.1} s",
            took.as_secs_f64()
        ));
    }
}

/// A small file system in memory. It is unmounted on drop.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Mounts a small disk. Returns `None` if this machine does not allow mounts.
    fn mount(directory: &Path, megabytes: usize) -> Option<Self> {
        std::fs::create_dir_all(directory).ok()?;
        let size = format!("size={megabytes}m");
        let mount = ["mount", "-t", "tmpfs", "-o", &size, "tmpfs", directory.to_str()?];
        runs(&mount).then(|| Self(directory.to_owned()))
    }

    fn remount(&self, how: &str) -> bool {
        let how = format!("remount,{how}");
        self.0
            .to_str()
            .is_some_and(|directory| runs(&["mount", "-o", &how, directory]))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // It may be in use until the program has ended.
        let _ = self
            .0
            .to_str()
            .map(|directory| runs(&["umount", "--lazy", directory]));
    }
}

/// Returns true if a system command succeeds.
fn runs(command: &[&str]) -> bool {
    let Some((program, arguments)) = command.split_first() else {
        return false;
    };
    let output = std::process::Command::new(program).args(arguments).output();
    output.is_ok_and(|output| output.status.success())
}

/// R14: the disk is full, or becomes read-only.
pub(super) async fn full(cx: &ScenarioContext<'_>) -> anyhow::Result<Tally> {
    let outside = tempfile::TempDir::with_prefix("drydock-torture-disk-")?;
    let Some(disk) = SmallDisk::mount(&outside.path().join("disk"), 48) else {
        return Ok(cx.skip("this machine does not allow to mount a file system in memory (needs root)"));
    };
    let plan = TestbedOptions {
        data: Some(disk.0.join("data")),
        may_fail: true,
        ..cx.plan(cx.binary())
    };
    let mut directed = DirectedTestbed::new(Testbed::start_with_people(plan).await?);
    let mut talk = directed.start_conversation();
    talk.ask(talk.task(2)).await;
    talk.until_answered().await;
    let world = Arc::clone(&directed.testbed);

    let ballast = disk.0.join("ballast");
    fill(&ballast)?;
    world.note("the disk is full");
    check_refusals(&world, &mut talk, "the disk was full").await;
    std::fs::remove_file(&ballast)?;
    world.note("the disk has room");
    wait_until_recovered(&world, &mut talk, "the disk had room again").await;

    if disk.remount("ro") {
        world.note("the disk is read-only");
        check_refusals(&world, &mut talk, "the disk was read-only").await;
        if !disk.remount("rw") {
            anyhow::bail!("the disk stays read-only");
        }
        world.note("the disk can be written");
        wait_until_recovered(&world, &mut talk, "the disk could be written again").await;
    } else {
        world.note("files are open for writing, so the disk cannot become read-only");
    }
    talk.check_final_patch().await;
    directed.talks.push(talk);
    drop(world);
    let mut tally = directed.close(cx).await;
    tally.faults = 1;
    drop(disk);
    Ok(tally)
}

/// Writes until no room for another page remains.
fn fill(ballast: &Path) -> anyhow::Result<()> {
    let mut file = std::fs::File::create(ballast).context("no ballast")?;
    for size in [1 << 20, 4_096, 512] {
        let block = vec![b'x'; size];
        while file.write_all(&block).is_ok() {}
    }
    Ok(())
}

/// Checks that messages are refused while nothing can be stored. Those that are acknowledged are checked at the end.
async fn check_refusals(world: &Testbed, talk: &mut UserConversation, when: &str) {
    let mut refused = 0;
    for _ in 0..12 {
        in_time(world, talk).await;
        refused += usize::from(talk.is_refused());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    if refused == 0 {
        world.report_violation(format!("everything was acknowledged while {when}"));
    }
    if readiness(world).await == Some(200) {
        world.report_violation(format!("/readyz said 200 while {when}"));
    }
}

/// Waits until the program accepts messages again, without a restart.
async fn wait_until_recovered(world: &Testbed, talk: &mut UserConversation, when: &str) {
    let began = Instant::now();
    let mut taken = false;
    while !taken && began.elapsed() < HEALED_MAX {
        talk.ask_once(talk.task(1)).await;
        taken = !talk.is_refused();
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    if !taken {
        world.report_violation(format!(
            "nothing was accepted {} s after {when}",
            HEALED_MAX.as_secs()
        ));
    }
    while readiness(world).await != Some(200) {
        if began.elapsed() > HEALED_MAX {
            return world.report_violation(format!(
                "/readyz was not 200 {} s after {when}",
                HEALED_MAX.as_secs()
            ));
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    talk.until_answered().await;
}

async fn readiness(world: &Testbed) -> Option<u16> {
    let client = drydock::base::http_client::api_client().ok()?;
    let url = format!("http://{}/readyz", world.launch().address);
    let answer = tokio::time::timeout(REFUSED_MAX, client.get(url).send())
        .await
        .ok()?
        .ok()?;
    Some(answer.status().as_u16())
}

/// R22: idle connections use every file descriptor.
pub(super) async fn descriptors(cx: &ScenarioContext<'_>) -> anyhow::Result<Tally> {
    const OPEN_FILES_MAX: u64 = 96;
    const CONNECTIONS: usize = 160;
    let plan = TestbedOptions {
        open_files_max: Some(OPEN_FILES_MAX),
        may_fail: true,
        ..cx.plan(cx.binary())
    };
    let mut directed = DirectedTestbed::new(Testbed::start_with_people(plan).await?);
    let mut talk = directed.start_conversation();
    let address = directed.testbed.launch().address;
    for _ in 0..cx.lane().either(1, 4) {
        talk.ask(talk.task(4)).await;
        let idle: Vec<TcpStream> = (0..CONNECTIONS)
            .filter_map(|_| TcpStream::connect_timeout(&address, Duration::from_millis(200)).ok())
            .collect();
        directed.testbed.note(&format!("{} idle connections", idle.len()));
        for _ in 0..3 {
            talk.ask_once(talk.task(1)).await;
        }
        drop(idle);
        directed.testbed.note("the connections are closed");
        talk.ask(talk.task(1)).await;
        talk.command(CommandKind::Undo, CommandInput::Text).await;
        talk.until_answered().await;
        talk.until_commands_are_answered().await;
    }
    talk.check_final_patch().await;
    directed.talks.push(talk);
    let mut tally = directed.close(cx).await;
    tally.faults = cx.lane().either(1, 4);
    Ok(tally)
}
