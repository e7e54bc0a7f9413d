//! The inmate's side of an evaluation. It runs confined, reads one task, evaluates it, says what came
//! out, and ends.

use super::canonical::difference;
use super::engine::{self, Engine, Job};
use super::message::{FAILED, Failure, OPINION, Opinion, TASK, Task, VALUE, cut};
use crate::sandbox::{Cell, read_frame};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::rc::Rc;

/// Bytes of a task or a file that come in. The parent bounds them more closely.
const INPUT_BYTES_MAX: usize = 256 << 20;

/// Evaluates the one task of this process.
pub(super) fn evaluate(cell: Cell) -> ExitCode {
    // What a panic says goes to the parent as an answer. Nothing is printed.
    std::panic::set_hook(Box::new(|_| {}));
    let Cell {
        mut input, output, ..
    } = cell;
    let task: Option<Task> = match read_frame(&mut input, INPUT_BYTES_MAX) {
        Ok(frame) if frame.tag == TASK => serde_json::from_slice(&frame.content).ok(),
        // The parent has changed its mind: an idle inmate ends here.
        Ok(_) | Err(_) => None,
    };
    let Some(task) = task else {
        return ExitCode::FAILURE;
    };
    let wants_second = task.second_opinion;
    let job = Job::new(task, Box::new(input), Box::new(output), INPUT_BYTES_MAX);
    let said = match run(engine::primary(), &job) {
        Ok(value) => {
            let said = job.say(VALUE, value.as_bytes());
            match wants_second {
                true => said.and_then(|()| say_json(&job, OPINION, &opinion(&job, &value))),
                false => said,
            }
        }
        Err(failure) => say_json(&job, FAILED, &failure),
    };
    // Nothing is freed: the process ends, and the system is faster at it.
    let code = match said {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    };
    std::mem::forget(job);
    code
}

fn opinion(job: &Rc<Job>, first: &str) -> Opinion {
    // A reason noted for the first engine is not the second one's.
    let _stale = job.take_cause();
    match run(engine::second(), job) {
        Ok(second) => match difference(first, &second) {
            None => Opinion::Agrees,
            Some(difference) => Opinion::Differs {
                path: difference.path,
                first: difference.first,
                second: difference.second,
            },
        },
        Err(failure) => Opinion::Failed(failure),
    }
}

/// Runs an engine. A panic in it is its failure, not ours.
fn run(engine: &dyn Engine, job: &Rc<Job>) -> Result<String, Failure> {
    let result = catch_unwind(AssertUnwindSafe(|| engine.evaluate(job)));
    result.unwrap_or_else(|panic| Err(panicked(panic.as_ref())))
}

fn panicked(panic: &(dyn Any + Send)) -> Failure {
    let text = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or_default();
    // The standard library's word for more bytes than there are addresses.
    match text.contains("capacity overflow") {
        true => Failure::Memory,
        false => Failure::runtime(format!("the evaluator gave up: {}", cut(text.to_owned()))),
    }
}

fn say_json<T: serde::Serialize>(job: &Job, tag: u8, value: &T) -> std::io::Result<()> {
    let content = serde_json::to_vec(value)?;
    job.say(tag, &content)
}
