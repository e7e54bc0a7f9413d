//! Summaries that the model of a turn writes of its conversation. A summary is a call of its own: it is reserved in the
//! budgets, and its cost is recorded.

use super::model_calls::until_stopped;
use super::{CallPermission, CallSize, Journal, TurnEvent, TurnLoop};
use crate::base::model::{History, Usage, plain_output};
use crate::engine::agent::context::SummaryWriter;
use crate::engine::agent::prompt::data_block;
use crate::interfaces::provider::{
    Patience, ProviderError, SideCosts, StreamEvent, ToolChoice, TurnRequest, fixed_bytes,
};
use async_trait::async_trait;
use tracing::warn;

const INSTRUCTIONS: &str = include_str!("../../../config/prompts/compact.md");
/// Tokens of a summary, with those of the thoughts before it.
const ANSWER_TOKENS_MAX: u32 = 4_096;

impl TurnLoop<'_> {
    /// Shortens the conversation by the strategy of the turn. What is then still in excess of the room is trimmed.
    pub(super) async fn shorten(
        &mut self,
        history: &mut History,
        journal: &mut dyn Journal,
        events: &mut (dyn FnMut(TurnEvent) + Send),
    ) -> anyhow::Result<()> {
        let room = self.budget.room(self.bytes_per_1000_tokens);
        let strategy = self.cx.strategy;
        let mut writer = TurnSummaries {
            turn: self,
            journal,
            events,
            unrecorded: None,
        };
        let prepared = strategy.prepare(history, room, &mut writer).await;
        let Some(answer) = writer.unrecorded.take() else {
            prepared?;
            room.trim(history);
            return Ok(());
        };
        if let Err(error) = prepared {
            self.record_unused(answer, journal).await?;
            return Err(error);
        }
        room.trim(history);
        let sides = [(self.current, answer.side)];
        let losses = self.losses(&sides);
        let paid = self.paid(answer.usage, &answer.model);
        let context = self.context_state(history);
        journal.record_summary(paid, &losses, &context).await
    }

    /// Records the cost of a summary that does not stand for a part of the conversation.
    async fn record_unused(&self, answer: SummaryAnswer, journal: &mut dyn Journal) -> anyhow::Result<()> {
        let sides = [(self.current, answer.side)];
        let losses = self.losses(&sides);
        let paid = self.paid(answer.usage, &answer.model);
        journal.answer_received(paid, &losses).await?;
        journal.answer_discarded(paid).await
    }
}

/// The model of a turn as a writer of summaries.
struct TurnSummaries<'a, 'turn> {
    turn: &'a mut TurnLoop<'turn>,
    journal: &'a mut dyn Journal,
    events: &'a mut (dyn FnMut(TurnEvent) + Send),
    /// The newest answer, which is recorded together with the context that its summary shortens.
    unrecorded: Option<SummaryAnswer>,
}

/// The cost of the answer with a summary.
struct SummaryAnswer {
    /// The model, by its provider's name for it.
    model: String,
    usage: Usage,
    side: SideCosts,
}

#[async_trait]
impl SummaryWriter for TurnSummaries<'_, '_> {
    async fn summarise(&mut self, text: String) -> anyhow::Result<Option<String>> {
        if let Some(earlier) = self.unrecorded.take() {
            self.turn.record_unused(earlier, self.journal).await?;
        }
        let (cx, model) = (self.turn.cx, self.turn.model());
        let mut asked = History::default();
        asked.begin(data_block("conversation", "this conversation", &text))?;
        let answer_tokens_max = model.answer_tokens_max(cx.limits).min(ANSWER_TOKENS_MAX);
        let call = CallSize {
            request_bytes: fixed_bytes(INSTRUCTIONS, &[]) + asked.bytes(),
            bytes_per_1000_tokens: self.turn.bytes_per_1000_tokens,
            answer_tokens_max,
        };
        if let CallPermission::Refused(_) = self.journal.reserve_call(call).await? {
            return Ok(None);
        }
        (self.events)(TurnEvent::Summarising);
        let request = TurnRequest {
            identity: cx.identity,
            model: model.name,
            system: INSTRUCTIONS,
            tools: &[],
            tool_choice: ToolChoice::Free,
            turns: asked.turns(),
            answer_tokens_max,
            // The conversation can be trimmed instead.
            patience: Patience::Short,
        };
        let cancel = cx.cancel.child_token();
        let events = &mut self.events;
        let mut sink = |event| {
            if let StreamEvent::Retrying { why, wait } = event {
                events(TurnEvent::Waiting { why, wait });
            }
        };
        let answer = model.provider.turn(request, &mut sink, &cancel);
        let answer = until_stopped(answer, &cancel, self.turn.deadline).await;
        let side = match &answer {
            Ok(completion) => &completion.side,
            Err(ProviderError::Failed(failure)) => &failure.side,
            Err(ProviderError::Cancelled(side)) => side,
        };
        let side = side.clone();
        let sides = [(self.turn.current, side)];
        let losses = self.turn.losses(&sides);
        let unused = losses.usage();
        let mut completion = match answer {
            Ok(completion) => completion,
            Err(error) => {
                if let ProviderError::Failed(failure) = &error {
                    warn!("the conversation is trimmed, because it could not be summarised: {failure}");
                }
                self.journal.call_failed(&losses).await?;
                self.turn.usage += unused;
                return Ok(None);
            }
        };
        let usage = completion.assistant.usage;
        self.turn.usage += unused;
        self.turn.usage += usage;
        self.unrecorded = Some(SummaryAnswer {
            model: std::mem::take(&mut completion.model),
            usage,
            side: std::mem::take(&mut completion.side),
        });
        let summary = completion.assistant.text();
        let summary = cx.redactor.redact(&plain_output(&summary)).trim().to_owned();
        Ok((!summary.is_empty()).then_some(summary))
    }
}
