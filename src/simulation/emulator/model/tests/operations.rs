//! A test of all operations on a conversation, in any order: answers of every kind from models of every wire format, errors
//! of tools, stops, crashes at each write, trims, summaries, notes, steering, questions, fallbacks, continued turns, messages
//! to other people, and texts of other people that a bot injects.
//! Every request of the real loop is read by the emulated services of all four formats. Only the connection, the store
//! and the tools are replaced by parts in memory.
//!
//! `PROPTEST_CASES` sets the number of conversations, for a long run.

mod counts;
mod fixture;
mod others;
mod plan;
mod service;
mod stored;

use crate::base::config::{AnswerMode, ModelFacts};
use crate::base::model::{History, Limits, OutputNumber, Turn};
use crate::engine::agent::context::strategy;
use crate::engine::agent::{
    EarlierAttempts, Questions, Recipients, TurnContext, TurnEvent, TurnModel, TurnOutcome, VerdictRule,
    run_turn,
};
use crate::interfaces::provider::first_of_each_format;
use crate::interfaces::provider::in_process::InProcessProvider;
use crate::interfaces::tool::Outputs;
use counts::{Counted, Counts};
use fixture::{OperationFixture, PlannedChecks};
use plan::{ConversationPlan, PlannedOperation, PlannedSettings, PlannedTurn, WORDS, any_plan};
use proptest::test_runner::{Config, RngSeed, TestRunner};
use service::FourServices;
use std::io::Write;
use std::sync::Arc;
use stored::{KeptConversation, KeptJournal, outline};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The conversations of a run, if nothing else is set.
const CONVERSATIONS: u32 = 100;
/// The conversations from which a run uses every processor.
const CONVERSATIONS_IN_PARALLEL: u32 = 2_000;
/// The most operations on one conversation.
const OPERATIONS_MAX: usize = 8;
/// The seed of a run.
const SEED: u64 = 13;

/// R13, SDK-11, SDK-17, STK-32, STK-56
#[test]
fn every_request_is_valid_in_every_format_after_any_operations() {
    let conversations = conversations();
    let threads = match conversations < CONVERSATIONS_IN_PARALLEL {
        true => 1,
        false => {
            std::thread::available_parallelism().map_or(1, |threads| u32::try_from(threads.get()).unwrap())
        }
    };
    let counts = Arc::new(Counts::default());
    let begun = std::time::Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let counts = &counts;
            scope.spawn(move || run_conversations(conversations.div_ceil(threads), thread, counts));
        }
    });
    let line = format!(
        "R13 {} in {:.1} s, 0 refused\n",
        counts.line(),
        begun.elapsed().as_secs_f32()
    );
    // Printed past the capture of the test harness: the numbers say how much was tested.
    std::io::stderr().write_all(line.as_bytes()).unwrap();
    if conversations >= CONVERSATIONS {
        assert_eq!(counts.missing(), Vec::<&str>::new(), "each operation takes place");
    }
}

/// Returns the number of conversations. `PROPTEST_CASES` sets it.
#[allow(
    clippy::disallowed_methods,
    reason = "the length of a run is chosen by the person who starts it"
)]
fn conversations() -> u32 {
    let set = std::env::var("PROPTEST_CASES").ok();
    set.map_or(CONVERSATIONS, |set| {
        set.parse().expect("PROPTEST_CASES is a number")
    })
}

fn run_conversations(conversations: u32, thread: u32, counts: &Arc<Counts>) {
    let fixture = OperationFixture::new();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let mut runner = TestRunner::new(Config {
        cases: conversations,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(SEED + u64::from(thread)),
        ..Config::default()
    });
    let checked = runner.run(&any_plan(OPERATIONS_MAX), |plan| {
        runtime.block_on(ConversationRun::new(&fixture, &plan.settings, counts).run(&plan));
        Ok(())
    });
    checked.unwrap_or_else(|error| panic!("{error}"));
}

/// A conversation while its plan is run.
struct ConversationRun<'a> {
    fixture: &'a OperationFixture,
    settings: &'a PlannedSettings,
    counts: &'a Arc<Counts>,
    conversation: KeptConversation,
    service: Arc<FourServices>,
    limits: Limits,
    /// The providers, streamed and whole, in the order of the formats.
    providers: [Vec<InProcessProvider>; 2],
    /// True if the last turn was interrupted or has failed, so that it may be continued.
    has_failed: bool,
    was_killed: bool,
}

impl<'a> ConversationRun<'a> {
    fn new(fixture: &'a OperationFixture, settings: &'a PlannedSettings, counts: &'a Arc<Counts>) -> Self {
        let service = Arc::new(FourServices::new(Arc::clone(counts)));
        let providers = [AnswerMode::Streamed, AnswerMode::Whole].map(|mode| {
            let formats = first_of_each_format().into_iter();
            formats
                .map(|known| InProcessProvider::new(known, mode, Arc::clone(&service) as Arc<_>))
                .collect()
        });
        Self {
            fixture,
            settings,
            counts,
            conversation: KeptConversation::default(),
            service,
            limits: Limits {
                steps_max: settings.steps_max,
                history_bytes_max: settings.history_bytes,
                history_turns_max: settings.turns_max,
                context_strategy: settings.strategy,
                tool_output_bytes_max: 1_024,
                calls_per_step_max: 2,
                ..Limits::default()
            },
            providers,
            has_failed: false,
            was_killed: false,
        }
    }

    async fn run(mut self, plan: &ConversationPlan) {
        self.counts.add(Counted::Conversations);
        for (operation, turn) in &plan.operations {
            self.counts.add(Counted::Operations);
            self.run_operation(*operation, turn).await;
            self.assert_valid();
        }
        // However the turns ended, a model answers the next message.
        let plain = PlannedTurn::plain(self.settings.last_model);
        if self.conversation.is_asking() {
            self.run_operation(PlannedOperation::Ask, &plain).await;
            self.assert_valid();
        }
        self.conversation.waiting.clear();
        let outcome = self.run_operation(PlannedOperation::Ask, &plain).await;
        self.assert_valid();
        assert_eq!(outcome.map(|outcome| outcome.answer).as_deref(), Some("Done."));
    }

    fn assert_valid(&self) {
        assert_eq!(self.service.problems(), Vec::<String>::new());
    }

    /// Runs an operation. Returns the outcome of its turn; `None` without one, or if the process ended.
    async fn run_operation(
        &mut self,
        operation: PlannedOperation,
        plan: &PlannedTurn,
    ) -> Option<TurnOutcome> {
        match plan.is_declined {
            true => self.conversation.others.decline(),
            false => self.conversation.others.agree(),
        }
        if self.conversation.is_asking() {
            return self.go_on(plan).await;
        }
        match operation {
            PlannedOperation::Clear => {
                self.conversation.clear();
                self.has_failed = false;
                None
            }
            PlannedOperation::Retry if self.has_failed => self.retry(plan).await,
            PlannedOperation::Ask | PlannedOperation::Retry => {
                let mut history = self.conversation.history();
                let waiting = std::mem::take(&mut self.conversation.waiting);
                let waiting: Vec<String> = waiting.into_iter().map(|message| message.text).collect();
                let said = match waiting.is_empty() {
                    true => WORDS[plan.words].to_owned(),
                    false => waiting.join("\n\n"),
                };
                let said = self.conversation.others.join(&said, &self.fixture.redactor);
                history.begin(said.clone()).unwrap();
                let turn = self.conversation.begin(said, None);
                self.run_turn(turn, history, 0, plan).await
            }
        }
    }

    /// Closes the question that waits, and goes on with its turn.
    async fn go_on(&mut self, plan: &PlannedTurn) -> Option<TurnOutcome> {
        self.counts.add(Counted::Answers);
        let turn = self.conversation.answer(plan.models.0, plan.words)?;
        let mut history = self.conversation.history();
        assert!(history.reopen(), "the turn that asked is the last one");
        let steps = self.conversation.turns[turn].steps.len();
        self.run_turn(turn, history, steps, plan).await
    }

    /// Continues the last turn after its finished steps.
    async fn retry(&mut self, plan: &PlannedTurn) -> Option<TurnOutcome> {
        let mut history = self.conversation.history();
        let last = self.conversation.turns.last().map(|turn| turn.id);
        let newest = history.turns().last().and_then(Turn::id);
        if last.is_none() || newest != last || !history.reopen() {
            return None;
        }
        self.counts.add(Counted::Retries);
        let turn = self.conversation.begin(String::new(), last);
        self.run_turn(turn, history, 0, plan).await
    }

    async fn run_turn(
        &mut self,
        turn: usize,
        mut history: History,
        resumed_steps: usize,
        plan: &PlannedTurn,
    ) -> Option<TurnOutcome> {
        self.counts.add(Counted::Turns);
        if std::mem::take(&mut self.was_killed) {
            self.counts.add(Counted::Resumed);
        }
        self.service.will_answer(&plan.answers, plan.summary);
        let cancel = CancellationToken::new();
        *self.fixture.stop.lock().unwrap() = cancel.clone();
        let providers = &self.providers[usize::from(!plan.is_streamed)];
        let (first, more) = plan.models;
        let models = (first..=first + more).map(|index| TurnModel {
            provider: &providers[index % providers.len()],
            name: "model",
            facts: ModelFacts {
                // A fallback has a smaller window.
                context_tokens: (index > first).then_some(12_000),
                ..ModelFacts::default()
            },
        });
        let models: Vec<TurnModel<'_>> = models.collect();
        let checks = PlannedChecks::failing(plan.findings);
        let outputs = Arc::clone(&self.conversation.outputs) as Arc<dyn Outputs>;
        let cx = TurnContext {
            identity: &self.fixture.identity,
            models: &models,
            system: "You prepare changes.",
            toolbox: &self.fixture.toolbox,
            workspace: &self.fixture.workspace,
            postconditions: &checks,
            verdict: match plan.is_concluded {
                true => VerdictRule::Asked,
                false => VerdictRule::Computed,
            },
            questions: Questions::Stored,
            recipients: match plan.may_send {
                true => Recipients::People,
                false => Recipients::Nobody,
            },
            resumed_steps,
            limits: &self.limits,
            strategy: strategy(self.settings.strategy),
            redactor: &self.fixture.redactor,
            outputs: &outputs,
            last_output: self.conversation.last_output.unwrap_or(OutputNumber(0)),
            bytes_per_1000_tokens: self.conversation.context.bytes_per_1000_tokens,
            earlier_attempts: EarlierAttempts::default(),
            began: Instant::now(),
            cancel: &cancel,
        };
        let (boundary, summary) = (history.boundary(), history.summary().cloned());
        let mut events = EventCounter::new(self.counts, &cancel, plan.stops_after);
        let mut journal = KeptJournal::new(&mut self.conversation, turn, plan, self.counts);
        let mut count = |event: TurnEvent| events.count(&event);
        let outcome = Box::pin(run_turn(cx, &mut history, &mut journal, &mut count)).await;
        if history.boundary() != boundary {
            self.counts.add(Counted::Trims);
        }
        if history.summary() != summary.as_ref() {
            self.counts.add(Counted::Compactions);
        }
        let outcome = match outcome {
            Ok(outcome) if outcome.is_waiting => Ok(outcome),
            Ok(outcome) => journal.finish(&outcome).map(|()| outcome),
            Err(error) => Err(error),
        };
        let Ok(outcome) = outcome else {
            (self.has_failed, self.was_killed) = (true, true);
            return None;
        };
        self.has_failed = !outcome.is_waiting && outcome.answer.is_empty();
        if !outcome.is_waiting {
            // What is read again is what the turn ended with.
            let kept = self.conversation.history();
            assert_eq!(outline(&kept), outline(&history));
            assert_eq!(kept.boundary(), history.boundary());
        }
        Some(outcome)
    }
}

impl PlannedTurn {
    /// Returns a turn of one model, whose answer ends it.
    fn plain(model: usize) -> Self {
        Self {
            words: 0,
            models: (model, 0),
            is_streamed: model.is_multiple_of(2),
            crash: None,
            stops_after: None,
            messages: 0,
            leaves_messages: false,
            findings: 0,
            is_concluded: false,
            calls_allowed: None,
            summary: 0,
            injects: 0,
            is_declined: false,
            may_send: false,
            outcome: 0,
            answers: Vec::new(),
        }
    }
}

/// A counter of the events of a turn. It stops the turn after one of them.
struct EventCounter<'a> {
    counts: &'a Counts,
    cancel: &'a CancellationToken,
    stops_after: Option<usize>,
    seen: usize,
}

impl<'a> EventCounter<'a> {
    fn new(counts: &'a Counts, cancel: &'a CancellationToken, stops_after: Option<usize>) -> Self {
        Self {
            counts,
            cancel,
            stops_after,
            seen: 0,
        }
    }

    fn count(&mut self, event: &TurnEvent) {
        match event {
            TurnEvent::FallingBack { .. } => self.counts.add(Counted::Fallbacks),
            TurnEvent::Waiting { .. } => self.counts.add(Counted::Repeated),
            TurnEvent::SentBack { .. } => self.counts.add(Counted::SentBack),
            _ => {}
        }
        if self.stops_after == Some(self.seen) {
            self.counts.add(Counted::Stops);
            self.cancel.cancel();
        }
        self.seen += 1;
    }
}
