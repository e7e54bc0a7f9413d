//! The watch of a running turn: a display that fits the terminal, the count of its tokens, and input that is not shown.

use super::display::{CallFormat, TurnDisplay};
use super::entered_lines::EnteredLines;
use super::event_lines::EventLines;
use super::live_turn::LiveTurn;
use crate::base::config::Config;
use crate::base::model::{ContextState, Money, Usage};
use crate::base::redact::Redactor;
use crate::cli::output::Output;
use crate::engine::agent::{
    AnsweringModel, CallLosses, CallPermission, CallSize, Journal, PaidAnswer, StepRecord, TurnEvent,
    TurnOutcome,
};
use crate::state::recording::SessionUsage;
use async_trait::async_trait;
use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::task::JoinHandle;

/// The time between two looks at what was typed.
const INPUT_TICK: Duration = Duration::from_millis(50);
/// The number of these times between two signs of the status row.
const INPUT_TICKS_OF_SIGN: usize = 2;

/// The display of a turn.
pub(super) enum TurnWatch {
    /// Lines on a pipe or a terminal that can only print.
    Lines(Box<TurnDisplay>),
    /// Rows that are drawn again.
    Rows(LiveRows),
    /// JSON objects for scripts.
    Events(Box<EventLines>),
}

/// A display that a task draws again and again.
pub(super) struct LiveRows {
    // The lock is held only while rows are written.
    turn: Arc<Mutex<LiveTurn>>,
    ticker: JoinHandle<()>,
    _input: Option<HiddenInput>,
}

impl TurnWatch {
    /// Starts the display of a turn, which reads the lines of the person if they are wanted. On a pipe and on a terminal
    /// that can only print, lines wait for the end of the turn.
    pub(super) fn start(
        output: Output,
        calls: CallFormat,
        redactor: &Arc<Redactor>,
        entered: Option<&Arc<EnteredLines>>,
    ) -> Self {
        let redactor = Arc::clone(redactor);
        if output.prints_events() {
            return Self::Events(Box::new(EventLines::new(output, redactor)));
        }
        if !output.is_interactive() {
            return Self::Lines(Box::new(TurnDisplay::new(output, calls, redactor)));
        }
        let input = match entered {
            Some(_) => HiddenInput::by_key(),
            None => HiddenInput::by_line(),
        };
        // Without these settings, a look at what was typed could take a line from the next prompt.
        let entered = entered.filter(|_| input.is_some()).cloned();
        let turn = Arc::new(Mutex::new(LiveTurn::new(output, calls, redactor, entered)));
        let ticker = tokio::spawn({
            let turn = Arc::clone(&turn);
            async move {
                let mut ticks = tokio::time::interval(INPUT_TICK);
                ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
                for shows_sign in (0..INPUT_TICKS_OF_SIGN).cycle().map(|tick| tick == 0) {
                    ticks.tick().await;
                    let mut turn = locked(&turn);
                    turn.read_input();
                    if shows_sign {
                        turn.tick();
                    }
                }
            }
        });
        Self::Rows(LiveRows {
            turn,
            ticker,
            _input: input,
        })
    }

    /// Returns the handle that counts tokens, if the display shows them.
    pub(super) fn counter(&self) -> Option<Arc<Mutex<LiveTurn>>> {
        match self {
            Self::Lines(_) | Self::Events(_) => None,
            Self::Rows(rows) => Some(Arc::clone(&rows.turn)),
        }
    }

    /// Shows one event.
    pub(super) fn show(&mut self, event: &TurnEvent) {
        match self {
            Self::Lines(display) => display.show(event),
            Self::Rows(rows) => locked(&rows.turn).show(event),
            Self::Events(lines) => lines.show(event),
        }
    }

    /// Ends the display. Returns true if it has printed the answer.
    pub(super) fn finish(self, outcome: Option<&TurnOutcome>) -> bool {
        let rows = match self {
            Self::Lines(_) => return false,
            Self::Events(mut lines) => {
                lines.finish();
                return true;
            }
            Self::Rows(rows) => rows,
        };
        rows.ticker.abort();
        let mut turn = locked(&rows.turn);
        match outcome {
            Some(outcome) => turn.finish(outcome),
            None => turn.abandon(),
        }
        true
    }
}

fn locked(turn: &Mutex<LiveTurn>) -> MutexGuard<'_, LiveTurn> {
    turn.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Prevents the terminal from showing typed characters among the rows of a turn. What is not read is kept for the next
/// prompt.
struct HiddenInput {
    before: Termios,
}

impl HiddenInput {
    /// Keeps lines until they are entered. The terminal edits them.
    fn by_line() -> Option<Self> {
        Self::with(|_| {})
    }

    /// Passes each key on at once.
    fn by_key() -> Option<Self> {
        Self::with(|hidden| {
            hidden.local_modes.remove(LocalModes::ICANON);
            hidden.special_codes[SpecialCodeIndex::VMIN] = 1;
            hidden.special_codes[SpecialCodeIndex::VTIME] = 0;
        })
    }

    fn with(change: impl FnOnce(&mut Termios)) -> Option<Self> {
        let before = tcgetattr(std::io::stdin()).ok()?;
        let mut hidden = before.clone();
        hidden.local_modes.remove(LocalModes::ECHO);
        // Ctrl-C keeps what was typed before it.
        hidden.local_modes.insert(LocalModes::NOFLSH);
        change(&mut hidden);
        tcsetattr(std::io::stdin(), OptionalActions::Now, &hidden).ok()?;
        Some(Self { before })
    }
}

impl Drop for HiddenInput {
    fn drop(&mut self) {
        // A terminal that is gone needs no settings.
        let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &self.before);
    }
}

/// A journal that counts the tokens of a turn and their cost: for the session as soon as an answer arrives, and for the
/// display when its step ends. Until then the row of a narrow terminal has room for what runs.
pub(super) struct CountingJournal<'a, J> {
    pub(super) journal: J,
    pub(super) counter: Option<Arc<Mutex<LiveTurn>>>,
    /// The configuration, which has the prices.
    pub(super) config: &'a Config,
    /// The usage of the session so far.
    pub(super) used: &'a Mutex<SessionUsage>,
}

impl<J> CountingJournal<'_, J> {
    fn count_losses(&mut self, losses: &CallLosses<'_>) {
        for answer in &losses.discarded {
            self.count(answer.usage, answer.model);
            self.show(answer.usage, answer.model);
        }
    }

    /// Counts an answer for the session.
    fn count(&mut self, usage: Usage, model: AnsweringModel<'_>) {
        let cost = self.cost(usage, model);
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        used.add(usage, cost);
    }

    /// Counts an answer for the display.
    fn show(&mut self, usage: Usage, model: AnsweringModel<'_>) {
        let cost = self.cost(usage, model);
        if let Some(turn) = &self.counter {
            locked(turn).add_usage(usage, cost);
        }
    }

    fn cost(&self, usage: Usage, model: AnsweringModel<'_>) -> Option<Money> {
        let price = self.config.model_facts(model.provider, model.name).price;
        price.map(|price| price.cost(usage))
    }
}

#[async_trait]
impl<J: Journal> Journal for CountingJournal<'_, J> {
    async fn reserve_call(&mut self, call: CallSize) -> anyhow::Result<CallPermission> {
        self.journal.reserve_call(call).await
    }

    async fn call_failed(&mut self, losses: &CallLosses<'_>) -> anyhow::Result<()> {
        self.count_losses(losses);
        self.journal.call_failed(losses).await
    }

    async fn answer_received(
        &mut self,
        answer: PaidAnswer<'_>,
        losses: &CallLosses<'_>,
    ) -> anyhow::Result<()> {
        self.count_losses(losses);
        self.count(answer.usage, answer.model);
        self.journal.answer_received(answer, losses).await
    }

    async fn answer_discarded(&mut self, answer: PaidAnswer<'_>) -> anyhow::Result<()> {
        self.show(answer.usage, answer.model);
        self.journal.answer_discarded(answer).await
    }

    async fn record_summary(
        &mut self,
        answer: PaidAnswer<'_>,
        losses: &CallLosses<'_>,
        context: &ContextState,
    ) -> anyhow::Result<()> {
        self.count_losses(losses);
        self.count(answer.usage, answer.model);
        self.show(answer.usage, answer.model);
        self.journal.record_summary(answer, losses, context).await
    }

    async fn record_step(&mut self, record: StepRecord<'_>) -> anyhow::Result<()> {
        self.show(record.step.assistant().usage, record.model);
        self.journal.record_step(record).await
    }
}
