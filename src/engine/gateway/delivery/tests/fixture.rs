//! The fixture of delivery tests: a store, a delivery and a scripted platform.

use crate::base::model::{
    Account, Action, ChatFile, ChatPlace, Installation, MessageRef, Op, Platform, Reply,
};
use crate::engine::gateway::delivery::ChannelDelivery;
use crate::engine::gateway::delivery::Pacing;
use crate::interfaces::channel::{
    CallPurpose, Channel, Delivered, DeliveryLookup, Limit, PollMemory, PolledInbound, Scope, SendError,
};
use crate::state::store::{DeadLetter, Store};
use async_trait::async_trait;
use bytes::Bytes;
use jiff::{SignedDuration, Timestamp};
use std::cell::Cell;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Longest time for any step on a busy machine.
const BOUND: Duration = Duration::from_secs(120);

thread_local! {
    static STARTED: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Returns the virtual time since the first call.
pub(super) fn elapsed() -> Duration {
    let started = STARTED.get().unwrap_or_else(Instant::now);
    STARTED.set(Some(started));
    Instant::now() - started
}

pub(super) fn now() -> Timestamp {
    let start = Timestamp::from_second(1_800_000_000).unwrap();
    start + SignedDuration::try_from(elapsed()).unwrap()
}

/// The behaviour of a call.
pub(super) enum ChannelAction {
    /// The operation is shown.
    Shows,
    /// The operation is shown, but the answer is lost.
    ShowsThen(SendError),
    /// The call fails without effect.
    Fails(SendError),
    /// The call is never answered.
    Hangs,
    /// The channel code panics.
    Breaks,
}

type Behaviour = Box<dyn Fn(&Op) -> ChannelAction + Send + Sync>;
type LimitsFn = Box<dyn Fn(&Op, CallPurpose) -> Vec<Limit> + Send + Sync>;

pub(super) struct FakeChannel {
    installation: Installation,
    behaviour: Behaviour,
    probe: Box<dyn Fn() -> Result<(), SendError> + Send + Sync>,
    limits: LimitsFn,
    /// True if it can look up sent posts.
    can_find: bool,
    /// The operations of all calls, with their times.
    pub(super) calls: Mutex<Vec<(String, Duration)>>,
    /// Operations that are shown.
    pub(super) shown: Mutex<Vec<String>>,
    /// Texts of the shown operations.
    pub(super) texts: Mutex<Vec<String>>,
    /// The `since` times of the lookups.
    pub(super) looked_up_since: Mutex<Vec<Timestamp>>,
    /// The times of the probes.
    pub(super) probes: Mutex<Vec<Duration>>,
}

impl FakeChannel {
    /// Creates a channel that cannot look up sent posts.
    pub(super) fn without_lookup(behaviour: impl Fn(&Op) -> ChannelAction + Send + Sync + 'static) -> Self {
        Self {
            can_find: false,
            ..Self::new(behaviour)
        }
    }

    pub(super) fn new(behaviour: impl Fn(&Op) -> ChannelAction + Send + Sync + 'static) -> Self {
        Self {
            installation: Installation {
                account: account(),
                bot_id: "B".to_owned(),
                bot_name: "drydock".to_owned(),
            },
            behaviour: Box::new(behaviour),
            probe: Box::new(|| Ok(())),
            limits: Box::new(|op, _| vec![of_chat(op, 1_000, Duration::from_millis(1))]),
            can_find: true,
            calls: Mutex::default(),
            shown: Mutex::default(),
            texts: Mutex::default(),
            looked_up_since: Mutex::default(),
            probes: Mutex::default(),
        }
    }

    pub(super) fn probed(self, probe: impl Fn() -> Result<(), SendError> + Send + Sync + 'static) -> Self {
        Self {
            probe: Box::new(probe),
            ..self
        }
    }

    pub(super) fn limited(
        self,
        limits: impl Fn(&Op, CallPurpose) -> Vec<Limit> + Send + Sync + 'static,
    ) -> Self {
        Self {
            limits: Box::new(limits),
            ..self
        }
    }

    pub(super) fn calls_of(&self, op: &str) -> usize {
        let calls = self.calls.lock().unwrap();
        calls.iter().filter(|(id, _)| id == op).count()
    }

    pub(super) fn shown(&self) -> Vec<String> {
        self.shown.lock().unwrap().clone()
    }

    pub(super) fn texts(&self) -> String {
        self.texts.lock().unwrap().join("\n")
    }

    fn show(&self, op: &Op) -> Option<MessageRef> {
        let mut shown = self.shown.lock().unwrap();
        shown.push(op.id.clone());
        if let Action::Post { reply, .. } | Action::Edit { reply, .. } = &op.action {
            self.texts.lock().unwrap().push(format!("{reply:?}"));
        }
        op.action.may_show_twice().then(|| MessageRef {
            chat: op.place.chat.clone(),
            id: shown.len().to_string(),
        })
    }
}

#[async_trait]
impl Channel for FakeChannel {
    fn installation(&self) -> &Installation {
        &self.installation
    }

    async fn read_file(&self, _file: &ChatFile, _bytes_max: usize) -> Result<Option<Bytes>, SendError> {
        Err(SendError::Refused("no files here".to_owned()))
    }

    async fn deliver(&self, op: &Op) -> Result<Delivered, SendError> {
        self.calls.lock().unwrap().push((op.id.clone(), elapsed()));
        tokio::task::yield_now().await;
        match (self.behaviour)(op) {
            ChannelAction::Shows => Ok(Delivered {
                message: self.show(op),
            }),
            ChannelAction::ShowsThen(error) => {
                self.show(op);
                Err(error)
            }
            ChannelAction::Fails(error) => Err(error),
            ChannelAction::Hangs => std::future::pending().await,
            ChannelAction::Breaks => panic!("a defect of the channel"),
        }
    }

    fn can_find(&self) -> bool {
        self.can_find
    }

    async fn find(&self, op: &Op, since: Timestamp) -> Result<DeliveryLookup, SendError> {
        self.looked_up_since.lock().unwrap().push(since);
        if !self.can_find {
            return Ok(DeliveryLookup::CannotTell);
        }
        let shown = self.shown();
        let position = shown.iter().position(|shown| *shown == op.id);
        Ok(position.map_or(DeliveryLookup::Nothing, |position| {
            DeliveryLookup::Message(MessageRef {
                chat: op.place.chat.clone(),
                id: (position + 1).to_string(),
            })
        }))
    }

    async fn probe(&self) -> Result<(), SendError> {
        self.probes.lock().unwrap().push(elapsed());
        (self.probe)()
    }

    fn limits(&self, op: &Op, call: CallPurpose) -> Vec<Limit> {
        (self.limits)(op, call)
    }

    async fn poll(
        &self,
        _inbox: mpsc::Sender<PolledInbound>,
        _memory: &dyn PollMemory,
        _now: fn() -> Timestamp,
        _cancel: CancellationToken,
    ) {
    }
}

/// Returns a limit for the chat of an operation.
pub(super) fn of_chat(op: &Op, burst: u32, every: Duration) -> Limit {
    Limit {
        scope: Scope::Chat(op.place.chat.clone()),
        burst,
        every,
    }
}

fn account() -> Account {
    Account {
        platform: Platform::Slack,
        id: "T1".to_owned(),
    }
}

pub(super) fn op(id: &str, chat: &str, action: Action) -> Op {
    Op {
        id: id.to_owned(),
        channel: "slack".to_owned(),
        place: ChatPlace {
            account: account(),
            chat: chat.to_owned(),
            thread: None,
        },
        action,
        response_url: None,
    }
}

pub(super) fn post(id: &str, chat: &str) -> Op {
    let action = Action::Post {
        reply: Reply::text(format!("text of {id}")),
        reply_to: None,
        placeholder: false,
    };
    op(id, chat, action)
}

pub(super) fn in_two_steps(id: &str, chat: &str) -> Vec<Op> {
    let line = Action::Post {
        reply: Reply::text("..."),
        reply_to: None,
        placeholder: true,
    };
    let fill = Action::Fill {
        post: id.to_owned(),
        reply: Reply::text(format!("text of {id}")),
    };
    vec![op(id, chat, line), op(&format!("{id}/fill"), chat, fill)]
}

pub(super) fn file(id: &str, chat: &str) -> Op {
    let action = Action::Upload {
        file_name: "CHG-1.patch".to_owned(),
        content: Bytes::from_static(b"x"),
        caption: "Patch".to_owned(),
    };
    op(id, chat, action)
}

pub(super) struct DeliveryFixture {
    pub(super) store: Store,
    pub(super) delivery: Arc<ChannelDelivery>,
    pub(super) fake: Arc<FakeChannel>,
    directory: TempDir,
    cancel: CancellationToken,
    running: JoinHandle<()>,
    /// Keeps the paused clock from advancing on its own.
    _still: std::sync::mpsc::Sender<()>,
}

impl DeliveryFixture {
    pub(super) fn start(fake: FakeChannel) -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), Arc::new(fake))
    }

    /// Starts like [`DeliveryFixture::start`], after `prepare` has changed the store. No delivery runs at that time.
    pub(super) async fn start_after(fake: FakeChannel, prepare: impl AsyncFnOnce(&Store)) -> Self {
        elapsed();
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path()).unwrap();
        prepare(&store).await;
        Self::start_with(directory, store, Arc::new(fake))
    }

    fn start_in(directory: TempDir, fake: Arc<FakeChannel>) -> Self {
        elapsed();
        let store = Store::open(directory.path()).unwrap();
        Self::start_with(directory, store, fake)
    }

    fn start_with(directory: TempDir, store: Store, fake: Arc<FakeChannel>) -> Self {
        let delivery = Arc::new(ChannelDelivery::new(
            store.clone(),
            "slack".to_owned(),
            Pacing::Counted,
            now,
            || [0; 32],
        ));
        let cancel = CancellationToken::new();
        let channel = Arc::clone(&fake) as Arc<dyn Channel>;
        let (still, stop) = std::sync::mpsc::channel::<()>();
        // A paused clock stands still while a blocking task runs.
        tokio::task::spawn_blocking(move || stop.recv());
        let running = tokio::spawn(Arc::clone(&delivery).run(channel, cancel.clone()));
        Self {
            store,
            delivery,
            fake,
            directory,
            cancel,
            running,
            _still: still,
        }
    }

    /// Restarts delivery on the same data with the same platform.
    pub(super) async fn restarted(self) -> Self {
        self.cancel.cancel();
        self.running.await.unwrap();
        drop(self.delivery);
        drop(self.store);
        Self::start_in(self.directory, self.fake)
    }

    pub(super) fn database(&self) -> PathBuf {
        self.directory.path().join("drydock.db")
    }

    pub(super) async fn enqueue(&self, ops: Vec<Op>) {
        self.store.enqueue(ops, now()).await.unwrap();
        self.delivery.wake();
    }

    pub(super) async fn until_delivered(&self) {
        self.wait(async || self.store.unsent_count("slack").await.unwrap() == 0)
            .await;
    }

    /// Waits until a condition holds.
    pub(super) async fn until(&self, is_so: impl Fn() -> bool) {
        self.wait(async || is_so()).await;
    }

    /// Waits until a condition holds, in short steps.
    pub(super) async fn until_soon(&self, is_so: impl Fn() -> bool) {
        let started = std::time::Instant::now();
        while !is_so() {
            assert!(started.elapsed() < BOUND, "it is never so");
            self.step(Duration::from_millis(20)).await;
        }
    }

    async fn wait(&self, is_so: impl AsyncFn() -> bool) {
        let started = std::time::Instant::now();
        while !is_so().await {
            assert!(started.elapsed() < BOUND, "it is never so");
            self.pass(1).await;
        }
    }

    /// Advances time by some seconds. After each, it waits for the database, which works in real time.
    pub(super) async fn pass(&self, seconds: usize) {
        for _ in 0..seconds {
            self.step(Duration::from_secs(1)).await;
        }
    }

    async fn step(&self, time: Duration) {
        self.store.wait_until_idle().await;
        tokio::time::advance(time).await;
    }

    /// Returns the highest number of counted attempts of any operation.
    pub(super) async fn attempts(&self) -> u32 {
        let most = self.store.read(|tx| {
            let most = "SELECT COALESCE(MAX(attempts), 0) FROM outbox";
            Ok(tx.query_row(most, [], |row| row.get(0))?)
        });
        most.await.unwrap()
    }

    pub(super) async fn letters(&self) -> Vec<DeadLetter> {
        self.store.dead_letters(None, 100).await.unwrap()
    }
}
