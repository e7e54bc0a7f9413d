//! The journal of a turn: the durable records of its steps and of the costs of its model calls.

use super::{AnsweringModel, CallLosses, PaidAnswer, QuestionRecord, SteeringMessage, TakeResult};
use crate::base::model::{ContextState, PersonMessage, Step, StoredOutput};
use async_trait::async_trait;

/// The size of a model call, from which follows what it may cost at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallSize {
    /// Bytes of the request.
    pub request_bytes: usize,
    /// The bytes in a thousand tokens that the provider last counted in this conversation.
    pub bytes_per_1000_tokens: Option<u32>,
    /// The maximum number of tokens of the answer.
    pub answer_tokens_max: u32,
}

/// The answer to a reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallPermission {
    /// The call may be made.
    Granted,
    /// The call may be made, and budgets are nearly used of which the model was not told. The text says which. The
    /// model gets it with the results of the step; if the answer has no calls, the next permission says it again.
    GrantedNearEnd(String),
    /// A budget does not cover the call. The text says which, in words for users.
    Refused(String),
}

/// A journal that makes the steps of a turn durable.
#[async_trait]
pub trait Journal: Send {
    /// Reserves the next model call in the budgets of the turn.
    async fn reserve_call(&mut self, call: CallSize) -> anyhow::Result<CallPermission>;

    /// Records that the reserved call failed or was cancelled, and what it did cost. Without a possible charge for lost
    /// answers, its reservation ends; with one, the reservation stays and counts in full.
    async fn call_failed(&mut self, losses: &CallLosses<'_>) -> anyhow::Result<()>;

    /// Records that an answer of the model has arrived, before it is processed, and what its call did cost beside it.
    /// If answers were lost, the reservation stays and counts in full for them. The answer is recorded once more, with
    /// its step, as discarded or as a summary. A journal may record its cost now or then.
    async fn answer_received(
        &mut self,
        answer: PaidAnswer<'_>,
        losses: &CallLosses<'_>,
    ) -> anyhow::Result<()>;

    /// Records the usage of an answer that is discarded: it costs tokens as well.
    async fn answer_discarded(&mut self, answer: PaidAnswer<'_>) -> anyhow::Result<()>;

    /// Records that an answer has arrived and what it did cost, in one record with the context that it shortened. So a
    /// summary that is paid is not asked for again.
    async fn record_summary(
        &mut self,
        answer: PaidAnswer<'_>,
        losses: &CallLosses<'_>,
        context: &ContextState,
    ) -> anyhow::Result<()> {
        let _ = context;
        self.answer_received(answer, losses).await?;
        self.answer_discarded(answer).await
    }

    /// Records a step after it ends and before the next model call. Its edits are already in the workspace.
    async fn record_step(&mut self, record: StepRecord<'_>) -> anyhow::Result<()>;

    /// Returns the messages of the person that wait and may be taken, oldest first.
    async fn waiting_messages(&mut self) -> anyhow::Result<Vec<SteeringMessage>> {
        Ok(Vec::new())
    }

    /// Records a step like [`Journal::record_step`], and in the same transaction that the turn took these messages.
    async fn record_step_taking(
        &mut self,
        record: StepRecord<'_>,
        messages: &[SteeringMessage],
    ) -> anyhow::Result<TakeResult> {
        let _ = (record, messages);
        Ok(TakeResult::Left)
    }

    /// Records a step with the question that it asks. The turn ends, and goes on when the question is closed. Only a
    /// journal of a turn with [`Questions::Stored`](super::Questions::Stored) is asked to.
    async fn record_question(
        &mut self,
        record: StepRecord<'_>,
        question: QuestionRecord<'_>,
    ) -> anyhow::Result<()> {
        let _ = (record, question);
        anyhow::bail!("this journal stores no questions")
    }

    /// Records a step like [`Journal::record_step`], and sends messages in the same transaction. Returns the step with the
    /// results of the calls that sent them, which were [`PersonMessage::WAITING`]. Only a journal of a turn with
    /// [`Recipients::People`](super::Recipients::People) is asked to.
    async fn record_step_sending(
        &mut self,
        record: StepRecord<'_>,
        messages: &[PersonMessage],
    ) -> anyhow::Result<Step> {
        let _ = (record, messages);
        anyhow::bail!("this journal sends no messages")
    }
}

/// A step, with what becomes durable together with it.
#[derive(Clone, Debug)]
pub struct StepRecord<'a> {
    /// The step.
    pub step: &'a Step,
    /// The model that answered.
    pub model: AnsweringModel<'a>,
    /// The whole texts of its results that were shortened.
    pub outputs: &'a [StoredOutput],
    /// The state of the context that the model was called with.
    pub context: ContextState,
}
