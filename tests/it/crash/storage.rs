//! Storage that fails under the real program: another process's lock, a failed sync, a damaged database. The
//! program reports the fault, accepts no message that it cannot store, and continues or ends.

use super::fixture::{ALICE, CHANNEL, CrashFixture, REQUEST, bounded, poll};
use super::posts::{bot_messages, texts};
use crate::support::require::component;
use drydock::simulation::emulator::slack::SlackState;
use rusqlite::Connection;
use std::time::{Duration, Instant};

/// The time within which a failure shows, and its end.
const SOON: Duration = Duration::from_secs(5);
/// The longest time a message may wait for a refusal.
const REFUSED_WITHIN: Duration = Duration::from_millis(2_500);

impl CrashFixture {
    /// Returns the answer to a probe: status and body.
    pub(crate) async fn probe(&self, address: &str, path: &str) -> (u16, String) {
        let client = drydock::base::http_client::api_client().expect("a client");
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
    pub(crate) async fn is_soon(&self, address: &str, status: u16, words: &str) {
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
    pub(crate) async fn is_refused(&self, text: &str) -> String {
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
    /// A channel gets only a few commands, so that its limits do not delay their answers.
    async fn commands_until_it_ends(&mut self) -> (usize, i32) {
        let mut acknowledged = 0;
        for number in 0..400 {
            if let Some(code) = self.exit_code() {
                return (acknowledged, code);
            }
            let channel = format!("C0STATUS{}", number / 5);
            self.slack.add_channel(&channel, &[ALICE]);
            let said = self.slack.say(ALICE, &channel, "@drydock status").await;
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
    let (acknowledged, code) = world.commands_until_it_ends().await;
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
    let (acknowledged, code) = world.commands_until_it_ends().await;
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
        .expect("the connection waits for a lock");
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
    let (code, reported) = world.start_and_fail().await;
    assert_eq!(code, 78, "{reported}");
    assert!(
        reported.contains("drydock.db-wal` was cut or changed: "),
        "{reported}"
    );
    assert!(
        reported.contains("pages that were committed can be read; restore the directory from a backup"),
        "{reported}"
    );
    std::fs::write(&log, &written).expect("it is put back");
    let pepper = world.data_directory().join("pepper");
    let kept = std::fs::read(&pepper).expect("a pepper");
    std::fs::remove_file(&pepper).expect("the file is removed");
    let (code, reported) = world.start_and_fail().await;
    assert_eq!(code, 78, "{reported}");
    assert!(reported.contains("pepper` is missing"), "{reported}");
    std::fs::write(&pepper, kept).expect("it is put back");
    world.start().await;
    world.assert_answered_once(&said).await;
    world.terminate().await;
    let database = world.data_directory().join("drydock.db");
    let older = std::fs::read(&database).expect("a database");
    world.start().await;
    world.terminate().await;
    std::fs::write(&database, older).expect("the older one is put back");
    let (code, reported) = world.start_and_fail().await;
    assert_eq!(code, 78, "{reported}");
    assert!(
        reported.contains("drydock.db` is older than the database that was last used here"),
        "{reported}"
    );
    std::fs::remove_file(world.data_directory().join("last-start")).expect("the file is removed");
    world.start().await;
    world.assert_answered_once(&said).await;
}
