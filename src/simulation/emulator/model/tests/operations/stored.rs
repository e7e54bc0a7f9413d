//! A conversation as the store keeps it, and a journal that may be interrupted at each of its writes. Steps are kept as
//! JSON, and a history is built of them as the store builds it.

use super::counts::{Counted, Counts};
use super::others::{OtherPeople, decided};
use super::plan::{PlannedCrash, PlannedTurn, WORDS};
use crate::base::model::{
    AskedQuestion, Assistant, ContextState, History, InboxId, OutputNumber, PersonMessage, QuestionAnswer,
    Step, Turn, TurnId,
};
use crate::engine::agent::{
    CallLosses, CallPermission, CallSize, Journal, PaidAnswer, QuestionRecord, SteeringMessage, StepRecord,
    TakeResult, TurnOutcome,
};
use crate::interfaces::tool::MemoryOutputs;
use async_trait::async_trait;
use std::sync::Arc;

/// The answer of a turn that was interrupted.
const INTERRUPTED: &str = "(interrupted)";

/// A turn of the store.
#[derive(Debug)]
pub(super) struct KeptTurn {
    pub(super) id: TurnId,
    said: String,
    continues: Option<TurnId>,
    pub(super) steps: Vec<String>,
}

/// A question that waits: its turn and step, and the call that asks.
#[derive(Debug)]
struct KeptQuestion {
    turn: usize,
    step: usize,
    call: String,
    question: AskedQuestion,
}

/// A conversation as the store keeps it.
#[derive(Debug, Default)]
pub(super) struct KeptConversation {
    pub(super) turns: Vec<KeptTurn>,
    pub(super) context: ContextState,
    summarised: Option<TurnId>,
    cleared: Option<TurnId>,
    question: Option<KeptQuestion>,
    /// The messages that wait.
    pub(super) waiting: Vec<SteeringMessage>,
    /// The number of the newest output, if there was one.
    pub(super) last_output: Option<OutputNumber>,
    pub(super) outputs: Arc<MemoryOutputs>,
    pub(super) others: OtherPeople,
}

impl KeptConversation {
    /// Begins a turn, and returns its index.
    pub(super) fn begin(&mut self, said: String, continues: Option<TurnId>) -> usize {
        let id = TurnId(i64::try_from(self.turns.len()).unwrap() + 1);
        self.turns.push(KeptTurn {
            id,
            said,
            continues,
            steps: Vec::new(),
        });
        self.turns.len() - 1
    }

    /// Returns the history, as the store reads it.
    pub(super) fn history(&self) -> History {
        let boundary = self.context.boundary;
        let mut history = History::with_boundary(boundary);
        if let Some(summary) = &self.context.summary {
            history.begin_summary(Arc::clone(summary));
        }
        let left_out = boundary.dropped.max(self.cleared);
        for turn in self.turns.iter().filter(|turn| Some(turn.id) > left_out) {
            history.close(INTERRUPTED);
            let continues = turn.continues;
            if !continues.is_some_and(|earlier| history.reopen_stored(earlier, turn.id)) {
                history.begin_stored(turn.id, turn.said.clone()).unwrap();
            }
            for step in &turn.steps {
                let step: Step = serde_json::from_str(step).unwrap();
                let step = match boundary.is_trimmed(turn.id) {
                    true => step.trimmed(),
                    false => step,
                };
                history.push(step).unwrap();
            }
        }
        history.close(INTERRUPTED);
        history
    }

    /// Clears the history.
    pub(super) fn clear(&mut self) {
        self.cleared = self.turns.last().map(|turn| turn.id);
        (self.context.summary, self.summarised) = (None, None);
    }

    pub(super) fn is_asking(&self) -> bool {
        self.question.is_some()
    }

    /// Closes the question that waits. Returns the index of its turn.
    pub(super) fn answer(&mut self, kind: usize, words: usize) -> Option<usize> {
        let asked = self.question.take()?;
        let answer = match kind % 4 {
            0 => asked.question.read(WORDS[words]),
            1 => asked.question.read("1"),
            2 => asked.question.late_answer(),
            _ => QuestionAnswer::Stopped,
        };
        let step = &mut self.turns[asked.turn].steps[asked.step];
        let kept: Step = serde_json::from_str(step).unwrap();
        let answered = kept.with_late_result(&asked.call, AskedQuestion::WAITING, &answer.result());
        *step = json(&answered.unwrap());
        Some(asked.turn)
    }

    /// Keeps the state of the context. The boundary only moves forward.
    fn set_context(&mut self, context: &ContextState) {
        let kept = &mut self.context;
        kept.boundary.trimmed = kept.boundary.trimmed.max(context.boundary.trimmed);
        kept.boundary.dropped = kept.boundary.dropped.max(context.boundary.dropped);
        kept.bytes_per_1000_tokens = context.bytes_per_1000_tokens.or(kept.bytes_per_1000_tokens);
        if let (Some(text), Some(turn)) = (&context.summary, context.boundary.dropped)
            && self.summarised < Some(turn)
        {
            kept.summary = Some(Arc::clone(text));
            self.summarised = Some(turn);
        }
    }
}

fn json(step: &Step) -> String {
    serde_json::to_string(step).unwrap()
}

/// The journal of a turn.
pub(super) struct KeptJournal<'a> {
    pub(super) conversation: &'a mut KeptConversation,
    turn: usize,
    plan: &'a PlannedTurn,
    counts: &'a Counts,
    writes: u32,
    calls: usize,
    polls: usize,
    sent: usize,
    /// The final step, which is kept together with the end of the turn.
    last: Option<String>,
}

impl<'a> KeptJournal<'a> {
    pub(super) fn new(
        conversation: &'a mut KeptConversation,
        turn: usize,
        plan: &'a PlannedTurn,
        counts: &'a Counts,
    ) -> Self {
        Self {
            conversation,
            turn,
            plan,
            counts,
            writes: 0,
            calls: 0,
            polls: 0,
            sent: 0,
            last: None,
        }
    }

    /// Makes one write. The process may end before it or after it.
    fn write(&mut self, effect: impl FnOnce(&mut KeptConversation, usize)) -> anyhow::Result<()> {
        let others = self.plan.injects.checked_shr(self.writes);
        self.writes += 1;
        if others.is_some_and(|bits| bits & 1 == 1) {
            let number = self.plan.words + self.calls + self.polls;
            self.conversation.others.inject(number, self.counts);
        }
        let (crash, turn) = (self.plan.crash, self.turn);
        let crash = crash.filter(|crash| crash.write == self.writes);
        if let Some(PlannedCrash {
            is_durable: false, ..
        }) = crash
        {
            self.counts.add(Counted::Crashes);
            anyhow::bail!("killed before a write");
        }
        effect(self.conversation, turn);
        if crash.is_some() {
            self.counts.add(Counted::Crashes);
            anyhow::bail!("killed after a write");
        }
        Ok(())
    }

    fn keep(&mut self, record: &StepRecord<'_>) -> anyhow::Result<()> {
        self.write(|conversation, turn| {
            let kept = &mut conversation.turns[turn];
            kept.steps.push(json(record.step));
            conversation.set_context(&record.context);
            conversation.outputs.keep(record.outputs);
            let newest = record.outputs.last().map(|output| output.number);
            conversation.last_output = newest.or(conversation.last_output);
        })
    }

    /// Keeps the end of a turn.
    pub(super) fn finish(&mut self, outcome: &TurnOutcome) -> anyhow::Result<()> {
        let closing = |notice: &String| json(&Step::new(Assistant::synthetic(notice), Vec::new()).unwrap());
        let last = self.last.take().or_else(|| outcome.notice.as_ref().map(closing));
        self.write(|conversation, turn| {
            conversation.turns[turn].steps.extend(last);
            conversation.set_context(&outcome.context);
        })
    }
}

#[async_trait]
impl Journal for KeptJournal<'_> {
    async fn reserve_call(&mut self, _: CallSize) -> anyhow::Result<CallPermission> {
        self.write(|_, _| ())?;
        self.calls += 1;
        Ok(match self.plan.calls_allowed {
            Some(allowed) if self.calls > allowed => CallPermission::Refused("the budget is used".to_owned()),
            Some(_) | None => CallPermission::Granted,
        })
    }

    async fn call_failed(&mut self, _: &CallLosses<'_>) -> anyhow::Result<()> {
        self.counts.add(Counted::FailedCalls);
        self.write(|_, _| ())
    }

    async fn answer_received(&mut self, _: PaidAnswer<'_>, _: &CallLosses<'_>) -> anyhow::Result<()> {
        self.write(|_, _| ())
    }

    async fn answer_discarded(&mut self, _: PaidAnswer<'_>) -> anyhow::Result<()> {
        self.write(|_, _| ())
    }

    async fn record_step(&mut self, record: StepRecord<'_>) -> anyhow::Result<()> {
        if record.step.is_final() {
            self.last = Some(json(record.step));
            return Ok(());
        }
        self.keep(&record)
    }

    async fn waiting_messages(&mut self) -> anyhow::Result<Vec<SteeringMessage>> {
        let comes = (self.plan.messages >> self.polls) & 1 == 1;
        self.polls += 1;
        if comes {
            let number = self.polls + self.plan.words;
            self.conversation.waiting.push(SteeringMessage {
                inbox: InboxId(i64::try_from(number).unwrap()),
                text: WORDS[number % WORDS.len()].to_owned(),
            });
        }
        Ok(self.conversation.waiting.clone())
    }

    async fn record_step_taking(
        &mut self,
        record: StepRecord<'_>,
        messages: &[SteeringMessage],
    ) -> anyhow::Result<TakeResult> {
        assert_eq!(messages, self.conversation.waiting);
        if self.plan.leaves_messages {
            self.conversation.waiting.clear();
            return Ok(TakeResult::Left);
        }
        self.counts.add(Counted::Steered);
        // One transaction: the messages do not wait any more exactly if the step is kept.
        let kept = self.conversation.turns[self.turn].steps.len();
        let result = self.keep(&record);
        if self.conversation.turns[self.turn].steps.len() > kept {
            self.conversation.waiting.clear();
        }
        result.map(|()| TakeResult::Taken)
    }

    async fn record_question(
        &mut self,
        record: StepRecord<'_>,
        asked: QuestionRecord<'_>,
    ) -> anyhow::Result<()> {
        self.counts.add(Counted::Questions);
        let step = self.conversation.turns[self.turn].steps.len();
        let result = self.keep(&record);
        if self.conversation.turns[self.turn].steps.len() > step {
            self.conversation.question = Some(KeptQuestion {
                turn: self.turn,
                step,
                call: asked.call.to_owned(),
                question: asked.question.clone(),
            });
        }
        result
    }

    async fn record_step_sending(
        &mut self,
        record: StepRecord<'_>,
        messages: &[PersonMessage],
    ) -> anyhow::Result<Step> {
        let mut step = record.step.clone();
        for message in messages {
            self.counts.add(Counted::Sent);
            step = decided(step, message, self.plan.outcome + self.sent)?;
            self.sent += 1;
        }
        self.keep(&StepRecord {
            step: &step,
            ..record
        })?;
        Ok(step)
    }
}

/// Returns the turns of a history in short: the words, and the sizes and numbers of their steps.
pub(super) fn outline(history: &History) -> Vec<(String, usize, usize)> {
    let outline = |turn: &Turn| (turn.user().to_owned(), turn.steps().len(), turn.bytes());
    history.turns().iter().map(outline).collect()
}
