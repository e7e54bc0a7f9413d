//! The admin socket. An operator sends one line of JSON to a running server and gets one line back.

use super::{Admin, AdminReply, AdminRequest};
use crate::base::system::on_open_directory;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// File name of the socket in the data directory.
const SOCKET: &str = "admin.sock";
const QUESTION_BYTES_MAX: u64 = 64 * 1024;
const ANSWER_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Maximum number of operators served at once. Further ones wait.
const OPERATORS_MAX: usize = 8;
const EXCHANGE_MAX: Duration = Duration::from_secs(30);

/// Opens the socket of a running server: `admin.sock` in the data directory, mode 0600.
pub fn listen(data: &Path) -> std::io::Result<UnixListener> {
    let path = data.join(SOCKET);
    match std::fs::remove_file(&path) {
        Ok(()) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    // The data directory has mode 0700, so no other user can reach the socket before its own mode is set.
    let (name, _directory) = on_open_directory(data, SOCKET)?;
    let listener = UnixListener::bind(&name)?;
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    Ok(listener)
}

/// Serves operators until `cancel`. A stuck connection does not block the others.
pub async fn serve(listener: UnixListener, admin: Arc<Admin>, cancel: CancellationToken) {
    let slots = Arc::new(Semaphore::new(OPERATORS_MAX));
    let mut exchanges = JoinSet::new();
    loop {
        let accepted = async {
            let slot = Arc::clone(&slots).acquire_owned().await.ok()?;
            let (stream, _) = listener.accept().await.ok()?;
            Some((slot, stream))
        };
        let accepted = tokio::select! {
            accepted = accepted => accepted,
            () = cancel.cancelled() => return,
        };
        let Some((slot, stream)) = accepted else {
            // For example, no file descriptors are left. Other connections will end and free some.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let admin = Arc::clone(&admin);
        exchanges.spawn(async move {
            let exchanged = tokio::time::timeout(EXCHANGE_MAX, exchange(stream, &admin)).await;
            if exchanged.is_err() {
                tracing::warn!("an operator's request took too long");
            }
            drop(slot);
        });
        while exchanges.try_join_next().is_some() {}
    }
}

async fn exchange(stream: UnixStream, admin: &Admin) -> std::io::Result<()> {
    let (reader, mut writer) = stream.into_split();
    let mut line = String::new();
    BufReader::new(reader.take(QUESTION_BYTES_MAX))
        .read_line(&mut line)
        .await?;
    let answer = match serde_json::from_str(&line) {
        Ok(request) => admin.answer(request).await,
        Err(error) => AdminReply::Failed {
            why: format!("the request could not be read: {error}"),
        },
    };
    writer.write_all(written(&answer)?.as_bytes()).await
}

/// Serializes an answer as one line. If it is too long, the line reports its size instead.
fn written(answer: &AdminReply) -> std::io::Result<String> {
    let mut text = serde_json::to_string(answer)?;
    if text.len() as u64 >= ANSWER_BYTES_MAX {
        let why = format!(
            "the answer has {} bytes and the maximum is {ANSWER_BYTES_MAX}; read the file below the data directory",
            text.len()
        );
        text = serde_json::to_string(&AdminReply::Failed { why })?;
    }
    text.push('\n');
    Ok(text)
}

/// Sends a request to the running server of a data directory. Returns `None` if none is running.
pub async fn ask(data: &Path, request: &AdminRequest) -> std::io::Result<Option<AdminReply>> {
    let connected = match on_open_directory(data, SOCKET) {
        Ok((name, _directory)) => UnixStream::connect(name).await,
        Err(error) => Err(error),
    };
    let stream = match connected {
        Ok(stream) => stream,
        Err(error) => {
            use std::io::ErrorKind::{ConnectionRefused, NotADirectory, NotFound};
            return if matches!(error.kind(), ConnectionRefused | NotADirectory | NotFound) {
                Ok(None)
            } else {
                Err(error)
            };
        }
    };
    let (reader, mut writer) = stream.into_split();
    let mut text = serde_json::to_string(request)?;
    text.push('\n');
    writer.write_all(text.as_bytes()).await?;
    let mut line = String::new();
    BufReader::new(reader.take(ANSWER_BYTES_MAX))
        .read_line(&mut line)
        .await?;
    Ok(Some(serde_json::from_str(&line)?))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]

    use super::{ANSWER_BYTES_MAX, Admin, AdminReply, AdminRequest, ask, listen, serve, written};
    use crate::base::config::{DataSettings, LimitSettings, RetentionSettings};
    use crate::base::model::Limits;
    use crate::base::webhook::SecretPairs;
    use crate::engine::admin::NoInstallations;
    use crate::engine::gateway::Retention;
    use crate::state::access::Access;
    use crate::state::store::Store;
    use jiff::Timestamp;
    use std::collections::BTreeSet;
    use std::path::Path;
    use std::sync::Arc;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::UnixStream;
    use tokio_util::sync::CancellationToken;

    async fn started(data: &Path) -> CancellationToken {
        let store = Store::open(data).unwrap();
        let limits = LimitSettings {
            turn: Limits::default(),
            turns_at_once_max: 1,
            waiting_events_max: 1,
            waiting_messages_max: 1,
            mirror_age_max: std::time::Duration::from_secs(60),
            fetch_wait_max: std::time::Duration::from_secs(10),
            inbound_text_chars_max: 1,
            inline_diff_bytes_max: 1,
            strangers_remembered_max: 1,
            invite_attempts_per_minute_max: 1,
        };
        let admin = Arc::new(Admin {
            access: Arc::new(Access::load(store.clone(), &limits).await.unwrap()),
            retention: Arc::new(Retention::new(
                store.clone(),
                &DataSettings::default(),
                RetentionSettings::default(),
                BTreeSet::new(),
            )),
            store,
            data: data.to_owned(),
            channels: BTreeSet::new(),
            gateway: None,
            facts: None,
            installations: Arc::new(NoInstallations),
            secret_pairs: SecretPairs::default(),
            started_at: None,
            now: || Timestamp::UNIX_EPOCH,
            random: || [7; 32],
        });
        let cancel = CancellationToken::new();
        tokio::spawn(serve(listen(data).unwrap(), admin, cancel.clone()));
        cancel
    }

    #[tokio::test]
    async fn operators_who_hang_keep_nobody_waiting_and_nonsense_is_answered() {
        let directory = tempfile::tempdir().unwrap();
        let cancel = started(directory.path()).await;
        let socket = directory.path().join("admin.sock");
        let mut hanging = Vec::new();
        for _ in 0..7 {
            hanging.push(UnixStream::connect(&socket).await.unwrap());
        }
        let answer = ask(directory.path(), &AdminRequest::Users)
            .await
            .unwrap()
            .unwrap();
        assert!(matches!(answer, AdminReply::Users { users } if users.is_empty()));
        let which = "CHG-9".to_owned();
        let answer = ask(directory.path(), &AdminRequest::Session { which })
            .await
            .unwrap()
            .unwrap();
        assert!(matches!(answer, AdminReply::Failed { why } if why.contains("CHG-9")));
        let mut stream = UnixStream::connect(&socket).await.unwrap();
        stream.write_all(b"{\"ask\":\"apply\"}\n").await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        assert!(text.contains("could not be read"), "{text}");
        cancel.cancel();
    }

    #[test]
    fn an_answer_that_is_too_long_says_so() {
        let why = "x".repeat(usize::try_from(ANSWER_BYTES_MAX).unwrap());
        let line = written(&AdminReply::Failed { why }).unwrap();
        assert!(line.len() < 300 && line.contains("16777216"), "{line}");
    }
}
