//! Answers about the audit log for an operator: the integrity check and the lines.

use super::{Admin, AdminError, AdminReply};
use crate::state::access::AccessError;
use crate::state::store::{AuditPerson, AuditSearch, AuditState};
use jiff::Timestamp;

/// Longest list of audit lines in one answer.
pub const AUDIT_LINES_MAX: u32 = 1_000;

impl Admin {
    pub(super) async fn audit(&self) -> Result<AdminReply, AdminError> {
        match self.store.verify_audit().await? {
            AuditState::Intact { rows, cut, since, .. } => Ok(AdminReply::Audit { rows, cut, since }),
            AuditState::Broken { row } => Err(AdminError::Other(format!(
                "the audit log was changed at row {row}"
            ))),
        }
    }

    pub(super) async fn audit_lines(
        &self,
        kind: Option<String>,
        person: Option<&str>,
        since: Option<Timestamp>,
        limit: u32,
    ) -> Result<AdminReply, AdminError> {
        let person = match person {
            Some(person) => Some(self.audited(person).await?),
            None => None,
        };
        let search = AuditSearch {
            kind,
            person,
            since,
            limit: limit.min(AUDIT_LINES_MAX) as usize,
        };
        let found = self.store.search_audit(search).await?;
        Ok(AdminReply::AuditLines {
            lines: found.lines,
            has_more: found.has_more,
        })
    }

    /// Finds the person for a filter: an admitted user, or an account that was never admitted.
    async fn audited(&self, who: &str) -> Result<AuditPerson, AdminError> {
        match self.access.user(who).await {
            Ok(user) => Ok(AuditPerson {
                user: Some(user.id.0),
                name: Some(user.name),
                senders: user.senders.iter().map(ToString::to_string).collect(),
            }),
            Err(AccessError::Unknown(_)) if who.split(':').count() >= 3 => Ok(AuditPerson {
                senders: vec![who.to_owned()],
                ..AuditPerson::default()
            }),
            Err(error) => Err(error.into()),
        }
    }
}
