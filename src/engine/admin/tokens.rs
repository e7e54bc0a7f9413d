//! The tokens that operators make for people and services.

use super::{Admin, AdminError, AdminReply};
use crate::state::access::{NewToken, User};

/// The one who makes and ends tokens, for the audit log.
const BY: &str = "operator";

impl Admin {
    pub(super) async fn create_token(&self, person: &str, new: &NewToken) -> Result<AdminReply, AdminError> {
        let user = self.access.user(person).await?;
        let made = self
            .access
            .create_token(&user, new, BY, (self.random)(), (self.now)());
        let (secret, token) = made.await?;
        Ok(AdminReply::TokenCreated {
            secret: secret.expose().to_owned(),
            token,
        })
    }

    pub(super) async fn tokens(&self) -> Result<AdminReply, AdminError> {
        Ok(AdminReply::Tokens {
            tokens: self.access.tokens((self.now)()).await?,
        })
    }

    pub(super) async fn revoke_token(
        &self,
        name: &str,
        person: Option<&str>,
    ) -> Result<AdminReply, AdminError> {
        let user: Option<User> = match person {
            Some(person) => Some(self.access.user(person).await?),
            None => None,
        };
        let ended = self.access.revoke_token(name, user.as_ref(), BY, (self.now)());
        Ok(AdminReply::TokenRevoked { token: ended.await? })
    }
}
