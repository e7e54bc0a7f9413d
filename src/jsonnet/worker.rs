//! The sandbox worker's side of an evaluation. It runs confined, reads a task, evaluates it, says what came
//! out, and ends with its batch.

use super::canonical::difference;
use super::contract::KnownDifference;
use super::engine::{self, Engine, EvalJob, ParentChannel};
use super::message::{CROSS_CHECK, CrossCheckMessage, EngineFailure, Engines, FAILED, FAILING, VALUE, cut};
use crate::sandbox::WorkerChannel;
use std::any::Any;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Bytes of a task or a file that come in. The parent bounds them more closely.
const INPUT_BYTES_MAX: usize = 256 << 20;

/// The time after which a program that failed is not evaluated again to learn where.
const AGAIN_MAX: Duration = Duration::from_secs(2);

/// Evaluates the tasks of this process: one, or those of one batch, one after the other.
pub(super) fn evaluate(cell: WorkerChannel) -> ExitCode {
    // What a panic says goes to the parent as an answer. Nothing is printed.
    std::panic::set_hook(Box::new(|_| {}));
    let WorkerChannel {
        input,
        output,
        confinement,
    } = cell;
    let line = ParentChannel::new(Box::new(input), Box::new(output), INPUT_BYTES_MAX);
    // Nothing is freed when the process ends: the system is faster at it.
    let mut first = ManuallyDrop::new(engine::primary());
    let mut second = ManuallyDrop::new(engine::second());
    // What no task has a part in is done while nobody waits.
    first.prepare(confinement.warms_up);
    second.prepare(confinement.warms_up);
    // The parent ends the input when it has no further task; an idle sandbox worker ends here.
    while let Some(job) = line.next() {
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

/// A failure of the first engine with the place of the expression that failed, which the second engine knows better: it
/// evaluates the program again, unless that may take long or runs a program outside once more. Where both fail, its words are told: they are Go's.
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
    // It may take too much of what there is for both.
    let _told = send_json(job, FAILING, &failure);
    let again = run(engine, job);
    // A reason that was noted is one of the second engine.
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
    // A reason noted for the first engine is not the second one's.
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

/// Runs an engine. A panic in it is its failure, not ours.
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
    // The words for more bytes than there are addresses, for a stack that cannot grow any more, and for an arena that
    // cannot.
    let words = ["capacity overflow", "failed to allocate stack"];
    match text == "out of memory" || words.iter().any(|words| text.contains(words)) {
        true => EngineFailure::Memory,
        false => EngineFailure::runtime(format!("the evaluator gave up: {}", cut(text.to_owned()))),
    }
}

fn send_json<T: serde::Serialize>(job: &EvalJob, tag: u8, value: &T) -> std::io::Result<()> {
    let content = serde_json::to_vec(value)?;
    job.send(tag, &content)
}
