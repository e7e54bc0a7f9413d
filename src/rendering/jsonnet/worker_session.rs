//! An evaluation from the parent's side: sends the task, answers imports, and receives the value. Blocks; the caller
//! can end it at any time by killing the sandbox worker.

use super::canonical::ValueLimits;
use super::contract::{CrossCheckResult, EntryPoint, EvalError, EvalLimits, EvalRequest, Evaluation};
use super::external_program::{ExternalPrograms, ExternalWait, ProgramCall};
use super::import::{ImportTracker, ResolvedImport};
use super::memo::EvaluationMemo;
use super::message::{
    CROSS_CHECK, CrossCheckMessage, DEPENDS_ON_TASK, EngineFailure, Engines, EvalTask, FAILED, FAILING, FILE,
    IMPORT, ImportRequest, NO_FILE, NO_OUTPUT, OUTPUT, RUN, SAME_FILE, TASK, TASK_DEPENDENT, TaskBatch,
    VALUE,
};
use super::sent_files::SentFiles;
use super::syntax;
use crate::base::model::RepoPath;
use crate::base::spool;
use crate::rendering::sandbox::{ExitReport, Killer, LayerName, SandboxError, SandboxWorker};
use crate::state::workspace::{DeniedFiles, Tree};
use bytes::Bytes;
use std::io::ErrorKind;
use std::sync::Arc;
use tokio::sync::oneshot;

/// The default depth of calls.
const STACK_DEFAULT: u32 = 500;
/// Bytes of a message that is not a value. The values of a chart have at most one MiB before they are quoted.
const MESSAGE_BYTES_MAX: usize = 4 << 20;
/// The signal for exceeded processor time.
const SIGXCPU: i32 = 24;

/// The end of one task on a sandbox worker.
pub(super) enum SessionOutcome {
    /// The worker answered, or failed with a known reason. It can serve another task, unless it used too many resources
    /// or broke the protocol.
    Finished(Result<Evaluation, EvalError>, Option<WorkerSession>),
    /// The sandbox worker died. If a value exists already, only the cross-check is missing. The reason of a failure may
    /// be known as well.
    Died {
        value: Option<Evaluation>,
        failed: Option<EvalError>,
        exit_report: ExitReport,
    },
    /// The sandbox worker ended before it received a task. Another worker may succeed.
    NotStarted(String),
}

/// The options of every session with a sandbox worker: limits, forbidden paths, layers, programs and caches.
#[derive(Clone, Debug)]
pub(super) struct SessionOptions {
    pub(super) limits: EvalLimits,
    pub(super) denied: Arc<DeniedFiles>,
    pub(super) required: Arc<[LayerName]>,
    pub(super) programs: Arc<ExternalPrograms>,
    pub(super) memo: Arc<EvaluationMemo>,
}

/// A sandbox worker, and a record of the files it has received. It serves the requests of one batch on one tree.
#[derive(Debug)]
pub(super) struct WorkerSession {
    worker: SandboxWorker,
    sent_files: SentFiles,
    tree: Arc<dyn Tree>,
    tasks: usize,
}

impl WorkerSession {
    pub(super) fn new(worker: SandboxWorker, tree: Arc<dyn Tree>) -> Self {
        Self {
            worker,
            sent_files: SentFiles::default(),
            tree,
            tasks: 0,
        }
    }

    /// Returns a handle that ends the worker from another thread.
    pub(super) fn killer(&self) -> Killer {
        self.worker.killer()
    }

    /// Returns true if the session can serve a request: the tree must be the same one.
    pub(super) fn fits(&self, request: &EvalRequest) -> bool {
        Arc::ptr_eq(&self.tree, &request.tree)
    }

    /// Evaluates one request with these engines. `first_done` is notified when the first of two engines has answered;
    /// `external_wait` measures the wait for external programs.
    pub(super) fn evaluate(
        mut self,
        request: &EvalRequest,
        engines: Engines,
        options: &SessionOptions,
        batch: TaskBatch,
        first_done: oneshot::Sender<()>,
        external_wait: &ExternalWait,
    ) -> SessionOutcome {
        if self.tasks == 0 {
            match self.worker.require(&options.required) {
                Ok(()) => {}
                Err(SandboxError::NotStarted(why)) => return SessionOutcome::NotStarted(why),
                Err(error @ SandboxError::MissingLayers(_)) => {
                    return SessionOutcome::Finished(Err(EvalError::Sandbox(error.to_string())), None);
                }
            }
        }
        self.tasks += 1;
        let limits = &options.limits;
        let mut exchange = TaskExchange {
            worker: &mut self.worker,
            imports: ImportTracker::new(
                request.tree.as_ref(),
                &request.jpath,
                limits,
                &options.denied,
                &mut self.sent_files,
            ),
            limits,
            programs: &options.programs,
            external_wait,
            ran_program: false,
            refused: None,
            failed: None,
        };
        let json = match exchange.first(request, engines, batch) {
            Ok(json) => json,
            Err(stop) => {
                let failed = exchange.failed.take();
                return self.stopped(stop, None, failed, limits);
            }
        };
        // This fails if the caller no longer waits.
        let _gone = first_done.send(());
        let cross_check = exchange.second(engines);
        let is_cacheable = !exchange.ran_program && engines == Engines::First;
        let evaluated = Evaluation {
            json,
            imports: exchange.imports.into_list(),
            cross_check: CrossCheckResult::NotRun,
        };
        if is_cacheable {
            options.memo.insert(request, &evaluated);
        }
        match cross_check {
            Ok(cross_check) => {
                let evaluated = Evaluation {
                    cross_check,
                    ..evaluated
                };
                SessionOutcome::Finished(Ok(evaluated), self.into_reusable(limits))
            }
            Err(stop) => self.stopped(stop, Some(evaluated), None, limits),
        }
    }

    fn stopped(
        self,
        stop: ExchangeEnd,
        value: Option<Evaluation>,
        failed: Option<EvalError>,
        limits: &EvalLimits,
    ) -> SessionOutcome {
        let (error, session) = match stop {
            ExchangeEnd::Reported(error) => (error, self.into_reusable(limits)),
            ExchangeEnd::Broken(error) => (error, None),
            ExchangeEnd::Disconnected => {
                let exit_report = self.worker.into_exit_report();
                return SessionOutcome::Died {
                    value,
                    failed,
                    exit_report,
                };
            }
        };
        let result = match value {
            None => Err(error),
            Some(evaluated) => Ok(Evaluation {
                cross_check: CrossCheckResult::Failed(Box::new(error)),
                ..evaluated
            }),
        };
        SessionOutcome::Finished(result, session)
    }

    /// Returns the session, unless the process has grown too large for another task.
    fn into_reusable(self, limits: &EvalLimits) -> Option<Self> {
        let bytes = self.worker.resident_bytes()?;
        (bytes < limits.recycle_bytes).then_some(self)
    }
}

struct TaskExchange<'a> {
    worker: &'a mut SandboxWorker,
    imports: ImportTracker<'a>,
    limits: &'a EvalLimits,
    programs: &'a ExternalPrograms,
    external_wait: &'a ExternalWait,
    /// True if the value depends on more than its imports.
    ran_program: bool,
    /// The reason why the last import was refused.
    refused: Option<EvalError>,
    /// The reason why there is no value, while the second engine looks for its location.
    failed: Option<EvalError>,
}

/// The reason why the exchange with the worker ended.
enum ExchangeEnd {
    /// The sandbox worker reported a failure and waits for the next task.
    Reported(EvalError),
    /// The sandbox worker broke the protocol or a limit.
    Broken(EvalError),
    /// The sandbox worker has ended.
    Disconnected,
}

impl TaskExchange<'_> {
    /// Sends the task, serves the worker's requests, and returns the value.
    fn first(
        &mut self,
        request: &EvalRequest,
        engines: Engines,
        batch: TaskBatch,
    ) -> Result<Bytes, ExchangeEnd> {
        let task = self
            .task(request, engines, batch)
            .map_err(ExchangeEnd::Reported)?;
        let task = serde_json::to_vec(&task).map_err(|error| broken(&error))?;
        self.worker
            .send(TASK, &[&task])
            .map_err(|_| ExchangeEnd::Disconnected)?;
        let answer = self.answer(VALUE)?;
        let spool = self.programs.spool();
        if !spool.has_room(answer.len()) {
            let bytes = spool::BYTES_MAX;
            return Err(ExchangeEnd::Reported(EvalError::SpoolFull { bytes }));
        }
        Ok(spool.keep(answer))
    }

    /// Returns the result of the cross-check, if the second engine runs in the same process.
    fn second(&mut self, engines: Engines) -> Result<CrossCheckResult, ExchangeEnd> {
        match engines {
            Engines::First | Engines::Second => Ok(CrossCheckResult::NotRun),
            Engines::Both => self.read_cross_check(),
        }
    }

    fn read_cross_check(&mut self) -> Result<CrossCheckResult, ExchangeEnd> {
        let answer = self.answer(CROSS_CHECK)?;
        let message: CrossCheckMessage = serde_json::from_slice(&answer).map_err(|error| broken(&error))?;
        Ok(match message {
            CrossCheckMessage::Agrees => CrossCheckResult::Agrees,
            CrossCheckMessage::Differs {
                path,
                first,
                second,
                known,
            } => CrossCheckResult::Differs {
                path,
                first,
                second,
                known,
            },
            CrossCheckMessage::Failed(failure) => {
                CrossCheckResult::Failed(Box::new(failure.into_error(self.limits, self.refused.take())))
            }
        })
    }

    /// Serves requests until the sandbox worker sends the expected message.
    fn answer(&mut self, wanted: u8) -> Result<Vec<u8>, ExchangeEnd> {
        let bytes_max = self.limits.output_bytes_max.max(MESSAGE_BYTES_MAX);
        loop {
            let frame = self
                .worker
                .receive(bytes_max)
                .map_err(|error| match error.kind() {
                    ErrorKind::InvalidData => ExchangeEnd::Broken(EvalError::Output {
                        bytes: self.limits.output_bytes_max as u64,
                    }),
                    _ => ExchangeEnd::Disconnected,
                })?;
            match frame.tag {
                IMPORT => {
                    let ask: ImportRequest =
                        serde_json::from_slice(&frame.content).map_err(|error| broken(&error))?;
                    self.import(&ask)?;
                }
                RUN => {
                    let call: ProgramCall =
                        serde_json::from_slice(&frame.content).map_err(|error| broken(&error))?;
                    self.run(&call)?;
                }
                DEPENDS_ON_TASK => {
                    let file = String::from_utf8_lossy(&frame.content);
                    let own = self.imports.mark_task_dependent(&file);
                    self.send_task_dependent(&own)?;
                }
                FAILED => {
                    let failure: EngineFailure =
                        serde_json::from_slice(&frame.content).map_err(|error| broken(&error))?;
                    return Err(ExchangeEnd::Reported(
                        failure.into_error(self.limits, self.refused.take()),
                    ));
                }
                FAILING => {
                    let failure: EngineFailure =
                        serde_json::from_slice(&frame.content).map_err(|error| broken(&error))?;
                    self.failed = Some(failure.into_error(self.limits, self.refused.clone()));
                }
                tag if tag == wanted => return Ok(frame.content),
                tag => return Err(broken(&format!("an unexpected message {tag}"))),
            }
        }
    }

    fn import(&mut self, ask: &ImportRequest) -> Result<(), ExchangeEnd> {
        let answer = match self.imports.find(ask) {
            Ok(answer) => answer,
            Err(error) => {
                self.refused = Some(error);
                return self
                    .worker
                    .send(NO_FILE, &[])
                    .map_err(|_| ExchangeEnd::Disconnected);
            }
        };
        if !answer.task_dependent.is_empty() {
            self.send_task_dependent(&answer.task_dependent)?;
        }
        let said = match answer.resolved {
            ResolvedImport::New(path, content) => {
                let path = path.as_str().as_bytes();
                // A path has at most 4,096 bytes.
                let length = u16::try_from(path.len()).unwrap_or(u16::MAX).to_be_bytes();
                self.worker.send(FILE, &[&length, path, &content])
            }
            ResolvedImport::AlreadySent(path) => self.worker.send(SAME_FILE, &[path.as_str().as_bytes()]),
        };
        said.map_err(|_| ExchangeEnd::Disconnected)
    }

    fn run(&mut self, call: &ProgramCall) -> Result<(), ExchangeEnd> {
        self.ran_program = true;
        let said = match self.programs.answer(call, &mut self.imports, self.external_wait) {
            Ok(output) => self.worker.send(OUTPUT, &[output.as_bytes()]),
            Err(refusal) => {
                let refusal = serde_json::to_vec(&refusal).map_err(|error| broken(&error))?;
                self.worker.send(NO_OUTPUT, &[&refusal])
            }
        };
        said.map_err(|_| ExchangeEnd::Disconnected)
    }

    fn send_task_dependent(&mut self, own: &[String]) -> Result<(), ExchangeEnd> {
        let own = serde_json::to_vec(own).map_err(|error| broken(&error))?;
        self.worker
            .send(TASK_DEPENDENT, &[&own])
            .map_err(|_| ExchangeEnd::Disconnected)
    }

    fn task(
        &mut self,
        request: &EvalRequest,
        engines: Engines,
        batch: TaskBatch,
    ) -> Result<EvalTask, EvalError> {
        let (name, text) = match &request.entry {
            EntryPoint::Snippet { name, text } => (name, text.clone()),
            EntryPoint::File(path) => (path, text_of(path, &self.imports.program(path)?)?),
        };
        let max_stack = match request.max_stack {
            0 => STACK_DEFAULT,
            depth => depth,
        };
        Ok(EvalTask {
            name: name.to_string(),
            text,
            ext_code: request.ext_code.clone(),
            tla_code: request.tla_code.clone(),
            max_stack: max_stack as usize,
            bounds: ValueLimits {
                bytes_max: self.limits.output_bytes_max,
                values_max: self.limits.values_max,
                objects_max: self.limits.objects_max,
            },
            nesting_max: self.limits.nesting_max,
            depth_max: syntax::depth_for_stack(self.limits.stack_bytes_max),
            engines,
            batch,
        })
    }
}

fn text_of(path: &RepoPath, content: &Bytes) -> Result<String, EvalError> {
    match String::from_utf8(content.to_vec()) {
        Ok(text) => Ok(text),
        Err(_) => Err(EvalError::ImportFailed {
            path: path.to_string(),
            importer: String::new(),
            why: "not UTF-8".to_owned(),
            trace: Vec::new(),
        }),
    }
}

fn broken(error: &dyn std::fmt::Display) -> ExchangeEnd {
    ExchangeEnd::Broken(EvalError::Sandbox(error.to_string()))
}

/// Returns the error for a sandbox worker that ended on its own, from its exit report.
pub(super) fn error_from_exit(
    exit_report: &ExitReport,
    entry: &EntryPoint,
    limits: &EvalLimits,
) -> EvalError {
    let name = match entry {
        EntryPoint::File(path) | EntryPoint::Snippet { name: path, .. } => path.to_string(),
    };
    // The standard library writes these messages before it ends the process.
    let said = |words: &str| exit_report.stderr.contains(words);
    if said("memory allocation of") {
        return EvalError::Memory {
            bytes: limits.memory_bytes_max,
        };
    }
    if said("has overflowed its stack") {
        return EvalError::Stack(name);
    }
    match exit_report.signal {
        Some(SIGXCPU) => EvalError::Time {
            seconds: limits.time_max.as_secs(),
        },
        signal => EvalError::Crashed {
            signal: signal.unwrap_or(0),
            entry: name,
        },
    }
}
