//! The request of an unknown sender for access: a press of the button below the notice. Administrators get it in their private
//! chats, and admit the sender with one press.

use super::compose::Address;
use super::parts::Parts;
use super::reception::{ReceiveOutcome, Reception};
use super::turn::new_button;
use crate::base::model::{
    Action, Button, ButtonStyle, ChatPlace, Inbound, InboundKind, Op, Reply, ReplyPart, Role, Sender,
};
use crate::state::access::{AccessError, Identity};
use crate::state::store::{AccessRequestOutcome, Conversation, NewAction};
use jiff::Timestamp;

/// The token of the button below a notice. It is no secret: a press asks only for the one who presses.
const REQUEST_TOKEN: &str = "request-access";
/// Maximum number of administrators who are asked.
const ADMINISTRATORS_ASKED_MAX: usize = 5;

/// A button of an administrator below a request for access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AccessButton {
    /// Admits the sender as a viewer.
    Viewer,
    /// Admits the sender as an editor.
    Editor,
    /// Leaves the request without an answer.
    Ignore,
}

impl AccessButton {
    const ALL: [Self; 3] = [Self::Viewer, Self::Editor, Self::Ignore];

    /// Returns the word by which the button is stored. It is no command that people can type.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Viewer => "admit-viewer",
            Self::Editor => "admit-editor",
            Self::Ignore => "ignore-request",
        }
    }

    /// Finds a button by the word of its action.
    pub(super) fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|button| button.word() == word)
    }

    /// Returns the role with which the button admits; `None` if it admits nobody.
    pub(super) const fn role(self) -> Option<Role> {
        match self {
            Self::Viewer => Some(Role::Viewer),
            Self::Editor => Some(Role::Editor),
            Self::Ignore => None,
        }
    }
}

/// An administrator with a private chat.
struct ReachableAdministrator {
    identity: Identity,
    conversation: Conversation,
}

impl Parts {
    /// Returns the administrators who have written to the bot in private, in the order of their admission.
    async fn reachable_administrators(&self) -> Result<Vec<ReachableAdministrator>, AccessError> {
        let mut reachable = Vec::new();
        for user in self.access.users().await? {
            let is_admin = user.grants.iter().any(|grant| grant.role == Role::Admin);
            if user.revoked_at.is_some() || !is_admin {
                continue;
            }
            let Some(conversation) = self.store.private_conversation(user.id).await? else {
                continue;
            };
            let is_chat = self.config.channels.contains_key(&conversation.channel);
            if let Some(identity) = self.access.admit(&conversation.key.user).filter(|_| is_chat) {
                reachable.push(ReachableAdministrator {
                    identity,
                    conversation,
                });
            }
            if reachable.len() == ADMINISTRATORS_ASKED_MAX {
                break;
            }
        }
        Ok(reachable)
    }
}

impl Parts {
    /// Returns the page for a person who is not admitted. It has no button, because a press on it would have no chat.
    pub(super) async fn refusal_page(&self, sender: &Sender) -> Result<Reply, AccessError> {
        let next = match self.reachable_administrators().await?.is_empty() {
            true => "give it to an administrator, or ask for an invite",
            false => "write to me to ask for access, or ask for an invite",
        };
        Ok(Reply::text(denial_text("I did nothing", sender, next)))
    }
}

/// Returns the words for an unknown sender, who learns nothing but their own ID.
fn denial_text(done: &str, sender: &Sender, next: &str) -> String {
    format!("Not authorised. {done} (0 tokens).\nYour ID is `{sender}`: {next}.")
}

/// True for a press of the button below a notice.
pub(super) fn is_request(kind: &InboundKind) -> bool {
    matches!(kind, InboundKind::Click { token, .. } if token == REQUEST_TOKEN)
}

impl Reception {
    /// Returns the notice to an unknown sender, with a button if an administrator can be asked.
    pub(super) async fn denial_notice(&self, inbound: &Inbound) -> Result<Reply, AccessError> {
        let can_ask = !self.parts.reachable_administrators().await?.is_empty();
        let next = match can_ask {
            true => "ask for access with the button, or ask for an invite",
            false => "give it to an administrator, or ask for an invite",
        };
        let text = denial_text("I did nothing with that message", &inbound.sender, next);
        let button = Button::new("Request access", REQUEST_TOKEN, ButtonStyle::Primary);
        Ok(match can_ask {
            true => Reply::text(text).with(ReplyPart::Buttons {
                buttons: vec![button],
            }),
            false => Reply::text(text),
        })
    }

    /// Asks the administrators to admit an unknown sender.
    pub(super) async fn request_access(
        &self,
        inbound: &Inbound,
        at: Timestamp,
    ) -> Result<ReceiveOutcome, AccessError> {
        // A press that asks nobody reads no administrators.
        let outcome = match self.parts.store.access_request_refusal(inbound, at).await? {
            Some(refusal) => refusal,
            None => self.ask_administrators(inbound, at).await?,
        };
        let said = match outcome {
            AccessRequestOutcome::Asked => {
                "I asked the administrators. You hear from me if one of them admits you."
            }
            AccessRequestOutcome::Before => "You have asked already. An administrator decides.",
            AccessRequestOutcome::Full => "I cannot ask for you now. Give your ID to an administrator.",
        };
        self.outgoing.wake();
        self.outgoing.notice(inbound, Reply::text(said));
        Ok(match outcome {
            AccessRequestOutcome::Asked => ReceiveOutcome::New,
            AccessRequestOutcome::Before | AccessRequestOutcome::Full => ReceiveOutcome::Refused,
        })
    }

    /// Stores the request with a question to each administrator. The store checks again that it may ask.
    async fn ask_administrators(
        &self,
        inbound: &Inbound,
        at: Timestamp,
    ) -> Result<AccessRequestOutcome, AccessError> {
        let administrators = self.parts.reachable_administrators().await?;
        if administrators.is_empty() {
            // Nobody would read the request.
            return Ok(AccessRequestOutcome::Full);
        }
        let questions = administrators
            .iter()
            .map(|administrator| question(&self.parts, inbound, administrator));
        let (ops, buttons): (Vec<Op>, Vec<Vec<NewAction>>) = questions.unzip();
        let question = (ops, buttons.concat());
        Ok(self.parts.store.request_access(inbound, question, at).await?)
    }
}

/// Composes the request for one administrator.
fn question(parts: &Parts, inbound: &Inbound, asked: &ReachableAdministrator) -> (Op, Vec<NewAction>) {
    let ReachableAdministrator {
        identity,
        conversation,
    } = asked;
    let delivery = inbound.delivery.first().map_or("", String::as_str);
    let address = Address {
        channel: conversation.channel.clone(),
        place: conversation.key.place.clone(),
        reply_to: None,
        mention: None,
        ephemeral_to: None,
        prefix: format!("access/{delivery}/{}", identity.user()),
        response_url: None,
    };
    let new = |button: AccessButton| {
        let action = (button.word(), inbound.sender.to_string());
        new_button(parts, action, identity, conversation.id)
    };
    let ((viewer, views), (editor, edits)) = (new(AccessButton::Viewer), new(AccessButton::Editor));
    let (ignore, ignores) = new(AccessButton::Ignore);
    let text = format!(
        "An unknown person asks for access. ID: `{}`, in the chat `{}` of `{}`. A press admits exactly this account. For \
         another name, other repositories or environments: `!user add {} NAME --role ROLE --env GLOB`.",
        inbound.sender, inbound.place.chat, inbound.channel, inbound.sender
    );
    let mut parts = Vec::new();
    if is_same_workspace(inbound, &address.place) {
        parts.push(ReplyPart::Mention {
            to: inbound.sender.clone(),
        });
    }
    parts.push(ReplyPart::Text { text });
    let mut edit = Button::new("Admit as editor", editor, ButtonStyle::Plain);
    edit.confirmation = Some(format!(
        "Admit {} as an editor of all repositories and environments that you administer?",
        inbound.sender
    ));
    parts.push(ReplyPart::Buttons {
        buttons: vec![
            Button::new("Admit as viewer", viewer, ButtonStyle::Primary),
            edit,
            Button::new("Ignore", ignore, ButtonStyle::Plain),
        ],
    });
    (
        address.post("request", Reply { parts }),
        vec![views, edits, ignores],
    )
}

/// True if a mention of the sender means them in this place.
fn is_same_workspace(inbound: &Inbound, place: &ChatPlace) -> bool {
    inbound.place.account == place.account
}

/// Returns the message that tells a person that they were admitted.
pub(super) fn admitted_notice(request: &Inbound, address: &Address, welcome: Reply) -> Op {
    let notice = Action::Notice {
        to: request.sender.clone(),
        reply: welcome,
    };
    Op {
        channel: request.channel.clone(),
        place: request.private_place(),
        response_url: None,
        ..address.op("admitted", notice)
    }
}

#[cfg(test)]
mod tests {
    use super::AccessButton;
    use crate::engine::command::Verb;

    #[test]
    fn a_button_is_found_by_its_word_and_is_no_command() {
        for button in AccessButton::ALL {
            assert_eq!(AccessButton::parse(button.word()), Some(button));
            assert_eq!(Verb::parse(button.word()), None);
        }
    }
}
