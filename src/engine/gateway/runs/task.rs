//! Task steps on a server. The move that begins a task stores it as running; its program then runs beside the driver, and one
//! transaction ends the step. A program has no effect outside of its own directory, so one that a stop of the process cut
//! short is run again from its beginning.

use super::Runs;
use super::broken_run::BROKEN;
use super::moves::RunMove;
use crate::base::model::{RunId, StepEnd, StepStatus};
use crate::engine::gateway::clock_watch::RETRY_WAIT;
use crate::engine::gateway::parts::Parts;
use crate::engine::pipeline::TaskPrograms;
use crate::engine::pipeline::run::{
    PlannedWork, ResolvedWork, RunInputs, RunPlan, StepState, TaskWork, resolved_work,
};
use crate::rendering::jsonnet::{FairSlots, Tenant, Urgency};
use crate::state::access::Identity;
use crate::state::store::StepBegin;
use crate::state::workspace::{GuardedTree, Overlay, Tree, WorkspaceEdits};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{error, warn};

/// A task that begins, with the work of its program.
pub(super) struct BegunTask {
    step: usize,
    work: TaskWork,
}

/// A task of a run: the run, and the place of the step in its plan.
type TaskKey = (RunId, usize);

/// The programs of tasks that run now.
pub(super) struct TaskRunner {
    parts: Arc<Parts>,
    programs: Arc<TaskPrograms>,
    slots: FairSlots,
    /// Wakes the driver, because a step ended.
    changed: Arc<Notify>,
    /// The stops of the tasks. The lock is held briefly, never across an `.await`.
    running: Mutex<BTreeMap<TaskKey, CancellationToken>>,
    /// Fires when the driver stops.
    shutdown: OnceLock<CancellationToken>,
    background: TaskTracker,
}

impl Runs {
    /// Begins a task. Its program starts when that is stored.
    pub(super) fn begin_task(&self, moves: &mut RunMove<'_>, step: usize, work: TaskWork) {
        moves.begin(step, StepBegin::Nothing);
        moves.tasks.push(BegunTask { step, work });
    }

    /// Begins the programs of tasks again that a stop of the process ended.
    pub(super) fn resume_tasks(&self, moves: &mut RunMove<'_>, (plan, inputs): (&RunPlan, &RunInputs)) {
        let id = moves.row.head.id;
        for (step, planned) in plan.steps.iter().enumerate() {
            let state = moves.state.steps.get(step).map(StepState::status);
            let is_task = matches!(planned.work, PlannedWork::Task(_));
            if !is_task || state != Some(StepStatus::Running) || self.tasks.is_running((id, step)) {
                continue;
            }
            match resolved_work(plan, inputs, &moves.state, step) {
                Ok(ResolvedWork::Task(work)) => moves.tasks.push(BegunTask { step, work }),
                Ok(_) => {}
                Err(why) => moves.end(step, StepEnd::failed(why)),
            }
        }
    }
}

impl TaskRunner {
    pub(super) fn new(parts: &Arc<Parts>, changed: &Arc<Notify>) -> Self {
        let config = &parts.config;
        let programs = TaskPrograms::new(parts.launcher.clone(), &config.pipelines, &config.sandbox);
        Self {
            parts: Arc::clone(parts),
            programs: Arc::new(programs),
            slots: FairSlots::new(config.pipelines.programs_at_once_max),
            changed: Arc::clone(changed),
            running: Mutex::default(),
            shutdown: OnceLock::new(),
            background: TaskTracker::new(),
        }
    }

    /// Makes the driver look at the tasks of the previous process. `shutdown` ends all programs.
    pub(super) async fn resume(&self, shutdown: &CancellationToken) {
        let shutdown = self.shutdown.get_or_init(|| shutdown.clone());
        while !shutdown.is_cancelled() {
            let Err(error) = self.parts.store.look_at_running_tasks().await else {
                return;
            };
            warn!(%error, "the tasks that were interrupted are looked for again later");
            wait_to_retry(shutdown).await;
        }
    }

    /// Waits until no program runs any more.
    pub(super) async fn ended(&self) {
        self.background.close();
        self.background.wait().await;
    }

    /// Stops the programs of a run.
    pub(super) fn stop(&self, run: RunId) {
        self.stop_unless(run, |_| false);
    }

    /// Follows the stored moves of a run: stops the programs of steps that ended, and starts those of steps that began.
    pub(super) fn follow(self: &Arc<Self>, moves: RunMove<'_>, owner: Option<&Identity>) {
        let RunMove {
            row, state, tasks, ..
        } = moves;
        let run = row.head.id;
        let is_running = |step: usize| {
            let status = state.steps.get(step).map(StepState::status);
            status == Some(StepStatus::Running)
        };
        self.stop_unless(run, is_running);
        let Some(owner) = owner else { return };
        for task in tasks.into_iter().filter(|task| is_running(task.step)) {
            let place = (row.head.repository.clone(), row.commit.clone());
            self.start((run, task.step), task.work, place, Tenant::Person(owner.user()));
        }
    }

    fn is_running(&self, key: TaskKey) -> bool {
        self.lock().contains_key(&key)
    }

    fn stop_unless(&self, run: RunId, is_kept: impl Fn(usize) -> bool) {
        for ((_, step), stop) in self.lock().range((run, 0)..=(run, usize::MAX)) {
            if !is_kept(*step) {
                stop.cancel();
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<TaskKey, CancellationToken>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a program in the background, with the files of a repository at a commit.
    fn start(self: &Arc<Self>, key: TaskKey, work: TaskWork, place: (String, String), tenant: Tenant) {
        let stop = match self.shutdown.get() {
            Some(shutdown) => shutdown.child_token(),
            None => CancellationToken::new(),
        };
        self.lock().insert(key, stop.clone());
        let runner = Arc::clone(self);
        self.background.spawn(async move {
            if let Some(end) = runner.end_of(work, place, tenant, &stop).await {
                runner.store_end(key, end, &stop).await;
            }
            runner.lock().remove(&key);
        });
    }

    /// Runs a program to its end; `None` if it was stopped.
    async fn end_of(
        &self,
        work: TaskWork,
        (repository, commit): (String, String),
        tenant: Tenant,
        stop: &CancellationToken,
    ) -> Option<StepEnd> {
        let opening = async {
            let slot = self.slots.take(tenant, Urgency::Single).await;
            (slot, self.parts.repositories.base(&repository, &commit).await)
        };
        let (slot, base) = tokio::select! {
            biased;
            () = stop.cancelled() => return None,
            opened = opening => opened,
        };
        let base = match base {
            Ok(base) => base,
            // At the stop of the process no repository is read any more.
            Err(_) if stop.is_cancelled() => return None,
            Err(error) => {
                let why = error.to_string();
                return Some(StepEnd::failed(self.parts.redactor.redact(&why)));
            }
        };
        let files: Arc<dyn Tree> = Arc::new(Overlay::new(base, WorkspaceEdits::new()));
        let tree = GuardedTree::new(files, self.parts.guard());
        let (programs, stopped) = (Arc::clone(&self.programs), stop.clone());
        let running = tokio::task::spawn_blocking(move || {
            let _slot = slot;
            programs.run(&work, &tree, &|| stopped.is_cancelled())
        });
        match running.await {
            Ok(None) if !stop.is_cancelled() => Some(StepEnd::failed(BROKEN)),
            Ok(end) => end,
            Err(error) => {
                error!(%error, "the run of a program panicked");
                Some(StepEnd::failed(BROKEN))
            }
        }
    }

    /// Stores the end of a step. A failure of the store that may pass is tried again until the task is stopped.
    async fn store_end(&self, (run, step): TaskKey, end: StepEnd, stop: &CancellationToken) {
        while !stop.is_cancelled() {
            let at = (self.parts.now)();
            let Err(error) = self.parts.store.end_step(run, step, end.clone(), at).await else {
                self.changed.notify_one();
                return;
            };
            warn!(%run, %error, "the end of a task cannot be stored");
            if !error.may_pass() {
                return;
            }
            wait_to_retry(stop).await;
        }
    }
}

async fn wait_to_retry(stop: &CancellationToken) {
    tokio::select! {
        () = tokio::time::sleep(RETRY_WAIT) => {}
        () = stop.cancelled() => {}
    }
}
