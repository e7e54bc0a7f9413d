//! What an operator asks of a server: invites, users, recordings. The same code answers a running
//! server's socket and a command line that finds no server running.

use crate::access::{Access, AccessError, NewInvite, Role, User};
use crate::gateway::{Begin, ChannelHealth, Gateway, Holding, Pruned, Retention};
use crate::model::{Installation, Platform};
use crate::session;
use crate::store::{AuditState, Bytes, DeadLetter, Letters, Prune, Store, StoreError};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// The socket of a running server, in its data directory.
const SOCKET: &str = "admin.sock";
/// Longest question.
const QUESTION_BYTES_MAX: u64 = 64 * 1024;
/// Longest answer.
const ANSWER_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Operators answered at once; more wait.
const OPERATORS_MAX: usize = 8;
/// How long one exchange may take.
const EXCHANGE_MAX: Duration = Duration::from_secs(30);
/// Operations that are listed at once.
const LETTERS_MAX: u32 = 1_000;

/// What can be asked.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case")]
pub enum Request {
    /// Makes an invite.
    Invite {
        /// The person's name, as it is shown to others.
        name: String,
        /// What they may do.
        role: Role,
        /// Glob over repository names.
        repositories: String,
        /// Globs over environments.
        environments: Vec<String>,
        /// How long the invite is good.
        hours: u32,
    },
    /// Everybody who was admitted.
    Users,
    /// One person: by id, name or `slack:T0ACME:U0ALICE`.
    User {
        /// Which.
        which: String,
    },
    /// Takes a person's access away, at once.
    Revoke {
        /// Which.
        which: String,
    },
    /// The recording of a conversation: by its id, or a change such as `CHG-42`.
    Session {
        /// Which.
        which: String,
    },
    /// Checks the audit log's chain.
    Audit,
    /// How much is stored of each kind, and for how long.
    Data,
    /// What was given up, and whether the channels deliver.
    Outbox {
        /// Of one channel, or of all.
        channel: Option<String>,
    },
    /// Sends again what was given up.
    OutboxRetry {
        /// Which.
        which: Letters,
    },
    /// Drops what was given up: it is never sent.
    OutboxDrop {
        /// Which.
        which: Letters,
    },
    /// Removes what is older than it is kept: some seconds of it. Ask until it is done.
    Prune {
        /// Whether it is removed, or only counted.
        prune: Prune,
        /// Whether this begins a round or goes on with it.
        begin: Begin,
    },
}

/// The answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum Answer {
    /// An invite. The token is shown this once.
    Invite {
        /// The token.
        token: String,
        /// How to use it, one line per connected channel.
        how: Vec<String>,
        /// When it stops working.
        expires: Timestamp,
    },
    /// People.
    Users {
        /// Sorted by id.
        users: Vec<User>,
    },
    /// One person's access is gone.
    Revoked {
        /// Who.
        user: User,
    },
    /// A recording.
    Session {
        /// One record each, oldest first.
        records: Vec<session::Record>,
    },
    /// The audit log is whole.
    Audit {
        /// Its rows, since it was begun.
        rows: i64,
        /// How many of them were cut from its beginning.
        #[serde(default)]
        cut: i64,
        /// When the first row that is there was written, once some were cut.
        #[serde(default)]
        since: Option<Timestamp>,
    },
    /// What is stored.
    Data {
        /// Kind by kind.
        kinds: Vec<Holding>,
        /// The file of the database.
        database: Bytes,
    },
    /// What was given up.
    Outbox {
        /// The channels of a running server.
        channels: Vec<ChannelHealth>,
        /// The oldest first, up to a bound.
        letters: Vec<DeadLetter>,
        /// How many there are.
        #[serde(default)]
        total: u64,
    },
    /// What was given up is due again, or dropped.
    Letters {
        /// How many operations.
        count: u64,
    },
    /// What was removed, or would be.
    Pruned {
        /// By kind.
        pruned: Vec<Pruned>,
        /// What could not be removed, and why.
        failed: Vec<String>,
        /// Whether nothing more is to be asked for.
        is_done: bool,
    },
    /// It did not work, and why.
    Failed {
        /// For the operator.
        why: String,
    },
}

/// Who can say how an invite is used on each connected channel.
pub trait Installations: Send + Sync {
    /// The connected channels by their configured names.
    fn installations(&self) -> Vec<(String, Installation)>;
}

/// Knows no channel: for a command line without a running server.
#[derive(Debug)]
pub struct NoInstallations;

impl Installations for NoInstallations {
    fn installations(&self) -> Vec<(String, Installation)> {
        Vec::new()
    }
}

/// Everything an operator's question needs.
pub struct Admin {
    /// What is stored.
    pub store: Store,
    /// Who may do what.
    pub access: Arc<Access>,
    /// The data directory.
    pub data: PathBuf,
    /// How long what is stored is kept.
    pub retention: Arc<Retention>,
    /// The configured channels by name.
    pub channels: BTreeSet<String>,
    /// What delivers; none where no server runs.
    pub gateway: Option<Arc<Gateway>>,
    /// The connected channels.
    pub routes: Arc<dyn Installations>,
    /// The clock.
    pub now: fn() -> Timestamp,
    /// The source of randomness for tokens.
    pub random: fn() -> [u8; 32],
}

/// Why a question has no answer.
#[derive(Debug, thiserror::Error)]
enum AdminError {
    #[error(transparent)]
    Access(#[from] AccessError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("{0}")]
    Other(String),
}

impl Admin {
    /// Answers one question. A failure is an answer, too.
    pub async fn answer(&self, request: Request) -> Answer {
        let result = match request {
            Request::Invite {
                name,
                role,
                repositories,
                environments,
                hours,
            } => self.invite(name, role, repositories, environments, hours).await,
            Request::Users => self.users().await,
            Request::User { which } => self.user(&which).await,
            Request::Revoke { which } => self.revoke(&which).await,
            Request::Session { which } => self.session(&which).await,
            Request::Audit => self.audit().await,
            Request::Data => self.holdings().await,
            Request::Outbox { channel } => self.outbox(channel.as_deref()).await,
            Request::OutboxRetry { which } => self.send_again(which).await,
            Request::OutboxDrop { which } => self.drop_letters(which).await,
            Request::Prune { prune, begin } => self.prune(begin, prune).await,
        };
        result.unwrap_or_else(|error| Answer::Failed {
            why: error.to_string(),
        })
    }

    async fn invite(
        &self,
        name: String,
        role: Role,
        repositories: String,
        environments: Vec<String>,
        hours: u32,
    ) -> Result<Answer, AdminError> {
        let at = (self.now)();
        let expires = Duration::from_secs(u64::from(hours) * 3_600);
        let invite = NewInvite {
            name,
            role,
            repositories,
            environments,
            expires,
            bound_to: None,
        };
        let token = self
            .access
            .invite(invite, "operator", (self.random)(), at)
            .await?;
        let token = token.expose().to_owned();
        let mut how: Vec<String> = self
            .routes
            .installations()
            .iter()
            .map(|(name, installation)| how_to(name, installation, &token))
            .collect();
        if how.is_empty() {
            how.push(format!("Telegram: send `/start {token}` to the bot"));
            how.push(format!(
                "Slack: send `join {token}` to the app in a direct message"
            ));
        }
        let expires = at
            .checked_add(expires)
            .map_err(|error| AdminError::Other(error.to_string()))?;
        Ok(Answer::Invite { token, how, expires })
    }

    async fn users(&self) -> Result<Answer, AdminError> {
        Ok(Answer::Users {
            users: self.access.users().await?,
        })
    }

    async fn user(&self, which: &str) -> Result<Answer, AdminError> {
        Ok(Answer::Users {
            users: vec![self.access.user(which).await?],
        })
    }

    async fn revoke(&self, which: &str) -> Result<Answer, AdminError> {
        let user = self.access.user(which).await?;
        self.access.revoke(user.id, "operator", (self.now)()).await?;
        Ok(Answer::Revoked {
            user: self.access.user(&user.id.to_string()).await?,
        })
    }

    async fn session(&self, which: &str) -> Result<Answer, AdminError> {
        let conversation = self.store.find_session(which).await?;
        let session = conversation.ok_or_else(|| AdminError::Other(format!("no session `{which}`")))?;
        let records =
            session::read(&self.data, &session).map_err(|error| AdminError::Other(error.to_string()))?;
        Ok(Answer::Session { records })
    }

    async fn audit(&self) -> Result<Answer, AdminError> {
        match self.store.verify_audit().await? {
            AuditState::Intact { rows, cut, since, .. } => Ok(Answer::Audit { rows, cut, since }),
            AuditState::Broken { row } => Err(AdminError::Other(format!(
                "the audit log was changed at row {row}"
            ))),
        }
    }

    async fn holdings(&self) -> Result<Answer, AdminError> {
        let (kinds, database) = self.retention.holdings().await?;
        Ok(Answer::Data { kinds, database })
    }

    async fn outbox(&self, channel: Option<&str>) -> Result<Answer, AdminError> {
        self.check_channel(channel).await?;
        let mut channels = match &self.gateway {
            Some(gateway) => gateway.channels().await?,
            None => Vec::new(),
        };
        channels.retain(|health| channel.is_none_or(|channel| health.channel == channel));
        Ok(Answer::Outbox {
            channels,
            letters: self.store.dead_letters(channel, LETTERS_MAX).await?,
            total: self.store.dead_letter_count(channel).await?,
        })
    }

    /// A channel that is neither configured nor in the outbox is a mistake.
    async fn check_channel(&self, channel: Option<&str>) -> Result<(), AdminError> {
        let Some(channel) = channel.filter(|channel| !self.channels.contains(*channel)) else {
            return Ok(());
        };
        if self.store.has_sent_to(channel).await? {
            return Ok(());
        }
        let configured: Vec<&str> = self.channels.iter().map(String::as_str).collect();
        let configured = match configured.is_empty() {
            true => "none is configured".to_owned(),
            false => format!("configured are: {}", configured.join(", ")),
        };
        Err(AdminError::Other(format!("no channel `{channel}`; {configured}")))
    }

    async fn drop_letters(&self, which: Letters) -> Result<Answer, AdminError> {
        self.check_channel(which.channel()).await?;
        let dropped = self.store.drop_letters(which, "operator", (self.now)()).await?;
        Ok(counted(dropped))
    }

    async fn send_again(&self, which: Letters) -> Result<Answer, AdminError> {
        self.check_channel(which.channel()).await?;
        let channels = self.store.send_again(which, "operator", (self.now)()).await?;
        if let Some(gateway) = &self.gateway {
            let woken: BTreeSet<&String> = channels.iter().collect();
            woken
                .into_iter()
                .for_each(|channel| gateway.deliver_again(channel));
        }
        Ok(counted(channels))
    }

    async fn prune(&self, begin: Begin, prune: Prune) -> Result<Answer, AdminError> {
        let round = self.retention.asked(begin, prune, (self.now)()).await;
        let round = round.map_err(AdminError::Other)?;
        Ok(Answer::Pruned {
            pruned: round.pruned,
            failed: round.failed,
            is_done: round.is_done,
        })
    }
}

fn counted(channels: Vec<String>) -> Answer {
    Answer::Letters {
        count: channels.len() as u64,
    }
}

fn how_to(name: &str, installation: &Installation, token: &str) -> String {
    let bot = &installation.bot_name;
    match installation.account.platform {
        Platform::Telegram => format!("{name}: https://t.me/{bot}?start={token}"),
        Platform::Slack => format!("{name}: send `join {token}` to @{bot} in a direct message"),
        Platform::Hook | Platform::Terminal => format!("{name}: no invites"),
    }
}

/// Bytes of a socket's path; the kernel takes no longer one.
const SOCKET_PATH_BYTES_MAX: usize = 107;

/// A name for the socket of a data directory that is short enough for the kernel. The directory's
/// handle must live as long as the name is used.
fn short_name(data: &Path) -> std::io::Result<(PathBuf, Option<OwnedFd>)> {
    let path = data.join(SOCKET);
    if path.as_os_str().len() <= SOCKET_PATH_BYTES_MAX {
        return Ok((path, None));
    }
    let flags = rustix::fs::OFlags::PATH | rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::CLOEXEC;
    let directory = rustix::fs::open(data, flags, rustix::fs::Mode::empty())?;
    let name = format!("/proc/self/fd/{}/{SOCKET}", directory.as_raw_fd());
    Ok((PathBuf::from(name), Some(directory)))
}

/// Opens the socket of a running server: `admin.sock` in the data directory, mode 0600.
pub fn listen(data: &Path) -> std::io::Result<UnixListener> {
    let path = data.join(SOCKET);
    match std::fs::remove_file(&path) {
        Ok(()) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    // The data directory is 0700, so nobody else reaches the socket before its own mode is set.
    let (name, _directory) = short_name(data)?;
    let listener = UnixListener::bind(&name)?;
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    Ok(listener)
}

/// Answers operators until `cancel`. One that hangs keeps nobody else waiting.
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
            // Out of descriptors, say: others end and give theirs back.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let admin = Arc::clone(&admin);
        exchanges.spawn(async move {
            let exchanged = tokio::time::timeout(EXCHANGE_MAX, exchange(stream, &admin)).await;
            if exchanged.is_err() {
                tracing::warn!("an operator's question took too long");
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
        Err(error) => Answer::Failed {
            why: format!("the question could not be read: {error}"),
        },
    };
    writer.write_all(written(&answer)?.as_bytes()).await
}

/// An answer as one line. One that is too long is answered with its size.
fn written(answer: &Answer) -> std::io::Result<String> {
    let mut text = serde_json::to_string(answer)?;
    if text.len() as u64 >= ANSWER_BYTES_MAX {
        let why = format!(
            "the answer has {} bytes, and {ANSWER_BYTES_MAX} is the most; read the file below the data directory",
            text.len()
        );
        text = serde_json::to_string(&Answer::Failed { why })?;
    }
    text.push('\n');
    Ok(text)
}

/// Asks the running server of a data directory; `None` if none is running.
pub async fn ask(data: &Path, request: &Request) -> std::io::Result<Option<Answer>> {
    let connected = match short_name(data) {
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

    use super::{ANSWER_BYTES_MAX, Admin, Answer, NoInstallations, Request, ask, listen, serve, written};
    use crate::access::Access;
    use crate::config::{DataSettings, LimitSettings, RetentionSettings};
    use crate::gateway::Retention;
    use crate::model::Limits;
    use crate::store::Store;
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
            routes: Arc::new(NoInstallations),
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
        let answer = ask(directory.path(), &Request::Users).await.unwrap().unwrap();
        assert!(matches!(answer, Answer::Users { users } if users.is_empty()));
        let which = "CHG-9".to_owned();
        let answer = ask(directory.path(), &Request::Session { which })
            .await
            .unwrap()
            .unwrap();
        assert!(matches!(answer, Answer::Failed { why } if why.contains("CHG-9")));
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
        let line = written(&Answer::Failed { why }).unwrap();
        assert!(line.len() < 300 && line.contains("16777216"), "{line}");
    }
}
