//! The question of a step: who is asked, and where. Its message, its buttons and the begin of its step are one transaction, and
//! so are the answer, the end of the step and the edit of the message; see `store/run/question`.

use super::Runs;
use super::moves::RunMove;
use super::slash::is_of_command;
use crate::base::model::{
    Action, AskedPeople, ChatPlace, Op, Platform, Reply, RunAnswer, RunQuestion, Sender, StepEnd, UserId,
    quoted,
};
use crate::engine::gateway::compose::Address;
use crate::engine::pipeline::definition::{AskedParty, role_of_group};
use crate::state::access::Identity;
use crate::state::store::{NewRunQuestion, QuestionPlace, RunRow, StepBegin, StoreError};
use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use jiff::Timestamp;
use sha2::{Digest, Sha256};
use std::time::Duration;

/// The name of the operation that posts a question.
const QUESTION: &str = "question";
/// The numbers of characters of each value that are tried until a question is one message.
const VALUE_CHARS: [usize; 4] = [2_000, 600, 200, 60];
/// The number of characters of the longest line about an answer.
const ANSWER_CHARS: usize = 200;

/// The question of a step, with its values.
#[derive(Clone, Debug)]
pub(super) struct PlannedQuestion {
    pub(super) to: AskedParty,
    pub(super) text: String,
    pub(super) values: Vec<(String, String)>,
    pub(super) choices: Vec<String>,
    pub(super) deadline: Duration,
    pub(super) default: Option<String>,
}

/// Those who are asked, and the place where.
struct QuestionTarget {
    people: AskedPeople,
    address: Address,
    mention: Option<Sender>,
}

impl Runs {
    /// Asks the question of a step. The step fails if nobody can be asked.
    pub(super) async fn begin_ask(
        &self,
        moves: &mut RunMove<'_>,
        step: usize,
        asked: PlannedQuestion,
    ) -> Result<(), StoreError> {
        let (row, at) = (moves.row, moves.at);
        let target = match &asked.to {
            AskedParty::Group(name) => self.group_target((row, step), name),
            AskedParty::Person(name) => self.person_target((row, step), name).await?,
        };
        match target.and_then(|target| self.composed(row, target, asked, at)) {
            Ok(question) => moves.begin(step, StepBegin::Question(Box::new(question))),
            Err(why) => moves.end(step, StepEnd::failed(why)),
        }
        Ok(())
    }

    /// Returns the target of a question to those with a role: the place of the run. The error is the reason why they cannot be
    /// asked.
    fn group_target(&self, of: (&RunRow, usize), name: &str) -> Result<QuestionTarget, String> {
        let role = role_of_group(name).ok_or_else(|| {
            format!(
                "{} is no group; a group is viewers, editors or administrators",
                quoted(name)
            )
        })?;
        let address = self.address_of_run(of).ok_or_else(|| {
            "a group is asked in the chat of its run, and this run has none; ask a person instead".to_owned()
        })?;
        Ok(QuestionTarget {
            people: AskedPeople::Role(role),
            address,
            mention: None,
        })
    }

    /// Returns the target of a question to a person: the place of the run, if they can read it, else their private chat. The
    /// inner error is the reason why they cannot be asked.
    async fn person_target(
        &self,
        of: (&RunRow, usize),
        name: &str,
    ) -> Result<Result<QuestionTarget, String>, StoreError> {
        let repository = &of.0.head.repository;
        let accounts = self.parts.access.named(name);
        let Some(person) = accounts.first() else {
            return Ok(Err(format!("nobody here has the name {}", quoted(name))));
        };
        let user = person.user();
        if accounts.iter().any(|account| account.user() != user) {
            return Ok(Err(format!("several people have the name {}", quoted(name))));
        }
        if person.role(repository).is_none() {
            return Ok(Err(format!(
                "{} has no grant for {}, so they are not asked",
                quoted(name),
                quoted(repository)
            )));
        }
        let people = AskedPeople::Person {
            user,
            name: person.name().to_owned(),
        };
        if let Some(address) = self.address_of_run(of)
            && self.can_read(of.0, &address, (user, &accounts)).await?
        {
            let mut known = accounts.iter();
            let known = known.find(|account| is_known_in(account, &address.place));
            return Ok(Ok(QuestionTarget {
                people,
                mention: known.map(|account| account.sender().clone()),
                address,
            }));
        }
        Ok(match self.private_address(of, user).await? {
            Some(address) => Ok(QuestionTarget {
                people,
                address,
                mention: None,
            }),
            None => Err(format!(
                "{} cannot be asked: they read neither the chat of the run nor have they written to me in private",
                quoted(name)
            )),
        })
    }

    /// True if a person can read the place of a run: it is theirs, or a chat of several people on a platform where they have an
    /// account.
    async fn can_read(
        &self,
        row: &RunRow,
        address: &Address,
        (user, accounts): (UserId, &[Identity]),
    ) -> Result<bool, StoreError> {
        let owner = self.parts.access.admit(&row.head.owner);
        if owner.is_some_and(|owner| owner.user() == user) {
            return Ok(true);
        }
        let channel = self.parts.config.channels.get(&address.channel);
        let platform = channel.map(|settings| settings.common().platform());
        if !has_account_in(accounts, &address.place, platform) {
            return Ok(false);
        }
        let store = &self.parts.store;
        let is_private = store
            .is_private_chat(row.head.owner.clone(), address.place.clone())
            .await?;
        Ok(!is_private)
    }

    /// Returns the address in the place of a run, if it has one. A slash command may come from a chat without the bot, and its
    /// answers are for its person alone.
    fn address_of_run(&self, of: (&RunRow, usize)) -> Option<Address> {
        let (channel, place) = of.0.place.as_ref().filter(|_| !is_of_command(&of.0.head))?;
        let is_configured = self.parts.config.channels.contains_key(channel);
        is_configured.then(|| self.address_of_step(of, (channel, place)))
    }

    /// Returns the address in the private chat of a person, if they have one.
    async fn private_address(
        &self,
        of: (&RunRow, usize),
        user: UserId,
    ) -> Result<Option<Address>, StoreError> {
        let Some(conversation) = self.parts.store.private_conversation(user).await? else {
            return Ok(None);
        };
        let is_configured = self.parts.config.channels.contains_key(&conversation.channel);
        let theirs = self.parts.access.admit(&conversation.key.user);
        let is_theirs = theirs.is_some_and(|theirs| theirs.user() == user);
        let place = (conversation.channel.as_str(), &conversation.key.place);
        Ok((is_configured && is_theirs).then(|| self.address_of_step(of, place)))
    }

    fn address_of_step(&self, (row, step): (&RunRow, usize), place: (&str, &ChatPlace)) -> Address {
        Address {
            prefix: format!("run-{}-{step}", row.head.id),
            ..self.address(row.head.id, place, None)
        }
    }

    /// Composes a question. Its values are cut until it is one message; the error says why that is not possible.
    fn composed(
        &self,
        row: &RunRow,
        target: QuestionTarget,
        asked: PlannedQuestion,
        at: Timestamp,
    ) -> Result<NewRunQuestion, String> {
        let QuestionTarget {
            people,
            address,
            mention,
        } = target;
        let redacted = |text: &String| self.parts.redactor.redact(text).into_owned();
        let values = asked.values.iter();
        let question = RunQuestion {
            run: row.head.id,
            pipeline: row.head.pipeline.clone(),
            repository: row.head.repository.clone(),
            asked: people,
            text: redacted(&asked.text),
            values: values
                .map(|(name, value)| (name.clone(), redacted(value)))
                .collect(),
            choices: asked.choices.iter().map(redacted).collect(),
            default: asked.default.as_ref().map(redacted),
            seconds: asked.deadline.as_secs(),
        };
        let tokens = question.choices.iter().map(|_| self.new_token());
        let tokens: Vec<String> = tokens.collect();
        let mut cut = VALUE_CHARS
            .into_iter()
            .map(|chars| question.with_values_cut(chars));
        let fits = |question: &RunQuestion| {
            let why = "w".repeat(ANSWER_CHARS);
            let closed = question.closed_reply(&RunAnswer::Withdrawn { why });
            let open = question.reply(mention.as_ref(), tokens.clone());
            [open, closed]
                .iter()
                .all(|reply| address.fits(&self.parts.config, reply, 1))
        };
        let question = cut.find(fits).ok_or_else(|| {
            "the question is too long for one message with its values; give it fewer values".to_owned()
        })?;
        let hashes = tokens.iter().map(|token| Sha256::digest(token.as_bytes()).into());
        let hashes: Vec<[u8; 32]> = hashes.collect();
        Ok(NewRunQuestion {
            shown: QuestionPlace {
                post: address.id(QUESTION),
                channel: address.channel.clone(),
                place: address.place.clone(),
            },
            tokens: hashes,
            ops: self.posts_of_question(&address, &question, (mention.as_ref(), tokens)),
            deadline: at.checked_add(asked.deadline).unwrap_or(Timestamp::MAX),
            question,
        })
    }

    fn posts_of_question(
        &self,
        address: &Address,
        question: &RunQuestion,
        (mention, tokens): (Option<&Sender>, Vec<String>),
    ) -> Vec<Op> {
        let reply = question.reply(mention, tokens);
        if self.outgoing.can_find(address) {
            return vec![address.post(QUESTION, reply)];
        }
        let fill = Action::Fill {
            post: address.id(QUESTION),
            reply,
        };
        vec![
            address.placeholder(QUESTION, Reply::text(question.headline())),
            address.op(&format!("{QUESTION}/fill"), fill),
        ]
    }

    fn new_token(&self) -> String {
        let bytes = (self.parts.random)();
        BASE64_URL_SAFE_NO_PAD.encode(&bytes[..16])
    }
}

/// True if one of the accounts is of the installation of a place. Before its channel is connected, that is not known, and one on
/// the platform of the channel is enough.
fn has_account_in(accounts: &[Identity], place: &ChatPlace, platform: Option<Platform>) -> bool {
    match place.account.platform.chat() {
        Some(_) => accounts.iter().any(|account| is_known_in(account, place)),
        None => accounts
            .iter()
            .any(|account| Some(account.sender().platform) == platform),
    }
}

/// True for an account of the installation of a place.
fn is_known_in(account: &Identity, place: &ChatPlace) -> bool {
    let sender = account.sender();
    sender.platform == place.account.platform && sender.account == place.account.id
}

#[cfg(test)]
mod tests {
    use super::has_account_in;
    use crate::base::model::{Account, ChatPlace, Platform, Role};
    use crate::state::access::testing::identity;

    #[test]
    fn before_its_channel_is_connected_a_chat_is_read_by_those_with_an_account_on_its_platform() {
        let ada = [identity(Role::Viewer, &[])];
        let of = |platform: Platform, id: &str| Account {
            platform,
            id: id.to_owned(),
        };
        let (slack, telegram) = (Some(Platform::Slack), Some(Platform::Telegram));
        for (account, platform, expected) in [
            (of(Platform::Slack, "T0ACME"), slack, true),
            (of(Platform::Slack, "T0OTHER"), slack, false),
            (of(Platform::Telegram, "42"), telegram, false),
            (Account::of_schedules(), slack, true),
            (Account::of_hook("ci"), telegram, false),
            (Account::of_schedules(), None, false),
        ] {
            let place = ChatPlace {
                account,
                chat: "C1".to_owned(),
                thread: None,
            };
            assert_eq!(has_account_in(&ada, &place, platform), expected, "{place:?}");
        }
    }
}
