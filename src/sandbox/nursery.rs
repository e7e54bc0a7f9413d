//! Inmates started ahead of time, so that a task does not wait for one. Each is given away once.

use super::{Confinement, Inmate, JailError, Program};
use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use tokio::sync::oneshot;

/// Orders that wait; more are refused, because more than that cannot be asked for at once.
const ORDERS_MAX: usize = 1_024;

type Answer = Result<Inmate, JailError>;

/// A thread that starts inmates. The system ends an inmate with the thread that started it, so this
/// one lives exactly as long as the nursery, and no thread of a runtime starts any.
#[derive(Debug)]
pub struct Nursery {
    orders: SyncSender<oneshot::Sender<Answer>>,
}

impl Nursery {
    /// Starts the thread, which keeps `idle_max` inmates ready.
    pub fn new(program: Program, confinement: Confinement, idle_max: usize) -> Result<Self, JailError> {
        let (orders, received) = sync_channel(ORDERS_MAX);
        std::thread::Builder::new()
            .name("nursery".to_owned())
            .spawn(move || keep(&received, &program, &confinement, idle_max))
            .map_err(|error| JailError::NotStarted(error.to_string()))?;
        Ok(Self { orders })
    }

    /// An inmate that has not been used by anyone.
    pub async fn take(&self) -> Answer {
        let (answer, answered) = oneshot::channel();
        match self.orders.try_send(answer) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => {
                return Err(JailError::NotStarted("too many tasks at once".to_owned()));
            }
            Err(TrySendError::Disconnected(_)) => return Err(ended()),
        }
        answered.await.unwrap_or_else(|_| Err(ended()))
    }
}

fn ended() -> JailError {
    JailError::NotStarted("the thread that starts inmates has ended".to_owned())
}

/// Answers orders until the nursery is dropped, which closes the queue; idle inmates end with it.
fn keep(
    orders: &Receiver<oneshot::Sender<Answer>>,
    program: &Program,
    confinement: &Confinement,
    idle_max: usize,
) {
    let mut idle = VecDeque::new();
    let refill = |idle: &mut VecDeque<Inmate>| {
        // One that does not start is told to whoever orders it, who then gets the reason.
        while idle.len() < idle_max
            && let Ok(inmate) = Inmate::start(program, confinement)
        {
            idle.push_back(inmate);
        }
    };
    refill(&mut idle);
    while let Ok(answer) = orders.recv() {
        let inmate = match idle.pop_front() {
            Some(inmate) => Ok(inmate),
            None => Inmate::start(program, confinement),
        };
        // Whoever ordered may have been cancelled: then the inmate ends here, unused.
        let _cancelled = answer.send(inmate);
        refill(&mut idle);
    }
}
