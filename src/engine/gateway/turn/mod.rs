//! One turn: authorise again, open the workspace, run the agent loop, prepare the change, and answer.
//!
//! Operation ids of a turn come from its message, not from the turn. So a message that is claimed again after a crash
//! keeps its card and shows one result.

mod answer;
mod budget_request;
mod call_budget;
mod card;
mod journal;
mod opening;
mod outputs;
mod postconditions;
mod question;
mod recording;
mod result;
mod resumption;
mod steering;
mod waiting_guards;

use super::active_turns::{ActiveTurns, TurnHandle};
use super::compose::Address;
use super::outgoing::OutgoingMessages;
use super::parts::Parts;
use super::prerender::Prerenderer;
use crate::base::health::HealthSeverity;
use crate::base::model::{
    Action, History, Inbound, Op, Receipt, Reply, TurnId, Usage, UserId, Verdict, VerdictSource,
};
use crate::crash_point;
use crate::engine::agent::{
    self, ModelChain, Questions, TurnContext, TurnEvent, TurnOutcome, VerdictRule, WriteCounts,
};
use crate::state::recording::RecordedEvent;
use crate::state::store::{ChangeBasis, Claim, ClaimedWork, StartedTurn, StoreError, TurnStart};
use crate::state::workspace::{Overlay, Tree};
pub(super) use budget_request::spending_text;
pub(super) use opening::locked_out_text;
pub(super) use question::ANSWER_VERB;
pub(super) use waiting_guards::WaitingGuards;

use answer::EndedTurn;
use card::OpenCard;
use journal::{RecordedTurn, TurnJournal, TurnStartReceiver};
use opening::{OpenedTurn, TurnRefusal};
use outputs::StoredOutputs;
use postconditions::{ChangePreparer, LatestPreparation};
use recording::TurnRecording;
use resumption::{ResumedTurn, TurnContinuation};
use std::sync::Arc;
use steering::Steering;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The only text that a revoked person gets.
pub(super) const REVOKED: &str = "Access was revoked.";

#[derive(Debug)]
pub(super) struct ClaimedMessage {
    pub(super) claim: Claim,
    pub(super) work: ClaimedWork,
}

impl ClaimedMessage {
    fn inbound(&self) -> &Inbound {
        &self.work.inbound
    }
}

/// Runs turns, each from one message to its answer in the outbox.
pub(super) struct TurnRunner {
    pub(super) parts: Arc<Parts>,
    pub(super) outgoing: Arc<OutgoingMessages>,
    pub(super) active_turns: ActiveTurns,
    pub(super) prerenderer: Arc<Prerenderer>,
    pub(super) shutdown: CancellationToken,
    pub(super) background: TaskTracker,
    pub(super) waiting_guards: Arc<WaitingGuards>,
}

impl TurnRunner {
    /// Returns the person who sent a message, if admitted.
    pub(super) fn person(&self, inbound: &Inbound) -> Option<UserId> {
        self.parts.identity(inbound).map(|identity| identity.user())
    }

    /// Runs the turn of one message and stores its answer in the outbox. A shutdown leaves the message for the next
    /// start. An error leaves it for another attempt.
    pub(super) async fn run_message_turn(
        &self,
        mut assigned: ClaimedMessage,
        handle: &TurnHandle,
        shutdown: &CancellationToken,
    ) -> anyhow::Result<()> {
        let history = std::mem::take(&mut assigned.work.history);
        let assigned = &assigned;
        let address = self.address(assigned);
        let Some(identity) = self.parts.identity(assigned.inbound()) else {
            return self.refuse(assigned, &address, REVOKED).await;
        };
        let ClaimedWork {
            crashes, is_stopped, ..
        } = assigned.work;
        if crashes.are_too_many() {
            let why = anyhow::anyhow!("message {} was cut short: {crashes:?}", assigned.work.inbox);
            let why = self.parts.internal_error_text(&why, "turn");
            return self.refuse(assigned, &address, &why).await;
        }
        if is_stopped {
            handle.stop.cancel();
        }
        let began = Instant::now();
        // An interrupted turn has something to show, so it is opened, and stops before the model call.
        let is_new = assigned.work.begun == 0;
        let opened = tokio::select! {
            biased;
            () = handle.stop.cancelled(), if is_new => Err(TurnRefusal::WithReply("Stopped before it began.".to_owned())),
            // This branch is checked first, because an opening that the shutdown interrupted is not a result.
            () = shutdown.cancelled() => return Ok(()),
            () = identity.wait_until_revoked() => Err(TurnRefusal::WithReply(REVOKED.to_owned())),
            opened = self.open(assigned, &identity, began) => opened,
        };
        let mut opened = match opened {
            Ok(opened) => opened,
            Err(TurnRefusal::WithReply(why)) => return self.refuse(assigned, &address, &why).await,
            Err(TurnRefusal::Internal(error)) => {
                let why = self.parts.internal_error_text(&error, "opening a turn");
                return self.refuse(assigned, &address, &why).await;
            }
        };
        let (history, continuation) = self.history(assigned, &opened, history)?;
        let resumed = continuation.answered();
        let began = resumed.map_or(began, |resumed| resumed.began(began));
        opened.began = began;
        let latest = LatestPreparation::default();
        let preparing = ChangePreparer {
            parts: &self.parts,
            opened: &opened,
            latest: &latest,
        };
        let (begun, beginning) = oneshot::channel();
        let begin = self.begin(assigned, &address, (&opened, &continuation), handle, begun);
        let history = (history, resumed);
        let running = Box::pin(self.run_agent(assigned, history, beginning, &preparing, handle, shutdown));
        // The model is called in the meantime. Its answer waits until the turn is stored.
        let ((turn, basis, card), ran) = tokio::try_join!(begin, async { Ok(running.await) })?;
        handle.take_no_more();
        card.close().await;
        if let Ok((outcome, _)) = &ran
            && outcome.is_waiting
        {
            let redactor = Arc::clone(&opened.workspace.guard.redactor);
            return self.show_waiting_card(&address, handle, &redactor).await;
        }
        if opened.is_locked_out() {
            let journal = ran.ok().map(|(_, journal)| journal);
            return self
                .end_locked_out(assigned, turn, &address, &opened, journal)
                .await;
        }
        let (outcome, journal) = match ran {
            Ok((outcome, journal)) if was_interrupted(&outcome, handle, shutdown) => {
                return self.interrupt(assigned, turn, Some(journal)).await;
            }
            Ok((outcome, journal)) => (outcome, Some(journal)),
            Err(error) => (self.broken(&mut opened, &error).await?, None),
        };
        let preparing = ChangePreparer {
            parts: &self.parts,
            opened: &opened,
            latest: &latest,
        };
        let mut progress = |_| {};
        let prepared = tokio::select! {
            biased;
            prepared = preparing.change(&mut progress, &handle.stop) => prepared?,
            () = opened.wait_until_locked_out() => {
                return self.end_locked_out(assigned, turn, &address, &opened, journal).await;
            }
            // An unchecked change is not an answer. The next start claims the message again.
            () = shutdown.cancelled() => return self.interrupt(assigned, turn, journal).await,
        };
        let ended = EndedTurn {
            assigned,
            turn,
            basis,
            opened: &opened,
            address: &address,
            outcome,
            journal,
            elapsed: began.elapsed(),
        };
        self.finish(ended, prepared).await
    }

    /// Leaves an interrupted turn for the next start. A model answer that was already given is requested again, but its
    /// usage is recorded.
    async fn interrupt(
        &self,
        assigned: &ClaimedMessage,
        turn: TurnId,
        journal: Option<TurnJournal>,
    ) -> anyhow::Result<()> {
        let (store, now) = (&self.parts.store, (self.parts.now)());
        let cost = journal.and_then(|journal| journal.last).map(|last| last.cost);
        store.interrupt_turn(&assigned.claim, turn, cost, now).await?;
        Ok(())
    }

    /// Ends a message whose stored data cannot be read, and reports that in its chat.
    pub(super) async fn end_unreadable(&self, claim: Claim, error: StoreError) -> anyhow::Result<()> {
        let store = &self.parts.store;
        let what = match &error {
            StoreError::Unreadable {
                what: "snapshot" | "file",
                ..
            } => "The edits of this conversation cannot be read any more; `discard` removes them.",
            StoreError::Unreadable {
                what: "history" | "step",
                ..
            } => "This conversation cannot be read any more; `clear` starts a new one.",
            _ => "This message cannot be read any more; send it again.",
        };
        let reference = self.parts.log_internal_error(&error.into(), "reading a message");
        let Some(inbox) = store.next_message(&claim).await? else {
            return Ok(());
        };
        let address = self.parts.address_in(claim.conversation, inbox).await?;
        let ops = self.refusal(&address, &format!("{what} (ref {reference})"));
        store.dismiss(&claim, inbox, ops, (self.parts.now)()).await?;
        self.outgoing.wake();
        Ok(())
    }

    /// Returns the address for the answer to a message. A hook's answer goes to its configured chat.
    fn address(&self, assigned: &ClaimedMessage) -> Address {
        let inbound = assigned.inbound();
        let address = Address::for_message(inbound, assigned.work.inbox);
        let Some(hook) = self.parts.hook(inbound) else {
            return address;
        };
        let channel = hook.post_to.channel.clone();
        let mut place = inbound.place.clone();
        // The thread names the event, so that each event is its own conversation.
        place.thread = None;
        if let Some(connected) = self.outgoing.channel(&channel) {
            place.account = connected.installation().account.clone();
        }
        Address {
            channel,
            place,
            mention: None,
            ..address
        }
    }

    /// Ends a turn whose person lost access while it ran. Its edits are reverted, and one line is sent. The model's
    /// last answer is dropped, but its usage is recorded.
    async fn end_locked_out(
        &self,
        assigned: &ClaimedMessage,
        turn: TurnId,
        address: &Address,
        opened: &OpenedTurn,
        journal: Option<TurnJournal>,
    ) -> anyhow::Result<()> {
        if let Some(last) = journal.and_then(|journal| journal.last) {
            let (store, now) = (&self.parts.store, (self.parts.now)());
            store.record_cost(&assigned.claim, turn, &last.cost, now).await?;
        }
        tracing::info!(user.id = %opened.identity.user(), "a turn ended because the access of its person was revoked");
        self.refuse(assigned, address, &opened.locked_out_text()).await
    }

    /// Ends a message without a model call. If it has a card, the card shows the reason.
    async fn refuse(&self, assigned: &ClaimedMessage, address: &Address, why: &str) -> anyhow::Result<()> {
        let why = match assigned.work.has_edited {
            true => format!("{why}\nIts edits before the interruption are undone."),
            false => why.to_owned(),
        };
        let ops = self.refusal(address, &why);
        self.parts
            .store
            .dismiss(&assigned.claim, assigned.work.inbox, ops, (self.parts.now)())
            .await?;
        self.outgoing.wake();
        Ok(())
    }

    fn refusal(&self, address: &Address, why: &str) -> Vec<Op> {
        self.refusal_form(address)(address, why)
    }

    /// Returns the function that composes the answer to a message that ends without a turn.
    fn refusal_form(&self, address: &Address) -> RefusalForm {
        match self.outgoing.can_find(address) {
            true => whole_refusal,
            false => filled_refusal,
        }
    }

    /// Returns the conversation's history for the model, with the new message, or with the turn open again that goes on.
    fn history<'a>(
        &self,
        assigned: &'a ClaimedMessage,
        opened: &OpenedTurn,
        history: History,
    ) -> anyhow::Result<(History, TurnContinuation<'a>)> {
        let mut history = match self.parts.hook(assigned.inbound()) {
            // Events of a hook are independent.
            Some(_) => History::default(),
            None => history,
        };
        let continuation = TurnContinuation::reopen(assigned, &mut history, &opened.workspace.guard.redactor);
        if matches!(continuation, TurnContinuation::None) {
            history.begin(opened.user_text.clone())?;
        }
        Ok((history, continuation))
    }

    /// Begins the turn. Its row and the binding of its workspace are committed together. Then `begun` receives the
    /// turn.
    async fn begin(
        &self,
        assigned: &ClaimedMessage,
        address: &Address,
        (opened, continuation): (&OpenedTurn, &TurnContinuation<'_>),
        handle: &TurnHandle,
        begun: oneshot::Sender<RecordedTurn>,
    ) -> anyhow::Result<(TurnId, ChangeBasis, OpenCard)> {
        let (store, now) = (&self.parts.store, (self.parts.now)());
        let resumed = continuation.answered();
        let earlier = resumption::earlier_attempts(assigned, resumed);
        handle.card.send_modify(|card| {
            card.set_started();
            if earlier.turns > 0 {
                card.set_resumed();
            }
        });
        let begin = TurnStart {
            user: opened.identity.user(),
            user_text: opened.user_text.clone(),
            bind: opened.bind.clone(),
            card: self.card_id(assigned, address),
            forgets: self.parts.hook(assigned.inbound()).is_some(),
            continues: continuation.earlier(),
        };
        crash_point::before("B11");
        let StartedTurn {
            turn,
            has_card,
            is_stopped,
            basis,
        } = match resumed {
            Some(resumed) => {
                let (turn, user) = (resumed.turn(), begin.user);
                store.resume_turn(&assigned.claim, turn, user, begin.bind).await?
            }
            None => {
                store
                    .begin_turn(&assigned.claim, assigned.work.inbox, begin, now)
                    .await?
            }
        };
        crash_point::after("B11");
        let first = match resumed {
            Some(resumed) => resumed.recorded_answer(),
            None => RecordedEvent::Began {
                user: opened.user_text.clone(),
                attachments: Vec::new(),
            },
        };
        let recording = TurnRecording::open(&self.parts, opened, turn, Some(first));
        // The receiver is gone if the model could not be called.
        let _ = begun.send(RecordedTurn { turn, recording });
        handle.set_turn(turn);
        if is_stopped {
            handle.stop.cancel();
        }
        if has_card {
            // The card shows that the message waits.
            self.outgoing.react(assigned.inbound(), Receipt::Started);
        }
        Ok((turn, basis, self.open_card(assigned, address, opened, handle)))
    }

    async fn run_agent(
        &self,
        assigned: &ClaimedMessage,
        (mut history, resumed): (History, Option<&ResumedTurn<'_>>),
        beginning: TurnStartReceiver,
        preparing: &ChangePreparer<'_>,
        handle: &TurnHandle,
        shutdown: &CancellationToken,
    ) -> anyhow::Result<(TurnOutcome, TurnJournal)> {
        let opened = preparing.opened;
        let models =
            ModelChain::resolve(&self.parts.config, &self.parts.providers).map_err(anyhow::Error::msg)?;
        let models = models.models();
        let sources = (&self.parts, &self.outgoing);
        let steering = Steering::new(sources, &self.active_turns, assigned, opened);
        let mut journal = TurnJournal::new(&self.parts, assigned, opened, beginning, steering, &models);
        let questions = match self.parts.hook(assigned.inbound()) {
            Some(_) => Questions::Nobody,
            None => {
                journal.composer = Some(self.question_composer(assigned, opened));
                Questions::Stored
            }
        };
        let cancel = handle.stop.child_token();
        let cx = TurnContext {
            identity: &opened.identity,
            models: &models,
            system: &opened.system,
            toolbox: &self.parts.toolbox,
            workspace: &opened.workspace,
            postconditions: preparing,
            verdict: VerdictRule::Computed,
            questions,
            resumed_steps: resumed.map_or(0, ResumedTurn::steps),
            limits: &self.parts.config.limits.turn,
            strategy: agent::context::strategy(self.parts.config.limits.turn.context_strategy),
            redactor: &opened.workspace.guard.redactor,
            outputs: &StoredOutputs::of_conversation(&self.parts.store, opened.conversation.id),
            last_output: opened.conversation.last_output,
            bytes_per_1000_tokens: opened.conversation.context.bytes_per_1000_tokens,
            earlier_attempts: resumption::earlier_attempts(assigned, resumed),
            began: opened.began,
            cancel: &cancel,
        };
        let mut events = |event: TurnEvent| {
            if let TurnEvent::FallingBack { from, to, why } = &event {
                let why = format!("{why}; {to} is asked instead");
                self.parts
                    .health
                    .set(&model_part(from), HealthSeverity::Degraded, why);
            }
            handle.card.send_modify(|card| card.observe(&event));
        };
        let outcome = {
            let running = agent::run_turn(cx, &mut history, &mut journal, &mut events);
            tokio::pin!(running);
            tokio::select! {
                outcome = &mut running => outcome?,
                () = shutdown.cancelled() => {
                    cancel.cancel();
                    running.await?
                }
                () = opened.wait_until_locked_out() => {
                    cancel.cancel();
                    running.await?
                }
            }
        };
        if matches!(outcome.verdict, Verdict::Pass | Verdict::NoChange | Verdict::Fail) {
            // The model that was asked last has answered.
            self.parts.health.clear(&model_part(&outcome.model));
        }
        Ok((outcome, journal))
    }

    /// Returns the outcome of a turn with an internal error. The person gets a reference; the log gets the reason. Only
    /// durable steps count, so the workspace returns to the last recorded step.
    async fn broken(&self, opened: &mut OpenedTurn, error: &anyhow::Error) -> anyhow::Result<TurnOutcome> {
        let edits = self.parts.store.edits(opened.conversation.id).await?;
        let base = Arc::clone(opened.overlay.base());
        opened.overlay = Arc::new(Overlay::new(base, edits));
        opened.workspace.tree = Arc::clone(&opened.overlay) as Arc<dyn Tree>;
        Ok(TurnOutcome {
            verdict: Verdict::Error,
            source: VerdictSource::Harness,
            answer: String::new(),
            notice: Some(self.parts.internal_error_text(error, "turn")),
            model: self.parts.config.model.default.clone(),
            fallback: None,
            steps: 0,
            tool_calls: 0,
            writes: WriteCounts::default(),
            usage: Usage::default(),
            last_output: opened.conversation.last_output,
            context: opened.conversation.context.clone(),
            is_waiting: false,
        })
    }
}

/// Returns the name of a model among the parts that have problems.
fn model_part(model: &str) -> String {
    format!("model {model}")
}

/// A function that composes the answer to a message that ends without a turn.
type RefusalForm = fn(&Address, &str) -> Vec<Op>;

/// Returns the answer to a message that ends without a turn. It goes into the card, if there is one.
fn whole_refusal(address: &Address, why: &str) -> Vec<Op> {
    vec![address.post("card", Reply::text(why)), card_fill(address, why)]
}

/// Returns the same answer as [`whole_refusal`], for a platform that cannot look up sent posts. A placeholder line,
/// which may show twice, is filled by an edit.
fn filled_refusal(address: &Address, why: &str) -> Vec<Op> {
    vec![
        address.placeholder("card", Reply::text("…")),
        card_fill(address, why),
    ]
}

fn card_fill(address: &Address, why: &str) -> Op {
    let fill = Action::Fill {
        post: address.id("card"),
        reply: Reply::text(why),
    };
    address.op("card/refused", fill)
}

/// True if a shutdown, not the person, interrupted the turn or its checks. The message is then claimed at the next
/// start. A failed check also counts, because the model could not fix it.
fn was_interrupted(outcome: &TurnOutcome, handle: &TurnHandle, shutdown: &CancellationToken) -> bool {
    let is_cut = matches!(
        outcome.verdict,
        Verdict::Cancelled | Verdict::Incomplete | Verdict::Fail
    );
    is_cut && shutdown.is_cancelled() && !handle.stop.is_cancelled()
}

#[cfg(test)]
mod tests {
    use super::{filled_refusal, was_interrupted};
    use crate::base::model::{
        Account, Action, ChatPlace, ContextState, ConversationId, OutputNumber, Platform, Usage, Verdict,
        VerdictSource,
    };
    use crate::engine::agent::{TurnOutcome, WriteCounts};
    use crate::engine::gateway::active_turns::ActiveTurns;
    use crate::engine::gateway::compose::Address;
    use tokio_util::sync::CancellationToken;

    /// R1
    #[test]
    fn the_reason_a_message_was_given_up_shows_once_even_if_its_first_line_repeats() {
        let address = Address {
            channel: "telegram".to_owned(),
            place: ChatPlace {
                account: Account {
                    platform: Platform::Telegram,
                    id: "42".to_owned(),
                },
                chat: "7001".to_owned(),
                thread: None,
            },
            reply_to: None,
            mention: None,
            ephemeral_to: None,
            prefix: "inbox-7".to_owned(),
            response_url: None,
        };
        let ops = filled_refusal(&address, "It was cut short three times.");
        let saying: Vec<&str> = ops
            .iter()
            .filter(|op| format!("{:?}", op.action).contains("cut short"))
            .map(|op| op.id.as_str())
            .collect();
        assert_eq!(saying, ["inbox-7/card/refused"]);
        assert!(ops[0].action.is_placeholder());
        assert!(matches!(&ops[1].action, Action::Fill { post, .. } if *post == ops[0].id));
    }

    /// R23
    #[test]
    fn a_turn_that_shutdown_left_unchecked_or_failing_counts_as_interrupted() {
        let outcome = |verdict| TurnOutcome {
            verdict,
            source: VerdictSource::Harness,
            answer: "Done.".to_owned(),
            notice: None,
            model: "anthropic/demo".to_owned(),
            fallback: None,
            steps: 1,
            tool_calls: 0,
            writes: WriteCounts::default(),
            usage: Usage::default(),
            last_output: OutputNumber(0),
            context: ContextState::default(),
            is_waiting: false,
        };
        let turns = ActiveTurns::default();
        let handle = turns.register(ConversationId(1));
        let (running, shutdown) = (CancellationToken::new(), CancellationToken::new());
        shutdown.cancel();
        for (verdict, is_cut) in [
            (Verdict::Cancelled, true),
            (Verdict::Incomplete, true),
            (Verdict::Fail, true),
            (Verdict::Pass, false),
            (Verdict::NoChange, false),
        ] {
            let outcome = outcome(verdict);
            assert_eq!(
                was_interrupted(&outcome, &handle, &shutdown),
                is_cut,
                "{verdict:?}"
            );
            assert!(!was_interrupted(&outcome, &handle, &running), "{verdict:?}");
        }
        // A stop by the person counts as one, even during a shutdown.
        handle.stop.cancel();
        assert!(!was_interrupted(&outcome(Verdict::Cancelled), &handle, &shutdown));
    }
}
