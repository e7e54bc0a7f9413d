//! The buttons of an administrator below a request for access.

use super::people::{admission_text, refusal_text};
use super::press::CountedPress;
use super::{CommandAnswer, CommandRunner};
use crate::base::model::{Reply, Sender};
use crate::engine::gateway::access_request::{AccessButton, admitted_notice};
use crate::engine::gateway::welcome::greeting;
use crate::state::access::{AccessError, Admitter, Grant, JoinOutcome, NewPerson, account_of};

/// Returns the name of a person of whom only the account is known. A number would be taken for the id of a row.
fn name_of(sender: &Sender) -> String {
    match sender.id.chars().all(|char| char.is_ascii_digit()) {
        true => format!("{}-{}", sender.platform.as_str(), sender.id),
        false => sender.id.clone(),
    }
}

impl CommandRunner {
    /// Decides a request for access. The permission to admit is checked in the transaction that admits.
    pub(super) async fn decide_access(
        &self,
        button: AccessButton,
        press: CountedPress<'_>,
    ) -> anyhow::Result<CommandAnswer> {
        let sender = account_of(press.argument)?;
        let Some(role) = button.role() else {
            let text = format!("The request of `{sender}` is ignored.");
            return Ok(press.replaced(Reply::text(text)));
        };
        let grant = Grant {
            role,
            repositories: "*".to_owned(),
            environments: vec!["**".to_owned()],
        };
        let new = NewPerson {
            sender: sender.clone(),
            name: name_of(&sender),
            grant: grant.clone(),
        };
        let by = Admitter::Administrator {
            user: press.identity.user(),
            name: press.identity.name().to_owned(),
            message: press.asked.inbox,
        };
        let (access, now) = (&self.parts.access, (self.parts.now)());
        let user = match access.add(new, self.outgoing.connected_accounts(), by, now).await {
            Ok(user) => user,
            Err(AccessError::Store(error)) => return Err(error.into()),
            Err(error) => return Ok(press.replaced(Reply::text(refusal_text(&error)))),
        };
        let mut answer = press.replaced(Reply::text(admission_text(&user)));
        let welcome = greeting(&JoinOutcome::Welcome {
            name: user.name,
            role,
            repositories: grant.repositories,
            environments: grant.environments,
            invited_by: press.identity.name().to_owned(),
        });
        let request = self.parts.store.access_request(&sender).await?;
        let notice = request.zip(welcome);
        let notice = notice.map(|(request, welcome)| admitted_notice(&request, press.address, welcome));
        answer.ops.extend(notice);
        Ok(answer)
    }
}
