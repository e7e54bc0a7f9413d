//! The invites, the people and their grants, for operators.

use super::{Admin, AdminError, AdminReply};
use crate::base::model::{Installation, Platform};
use crate::state::access::{AccessError, Admitter, AuditorRight, Grant, NewInvite, NewPerson, Role};
use std::time::Duration;

impl Admin {
    pub(super) async fn invite(
        &self,
        name: String,
        role: Role,
        repositories: String,
        environments: Vec<String>,
        hours: u32,
    ) -> Result<AdminReply, AdminError> {
        let at = (self.now)();
        let expires = Duration::from_secs(u64::from(hours) * 3_600);
        let invite = NewInvite {
            name,
            role,
            repositories,
            environments,
            expires,
            bound_to: None,
        };
        let token = self
            .access
            .invite(invite, "operator", (self.random)(), at)
            .await?;
        let token = token.expose().to_owned();
        let mut how: Vec<String> = self
            .installations
            .installations()
            .iter()
            .map(|(name, installation)| how_to(name, installation, &token))
            .collect();
        if how.is_empty() {
            // The newest platform is first.
            how.extend(Platform::chats().rev().map(|chat| (chat.invite)(None, &token)));
        }
        let expires = at
            .checked_add(expires)
            .map_err(|error| AdminError::Other(error.to_string()))?;
        Ok(AdminReply::Invite { token, how, expires })
    }

    pub(super) async fn users(&self) -> Result<AdminReply, AdminError> {
        Ok(AdminReply::Users {
            users: self.access.users().await?,
        })
    }

    pub(super) async fn user(&self, which: &str) -> Result<AdminReply, AdminError> {
        Ok(AdminReply::Users {
            users: vec![self.access.user(which).await?],
        })
    }

    pub(super) async fn add(&self, person: NewPerson) -> Result<AdminReply, AdminError> {
        let installations = self.installations.installations();
        let connected = installations
            .into_iter()
            .map(|(_, installation)| installation.account)
            .collect();
        let added = self
            .access
            .add(person, connected, Admitter::Operator, (self.now)());
        Ok(AdminReply::Added { user: added.await? })
    }

    pub(super) async fn revoke(&self, which: &str) -> Result<AdminReply, AdminError> {
        let user = self.access.user(which).await?;
        let tokens = self.access.revoke(user.id, "operator", (self.now)()).await?;
        // Their runs are cancelled, and the next runs of their groups begin.
        if let Some(gateway) = &self.gateway {
            gateway.runs.wake();
        }
        Ok(AdminReply::Revoked {
            user: self.access.user(&user.id.to_string()).await?,
            tokens: tokens.unwrap_or_default(),
        })
    }

    pub(super) async fn grant(&self, which: &str, grant: &Grant) -> Result<AdminReply, AdminError> {
        let user = self.access.user(which).await?;
        if user.revoked_at.is_some() {
            return Err(AccessError::Revoked(user.name).into());
        }
        self.access
            .set_grant(user.id, grant, "operator", (self.now)())
            .await?;
        Ok(AdminReply::Granted {
            user: self.access.user(&user.id.to_string()).await?,
        })
    }

    pub(super) async fn set_auditor(
        &self,
        which: &str,
        right: AuditorRight,
    ) -> Result<AdminReply, AdminError> {
        let user = self.access.user(which).await?;
        if user.revoked_at.is_some() {
            return Err(AccessError::Revoked(user.name).into());
        }
        self.access
            .set_auditor(user.id, right, "operator", (self.now)())
            .await?;
        Ok(AdminReply::Auditor {
            user: self.access.user(&user.id.to_string()).await?,
        })
    }
}

fn how_to(name: &str, installation: &Installation, token: &str) -> String {
    match installation.account.platform.chat() {
        Some(chat) => format!("{name}: {}", (chat.invite)(Some(&installation.bot_name), token)),
        None => format!("{name}: no invites"),
    }
}
