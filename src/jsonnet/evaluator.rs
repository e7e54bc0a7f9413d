//! Evaluates programs one per process, a bounded number at a time, each ended by the clock or by the
//! caller if it does not end by itself.

use super::contract::{EvalError, EvalLimits, Evaluated, Request, SecondOpinion, SecondOpinionWanted};
use super::conversation::{self, Ending};
use crate::config::SandboxSettings;
use crate::sandbox::{Confinement, JailError, Killer, LayerName, Nursery, Program};
use globset::{Glob, GlobSet, GlobSetBuilder};
use std::sync::Arc;
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// The task of an inmate that evaluates Jsonnet.
pub(super) const TASK_NAME: &str = "jsonnet";
/// Inmates tried for one evaluation: one that waited may have been ended by the system meanwhile.
const ATTEMPTS_MAX: usize = 2;

/// Evaluates programs behind the jail. Cheap to share, not to make.
#[derive(Debug)]
pub struct Evaluator {
    limits: EvalLimits,
    required: Arc<[LayerName]>,
    denied: Arc<GlobSet>,
    jails: Arc<Semaphore>,
    nursery: Nursery,
}

impl Evaluator {
    /// An evaluator that runs this program again for every evaluation and requires every layer of
    /// the jail.
    pub fn new(limits: EvalLimits) -> Result<Self, EvalError> {
        Self::with(Program::this(), limits, LayerName::ALL.to_vec())
    }

    /// An evaluator that runs another build of this program, or that does with fewer layers because
    /// the operator said so.
    pub fn with(program: Program, limits: EvalLimits, required: Vec<LayerName>) -> Result<Self, EvalError> {
        let seconds = limits.time_max.as_secs().saturating_add(1);
        let confinement = Confinement {
            task: TASK_NAME.to_owned(),
            memory_bytes_max: limits.memory_bytes_max,
            stack_bytes_max: limits.stack_bytes_max,
            // Two engines may take their time one after the other.
            processor_seconds_max: seconds.saturating_mul(2),
        };
        let nursery = Nursery::new(program, confinement, limits.idle_max).map_err(|error| jail(&error))?;
        Ok(Self {
            limits,
            required: required.into(),
            denied: Arc::new(GlobSet::empty()),
            jails: Arc::new(Semaphore::new(limits.jails_max.max(1))),
            nursery,
        })
    }

    /// The evaluator an operator configured.
    pub fn configured(program: Program, settings: &SandboxSettings) -> Result<Self, EvalError> {
        let may_lack = |layer: &LayerName| settings.layers_missing.iter().any(|name| name == layer.name());
        let required = LayerName::ALL.into_iter().filter(|layer| !may_lack(layer));
        let mut denied = GlobSetBuilder::new();
        for glob in &settings.imports_denied {
            denied.add(Glob::new(glob).map_err(|error| jail(&error))?);
        }
        let mut evaluator = Self::with(program, settings.into(), required.collect())?;
        evaluator.denied = Arc::new(denied.build().map_err(|error| jail(&error))?);
        Ok(evaluator)
    }

    /// Evaluates one program. Whatever the program does, this ends within the limits; when it is
    /// cancelled or dropped, the process ends at once.
    pub async fn evaluate(
        &self,
        request: Request,
        cancel: &CancellationToken,
    ) -> Result<Evaluated, EvalError> {
        tokio::select! {
            biased;
            () = cancel.cancelled() => Err(EvalError::Cancelled),
            result = self.run(Arc::new(request)) => result,
        }
    }

    async fn run(&self, request: Arc<Request>) -> Result<Evaluated, EvalError> {
        let jail_free = self.jails.clone().acquire_owned().await;
        let permit = Arc::new(jail_free.map_err(|error| jail(&error))?);
        let mut last = String::new();
        for _ in 0..ATTEMPTS_MAX {
            let inmate = match self.nursery.take().await {
                Ok(inmate) => inmate,
                Err(JailError::NotStarted(why)) => {
                    last = why;
                    continue;
                }
                Err(error @ JailError::Weaker(_)) => return Err(jail(&error)),
            };
            let end = EndOnDrop(inmate.killer());
            let (first_done, first) = oneshot::channel();
            let (request_there, limits, required) = (request.clone(), self.limits, self.required.clone());
            let denied = self.denied.clone();
            // The permit goes along: a jail is free when its process is gone, not when its caller is.
            let held = permit.clone();
            let mut talk = tokio::task::spawn_blocking(move || {
                let _held = held;
                conversation::hold(inmate, &request_there, &limits, &denied, &required, first_done)
            });
            let (ending, out_of_time) = self.watch(&mut talk, first, &request, &end.0).await?;
            match ending {
                Ending::NotStarted(_) if out_of_time => return Err(self.time()),
                Ending::NotStarted(why) => last = why,
                ending => return self.judge(ending, out_of_time, &request),
            }
        }
        Err(EvalError::Jail(last))
    }

    /// Waits for the conversation and ends it when its time is over: once for each engine.
    async fn watch(
        &self,
        talk: &mut JoinHandle<Ending>,
        mut first: oneshot::Receiver<()>,
        request: &Request,
        killer: &Killer,
    ) -> Result<(Ending, bool), EvalError> {
        let mut waits_for_first = request.second_opinion == SecondOpinionWanted::Yes;
        let deadline = tokio::time::sleep(self.limits.time_max);
        tokio::pin!(deadline);
        loop {
            tokio::select! {
                ending = &mut *talk => return Ok((ending.map_err(|error| jail(&error))?, false)),
                done = &mut first, if waits_for_first => {
                    waits_for_first = false;
                    if done.is_ok() {
                        deadline.as_mut().reset(tokio::time::Instant::now() + self.limits.time_max);
                    }
                }
                () = &mut deadline => {
                    killer.kill();
                    return Ok((talk.await.map_err(|error| jail(&error))?, true));
                }
            }
        }
    }

    fn judge(&self, ending: Ending, out_of_time: bool, request: &Request) -> Result<Evaluated, EvalError> {
        match ending {
            Ending::Answered(result) => result,
            Ending::NotStarted(why) => Err(EvalError::Jail(why)),
            Ending::Died { value, post_mortem } => {
                let cause = match out_of_time {
                    true => self.time(),
                    false => conversation::cause_of_death(&post_mortem, &request.entry, &self.limits),
                };
                match value {
                    Some(evaluated) => Ok(Evaluated {
                        second_opinion: SecondOpinion::Failed(Box::new(cause)),
                        ..evaluated
                    }),
                    None => Err(cause),
                }
            }
        }
    }

    fn time(&self) -> EvalError {
        EvalError::Time {
            seconds: self.limits.time_max.as_secs(),
        }
    }
}

/// Ends the inmate when nobody waits for it any more. Its conversation then ends by itself, and with
/// it the process is reaped.
struct EndOnDrop(Killer);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.0.kill();
    }
}

fn jail(error: &dyn std::fmt::Display) -> EvalError {
    EvalError::Jail(error.to_string())
}
