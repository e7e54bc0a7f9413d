//! The evaluator of programs in separate processes, with a limit on concurrent ones. A process that does not end on its
//! own is ended at the time limit or by the caller. One process serves one request, or one batch.

use super::batch::EvalBatch;
use super::budget::Budget;
use super::contract::{CrossCheckResult, EvalError, EvalLimits, EvalRequest, Evaluation};
use super::cross_check;
use super::external_program::{ExternalPrograms, ExternalWait};
use super::fair_slots::{FairSlot, FairSlots, Urgency};
use super::foreground::ForegroundCount;
use super::message::{Engines, TaskBatch};
use super::worker_session::{self, SessionOptions, SessionOutcome, WorkerSession};
use crate::base::config::{ProgramSettings, SandboxSettings};
use crate::rendering::sandbox::{Confinement, Killer, LayerName, ProgramPath, SandboxError, WorkerPool};
use crate::state::workspace::DeniedFiles;
use futures_util::future::join_all;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The task of a sandbox worker that evaluates Jsonnet.
pub(super) const TASK_NAME: &str = "jsonnet";
/// Sandbox workers tried for one evaluation: the system may have ended an idle one in the meantime.
const ATTEMPTS_MAX: usize = 3;

/// The time after which a program's process gets a lower priority.
const LOWER_PRIORITY_AFTER: Duration = Duration::from_millis(500);

/// A slot, and the budget that the work in it is charged to.
struct EvaluationPermit {
    slot: FairSlot,
    budget: Arc<Budget>,
}

type SharedPermit = Arc<EvaluationPermit>;

/// An evaluator that runs programs in the sandbox. It is cheap to clone but not to create.
#[derive(Debug)]
pub struct Evaluator {
    options: SessionOptions,
    slots: FairSlots,
    workers: WorkerPool,
    foreground: ForegroundCount,
}

impl Evaluator {
    /// Creates an evaluator that starts this program for every evaluation and requires every layer of the sandbox.
    pub fn new(limits: EvalLimits) -> Result<Self, EvalError> {
        Self::for_program(ProgramPath::current(), limits, LayerName::ALL.to_vec())
    }

    /// Creates an evaluator that starts another build of this program, or that accepts missing layers that the operator
    /// allows.
    pub fn for_program(
        program: ProgramPath,
        limits: EvalLimits,
        required: Vec<LayerName>,
    ) -> Result<Self, EvalError> {
        let seconds = limits.time_max.as_secs().saturating_add(1);
        let confinement = Confinement {
            task: TASK_NAME.to_owned(),
            memory_bytes_max: limits.memory_bytes_max,
            stack_bytes_max: limits.stack_bytes_max,
            // Two engines may each use the time limit, in addition to earlier programs.
            processor_seconds_max: seconds.saturating_mul(3),
            warms_up: false,
        };
        let programs = ExternalPrograms::new(program.clone(), &SandboxSettings::default().programs);
        let worker_pool =
            WorkerPool::new(program, confinement, limits.idle_max).map_err(|error| sandbox_error(&error))?;
        Ok(Self {
            options: SessionOptions {
                limits,
                denied: Arc::default(),
                required: required.into(),
                programs: Arc::new(programs),
                memo: Arc::default(),
            },
            slots: FairSlots::new(limits.workers_max.max(1)),
            workers: worker_pool,
            foreground: ForegroundCount::default(),
        })
    }

    /// Creates the evaluator of an operator's configuration.
    pub fn configured(program: ProgramPath, settings: &SandboxSettings) -> Result<Self, EvalError> {
        let may_lack = |layer: &LayerName| settings.layers_missing.iter().any(|name| name == layer.name());
        let required = LayerName::ALL.into_iter().filter(|layer| !may_lack(layer));
        let list = |entries: &[String]| DeniedFiles::new(entries.iter().map(String::as_str));
        let denied = list(&settings.imports_denied).map_err(|error| sandbox_error(&error))?;
        let denied =
            denied.merged_with(list(&settings.secrets_denied).map_err(|error| sandbox_error(&error))?);
        let evaluator = Self::for_program(program.clone(), settings.into(), required.collect())?;
        let mut evaluator = evaluator.with_programs(program, &settings.programs);
        evaluator.options.denied = Arc::new(denied);
        Ok(evaluator)
    }

    /// Sets the external programs that may be run. `launcher` is the build of this program that starts again to execute
    /// them.
    #[must_use]
    pub fn with_programs(mut self, launcher: ProgramPath, settings: &ProgramSettings) -> Self {
        self.options.programs = Arc::new(ExternalPrograms::new(launcher, settings));
        self
    }

    /// Evaluates one program. The evaluation always ends within the limits. If it is cancelled or dropped, the process
    /// ends at once.
    pub async fn evaluate(
        &self,
        request: EvalRequest,
        cancel: &CancellationToken,
    ) -> Result<Evaluation, EvalError> {
        let _waits = self.foreground.enter();
        tokio::select! {
            biased;
            () = cancel.cancelled() => Err(EvalError::Cancelled),
            result = self.evaluate_single(request) => result,
        }
    }

    /// Evaluates programs of one tenant concurrently, and returns the answers in order. A failure affects only its own
    /// program. One process serves several programs on the same tree, and keeps the values that are the same for all of
    /// them; this does not change any value.
    pub async fn evaluate_all(
        &self,
        requests: Vec<EvalRequest>,
        cancel: &CancellationToken,
    ) -> Vec<Result<Evaluation, EvalError>> {
        self.evaluate_with_progress(requests, &|| {}, cancel).await
    }

    /// Evaluates as [`Self::evaluate_all`] does, and calls `done` for each finished program.
    pub async fn evaluate_with_progress(
        &self,
        requests: Vec<EvalRequest>,
        done: &(dyn Fn() + Send + Sync),
        cancel: &CancellationToken,
    ) -> Vec<Result<Evaluation, EvalError>> {
        let _waits = self.foreground.enter();
        let requests = Arc::new(requests);
        let answers = self.find_memoized(&requests).await;
        let left = requests.iter().zip(&answers).filter(|(_, known)| known.is_none());
        let batch = EvalBatch::new(left.map(|(request, _)| request.clone()).collect());
        (batch.len()..requests.len()).for_each(|_| done());
        let worker_count = self.options.limits.workers_max.max(1).min(batch.len());
        let budget = Budget::current();
        let workers = (0..worker_count).map(|_| self.work(&batch, &budget, done));
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

    /// Returns the cached values; `None` for a program that must be evaluated.
    async fn find_memoized(&self, requests: &Arc<Vec<EvalRequest>>) -> Vec<Option<Evaluation>> {
        let (options, there) = (self.options.clone(), Arc::clone(requests));
        let found = move || options.memo.lookup(&there, &options.limits, &options.denied);
        let found = tokio::task::spawn_blocking(found).await;
        found.unwrap_or_else(|_| vec![None; requests.len()])
    }

    /// Evaluates as [`Self::evaluate_all`] does, in the background. It begins when no other evaluation runs, leaves one
    /// slot free, and ends as soon as another evaluation is requested. Programs without an answer then count as
    /// cancelled. With only one slot nothing is evaluated.
    pub async fn evaluate_in_background(
        &self,
        requests: Vec<EvalRequest>,
        cancel: &CancellationToken,
    ) -> Vec<Result<Evaluation, EvalError>> {
        let batch = EvalBatch::new(requests);
        tokio::select! {
            biased;
            () = cancel.cancelled() => {}
            () = self.run_background_batch(&batch) => {}
        }
        batch.into_answers()
    }

    async fn run_background_batch(&self, batch: &EvalBatch) {
        let places = self.options.limits.workers_max.saturating_sub(1);
        if places == 0 {
            return batch.fail(&sandbox_error(
                &"no slot is left for background evaluations; raise `sandbox.jails_max`",
            ));
        }
        self.foreground.wait_until_idle().await;
        let budget = Budget::background();
        let workers = (0..places.min(batch.len())).map(|_| self.work(batch, &budget, &|| {}));
        tokio::select! {
            biased;
            () = self.foreground.wait_until_busy() => {}
            _ = join_all(workers) => {}
        }
    }

    async fn evaluate_single(&self, request: EvalRequest) -> Result<Evaluation, EvalError> {
        let permit = self.permit(&Budget::current(), Urgency::Single).await;
        self.run_unbatched(&permit, &Arc::new(request)).await
    }

    /// Evaluates a single program. If a slot for another process is free, the two engines run concurrently in separate
    /// processes.
    async fn run_unbatched(
        &self,
        permit: &SharedPermit,
        request: &Arc<EvalRequest>,
    ) -> Result<Evaluation, EvalError> {
        let both = Engines::for_mode(request.cross_check);
        let beside = match both {
            Engines::Both => self.try_second_permit(permit),
            Engines::First | Engines::Second => None,
        };
        let Some(beside) = beside else {
            let answer = self.run(permit, request, both, TaskBatch::One, &mut None).await;
            return self.retry_cross_check(permit, request, answer).await;
        };
        let (mut one, mut other) = (None, None);
        let first = self.run(permit, request, Engines::First, TaskBatch::One, &mut one);
        let second = self.run(&beside, request, Engines::Second, TaskBatch::One, &mut other);
        // Without a value there is nothing to cross-check.
        let (first, second) = tokio::try_join!(first, async { Ok(second.await) })?;
        Ok(cross_check::with_cross_check(first, second))
    }

    /// Returns the answer. If the second engine had too little memory in the process of the first, the cross-check runs
    /// again in a separate process.
    async fn retry_cross_check(
        &self,
        permit: &SharedPermit,
        request: &Arc<EvalRequest>,
        answer: Result<Evaluation, EvalError>,
    ) -> Result<Evaluation, EvalError> {
        match answer {
            Ok(first) if lacked_memory(&first) => {
                let second = self
                    .run(permit, request, Engines::Second, TaskBatch::One, &mut None)
                    .await;
                Ok(cross_check::with_cross_check(first, second))
            }
            answer => answer,
        }
    }

    /// Evaluates one program of the batch after the other, and releases its slot in between if another person should go
    /// first.
    async fn work(&self, batch: &EvalBatch, budget: &Arc<Budget>, done: &(dyn Fn() + Send + Sync)) {
        let mut permit = self.permit(budget, Urgency::Batch).await;
        let mut warm = None;
        while let Some((place, request)) = batch.next() {
            if permit.slot.should_yield() {
                warm = None;
                drop(permit);
                permit = self.permit(budget, Urgency::Batch).await;
            }
            let request = Arc::new(request);
            let engines = Engines::for_mode(request.cross_check);
            let answer = match batch.len() {
                1 => self.run_unbatched(&permit, &request).await,
                _ => {
                    let answer = self
                        .run(&permit, &request, engines, TaskBatch::Several, &mut warm)
                        .await;
                    if answer.as_ref().is_ok_and(lacked_memory) {
                        warm = None;
                    }
                    self.retry_cross_check(&permit, &request, answer).await
                }
            };
            batch.answer(place, answer);
            done();
        }
    }

    async fn permit(&self, budget: &Arc<Budget>, urgency: Urgency) -> SharedPermit {
        Arc::new(EvaluationPermit {
            slot: self.slots.take(budget.tenant(), urgency).await,
            budget: Arc::clone(budget),
        })
    }

    /// Returns another slot for the same budget, if one is free and no request waits.
    fn try_second_permit(&self, permit: &SharedPermit) -> Option<SharedPermit> {
        let budget = Arc::clone(&permit.budget);
        let place = self.slots.try_take(budget.tenant())?;
        Some(Arc::new(EvaluationPermit { slot: place, budget }))
    }

    /// Evaluates one program, in the process of the previous one if that can continue.
    async fn run(
        &self,
        permit: &SharedPermit,
        request: &Arc<EvalRequest>,
        engines: Engines,
        batch: TaskBatch,
        warm: &mut Option<ReusableSession>,
    ) -> Result<Evaluation, EvalError> {
        permit.budget.check(self.options.limits.turn_time_max)?;
        let mut last = String::new();
        for _ in 0..ATTEMPTS_MAX {
            let used = warm.take().filter(|warm| self.can_reuse(warm, request));
            let has_served = used.is_some();
            let ReusableSession { session, begun } = match used {
                Some(used) => used,
                None => match self.workers.take().await {
                    Ok(worker) => ReusableSession::new(WorkerSession::new(worker, request.tree.clone())),
                    Err(SandboxError::NotStarted(why)) => {
                        last = why;
                        continue;
                    }
                    Err(error @ SandboxError::MissingLayers(_)) => return Err(sandbox_error(&error)),
                },
            };
            let external_wait = Arc::new(ExternalWait::new(permit.budget.tenant()));
            let end = EndOnDrop(Some((session.killer(), Arc::clone(&external_wait))));
            let (first_done, first) = oneshot::channel();
            let (request_there, options, there) =
                (request.clone(), self.options.clone(), Arc::clone(&external_wait));
            // The task holds the permit until the process has ended, even if the caller is gone earlier.
            let held = permit.clone();
            let mut task = tokio::task::spawn_blocking(move || {
                let _held = held;
                session.evaluate(&request_there, engines, &options, batch, first_done, &there)
            });
            let spending = permit.budget.start_timer();
            let watched = self
                .supervise(&mut task, first, engines, &external_wait, &end)
                .await;
            drop(spending);
            let (ending, out_of_time) = watched?;
            match ending {
                SessionOutcome::NotStarted(_) if out_of_time => return Err(self.time()),
                SessionOutcome::NotStarted(why) => last = why,
                // The cause may be memory that earlier programs left in use, so a new process tries again.
                SessionOutcome::Died { .. } if has_served && !out_of_time => last = "it died".to_owned(),
                SessionOutcome::Died {
                    failed: Some(failed), ..
                } => return Err(failed),
                SessionOutcome::Died {
                    value, exit_report, ..
                } => {
                    let cause = match out_of_time {
                        true => self.time(),
                        false => worker_session::error_from_exit(
                            &exit_report,
                            &request.entry,
                            &self.options.limits,
                        ),
                    };
                    return died(value, cause);
                }
                SessionOutcome::Finished(result, session) => {
                    if let Some(session) = session.filter(|_| batch == TaskBatch::Several && !out_of_time) {
                        *warm = Some(ReusableSession { session, begun });
                        end.disarm();
                    }
                    return result;
                }
            }
        }
        Err(EvalError::Sandbox(last))
    }

    /// Returns true if a process can serve another program. Its total time is limited, so enough of it must be left.
    fn can_reuse(&self, warm: &ReusableSession, request: &EvalRequest) -> bool {
        warm.session.fits(request) && warm.begun.elapsed() < self.options.limits.time_max
    }

    /// Waits for the session and ends it at the time limit, which applies to each engine. Time in external programs
    /// does not count.
    async fn supervise(
        &self,
        task: &mut JoinHandle<SessionOutcome>,
        mut first: oneshot::Receiver<()>,
        engines: Engines,
        external_wait: &ExternalWait,
        end: &EndOnDrop,
    ) -> Result<(SessionOutcome, bool), EvalError> {
        let time_max = self.options.limits.time_max;
        let mut waits_for_first = engines == Engines::Both;
        let (deadline, long) = (
            tokio::time::sleep(time_max),
            tokio::time::sleep(LOWER_PRIORITY_AFTER),
        );
        let (mut away, mut stands_back) = (Duration::ZERO, false);
        tokio::pin!(deadline, long);
        loop {
            tokio::select! {
                ending = &mut *task => return Ok((ending.map_err(|error| sandbox_error(&error))?, false)),
                done = &mut first, if waits_for_first => {
                    waits_for_first = false;
                    if done.is_ok() {
                        deadline.as_mut().reset(Instant::now() + time_max);
                    }
                }
                () = &mut long, if !stands_back => {
                    stands_back = true;
                    end.lower_priority();
                }
                () = &mut deadline => {
                    let more = external_wait.total().saturating_sub(away);
                    if !more.is_zero() {
                        away += more;
                        deadline.as_mut().reset(Instant::now() + more);
                        continue;
                    }
                    end.kill();
                    return Ok((task.await.map_err(|error| sandbox_error(&error))?, true));
                }
            }
        }
    }

    fn time(&self) -> EvalError {
        EvalError::Time {
            seconds: self.options.limits.time_max.as_secs(),
        }
    }
}

/// A process that has served a program, with the time of its first use.
struct ReusableSession {
    session: WorkerSession,
    begun: Instant,
}

impl ReusableSession {
    fn new(session: WorkerSession) -> Self {
        let begun = Instant::now();
        Self { session, begun }
    }
}

/// True if the second engine ran out of memory for a value.
fn lacked_memory(evaluated: &Evaluation) -> bool {
    match &evaluated.cross_check {
        CrossCheckResult::Failed(error) => matches!(error.as_ref(), EvalError::Memory { .. }),
        CrossCheckResult::NotRun | CrossCheckResult::Agrees | CrossCheckResult::Differs { .. } => false,
    }
}

/// Returns the result after the death of a process. A value that exists stays; only its cross-check is missing.
fn died(value: Option<Evaluation>, cause: EvalError) -> Result<Evaluation, EvalError> {
    match value {
        Some(evaluated) => Ok(Evaluation {
            cross_check: CrossCheckResult::Failed(Box::new(cause)),
            ..evaluated
        }),
        None => Err(cause),
    }
}

/// A guard that ends the sandbox worker when its caller no longer waits. The session then ends as well, and reaps the
/// process.
struct EndOnDrop(Option<(Killer, Arc<ExternalWait>)>);

impl EndOnDrop {
    fn kill(&self) {
        if let Some((killer, external_wait)) = &self.0 {
            external_wait.stop();
            killer.kill();
        }
    }

    fn lower_priority(&self) {
        if let Some((killer, _)) = &self.0 {
            killer.lower_priority();
        }
    }

    /// Lets the sandbox worker continue.
    fn disarm(mut self) {
        self.0 = None;
    }
}

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.kill();
    }
}

fn sandbox_error(error: &dyn std::fmt::Display) -> EvalError {
    EvalError::Sandbox(error.to_string())
}
