//! A pool of sandbox workers, started ahead of time, so that a task does not wait for one. Each is given away once.

use super::{Confinement, ProgramPath, SandboxError, SandboxWorker};
use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::Duration;
use tokio::sync::oneshot;

/// Orders that wait; more are refused, because more than that cannot be asked for at once.
const REQUESTS_MAX: usize = 1_024;
/// The time without a request before another worker is started ahead: whoever got one needs the processor now.
const REFILL_DELAY: Duration = Duration::from_millis(50);
/// The time without a request before those that wait do so with less memory again.
const COOL_DOWN_DELAY: Duration = Duration::from_secs(300);

type SpawnResult = Result<SandboxWorker, SandboxError>;

/// A thread that starts sandbox workers. The system ends a sandbox worker with the thread that started it, so this
/// one lives exactly as long as the worker pool, and no thread of a runtime starts any.
#[derive(Debug)]
pub struct WorkerPool {
    requests: SyncSender<oneshot::Sender<SpawnResult>>,
}

impl WorkerPool {
    /// Starts the thread, which keeps `idle_max` sandbox workers ready.
    pub fn new(
        program: ProgramPath,
        confinement: Confinement,
        idle_max: usize,
    ) -> Result<Self, SandboxError> {
        let (orders, received) = sync_channel(REQUESTS_MAX);
        std::thread::Builder::new()
            .name("worker-pool".to_owned())
            .spawn(move || serve_requests(&received, &program, &confinement, idle_max))
            .map_err(|error| SandboxError::NotStarted(error.to_string()))?;
        Ok(Self { requests: orders })
    }

    /// A sandbox worker that has not been used by anyone.
    pub async fn take(&self) -> SpawnResult {
        let (answer, answered) = oneshot::channel();
        match self.requests.try_send(answer) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => {
                return Err(SandboxError::NotStarted("too many tasks at once".to_owned()));
            }
            Err(TrySendError::Disconnected(_)) => return Err(ended()),
        }
        answered.await.unwrap_or_else(|_| Err(ended()))
    }
}

fn ended() -> SandboxError {
    SandboxError::NotStarted("the thread that starts workers has ended".to_owned())
}

/// Answers orders until the worker pool is dropped, which closes the queue; idle sandbox workers end with it.
fn serve_requests(
    orders: &Receiver<oneshot::Sender<SpawnResult>>,
    program: &ProgramPath,
    confinement: &Confinement,
    idle_max: usize,
) {
    let with = |warms_up| Confinement {
        warms_up,
        ..confinement.clone()
    };
    let (small, quick) = (with(false), with(true));
    // One that does not start is told to whoever orders it, who then gets the reason.
    let ahead = |confinement: &Confinement, idle: &mut VecDeque<SandboxWorker>| {
        let missing = idle_max.saturating_sub(idle.len());
        let started = (0..missing).map_while(|_| SandboxWorker::start(program, confinement).ok());
        idle.extend(started);
    };
    let mut idle = VecDeque::new();
    // A program that evaluates nothing waits with little memory.
    ahead(&small, &mut idle);
    let (mut wait, mut is_warm) = (COOL_DOWN_DELAY, false);
    loop {
        match orders.recv_timeout(wait) {
            Ok(answer) => {
                let waiting = idle.pop_front();
                let was_late = waiting.is_none();
                let worker = waiting.map_or_else(|| SandboxWorker::start(program, &small), Ok);
                // Whoever ordered may have been cancelled: then the sandbox worker ends here, unused.
                let _cancelled = answer.send(worker);
                if was_late {
                    // They come one after the other: there is no quiet to wait for.
                    ahead(&small, &mut idle);
                }
                wait = REFILL_DELAY;
            }
            Err(RecvTimeoutError::Timeout) if wait == REFILL_DELAY => {
                ahead(&quick, &mut idle);
                (wait, is_warm) = (COOL_DOWN_DELAY, true);
            }
            Err(RecvTimeoutError::Timeout) => {
                if is_warm {
                    idle.clear();
                }
                ahead(&small, &mut idle);
                is_warm = false;
            }
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}
