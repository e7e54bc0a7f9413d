//! `schedule`: the schedules of a person, which run with their grants. Nothing exists before they confirm it.

mod offer;
mod shown;

use super::press::CountedPress;
use super::{AcceptedCommand, ButtonEffect, CommandAnswer, CommandRunner, may_be_without_bot};
use crate::base::model::{
    Button, ButtonStyle, ChatPlace, ConversationId, Inbound, MissedRule, Reply, ScheduleDefinition,
    group_thousands, one_line,
};
use crate::base::recurrence::Recurrence;
use crate::engine::gateway::choice::RepositoryChoiceError;
use crate::engine::gateway::compose::Address;
use crate::engine::gateway::schedules::{
    ScheduleRequest, ScheduleStartError, ScheduleVerb, USAGE, own_times, parse, start_now,
};
use crate::engine::gateway::turn::new_button;
use crate::state::access::Identity;
use crate::state::store::{
    FireResult, NewSchedule, SCHEDULES_OF_PERSON_MAX, ScheduleChange, ScheduleEdit, ScheduleRow,
};
use jiff::Timestamp;
use offer::ScheduleOffer;
use shown::{history, list, time_texts};

/// The number of times that are shown before a schedule is created.
const TIMES_SHOWN: usize = 3;
/// The answer to a slash command of which nobody knows whether a result could be posted to its chat.
const AS_MESSAGE: &str = "Nothing is created: a slash command does not say whether I am in this chat, and only then a result can \
                          come here. Write `!schedule add …` as a message to me here.";

/// A button below the question whether to create a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScheduleButton {
    /// Creates it.
    Create,
    /// Drops the request.
    Drop,
}

impl ScheduleButton {
    /// Returns the word by which the button is stored. It is no command that people can type.
    const fn word(self) -> &'static str {
        match self {
            Self::Create => "create-schedule",
            Self::Drop => "drop-schedule",
        }
    }

    /// Finds a button by the word of its action.
    pub(super) fn parse(word: &str) -> Option<Self> {
        [Self::Create, Self::Drop]
            .into_iter()
            .find(|button| button.word() == word)
    }
}

impl CommandRunner {
    pub(super) async fn schedule(
        &self,
        arguments: &str,
        asked: &AcceptedCommand,
        address: &Address,
        identity: &Identity,
        conversation: ConversationId,
    ) -> anyhow::Result<CommandAnswer> {
        let reply = match parse(arguments) {
            Err(why) => Reply::text(why),
            Ok(ScheduleRequest::List) => self.own_schedules(identity).await?,
            Ok(request @ ScheduleRequest::Add { .. }) => {
                return self
                    .offer_schedule(request, asked, address, identity, conversation)
                    .await;
            }
            Ok(ScheduleRequest::About(verb, name)) => {
                let text = self.change_own_schedule(verb, &name, asked, identity).await?;
                self.schedules.wake();
                text
            }
        };
        Ok(self.posted(address, reply))
    }

    async fn own_schedules(&self, identity: &Identity) -> anyhow::Result<Reply> {
        let schedules = self.parts.store.schedules(Some(identity.sender())).await?;
        if schedules.is_empty() {
            return Ok(Reply::text(format!("You have no schedule. {USAGE}")));
        }
        Ok(list(&schedules, self.zone_of(identity).await?.as_deref()))
    }

    /// Shows the next times of a new schedule, and asks whether to create it.
    async fn offer_schedule(
        &self,
        request: ScheduleRequest,
        asked: &AcceptedCommand,
        address: &Address,
        identity: &Identity,
        conversation: ConversationId,
    ) -> anyhow::Result<CommandAnswer> {
        let ScheduleRequest::Add {
            name,
            when,
            zone,
            words,
            quiet,
        } = request
        else {
            return Ok(CommandAnswer::post(address, Reply::text(USAGE)));
        };
        let config = &self.parts.config;
        let own = self.zone_of(identity).await?;
        let zone = zone.or_else(|| own.clone());
        let zone = zone.unwrap_or_else(|| config.server.zone.clone());
        let refused = |why: String| Ok(self.posted(address, Reply::text(why)));
        if may_be_without_bot(&asked.inbound) {
            return refused(AS_MESSAGE.to_owned());
        }
        let (at, chars_max) = ((self.parts.now)(), config.limits.inbound_text_chars_max);
        let recurrence = match own_times(&when, &zone, at) {
            Ok(recurrence) => recurrence,
            Err(why) => return refused(why),
        };
        if words.chars().count() > chars_max {
            let max = group_thousands(chars_max as u64);
            return refused(format!(
                "That request is too long: I read up to {max} characters."
            ));
        }
        let stored = self.parts.store.conversation(conversation).await?;
        let chosen = self
            .parts
            .resolve_repository(identity, &asked.inbound.channel, &stored, &words);
        let (repository, words) = match chosen {
            Ok(chosen) => chosen,
            Err(RepositoryChoiceError::NoGrant) => {
                return refused(
                    "You have no grant for a repository here; ask an administrator for one.".to_owned(),
                );
            }
            Err(RepositoryChoiceError::Ambiguous(names)) => {
                let names = names.join(", ");
                return refused(format!(
                    "Which repository? Begin the request with its name and a colon; you have {names}."
                ));
            }
        };
        let existing = self.parts.store.schedules(Some(identity.sender())).await?;
        if existing.iter().any(|row| row.name == name) {
            return refused(refusal_text(ScheduleChange::NameTaken, &name));
        }
        let offer = ScheduleOffer {
            definition: ScheduleDefinition {
                when,
                zone,
                words,
                repository,
                channel: asked.inbound.channel.clone(),
                place: result_place(&asked.inbound),
                missed: MissedRule::Once,
                quiet,
                pipeline: None,
            },
            name,
        };
        let argument = serde_json::to_string(&offer)?;
        let new = |button: ScheduleButton| {
            let action = (button.word(), argument.clone());
            new_button(&self.parts, action, identity, conversation)
        };
        let ((create, creates), (drop, drops)) = (new(ScheduleButton::Create), new(ScheduleButton::Drop));
        let row = [
            Button::new("Create", create, ButtonStyle::Primary),
            Button::new("Cancel", drop, ButtonStyle::Plain),
        ];
        let times = recurrence.upcoming(at, TIMES_SHOWN);
        let times = time_texts(&times, own.as_deref(), &offer.definition);
        let reply = offer.question(&times, &row, address, config);
        Ok(CommandAnswer {
            buttons: ButtonEffect::Offers(vec![creates, drops]),
            ..CommandAnswer::ops(vec![address.post("answer", reply)])
        })
    }

    /// Creates the schedule that the person was asked about, or drops it. The grants may have changed since the question.
    pub(super) async fn press_schedule_button(
        &self,
        button: ScheduleButton,
        press: CountedPress<'_>,
    ) -> anyhow::Result<CommandAnswer> {
        let ScheduleOffer { name, definition } = serde_json::from_str(press.argument)?;
        let said = |text: String| Ok(press.replaced(Reply::text(text)));
        let owner = press.asked.inbound.sender.clone();
        if button == ScheduleButton::Drop {
            let own = self.parts.store.schedules(Some(&owner)).await?;
            return said(match own.iter().any(|row| row.name == name) {
                true => format!("The schedule `{name}` exists; `!schedule remove {name}` removes it."),
                false => "No schedule was created.".to_owned(),
            });
        }
        let (store, at) = (&self.parts.store, (self.parts.now)());
        let repository = &definition.repository;
        if press.identity.role(repository).is_none() && !store.has_effect(press.asked.inbox).await? {
            return said(format!(
                "No schedule was created: you have no grant for `{repository}` any more."
            ));
        }
        let recurrence = match own_times(&definition.when, &definition.zone, at) {
            Ok(recurrence) => recurrence,
            Err(why) => return said(why),
        };
        let Some(due) = recurrence.next(at) else {
            return said("No schedule was created: its times are over.".to_owned());
        };
        let zone = self.zone_of(press.identity).await?;
        let next = time_texts(&[due], zone.as_deref(), &definition);
        let new = NewSchedule {
            owner,
            name: name.clone(),
            definition,
            due,
        };
        let by = (press.identity.name().to_owned(), Some(press.asked.inbox));
        let (changed, _) = store
            .edit_schedule(ScheduleEdit::Create(Box::new(new)), by, at)
            .await?;
        self.schedules.wake();
        said(match changed {
            ScheduleChange::Changed => format!(
                "The schedule `{name}` is on; the next time is {next}. `!schedule disable {name}` turns it off."
            ),
            refused => refusal_text(refused, &name),
        })
    }

    async fn change_own_schedule(
        &self,
        verb: ScheduleVerb,
        name: &str,
        asked: &AcceptedCommand,
        identity: &Identity,
    ) -> anyhow::Result<Reply> {
        let (store, at) = (&self.parts.store, (self.parts.now)());
        let own = store.schedules(Some(identity.sender())).await?;
        let Some(row) = own.iter().find(|row| row.name == name) else {
            // It was removed before the answer was stored.
            let is_removed = verb == ScheduleVerb::Remove && store.has_effect(asked.inbox).await?;
            return Ok(Reply::text(match is_removed {
                true => format!("The schedule `{name}` is removed."),
                false => refusal_text(ScheduleChange::Gone, name),
            }));
        };
        let (edit, done) = match verb {
            ScheduleVerb::History => {
                let (zone, mut fires) = (self.zone_of(identity).await?, store.schedule_fires(row.id).await?);
                // Without the grant, nothing of the work is shown any more.
                if identity.role(&row.definition.repository).is_none() {
                    fires.iter_mut().for_each(|fire| fire.why = None);
                }
                return Ok(history(row, &fires, zone.as_deref()));
            }
            ScheduleVerb::Trigger => return self.trigger_schedule(row, asked, at).await.map(Reply::text),
            ScheduleVerb::Remove => (ScheduleEdit::Remove(row.id), "removed"),
            ScheduleVerb::Disable => {
                let why = format!("turned off by {}", one_line(identity.name()));
                (ScheduleEdit::Disable(row.id, why), "off")
            }
            ScheduleVerb::Enable => {
                let definition = &row.definition;
                let recurrence = Recurrence::parse(&definition.when, &definition.zone);
                match recurrence.map(|recurrence| recurrence.next(at)) {
                    Ok(Some(due)) => (ScheduleEdit::TurnOn(row.id, due), "on"),
                    Ok(None) => return Ok(Reply::text("Its times are over.")),
                    Err(why) => return Ok(Reply::text(format!("{why}."))),
                }
            }
        };
        let by = (identity.name().to_owned(), Some(asked.inbox));
        let (changed, stopped) = store.edit_schedule(edit, by, at).await?;
        self.schedules.stop(&stopped);
        let work = match stopped.is_empty() {
            true => "",
            false => " Its work stops.",
        };
        Ok(Reply::text(match changed {
            ScheduleChange::Changed => format!("The schedule `{name}` is {done}.{work}"),
            ScheduleChange::Unchanged => format!("The schedule `{name}` is {done} already.{work}"),
            refused => refusal_text(refused, name),
        }))
    }

    async fn trigger_schedule(
        &self,
        row: &ScheduleRow,
        asked: &AcceptedCommand,
        at: Timestamp,
    ) -> anyhow::Result<String> {
        let channels = self.parts.config.channels.keys().cloned().collect();
        let by = (&self.parts.store, self.parts.access.as_ref(), &channels);
        let name = &row.name;
        Ok(match start_now(by, row, Some(asked.inbox), at).await {
            Ok(FireResult::Started) if row.definition.quiet => format!(
                "The work of `{name}` begins now. It is quiet: its result comes only if something changes or fails."
            ),
            Ok(FireResult::Started) => format!("The work of `{name}` begins now."),
            Ok(FireResult::LeftOut(_)) => {
                format!("Nothing was started: the earlier work of `{name}` has not ended.")
            }
            Ok(FireResult::Gone) => refusal_text(ScheduleChange::Gone, name),
            Err(ScheduleStartError::Denied(why)) => format!("Nothing was started: {why}."),
            Err(ScheduleStartError::Store(error)) => return Err(error.into()),
        })
    }
}

/// Returns the place of the results of a schedule that a message asks for: a new thread each time, where threads belong to
/// people.
fn result_place(inbound: &Inbound) -> ChatPlace {
    let mut place = inbound.place.clone();
    let chat = place.account.platform.chat();
    if chat.is_some_and(|chat| chat.threads_have_owners) {
        place.thread = None;
    }
    place
}

fn refusal_text(refused: ScheduleChange, name: &str) -> String {
    match refused {
        ScheduleChange::NameTaken => {
            format!("You have a schedule `{name}`; choose another name, or `!schedule remove {name}` first.")
        }
        ScheduleChange::TooMany => format!(
            "You have {SCHEDULES_OF_PERSON_MAX} schedules, which is the most; `!schedule remove` one first."
        ),
        ScheduleChange::Gone | ScheduleChange::Changed | ScheduleChange::Unchanged => {
            format!("You have no schedule `{name}`; `!schedule list` shows all.")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ScheduleButton;
    use crate::engine::command::Verb;

    #[test]
    fn a_button_is_found_by_its_word_and_is_no_command() {
        for button in [ScheduleButton::Create, ScheduleButton::Drop] {
            assert_eq!(ScheduleButton::parse(button.word()), Some(button));
            assert_eq!(Verb::parse(button.word()), None);
        }
    }
}
