//! Answers about the secrets of incoming requests for an operator: their use, and the retirement of a replaced one.

use super::{Admin, AdminError, AdminReply};

impl Admin {
    pub(super) fn secrets(&self) -> AdminReply {
        AdminReply::Secrets {
            secrets: self.secret_pairs.uses(),
            counted_since: self.started_at,
        }
    }

    /// Refuses a replaced secret at once, and after each start. It is refused as soon as that is stored, also if nobody waits
    /// for the answer any more.
    pub(super) async fn retire_secret(&self, key: &str) -> Result<AdminReply, AdminError> {
        let Some(hash) = self.secret_pairs.hash(key) else {
            return Err(AdminError::Other(self.unknown_secret(key)));
        };
        let (pairs, retired) = (self.secret_pairs.clone(), key.to_owned());
        let since = self
            .store
            .retire_secret((key, hash), "operator", (self.now)(), move |at| {
                pairs.retire(&retired, at);
            })
            .await?;
        Ok(AdminReply::SecretRetired {
            key: key.to_owned(),
            since,
        })
    }

    fn unknown_secret(&self, key: &str) -> String {
        if let Some(previous) = self.secret_pairs.previous_of(key) {
            return format!("`{key}` is the current secret; `{previous}` is the one that can be retired");
        }
        let known = self.secret_pairs.previous_keys();
        match known.is_empty() {
            true => format!(
                "no secret `{key}` can be retired, because no section of the configuration has a previous one"
            ),
            false => format!("no previous secret `{key}`; configured are: {}", known.join(", ")),
        }
    }
}
