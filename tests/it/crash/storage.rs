//! Storage that fails under the real program: no space, another process's lock, a failed sync, no file descriptors. The
//! program reports the fault, accepts no message that it cannot store, and continues or ends.

use super::fixture::{ALICE, CHANNEL, CrashFixture, REQUEST, bot_messages, bounded, poll, results, texts};
use crate::support::require::component;
use drydock::emulator::slack::SlackState;
use rusqlite::Connection;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The time within which a failure shows, and its end.
const SOON: Duration = Duration::from_secs(5);
/// The longest time a message may wait for a refusal.
const REFUSED_WITHIN: Duration = Duration::from_millis(2_500);

impl CrashFixture {
    /// Returns the answer to a probe: status and body.
    async fn probe(&self, address: &str, path: &str) -> (u16, String) {
        let client = drydock::http_client::api_client().expect("a client");
        let url = format!("http://{address}/{path}");
        let mut answer = client.get(&url).send().await.expect("an answer");
        let status = answer.status().as_u16();
        let mut body = Vec::new();
        while let Some(chunk) = answer.chunk().await.expect("a body") {
            body.extend_from_slice(&chunk);
        }
        (status, String::from_utf8(body).expect("text"))
    }

    /// Waits until `/readyz` has this answer, within the allowed time.
    async fn is_soon(&self, address: &str, status: u16, words: &str) {
        let began = Instant::now();
        loop {
            let (answered, body) = self.probe(address, "readyz").await;
            if answered == status && body.contains(words) {
                break;
            }
            assert!(began.elapsed() < SOON, "{answered} {body}\n{}", self.log());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(self.probe(address, "livez").await.0, 200);
    }

    /// Sends a message of Alice that cannot be stored. Checks that Slack gets the refusal in time, and that nothing
    /// else is sent.
    async fn is_refused(&self, text: &str) -> String {
        let shown = self.slack.with_state(|state| bot_messages(state).count());
        let asked = Instant::now();
        let said = self.slack.say(ALICE, CHANNEL, text).await.expect("an answer");
        let each = asked.elapsed() / u32::try_from(said.answers.len()).expect("a few");
        assert!(said.answers.iter().all(|answer| answer.status == 503), "{said:?}");
        assert!(each <= REFUSED_WITHIN, "{each:?}");
        assert_eq!(self.slack.with_state(|state| bot_messages(state).count()), shown);
        said.ts
    }

    /// Sends commands until the program ends by itself. Returns the number of acknowledged commands, and the exit code.
    async fn commands_until_it_ends(&mut self, thread: &str) -> (usize, i32) {
        let mut acknowledged = 0;
        for _ in 0..400 {
            if let Some(code) = self.exit_code() {
                return (acknowledged, code);
            }
            let said = self
                .slack
                .reply_in_thread(ALICE, CHANNEL, thread, "!status")
                .await;
            acknowledged += said.map_or(0, |said| usize::from(said.answers[0].status == 200));
        }
        let code = bounded("the program ends", poll(|| self.exit_code())).await;
        (acknowledged, code)
    }

    /// Checks that a program with a working disk answers every acknowledged message once.
    async fn answers_all(&mut self, commands: usize) {
        let said_why = self.log();
        let last = said_why.lines().last().unwrap_or_default();
        assert!(last.starts_with("the store is broken: "), "{said_why}");
        self.start_through(&[]);
        self.start().await;
        let answers = |count: usize| {
            move |state: &SlackState| {
                let answers =
                    bot_messages(state).filter(|message| message.visible().join("\n").contains("Delivery"));
                (answers.count() >= count).then_some(())
            }
        };
        self.wait_for("the answers", answers(commands)).await;
        self.assert_database_sound().await;
    }
}

/// Returns `Some` if this thread has a result.
fn is_answered(state: &SlackState, thread: &str) -> Option<()> {
    let mut results = results(state).into_iter();
    let is_there = results.any(|message| message.thread_ts.as_deref() == Some(thread));
    is_there.then_some(())
}

/// Returns the data directory as seen by a process with its own file system.
fn inside(id: u32, data: &std::path::Path) -> PathBuf {
    PathBuf::from(format!("/proc/{id}/root")).join(data.strip_prefix("/").expect("an absolute path"))
}

/// R14, R36: messages are refused while there is no space, and accepted as soon as there is.
#[tokio::test]
async fn a_full_disk_refuses_messages_says_so_and_heals() {
    if component("tmpfs").is_none() {
        return;
    }
    let mut world = CrashFixture::build().await;
    world.terminate().await;
    let data = world.data_directory();
    let room = data.with_file_name("room");
    let script = format!(
        "mkdir -p {room} && mount -t tmpfs -o size=6m tmpfs {room} && cp -a {data}/. {room}/ \
         && mount --bind {room} {data} && exec \"$@\"",
        room = room.display(),
        data = data.display()
    );
    world.start_through(&["unshare", "-Urm", "sh", "-c", &script, "sh"]);
    let address = world.launch().await;
    world.wait_until_ready(&address).await;
    let filler = inside(world.id(), &data).join("filler");
    let mut file = std::fs::File::create(&filler).expect("a file");
    // Small writes fill the disk until less than a page of the database is left.
    let full = std::iter::repeat_with(|| file.write_all(&[7; 512])).find_map(Result::err);
    assert_eq!(full.expect("a full disk").kind(), std::io::ErrorKind::StorageFull);
    let mut said = Vec::new();
    // The write-ahead log reuses its existing pages first.
    for _ in 0..200 {
        let answer = world.slack.say(ALICE, CHANNEL, REQUEST).await.expect("an answer");
        if answer.answers.iter().any(|answer| answer.status == 503) {
            said.push(answer.ts);
            break;
        }
    }
    world.is_soon(&address, 503, "store: the disk is full").await;
    said.push(world.is_refused(REQUEST).await);
    std::fs::remove_file(&filler).expect("it goes");
    drop(file);
    world.is_soon(&address, 200, "true").await;
    for ts in &said {
        assert_eq!(world.redeliver(ts).await, Some(200), "{}", world.log());
    }
    for ts in &said {
        world.wait_for("the result", |state| is_answered(state, ts)).await;
    }
    assert!(!world.log().contains("broken"), "{}", world.log());
}

/// R14: a failed sync ends the process, and no acknowledged message is lost.
#[tokio::test]
async fn a_sync_that_fails_ends_the_program_with_74() {
    if component("strace").is_none() {
        return;
    }
    let mut world = CrashFixture::build().await;
    let said = world.say(REQUEST).await;
    world.assert_answered_once(&said).await;
    world.terminate().await;
    // The count is per thread. The syncs of the start are done by then.
    let inject = "inject=fsync,fdatasync:error=EIO:when=25+";
    world.start_through(&[
        "strace",
        "-f",
        "-qqq",
        "-o",
        "/dev/null",
        "-e",
        "trace=fsync,fdatasync",
        "-e",
        inject,
    ]);
    world.start().await;
    let (acknowledged, code) = world.commands_until_it_ends(&said).await;
    assert_eq!(code, 74, "{}", world.log());
    assert!(acknowledged > 0);
    world.answers_all(acknowledged).await;
}

/// R14: the same for the checkpoint, which moves the log into the database without a waiting caller.
#[tokio::test]
async fn a_checkpoint_that_cannot_be_synced_ends_the_program_with_74() {
    if component("strace").is_none() {
        return;
    }
    let mut world = CrashFixture::build().await;
    let said = world.say(REQUEST).await;
    world.assert_answered_once(&said).await;
    world.terminate().await;
    let database = world.data_directory().join("drydock.db").display().to_string();
    let inject = "inject=fsync,fdatasync:error=EIO:when=1+";
    world.start_through(&[
        "strace",
        "-f",
        "-qqq",
        "-o",
        "/dev/null",
        "-P",
        &database,
        "-e",
        "trace=fsync,fdatasync",
        "-e",
        inject,
    ]);
    world.start().await;
    let (acknowledged, code) = world.commands_until_it_ends(&said).await;
    assert_eq!(code, 74, "{}", world.log());
    world.answers_all(acknowledged).await;
}

/// R15, R36, I12: another program holds a lock for some seconds.
#[tokio::test]
async fn a_lock_of_another_program_refuses_messages_is_reported_and_recovers() {
    let mut world = CrashFixture::build().await;
    world.terminate().await;
    let address = world.launch().await;
    world.wait_until_ready(&address).await;
    let other = Connection::open(world.data_directory().join("drydock.db")).expect("a database");
    other
        .busy_timeout(Duration::from_secs(10))
        .expect("it waits for the others");
    other.execute_batch("BEGIN EXCLUSIVE").expect("a lock");
    let said = world.is_refused(REQUEST).await;
    let locked = "store: another program holds a lock on the database";
    world.is_soon(&address, 503, locked).await;
    let again = world.redeliver(&said).await;
    assert_eq!(again, Some(503));
    other.execute_batch("ROLLBACK").expect("it lets go");
    world.is_soon(&address, 200, "true").await;
    assert_eq!(world.redeliver(&said).await, Some(200));
    world.assert_answered_once(&said).await;
    let shown = world.slack.with_state(texts);
    assert!(!shown.contains("lock"), "{shown}");
}

/// R22: a client that opens more connections than there are descriptors causes no lost message.
#[tokio::test]
async fn idle_connections_beyond_the_limit_of_open_files_break_nothing() {
    let mut world = CrashFixture::build().await;
    world.terminate().await;
    world.start_through(&["sh", "-c", "ulimit -n 256 && exec \"$@\"", "sh"]);
    let address = world.launch().await;
    world.wait_until_ready(&address).await;
    let bounded_to = "128 connections at once, not 4096: this process may open no more files";
    assert!(world.log().contains(bounded_to), "{}", world.log());
    let server: SocketAddr = address.parse().expect("an address");
    let mut idle = Vec::new();
    for source in 2..8 {
        for _ in 0..64 {
            idle.extend(connect_from(&format!("127.0.0.{source}:0"), server).await);
        }
    }
    assert!(idle.len() > 256, "{}", idle.len());
    // Whether the server accepts the connection depends on timing. The other checks do not.
    let sent = world.slack.say(ALICE, CHANNEL, REQUEST).await;
    drop(idle);
    let taken = sent.is_ok_and(|said| said.answers.iter().all(|answer| answer.status == 200));
    let said = async {
        loop {
            let said = world.slack.say(ALICE, CHANNEL, REQUEST).await;
            if let Ok(said) = said
                && said.answers.iter().all(|answer| answer.status == 200)
            {
                break said.ts;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let said = bounded("a message is taken", said).await;
    let wanted = 1 + usize::from(taken);
    let enough = |state: &SlackState| (results(state).len() >= wanted).then_some(());
    world.wait_for("the results", enough).await;
    world
        .wait_for("the result", |state| is_answered(state, &said))
        .await;
    assert!(!world.log().contains("broken"), "{}", world.log());
    assert_eq!(world.probe(&address, "readyz").await.0, 200);
}

/// Opens a connection that sends nothing.
async fn connect_from(source: &str, server: SocketAddr) -> Option<TcpStream> {
    let socket = tokio::net::TcpSocket::new_v4().ok()?;
    socket.bind(source.parse().ok()?).ok()?;
    let connected = socket.connect(server).await.ok()?;
    connected.into_std().ok()
}

/// R16: the program refuses a damaged database with 78, the exit code that calls for a person. It changes nothing.
#[tokio::test]
async fn a_damaged_database_is_refused_with_78() {
    let mut world = CrashFixture::build().await;
    let said = world.say(REQUEST).await;
    world.assert_answered_once(&said).await;
    world.kill();
    let log = world.data_directory().join("drydock.db-wal");
    let written = std::fs::read(&log).expect("a log");
    std::fs::write(&log, &written[..written.len() / 3]).expect("it is cut");
    let (code, told) = world.start_and_fail().await;
    assert_eq!(code, 78, "{told}");
    assert!(told.contains("drydock.db-wal` was cut or changed: "), "{told}");
    assert!(
        told.contains("pages that were committed can be read; restore the directory from a backup"),
        "{told}"
    );
    std::fs::write(&log, &written).expect("it is put back");
    let pepper = world.data_directory().join("pepper");
    let kept = std::fs::read(&pepper).expect("a pepper");
    std::fs::remove_file(&pepper).expect("it goes");
    let (code, told) = world.start_and_fail().await;
    assert_eq!(code, 78, "{told}");
    assert!(told.contains("pepper` is missing"), "{told}");
    std::fs::write(&pepper, kept).expect("it is put back");
    world.start().await;
    world.assert_answered_once(&said).await;
    world.terminate().await;
    let database = world.data_directory().join("drydock.db");
    let older = std::fs::read(&database).expect("a database");
    world.start().await;
    world.terminate().await;
    std::fs::write(&database, older).expect("the older one is put back");
    let (code, told) = world.start_and_fail().await;
    assert_eq!(code, 78, "{told}");
    assert!(
        told.contains("drydock.db` is older than what was used here"),
        "{told}"
    );
    std::fs::remove_file(world.data_directory().join("last-start")).expect("it goes");
    world.start().await;
    world.assert_answered_once(&said).await;
}
