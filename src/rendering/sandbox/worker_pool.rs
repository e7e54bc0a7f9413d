//! A pool of sandbox workers that start in advance, so that a task does not wait for a start. Each worker is used once.

use super::{Confinement, ProgramPath, SandboxError, SandboxWorker};
use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::Duration;
use tokio::sync::oneshot;

/// Requests that may wait. Further requests are refused; callers never make that many at once.
const REQUESTS_MAX: usize = 1_024;
/// The time without a request before the pool starts more workers: a worker that was just taken needs the processor
/// first.
const REFILL_DELAY: Duration = Duration::from_millis(50);
/// The time without a request before warmed-up idle workers are replaced by workers that use less memory.
const COOL_DOWN_DELAY: Duration = Duration::from_secs(300);

type SpawnResult = Result<SandboxWorker, SandboxError>;

/// A pool of sandbox workers, started by its own thread. The system ends a sandbox worker with the thread that started
/// it, so this thread lives exactly as long as the pool. Threads of a runtime do not start workers.
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
        let (requests, received) = sync_channel(REQUESTS_MAX);
        std::thread::Builder::new()
            .name("worker-pool".to_owned())
            .spawn(move || serve_requests(&received, &program, &confinement, idle_max))
            .map_err(|error| SandboxError::NotStarted(error.to_string()))?;
        Ok(Self { requests })
    }

    /// Returns a sandbox worker that has not been used.
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

/// Serves requests until the worker pool is dropped, which closes the queue. Idle sandbox workers end with the pool.
fn serve_requests(
    requests: &Receiver<oneshot::Sender<SpawnResult>>,
    program: &ProgramPath,
    confinement: &Confinement,
    idle_max: usize,
) {
    let with = |warms_up| Confinement {
        warms_up,
        ..confinement.clone()
    };
    let (small, quick) = (with(false), with(true));
    // A failed start is not reported here. The next request tries again and receives the error.
    let refill = |confinement: &Confinement, idle: &mut VecDeque<SandboxWorker>| {
        let missing = idle_max.saturating_sub(idle.len());
        let started = (0..missing).map_while(|_| SandboxWorker::start(program, confinement).ok());
        idle.extend(started);
    };
    let mut idle = VecDeque::new();
    // Idle workers that have not warmed up use little memory, which suits a gateway that evaluates nothing.
    refill(&small, &mut idle);
    let (mut wait, mut is_warm) = (COOL_DOWN_DELAY, false);
    loop {
        match requests.recv_timeout(wait) {
            Ok(answer) => {
                let waiting = idle.pop_front();
                let was_late = waiting.is_none();
                let worker = waiting.map_or_else(|| SandboxWorker::start(program, &small), Ok);
                // The request may have been cancelled. Then the sandbox worker is dropped unused.
                let _cancelled = answer.send(worker);
                if was_late {
                    // The pool was empty, so requests come in quick succession. It refills without waiting for a pause.
                    refill(&small, &mut idle);
                }
                wait = REFILL_DELAY;
            }
            Err(RecvTimeoutError::Timeout) if wait == REFILL_DELAY => {
                refill(&quick, &mut idle);
                (wait, is_warm) = (COOL_DOWN_DELAY, true);
            }
            Err(RecvTimeoutError::Timeout) => {
                if is_warm {
                    idle.clear();
                }
                refill(&small, &mut idle);
                is_warm = false;
            }
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}
