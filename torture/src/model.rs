//! The emulated model. It carries out tasks slowly enough to be interrupted, and can be held at a step.

use crate::long_run::LongRun;
use crate::task::Task;
use drydock::simulation::emulator::model::{
    AnswerFault, ModelEmulator, ModelRequest, RequestRole, ScriptedAnswer, says,
};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// The choice with which people answer questions.
pub(crate) const CHOICE: &str = "Five";

/// The emulated model, which can be held at a step.
pub(crate) struct HoldableModel {
    pub(crate) emulator: ModelEmulator,
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    held: watch::Sender<usize>,
}

#[derive(Default)]
struct State {
    /// Tasks by id, with the step at which the model does not answer.
    holds: BTreeMap<u32, usize>,
    /// Tasks by id, with a step at which the model takes this long.
    slow: BTreeMap<u32, (usize, Duration)>,
    /// Tasks by id, with the step at which the model also asks a question.
    asks: BTreeMap<u32, usize>,
    /// The times at which the steps of long runs began, by run and step.
    begun: BTreeMap<(u32, usize), Instant>,
    /// The errors found in requests.
    problems: Vec<String>,
    /// The longest time an answer takes.
    slowest: Duration,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HoldableModel {
    /// Starts a model whose answers take up to `slowest`.
    pub(crate) fn start(slowest: Duration) -> anyhow::Result<Self> {
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                slowest,
                ..State::default()
            }),
            held: watch::Sender::new(0),
        });
        let script = Arc::clone(&shared);
        let emulator = ModelEmulator::start(move |asked: &ModelRequest| answer(&script, asked))?;
        Ok(Self { emulator, shared })
    }

    /// Holds a task: from now on the model does not answer at this step.
    pub(crate) fn hold(&self, task: &Task, step: usize) {
        self.shared.state().holds.insert(task.id, step);
    }

    /// Makes the model take this long for a step of a task.
    pub(crate) fn slow_down(&self, task: &Task, step: usize, by: Duration) {
        self.shared.state().slow.insert(task.id, (step, by));
    }

    /// Asks a question in a task: at this step, beside its edits.
    pub(crate) fn ask(&self, task: &Task, step: usize) {
        self.shared.state().asks.insert(task.id, step);
    }

    /// Lets the model answer all requests again. A request that is already held stays held until its caller gives up.
    pub(crate) fn release(&self) {
        self.shared.state().holds.clear();
    }

    /// Waits until requests were held `count` times. Returns false if that takes too long.
    pub(crate) async fn wait_until_held(&self, count: usize) -> bool {
        let mut held = self.shared.held.subscribe();
        let held = held.wait_for(|held| *held >= count);
        tokio::time::timeout(Duration::from_secs(30), held).await.is_ok()
    }

    /// Returns the number of times requests were held so far.
    pub(crate) fn held(&self) -> usize {
        *self.shared.held.borrow()
    }

    /// Returns the time at which a step of a long run began.
    pub(crate) fn begun(&self, run: &LongRun, step: usize) -> Option<Instant> {
        self.shared.state().begun.get(&(run.id, step)).copied()
    }

    /// Returns the errors found in requests.
    pub(crate) fn problems(&self) -> Vec<String> {
        let mut problems = self.emulator.problems();
        problems.extend(self.shared.state().problems.iter().cloned());
        problems
    }
}

fn answer(shared: &Shared, asked: &ModelRequest) -> ScriptedAnswer {
    let mut state = shared.state();
    if let Some(run) = LongRun::in_text(asked.last_user_text()) {
        return long_answer(&mut state, asked, &run);
    }
    let notes = notes(asked);
    if let Some(twice) = notes.iter().find(|(_, times)| **times > 1) {
        let problem = format!("note {} is in a request {} times", twice.0, twice.1);
        state.problems.push(problem);
    }
    let Some(task) = last_task(asked) else {
        state
            .problems
            .push(format!("a request without a task: {}", asked.last_user_text()));
        return says("I do not know that task.");
    };
    let words = asked.messages.iter().map(|message| &message.text);
    if let Some(foreign) = words
        .filter_map(|text| Task::in_text(text))
        .find(|other| other.conversation != task.conversation)
    {
        state.problems.push(format!(
            "a request of talk {} contains text of talk {}",
            task.conversation, foreign.conversation
        ));
    }
    let step = step_of(asked);
    if state.holds.get(&task.id) == Some(&step) {
        drop(state);
        shared.held.send_modify(|held| *held += 1);
        return says("").with_fault(AnswerFault::Stall);
    }
    let asks_at = state.asks.get(&task.id).copied();
    if asks_at.is_some_and(|asked_at| step == asked_at + 1)
        && !asked
            .last_results()
            .iter()
            .any(|result| is_answer(&result.content))
    {
        state.problems.push(format!(
            "task {} goes on without the answer of its person",
            task.id
        ));
    }
    let words = match step < task.steps {
        true => task
            .edits(step)
            .into_iter()
            .fold(says(""), |answer, (path, content)| {
                answer.with_call(
                    "file_write",
                    serde_json::json!({"path": path, "content": content}),
                )
            }),
        false => says(
            notes
                .keys()
                .fold(task.done(), |done, note| format!("{done} Noted {note}.")),
        ),
    };
    let words = match asks_at == Some(step) {
        true => words.with_call(
            "ask_user",
            serde_json::json!({"question": "How many?", "choices": ["Three", CHOICE]}),
        ),
        false => words,
    };
    if let Some((_, by)) = state.slow.get(&task.id).filter(|(at, _)| *at == step) {
        return words.with_fault(AnswerFault::Delay(*by));
    }
    // The delay differs between steps, and is the same for each repetition of a step.
    let share = (task.id.wrapping_mul(2_654_435_761) >> 8).wrapping_add(step as u32 * 37) % 100;
    words.with_fault(AnswerFault::Delay(state.slowest * share / 100))
}

/// Answers a request of a long run, which has nothing from other places in it.
fn long_answer(state: &mut State, asked: &ModelRequest, run: &LongRun) -> ScriptedAnswer {
    let mut named = asked
        .messages
        .iter()
        .filter_map(|message| LongRun::in_text(&message.text));
    if let Some(foreign) = named.find(|other| other.place != run.place) {
        let problem = format!(
            "a request of place {} has text of place {}",
            run.place, foreign.place
        );
        state.problems.push(problem);
    }
    let step = step_of(asked);
    state.begun.entry((run.id, step)).or_insert_with(Instant::now);
    run.answer(step)
}

/// Returns the task of a request. A note that reached a running turn names none.
fn last_task(asked: &ModelRequest) -> Option<Task> {
    let last = asked.last_user_text();
    if !last.contains("note-") {
        return Task::in_text(last);
    }
    let messages = asked.messages.iter().rev();
    let mut said = messages.filter(|message| message.role == RequestRole::User);
    said.find_map(|message| Task::in_text(&message.text))
}

/// Returns the notes of the person in a request, and how often each is there.
fn notes(asked: &ModelRequest) -> BTreeMap<u32, usize> {
    let mut notes = BTreeMap::new();
    let said = asked
        .messages
        .iter()
        .filter(|message| message.role == RequestRole::User);
    for rest in said.flat_map(|message| message.text.split("note-").skip(1)) {
        let id = rest.split('-').next().and_then(|id| id.parse().ok());
        if let Some(id) = id {
            *notes.entry(id).or_default() += 1;
        }
    }
    notes
}

/// Returns true for the result of a question that was answered with the choice.
fn is_answer(result: &str) -> bool {
    result == format!("The person chose: {CHOICE}")
}

/// Returns the step of the turn for a request: the number of answers since the last message of the person.
fn step_of(asked: &ModelRequest) -> usize {
    let messages = asked.messages.iter().rev();
    let answered = messages.filter(|message| message.role == RequestRole::User);
    answered.take_while(|message| !message.results.is_empty()).count()
}
