//! The dead letters, for operators.

use super::{Admin, AdminError, AdminReply};
use crate::state::store::{DeadLetterFilter, ResentLetters};
use std::collections::BTreeSet;

/// Longest list of operations in one answer.
const LETTERS_MAX: u32 = 1_000;

impl Admin {
    pub(super) async fn outbox(&self, channel: Option<&str>) -> Result<AdminReply, AdminError> {
        self.check_channel(channel).await?;
        let mut channels = match &self.gateway {
            Some(gateway) => gateway.outgoing.health().await?,
            None => Vec::new(),
        };
        channels.retain(|health| channel.is_none_or(|channel| health.channel == channel));
        Ok(AdminReply::Outbox {
            channels,
            letters: self.store.dead_letters(channel, LETTERS_MAX).await?,
            total: self.store.dead_letter_count(channel).await?,
        })
    }

    /// Refuses a channel that is neither configured nor in the outbox. Such a name is a mistake.
    async fn check_channel(&self, channel: Option<&str>) -> Result<(), AdminError> {
        let Some(channel) = channel.filter(|channel| !self.channels.contains(*channel)) else {
            return Ok(());
        };
        if self.store.has_sent_to(channel).await? {
            return Ok(());
        }
        let configured: Vec<&str> = self.channels.iter().map(String::as_str).collect();
        let configured = match configured.is_empty() {
            true => "none is configured".to_owned(),
            false => format!("configured are: {}", configured.join(", ")),
        };
        Err(AdminError::Other(format!("no channel `{channel}`; {configured}")))
    }

    pub(super) async fn drop_letters(&self, which: DeadLetterFilter) -> Result<AdminReply, AdminError> {
        self.check_channel(which.channel()).await?;
        let dropped = self.store.drop_letters(which, "operator", (self.now)()).await?;
        if let Some(gateway) = &self.gateway {
            // The run of a dropped reply is shown with it.
            gateway.runs.wake();
        }
        Ok(AdminReply::Letters {
            count: dropped.len() as u64,
            withdrawn: Vec::new(),
        })
    }

    pub(super) async fn send_again(&self, which: DeadLetterFilter) -> Result<AdminReply, AdminError> {
        self.check_channel(which.channel()).await?;
        let ResentLetters { queued, withdrawn } =
            self.store.send_again(which, "operator", (self.now)()).await?;
        if let Some(gateway) = &self.gateway {
            let woken: BTreeSet<&String> = queued.iter().collect();
            woken
                .into_iter()
                .for_each(|channel| gateway.outgoing.retry(channel));
            // What is sent again is no longer shown as undelivered with its run.
            gateway.runs.wake();
        }
        Ok(AdminReply::Letters {
            count: queued.len() as u64,
            withdrawn,
        })
    }
}
