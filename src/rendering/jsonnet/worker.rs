//! An evaluation from the sandbox worker's side. The confined process reads a task, evaluates it, sends the result, and
//! ends after its batch.

use super::canonical::difference;
use super::contract::KnownDifference;
use super::engine::{self, Engine, EvalJob, ParentChannel};
use super::message::{CROSS_CHECK, CrossCheckMessage, EngineFailure, Engines, FAILED, FAILING, VALUE, cut};
use crate::rendering::sandbox::WorkerChannel;
use std::any::Any;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Bytes of a received task or file. The parent applies a stricter limit.
const INPUT_BYTES_MAX: usize = 256 << 20;

/// The time after which a failed program is not evaluated again to find the location.
const AGAIN_MAX: Duration = Duration::from_secs(2);

/// Evaluates the tasks of this process in sequence: one, or those of one batch.
pub(super) fn evaluate(channel: WorkerChannel) -> ExitCode {
    // A panic's message is sent to the parent as an answer. Nothing is printed.
    std::panic::set_hook(Box::new(|_| {}));
    let WorkerChannel {
        input,
        output,
        confinement,
    } = channel;
    let parent = ParentChannel::new(Box::new(input), Box::new(output), INPUT_BYTES_MAX);
    // Nothing is freed at the end of the process, since the system is faster at it.
    let mut first = ManuallyDrop::new(engine::primary());
    let mut second = ManuallyDrop::new(engine::second());
    // Work that does not depend on a task is done before a caller waits.
    if confinement.warms_up {
        first.warm_up();
        second.warm_up();
    }
    first.prepare();
    second.prepare();
    // The parent closes the input after the last task; then this process ends.
    while let Some(job) = parent.next() {
        let begun = Instant::now();
        let value = match job.task.engines {
            Engines::First | Engines::Both => run(&mut *first, &job)
                .map_err(|failure| with_location(&mut *second, &job, failure, begun.elapsed())),
            Engines::Second => run(&mut *second, &job),
        };
        let said = match (value, job.task.engines) {
            (Ok(value), Engines::First | Engines::Second) => job.send(VALUE, value.as_bytes()),
            (Ok(value), Engines::Both) => job
                .send(VALUE, value.as_bytes())
                .and_then(|()| send_json(&job, CROSS_CHECK, &cross_check(&mut *second, &job, &value))),
            (Err(failure), _) => send_json(&job, FAILED, &failure),
        };
        if said.is_err() {
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// Adds the location of the failed expression to a failure of the first engine. The second engine knows it more
/// precisely, so it evaluates the program again, unless that may take long or would run an external program again. If
/// both engines fail, the second engine's message is reported, since it has Go's wording.
fn with_location(
    engine: &mut impl Engine,
    job: &Rc<EvalJob>,
    failure: EngineFailure,
    took: Duration,
) -> EngineFailure {
    let is_placed = matches!(
        failure,
        EngineFailure::Runtime { .. } | EngineFailure::Syntax { .. } | EngineFailure::Import { .. }
    );
    if !is_placed || took > AGAIN_MAX || job.has_program_failed() {
        return failure;
    }
    // The second evaluation may exceed the limits of the process, so the failure is sent first.
    let _sent = send_json(job, FAILING, &failure);
    let again = run(engine, job);
    // This drops a reason that the second engine recorded.
    let _stale = job.take_cause();
    match (again, &failure) {
        (Err(EngineFailure::Import { trace }), EngineFailure::Import { .. }) => {
            EngineFailure::Import { trace }
        }
        (Err(again @ EngineFailure::Syntax { .. }), _) => again,
        (
            Err(EngineFailure::Runtime { message, trace }),
            EngineFailure::Runtime { .. } | EngineFailure::Syntax { .. },
        ) if trace.iter().any(|frame| !frame.at.is_empty()) => {
            let message = match &failure {
                EngineFailure::Runtime { message: first, .. } if engine::is_vague(&message) => first.clone(),
                _ => message,
            };
            EngineFailure::Runtime { message, trace }
        }
        (Ok(_) | Err(_), _) => failure,
    }
}

fn cross_check(engine: &mut impl Engine, job: &Rc<EvalJob>, first: &str) -> CrossCheckMessage {
    // This drops a reason that the first engine recorded.
    let _stale = job.take_cause();
    match run(engine, job) {
        Ok(second) => match difference(first, &second) {
            None => CrossCheckMessage::Agrees,
            Some(difference) => CrossCheckMessage::Differs {
                path: difference.path,
                first: difference.first,
                second: difference.second,
                known: KnownDifference::between(first, &second),
            },
        },
        Err(failure) => CrossCheckMessage::Failed(failure),
    }
}

/// Runs an engine. A panic in the engine becomes a failure of the evaluation.
fn run(engine: &mut impl Engine, job: &Rc<EvalJob>) -> Result<String, EngineFailure> {
    let result = catch_unwind(AssertUnwindSafe(|| engine.evaluate(job)));
    result.unwrap_or_else(|panic| Err(panicked(panic.as_ref())))
}

fn panicked(panic: &(dyn Any + Send)) -> EngineFailure {
    let text = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or_default();
    // The messages for a size beyond the address space, for a stack that cannot grow, and for an arena that cannot
    // grow.
    let words = ["capacity overflow", "failed to allocate stack"];
    match text == "out of memory" || words.iter().any(|words| text.contains(words)) {
        true => EngineFailure::Memory,
        false => EngineFailure::runtime(format!("the evaluator ended with an error: {}", cut(text))),
    }
}

fn send_json<T: serde::Serialize>(job: &EvalJob, tag: u8, value: &T) -> std::io::Result<()> {
    let content = serde_json::to_vec(value)?;
    job.send(tag, &content)
}
