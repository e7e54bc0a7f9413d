//! Evaluates programs in processes of their own, a bounded number at a time, each ended by the clock or
//! by the caller if it does not end by itself. One process serves one request, or one batch.

use super::batch::Batch;
use super::budget::Budget;
use super::contract::{EvalError, EvalLimits, Evaluated, Request, SecondOpinion};
use super::conversation::{self, Dialogue, Ending, Terms};
use super::foreign::{Outside, Programs};
use super::message::Engines;
use super::opinion;
use super::places::{Place, Places, Urgency};
use super::waiters::Waiters;
use crate::config::{ProgramSettings, SandboxSettings};
use crate::sandbox::{Confinement, JailError, Killer, LayerName, Nursery, Program};
use crate::workspace::Denied;
use futures_util::future::join_all;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The task of a sandbox worker that evaluates Jsonnet.
pub(super) const TASK_NAME: &str = "jsonnet";
/// Sandbox workers tried for one evaluation: one that waited may have been ended by the system meanwhile.
const ATTEMPTS_MAX: usize = 3;

/// The time after which a program lets others have the processor first.
const LONG: Duration = Duration::from_millis(500);

/// A place, and who pays for what is done there.
struct Held {
    place: Place,
    budget: Arc<Budget>,
}

type Permit = Arc<Held>;

/// Evaluates programs behind the jail. Cheap to share, not to make.
#[derive(Debug)]
pub struct Evaluator {
    terms: Terms,
    places: Places,
    nursery: Nursery,
    people: Waiters,
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
            // Two engines may take their time one after the other, after the programs before.
            processor_seconds_max: seconds.saturating_mul(3),
            warms_up: false,
        };
        let programs = Programs::new(program.clone(), &SandboxSettings::default().programs);
        let nursery = Nursery::new(program, confinement, limits.idle_max).map_err(|error| jail(&error))?;
        Ok(Self {
            terms: Terms {
                limits,
                denied: Arc::default(),
                required: required.into(),
                programs: Arc::new(programs),
                remembered: Arc::default(),
            },
            places: Places::new(limits.jails_max.max(1)),
            nursery,
            people: Waiters::default(),
        })
    }

    /// The evaluator an operator configured.
    pub fn configured(program: Program, settings: &SandboxSettings) -> Result<Self, EvalError> {
        let may_lack = |layer: &LayerName| settings.layers_missing.iter().any(|name| name == layer.name());
        let required = LayerName::ALL.into_iter().filter(|layer| !may_lack(layer));
        let list = |entries: &[String]| Denied::new(entries.iter().map(String::as_str));
        let denied = list(&settings.imports_denied).map_err(|error| jail(&error))?;
        let denied = denied.and(list(&settings.secrets_denied).map_err(|error| jail(&error))?);
        let evaluator = Self::with(program.clone(), settings.into(), required.collect())?;
        let mut evaluator = evaluator.with_programs(program, &settings.programs);
        evaluator.terms.denied = Arc::new(denied);
        Ok(evaluator)
    }

    /// Sets the external programs that may be run; `launcher` is started to become them.
    #[must_use]
    pub fn with_programs(mut self, launcher: Program, settings: &ProgramSettings) -> Self {
        self.terms.programs = Arc::new(Programs::new(launcher, settings));
        self
    }

    /// Evaluates one program. Whatever the program does, this ends within the limits; when it is
    /// cancelled or dropped, the process ends at once.
    pub async fn evaluate(
        &self,
        request: Request,
        cancel: &CancellationToken,
    ) -> Result<Evaluated, EvalError> {
        let _waits = self.people.add();
        tokio::select! {
            biased;
            () = cancel.cancelled() => Err(EvalError::Cancelled),
            result = self.alone(request) => result,
        }
    }

    /// Evaluates programs of one tenant, several at the same time, and answers in their order. Each
    /// fails alone. A process serves several of them that have the same tree, and keeps what is the
    /// same for all; no value is another one for that.
    pub async fn evaluate_all(
        &self,
        requests: Vec<Request>,
        cancel: &CancellationToken,
    ) -> Vec<Result<Evaluated, EvalError>> {
        self.evaluate_watched(requests, &|| {}, cancel).await
    }

    /// Evaluates as [`Self::evaluate_all`] does, and calls `done` whenever there is an answer for one more.
    pub async fn evaluate_watched(
        &self,
        requests: Vec<Request>,
        done: &(dyn Fn() + Send + Sync),
        cancel: &CancellationToken,
    ) -> Vec<Result<Evaluated, EvalError>> {
        let _waits = self.people.add();
        let requests = Arc::new(requests);
        let answers = self.remembered(&requests).await;
        let left = requests.iter().zip(&answers).filter(|(_, known)| known.is_none());
        let batch = Batch::new(left.map(|(request, _)| request.clone()).collect());
        (batch.len()..requests.len()).for_each(|_| done());
        let jails = self.terms.limits.jails_max.max(1).min(batch.len());
        let budget = Budget::current();
        let workers = (0..jails).map(|_| self.work(&batch, &budget, done));
        tokio::select! {
            biased;
            () = cancel.cancelled() => {}
            _ = join_all(workers) => {}
        }
        let mut evaluated = batch.into_answers().into_iter();
        let answers = answers.into_iter().map(|known| match known {
            Some(known) => Ok(known),
            None => evaluated.next().unwrap_or(Err(EvalError::Cancelled)),
        });
        answers.collect()
    }

    /// The values that need no evaluation.
    async fn remembered(&self, requests: &Arc<Vec<Request>>) -> Vec<Option<Evaluated>> {
        let (terms, there) = (self.terms.clone(), Arc::clone(requests));
        let found = move || terms.remembered.of(&there, &terms.limits, &terms.denied);
        let found = tokio::task::spawn_blocking(found).await;
        found.unwrap_or_else(|_| vec![None; requests.len()])
    }

    /// Evaluates as [`Self::evaluate_all`] does, for nobody who waits: it begins while no other evaluation runs, leaves one place free, and
    /// ends as soon as anybody wants an evaluation. What has no answer by then counts as cancelled. Where there is one place in all,
    /// nothing is evaluated.
    pub async fn evaluate_aside(
        &self,
        requests: Vec<Request>,
        cancel: &CancellationToken,
    ) -> Vec<Result<Evaluated, EvalError>> {
        let batch = Batch::new(requests);
        tokio::select! {
            biased;
            () = cancel.cancelled() => {}
            () = self.aside(&batch) => {}
        }
        batch.into_answers()
    }

    async fn aside(&self, batch: &Batch) {
        let places = self.terms.limits.jails_max.saturating_sub(1);
        if places == 0 {
            return batch.fail(&jail(&"there is no place beside the one for people"));
        }
        self.people.none().await;
        let budget = Budget::aside();
        let workers = (0..places.min(batch.len())).map(|_| self.work(batch, &budget, &|| {}));
        tokio::select! {
            biased;
            () = self.people.some() => {}
            _ = join_all(workers) => {}
        }
    }

    async fn alone(&self, request: Request) -> Result<Evaluated, EvalError> {
        let permit = self.permit(&Budget::current(), Urgency::One).await;
        self.unshared(&permit, &Arc::new(request)).await
    }

    /// Evaluates one program that has nothing to share with others. When there is room for another process,
    /// the engines work in one each at the same time.
    async fn unshared(&self, permit: &Permit, request: &Arc<Request>) -> Result<Evaluated, EvalError> {
        let both = Engines::of(request.second_opinion);
        let beside = match both {
            Engines::Both => self.beside(permit),
            Engines::First | Engines::Second => None,
        };
        let Some(beside) = beside else {
            let answer = self.run(permit, request, both, false, &mut None).await;
            return self.with_room(permit, request, answer).await;
        };
        let (mut one, mut other) = (None, None);
        let first = self.run(permit, request, Engines::First, false, &mut one);
        let second = self.run(&beside, request, Engines::Second, false, &mut other);
        // Without a value there is nothing to cross-check.
        let (first, second) = tokio::try_join!(first, async { Ok(second.await) })?;
        Ok(opinion::joined(first, second))
    }

    /// Returns the answer; where the second engine had too little memory beside the first, with its verdict from a process
    /// of its own.
    async fn with_room(
        &self,
        permit: &Permit,
        request: &Arc<Request>,
        answer: Result<Evaluated, EvalError>,
    ) -> Result<Evaluated, EvalError> {
        match answer {
            Ok(first) if is_cramped(&first) => {
                let second = self.run(permit, request, Engines::Second, false, &mut None).await;
                Ok(opinion::joined(first, second))
            }
            answer => answer,
        }
    }

    /// Takes one program of the batch after the other, and gives its place back in between when somebody else
    /// has more right to it.
    async fn work(&self, batch: &Batch, budget: &Arc<Budget>, done: &(dyn Fn() + Send + Sync)) {
        let mut permit = self.permit(budget, Urgency::Batch).await;
        let mut warm = None;
        while let Some((place, request)) = batch.next() {
            if permit.place.is_wanted() {
                warm = None;
                drop(permit);
                permit = self.permit(budget, Urgency::Batch).await;
            }
            let request = Arc::new(request);
            let engines = Engines::of(request.second_opinion);
            let answer = match batch.len() {
                1 => self.unshared(&permit, &request).await,
                _ => {
                    let answer = self.run(&permit, &request, engines, true, &mut warm).await;
                    if answer.as_ref().is_ok_and(is_cramped) {
                        warm = None;
                    }
                    self.with_room(&permit, &request, answer).await
                }
            };
            batch.answer(place, answer);
            done();
        }
    }

    async fn permit(&self, budget: &Arc<Budget>, urgency: Urgency) -> Permit {
        Arc::new(Held {
            place: self.places.take(budget.key(), urgency).await,
            budget: Arc::clone(budget),
        })
    }

    /// Returns another place for the same budget, if nobody waits for it.
    fn beside(&self, permit: &Permit) -> Option<Permit> {
        let budget = Arc::clone(&permit.budget);
        let place = self.places.try_take(budget.key())?;
        Some(Arc::new(Held { place, budget }))
    }

    /// Evaluates one program, in the process of the one before if that may go on.
    async fn run(
        &self,
        permit: &Permit,
        request: &Arc<Request>,
        engines: Engines,
        shares: bool,
        warm: &mut Option<Warm>,
    ) -> Result<Evaluated, EvalError> {
        permit.budget.check(self.terms.limits.turn_time_max)?;
        let mut last = String::new();
        for _ in 0..ATTEMPTS_MAX {
            let used = warm.take().filter(|warm| self.may_go_on(warm, request));
            let has_served = used.is_some();
            let Warm { dialogue, begun } = match used {
                Some(used) => used,
                None => match self.nursery.take().await {
                    Ok(inmate) => Warm::new(Dialogue::new(inmate, request.tree.clone())),
                    Err(JailError::NotStarted(why)) => {
                        last = why;
                        continue;
                    }
                    Err(error @ JailError::Weaker(_)) => return Err(jail(&error)),
                },
            };
            let outside = Arc::new(Outside::of(permit.budget.key()));
            let end = EndOnDrop(Some((dialogue.killer(), Arc::clone(&outside))));
            let (first_done, first) = oneshot::channel();
            let (request_there, terms, there) = (request.clone(), self.terms.clone(), Arc::clone(&outside));
            // The permit goes along: a jail is free when its process is gone, not when its caller is.
            let held = permit.clone();
            let mut talk = tokio::task::spawn_blocking(move || {
                let _held = held;
                dialogue.hold(&request_there, engines, &terms, shares, first_done, &there)
            });
            let spending = permit.budget.spend();
            let watched = self.watch(&mut talk, first, engines, &outside, &end).await;
            drop(spending);
            let (ending, out_of_time) = watched?;
            match ending {
                Ending::NotStarted(_) if out_of_time => return Err(self.time()),
                Ending::NotStarted(why) => last = why,
                // What the programs before it left behind may have been too much.
                Ending::Died { .. } if has_served && !out_of_time => last = "it died".to_owned(),
                Ending::Died {
                    failed: Some(failed), ..
                } => return Err(failed),
                Ending::Died {
                    value, post_mortem, ..
                } => {
                    let cause = match out_of_time {
                        true => self.time(),
                        false => {
                            conversation::cause_of_death(&post_mortem, &request.entry, &self.terms.limits)
                        }
                    };
                    return died(value, cause);
                }
                Ending::Answered(result, dialogue) => {
                    if let Some(dialogue) = dialogue.filter(|_| shares && !out_of_time) {
                        *warm = Some(Warm { dialogue, begun });
                        end.not();
                    }
                    return result;
                }
            }
        }
        Err(EvalError::Jail(last))
    }

    /// A process has a bound on the time it may take in all, so it is given a program only while it
    /// has enough of it left.
    fn may_go_on(&self, warm: &Warm, request: &Request) -> bool {
        warm.dialogue.fits(request) && warm.begun.elapsed() < self.terms.limits.time_max
    }

    /// Waits for the conversation and ends it when its time is over: once for each engine. What it spends
    /// outside is not its time.
    async fn watch(
        &self,
        talk: &mut JoinHandle<Ending>,
        mut first: oneshot::Receiver<()>,
        engines: Engines,
        outside: &Outside,
        end: &EndOnDrop,
    ) -> Result<(Ending, bool), EvalError> {
        let time_max = self.terms.limits.time_max;
        let mut waits_for_first = engines == Engines::Both;
        let (deadline, long) = (tokio::time::sleep(time_max), tokio::time::sleep(LONG));
        let (mut away, mut stands_back) = (Duration::ZERO, false);
        tokio::pin!(deadline, long);
        loop {
            tokio::select! {
                ending = &mut *talk => return Ok((ending.map_err(|error| jail(&error))?, false)),
                done = &mut first, if waits_for_first => {
                    waits_for_first = false;
                    if done.is_ok() {
                        deadline.as_mut().reset(Instant::now() + time_max);
                    }
                }
                () = &mut long, if !stands_back => {
                    stands_back = true;
                    end.stand_back();
                }
                () = &mut deadline => {
                    let more = outside.total().saturating_sub(away);
                    if !more.is_zero() {
                        away += more;
                        deadline.as_mut().reset(Instant::now() + more);
                        continue;
                    }
                    end.now();
                    return Ok((talk.await.map_err(|error| jail(&error))?, true));
                }
            }
        }
    }

    fn time(&self) -> EvalError {
        EvalError::Time {
            seconds: self.terms.limits.time_max.as_secs(),
        }
    }
}

/// A process that has served before, and since when it is used.
struct Warm {
    dialogue: Dialogue,
    begun: Instant,
}

impl Warm {
    fn new(dialogue: Dialogue) -> Self {
        let begun = Instant::now();
        Self { dialogue, begun }
    }
}

/// True for a value that the second engine had no memory for.
fn is_cramped(evaluated: &Evaluated) -> bool {
    match &evaluated.second_opinion {
        SecondOpinion::Failed(error) => matches!(error.as_ref(), EvalError::Memory { .. }),
        SecondOpinion::NotAsked | SecondOpinion::Agrees | SecondOpinion::Differs { .. } => false,
    }
}

/// A value that is there survives the death of the process: only the cross-check is missing.
fn died(value: Option<Evaluated>, cause: EvalError) -> Result<Evaluated, EvalError> {
    match value {
        Some(evaluated) => Ok(Evaluated {
            second_opinion: SecondOpinion::Failed(Box::new(cause)),
            ..evaluated
        }),
        None => Err(cause),
    }
}

/// Ends the sandbox worker when nobody waits for it any more. Its conversation then ends by itself, and with
/// it the process is reaped.
struct EndOnDrop(Option<(Killer, Arc<Outside>)>);

impl EndOnDrop {
    fn now(&self) {
        if let Some((killer, outside)) = &self.0 {
            outside.stop();
            killer.kill();
        }
    }

    fn stand_back(&self) {
        if let Some((killer, _)) = &self.0 {
            killer.stand_back();
        }
    }

    /// The sandbox worker lives on.
    fn not(mut self) {
        self.0 = None;
    }
}

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.now();
    }
}

fn jail(error: &dyn std::fmt::Display) -> EvalError {
    EvalError::Jail(error.to_string())
}
