//! One turn: authorise again, open the workspace, run the agent loop, prepare the change, and answer.
//!
//! Operation ids of a turn come from its message, not from the turn. So a message that is claimed again after a crash
//! keeps its card and shows one result.

mod answer;
mod budget_request;
mod call_budget;
mod card;
mod ending;
mod journal;
mod messages;
mod opening;
mod opening_text;
mod outputs;
mod pipelines;
mod postconditions;
mod question;
mod recording;
mod refusal;
mod repository_question;
mod result;
mod result_buttons;
mod resumption;
mod running;
mod scheduled_run;
mod sent_files;
mod steering;
mod waiting_guards;

use super::active_turns::{ActiveTurns, TurnHandle};
use super::compose::Address;
use super::home::HomePages;
use super::outgoing::OutgoingMessages;
use super::parts::{Parts, scheduled};
use super::prerender::Prerenderer;
use super::runs::PipelineDefinitions;
pub(super) use crate::base::model::ACCESS_REVOKED as REVOKED;
use crate::base::model::{ChatPlace, History, Inbound, Receipt, TurnId, UserId};
use crate::crash_point;
use crate::state::recording::RecordedEvent;
use crate::state::store::{ChangeBasis, Claim, ClaimedWork, StartedTurn, TurnStart};
pub(super) use answer::new_button;
pub(super) use budget_request::spending_text;
pub(super) use opening::locked_out_text;
pub(super) use question::ANSWER_VERB;
pub(super) use repository_question::REPOSITORY_VERB;
pub(super) use waiting_guards::WaitingGuards;

use answer::EndedTurn;
use card::OpenCard;
use journal::{RecordedTurn, TurnJournal};
use opening::{OpenedTurn, TurnRefusal};
use pipelines::EventOutcome;
use postconditions::{ChangePreparer, LatestPreparation};
use recording::TurnRecording;
use resumption::TurnContinuation;
use running::was_interrupted;
use std::sync::Arc;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

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
    pub(super) homes: Arc<HomePages>,
    pub(super) active_turns: ActiveTurns,
    pub(super) prerenderer: Arc<Prerenderer>,
    pub(super) definitions: Arc<PipelineDefinitions>,
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
        if is_new && !is_stopped {
            let started = Box::pin(self.start_pipelines(assigned, &address, &identity, shutdown));
            if started.await? == EventOutcome::Done {
                return Ok(());
            }
        }
        let opened = tokio::select! {
            biased;
            () = handle.stop.cancelled(), if is_new => Err(TurnRefusal::WithReply("Stopped before it began.".to_owned())),
            // This branch is checked first, because an opening that the shutdown interrupted is not a result.
            () = shutdown.cancelled() => return Ok(()),
            () = identity.wait_until_revoked() => Err(TurnRefusal::WithReply(REVOKED.to_owned())),
            opened = self.open(assigned, &identity, (began, &handle.stop)) => opened,
        };
        let mut opened = match opened {
            Ok(opened) => opened,
            Err(TurnRefusal::WithReply(why)) => return self.refuse(assigned, &address, &why).await,
            Err(TurnRefusal::WhichRepository(names)) => {
                return self
                    .ask_for_repository(assigned, &address, &identity, &names)
                    .await;
            }
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
        let shows_work = card.close().await || assigned.work.begun > 0;
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
            work_ended: shows_work.then(|| address.work_ended()).flatten(),
        };
        Box::pin(self.finish(ended, prepared)).await
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

    /// Returns the address for the answer to a message. The answer to an event goes to its configured chat.
    fn address(&self, assigned: &ClaimedMessage) -> Address {
        let inbound = assigned.inbound();
        let address = Address::for_message(inbound, assigned.work.inbox);
        let (channel, mut place) = match (self.parts.hook(inbound), scheduled(inbound)) {
            (Some(hook), _) => {
                // The thread names the event, so that each event is its own conversation.
                let place = ChatPlace {
                    thread: None,
                    ..inbound.place.clone()
                };
                (hook.post_to.channel.clone(), place)
            }
            (None, Some(work)) => (inbound.channel.clone(), work.place.clone()),
            (None, None) if !address.is_shown() => {
                return Address {
                    mention: None,
                    ..address
                };
            }
            (None, None) => return address,
        };
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

    /// Returns the conversation's history for the model, with the new message, or with the turn open again that goes on.
    fn history<'a>(
        &self,
        assigned: &'a ClaimedMessage,
        opened: &OpenedTurn,
        history: History,
    ) -> anyhow::Result<(History, TurnContinuation<'a>)> {
        let mut history = match self.parts.is_event(assigned.inbound()) {
            // Events are independent.
            true => History::default(),
            false => history,
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
            forgets: self.parts.is_event(assigned.inbound()),
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
                repository: Some(opened.workspace.repository.name().to_owned()),
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
}
