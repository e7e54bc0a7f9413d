//! Storage without space or file descriptors under the real program, with mounts and addresses that only Linux has.

use crate::crash::fixture::{ALICE, CHANNEL, CrashFixture, REQUEST, bounded};
use crate::crash::posts::results;
use crate::support::require::component;
use drydock::simulation::emulator::slack::SlackState;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::time::Duration;

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
    std::fs::remove_file(&filler).expect("the file is removed");
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
