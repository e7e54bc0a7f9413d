//! The files about the steps of runs. They are written after the end of a step, from what is stored. So a crash loses none, and
//! no run waits for them.

use super::trace_text::{StepFiles, run_facts, step_files};
use crate::base::model::RunId;
use crate::engine::gateway::parts::Parts;
use crate::state::recording::{
    Redact, StepTrace, end_run, is_run_traced, removed_until, run_directory, set_run_time,
};
use crate::state::store::{AgentStepWork, RunHead, StepRow, StoreError};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

/// The time for which changes of runs are gathered, so that a run is read once for several.
const GATHERING_TIME: Duration = Duration::from_millis(100);
/// The wait until a run is looked at again whose stopped turn had not ended.
const TURN_WAIT: Duration = Duration::from_secs(5);
/// The wait before another attempt after a failure.
const RETRY_WAIT: Duration = Duration::from_secs(60);

/// The writer of the traces of runs.
pub struct RunTracer {
    parts: Arc<Parts>,
    noted: Mutex<BTreeSet<RunId>>,
    changed: Notify,
}

/// The state of the traces of a run after an attempt to write them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TraceState {
    /// All ended steps have theirs.
    Written,
    /// The turn of an ended step has not ended.
    Waits,
}

/// The runs that are looked at again, and the wait until then.
#[derive(Default)]
struct LaterRuns {
    runs: BTreeSet<RunId>,
    failed: usize,
    why: Option<String>,
}

/// A failure to write a trace.
#[derive(Debug, thiserror::Error)]
enum TraceFailure {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("{0}")]
    Files(String),
}

impl TraceFailure {
    /// Returns true if another attempt may succeed.
    fn may_pass(&self) -> bool {
        match self {
            Self::Store(error) => error.may_pass(),
            Self::Files(_) => true,
        }
    }
}

impl RunTracer {
    pub(super) fn new(parts: &Arc<Parts>) -> Self {
        Self {
            parts: Arc::clone(parts),
            noted: Mutex::default(),
            changed: Notify::new(),
        }
    }

    /// Notes that steps of a run may have ended.
    pub(super) fn note(&self, run: RunId) {
        self.note_all([run]);
    }

    fn note_all(&self, runs: impl IntoIterator<Item = RunId>) {
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        noted.extend(runs);
        drop(noted);
        self.changed.notify_one();
    }

    fn take_noted(&self) -> BTreeSet<RunId> {
        std::mem::take(&mut *self.noted.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Writes the traces of ended steps until `cancel`, first those that an earlier process has not written.
    pub async fn watch(self: Arc<Self>, cancel: CancellationToken) {
        while let Err(error) = self.note_unwritten().await {
            warn!(%error, "the traces of runs are written later");
            if cancel
                .run_until_cancelled(tokio::time::sleep(RETRY_WAIT))
                .await
                .is_none()
            {
                return;
            }
        }
        let mut later: Option<(Instant, BTreeSet<RunId>)> = None;
        while !cancel.is_cancelled() {
            let again = later.as_ref().map(|(again, _)| *again);
            tokio::select! {
                () = self.changed.notified() => {
                    tokio::select! {
                        () = tokio::time::sleep(GATHERING_TIME) => {}
                        () = cancel.cancelled() => return,
                    }
                }
                () = wait_until(again) => {
                    let (_, runs) = later.take().unwrap_or_else(|| (Instant::now(), BTreeSet::new()));
                    self.note_all(runs);
                }
                () = cancel.cancelled() => return,
            }
            let left = self.write_noted(&cancel).await;
            if !left.runs.is_empty() {
                let again = Instant::now() + left.wait();
                let (_, runs) = later.get_or_insert_with(|| (again, BTreeSet::new()));
                runs.extend(left.runs);
            }
        }
    }

    /// Notes the runs whose traces are not complete, except those whose traces were removed.
    async fn note_unwritten(&self) -> Result<(), TraceFailure> {
        let data = self.data().to_owned();
        let removed = blocking(move || Ok(removed_until(&data))).await?;
        let runs = self.parts.store.runs_ended_after(removed).await?;
        let data = self.data().to_owned();
        let unwritten = blocking(move || {
            let unwritten = runs
                .into_iter()
                .filter(|run| !is_run_traced(&run_directory(&data, *run)));
            Ok(unwritten.collect::<Vec<_>>())
        });
        self.note_all(unwritten.await?);
        Ok(())
    }

    /// Writes the traces of the noted runs, and returns those to look at later. A run that fails keeps no other from it.
    async fn write_noted(&self, cancel: &CancellationToken) -> LaterRuns {
        let mut later = LaterRuns::default();
        for run in self.take_noted() {
            if cancel.is_cancelled() {
                // The next start finds them.
                break;
            }
            match self.write_run(run).await {
                Ok(TraceState::Written) => {}
                Ok(TraceState::Waits) => later.add(run),
                Err(error) if error.may_pass() => later.add_failed(run, error.to_string()),
                Err(error) => info!(%run, %error, "the traces of a run cannot be written"),
            }
        }
        if let Some(why) = &later.why {
            warn!(
                %why,
                "the traces of {} runs are not written; it is tried again", later.failed
            );
        }
        later
    }

    /// Writes the traces of the ended steps of a run that have none.
    async fn write_run(&self, run: RunId) -> Result<TraceState, TraceFailure> {
        let Some((head, steps)) = self.parts.store.run_steps(run).await? else {
            return Ok(TraceState::Written);
        };
        let directory = run_directory(self.data(), run);
        let unwritten = unwritten_steps(&directory, steps.clone()).await?;
        if !unwritten.is_empty() || head.status.is_end() {
            // Files stay after a power failure that takes the run back, and another run may then get its number.
            self.parts.store.wait_durable().await?;
        }
        let mut state = TraceState::Written;
        for step in unwritten {
            match self.work_of(&step).await? {
                Some(work) => self.write_step(&directory, &head, step, work).await?,
                None => state = TraceState::Waits,
            }
        }
        if state == TraceState::Written {
            self.finish_run(directory, head, &steps).await?;
        }
        Ok(state)
    }

    /// Returns the stored work of a step, which is none for a step without a turn; `None` while its turn has not ended.
    async fn work_of(&self, step: &StepRow) -> Result<Option<AgentStepWork>, TraceFailure> {
        match step.inbox {
            Some(inbox) => Ok(self.parts.store.agent_step_work(inbox).await?),
            None => Ok(Some(AgentStepWork::default())),
        }
    }

    async fn write_step(
        &self,
        directory: &Path,
        head: &RunHead,
        step: StepRow,
        work: AgentStepWork,
    ) -> Result<(), TraceFailure> {
        let (directory, head, redact) = (directory.join(&step.name), head.clone(), self.redact());
        blocking(move || {
            let Some(end) = &step.end else { return Ok(()) };
            let StepFiles { trace, calls } = step_files(&head, &step, end, &work);
            let files = StepTrace::open(directory)?;
            for call in &calls {
                files.call(call.number, call.stream, call.text, &redact)?;
            }
            files.end(end, trace, &redact)
        })
        .await
    }

    /// Writes the facts about a run that has ended, and gives its directory the time of its last step.
    async fn finish_run(
        &self,
        directory: PathBuf,
        head: RunHead,
        steps: &[StepRow],
    ) -> Result<(), TraceFailure> {
        let ended = steps.iter().filter_map(|step| step.ended_at);
        let Some(last) = ended.chain(head.ended_at).max() else {
            return Ok(());
        };
        let redact = self.redact();
        blocking(move || {
            if head.status.is_end() && !is_run_traced(&directory) {
                end_run(&directory, run_facts(&head), &redact)?;
            }
            match directory.is_dir() {
                true => set_run_time(&directory, last),
                false => Ok(()),
            }
        })
        .await
    }

    fn data(&self) -> &Path {
        &self.parts.config.data.directory
    }

    /// Returns the redaction of the traces. What is stored is without secrets already.
    fn redact(&self) -> Redact {
        let redactor = self.parts.redactor.fresh();
        Arc::new(move |text: &str| redactor.redact(text).into_owned())
    }
}

impl LaterRuns {
    fn add(&mut self, run: RunId) {
        self.runs.insert(run);
    }

    fn add_failed(&mut self, run: RunId, why: String) {
        self.add(run);
        self.failed += 1;
        self.why.get_or_insert(why);
    }

    /// Returns the wait until the runs are looked at again.
    fn wait(&self) -> Duration {
        match self.failed {
            0 => TURN_WAIT,
            _ => RETRY_WAIT,
        }
    }
}

/// Waits until a time has come; forever without one.
async fn wait_until(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// Returns the ended steps that have no trace yet.
async fn unwritten_steps(directory: &Path, steps: Vec<StepRow>) -> Result<Vec<StepRow>, TraceFailure> {
    let directory = directory.to_owned();
    blocking(move || {
        let mut steps = steps;
        steps.retain(|step| {
            let is_ended = step.end.is_some() && is_file_name(&step.name);
            is_ended && !StepTrace::is_written(&directory.join(&step.name))
        });
        Ok(steps)
    })
    .await
}

/// Returns true for the name of a step, as definitions have them: no path outside of the run, and no file of its own.
fn is_file_name(name: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    !name.is_empty() && name.len() <= 64 && name.bytes().all(is_word)
}

/// Runs file operations on a blocking thread.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> std::io::Result<T> + Send + 'static,
) -> Result<T, TraceFailure> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done.map_err(|error| TraceFailure::Files(error.to_string())),
        Err(error) => Err(TraceFailure::Files(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::is_file_name;

    #[test]
    fn a_stored_name_that_no_definition_has_is_no_path() {
        assert!(is_file_name("look") && is_file_name("scan_2"));
        for name in ["", ".", "..", "a/b", "/etc", "run.json", "Look", &"x".repeat(65)] {
            assert!(!is_file_name(name), "{name}");
        }
    }
}
