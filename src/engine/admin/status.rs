//! The state of a running server, for its operator.

use super::{Admin, AdminError, AdminReply};
use crate::base::telemetry;
use crate::engine::gateway::ChannelHealth;
use crate::state::store::{OpenRuns, ScheduleRow};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::path::PathBuf;

/// The facts about a running server that do not change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerFacts {
    /// The version of the program.
    pub version: String,
    /// The process id.
    pub process: u32,
    /// The time of the start.
    pub started_at: Timestamp,
    /// The address of the listener.
    pub address: SocketAddr,
    /// The absolute path of the configuration file, if there is one.
    pub configuration: Option<PathBuf>,
}

/// The state of a running server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerStatus {
    /// The unchanging facts.
    #[serde(flatten)]
    pub facts: ServerFacts,
    /// The reasons why `/readyz` answers 503; empty if the server is ready.
    pub waiting_for: Vec<String>,
    /// The problems that do not keep the server from accepting messages.
    pub degraded: Vec<String>,
    /// Number of turns that run.
    pub turns_running: u64,
    /// Number of accepted messages that wait for their turn.
    pub messages_waiting: u64,
    /// The numbers of open runs; `None` if a server of an earlier version does not count them.
    #[serde(default)]
    pub runs: Option<OpenRuns>,
    /// The channels with their waiting operations.
    pub channels: Vec<ChannelHealth>,
    /// The schedules of the configuration and of people.
    pub schedules: Vec<ScheduleRow>,
    /// The newest log lines that are warnings or errors, oldest first.
    pub problems: Vec<String>,
}

impl Admin {
    pub(super) async fn status(&self) -> Result<AdminReply, AdminError> {
        let (Some(facts), Some(gateway)) = (&self.facts, &self.gateway) else {
            return Err(AdminError::Other("no server runs".to_owned()));
        };
        let turns_running = gateway.running_turns() as u64;
        let mut degraded = self.installations.degraded();
        degraded.extend(gateway.problems((self.now)()));
        // The active messages are unfinished as well.
        let messages_waiting = self
            .store
            .unfinished_messages()
            .await?
            .saturating_sub(turns_running);
        Ok(AdminReply::Status {
            status: Box::new(ServerStatus {
                facts: facts.clone(),
                waiting_for: self.installations.waiting_for(),
                degraded,
                turns_running,
                messages_waiting,
                runs: Some(self.store.open_runs().await?),
                schedules: self.store.schedules(None).await?,
                channels: gateway.outgoing.health().await?,
                problems: telemetry::recent_problems(),
            }),
        })
    }
}
