//! The answers to operators.

use super::ServerStatus;
use crate::base::model::RunId;
use crate::base::webhook::SecretUse;
use crate::engine::gateway::{ChannelHealth, Holding, PrunedAmount};
use crate::state::access::{PersonalToken, User};
use crate::state::recording;
use crate::state::store::{AuditLine, DatabaseSize, DeadLetter, RunHead, ScheduleFire, ScheduleRow, StepRow};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The answer to an operator.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum AdminReply {
    /// An invite. Its token is shown only in this answer.
    Invite {
        /// The token.
        token: String,
        /// Instructions for using it, one line per connected channel.
        how: Vec<String>,
        /// The time of expiry.
        expires: Timestamp,
    },
    /// The requested users.
    Users {
        /// The users, sorted by id.
        users: Vec<User>,
    },
    /// The person was admitted.
    Added {
        /// The person, with their grants.
        user: User,
    },
    /// The person's access was revoked.
    Revoked {
        /// The person.
        user: User,
        /// The names of their tokens, which ended.
        #[serde(default)]
        tokens: Vec<String>,
    },
    /// A token was made. It is shown only in this answer.
    TokenCreated {
        /// The token itself.
        secret: String,
        /// The token as it is listed.
        token: PersonalToken,
    },
    /// The tokens of all people.
    Tokens {
        /// The tokens, by person and name.
        tokens: Vec<PersonalToken>,
    },
    /// A token ended.
    TokenRevoked {
        /// The token.
        token: PersonalToken,
    },
    /// The person's grant was changed.
    Granted {
        /// The person, with their new grants.
        user: User,
    },
    /// The person is an auditor now, or no longer.
    Auditor {
        /// The person.
        user: User,
    },
    /// The secrets of the sections that have two of them.
    Secrets {
        /// The secrets, the current one of each section first.
        secrets: Vec<SecretUse>,
        /// The start of the server that counted their requests; `None` if no server runs.
        counted_since: Option<Timestamp>,
    },
    /// The secret is refused.
    SecretRetired {
        /// The key of the secret.
        key: String,
        /// The time since which it is refused.
        since: Timestamp,
    },
    /// A recording.
    Session {
        /// The records, oldest first.
        records: Vec<recording::SessionRecord>,
    },
    /// The audit log is intact.
    Audit {
        /// Number of rows since the log began.
        rows: i64,
        /// Number of rows that were cut from the start of the log.
        #[serde(default)]
        cut: i64,
        /// The time of the first remaining row, if rows were cut.
        #[serde(default)]
        since: Option<Timestamp>,
    },
    /// Lines of the audit log.
    AuditLines {
        /// The lines, newest first.
        lines: Vec<AuditLine>,
        /// True if there may be older matching lines.
        has_more: bool,
    },
    /// The state of the running server.
    Status {
        /// The state.
        #[serde(flatten)]
        status: Box<ServerStatus>,
    },
    /// The amount of stored data.
    Data {
        /// The amount for each kind.
        kinds: Vec<Holding>,
        /// The size of the database file.
        database: DatabaseSize,
    },
    /// The dead letters.
    Outbox {
        /// The health of the channels of a running server.
        channels: Vec<ChannelHealth>,
        /// The dead letters, oldest first, up to a bound.
        letters: Vec<DeadLetter>,
        /// Total number of dead letters, including those beyond the bound.
        #[serde(default)]
        total: u64,
    },
    /// The result of a retry or a drop.
    Letters {
        /// Number of dead letters.
        count: u64,
        /// The operations that are not sent again, because a sender was blocked or a person revoked.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        withdrawn: Vec<String>,
    },
    /// The schedules, each with its next time and its last fire.
    Schedules {
        /// The schedules, by owner and name.
        schedules: Vec<ScheduleRow>,
    },
    /// A schedule as it was before the request, and its state after it.
    ScheduleChanged {
        /// The schedule.
        schedule: Box<ScheduleRow>,
        /// The new state, or the result, in a few words.
        done: String,
    },
    /// The fires of a schedule.
    ScheduleFires {
        /// The schedule.
        schedule: Box<ScheduleRow>,
        /// Its fires, newest first, up to a bound.
        fires: Vec<ScheduleFire>,
    },
    /// Runs of pipelines.
    Runs {
        /// The runs, newest first.
        runs: Vec<RunHead>,
        /// True if there are older ones.
        has_more: bool,
    },
    /// A run with its steps.
    Run {
        /// The run.
        run: Box<RunHead>,
        /// The commit of its definition.
        commit: String,
        /// The time at which it has to end, if it has begun.
        deadline: Option<Timestamp>,
        /// The steps, in the order of the plan.
        steps: Vec<StepRow>,
    },
    /// A run was changed, or a new one was started.
    RunChanged {
        /// The run.
        run: RunId,
        /// The new state, or the result, in a few words.
        done: String,
    },
    /// The amount that was removed, or would be removed.
    Pruned {
        /// The result for each kind.
        pruned: Vec<PrunedAmount>,
        /// The kinds whose removal failed, with the reason.
        failed: Vec<String>,
        /// True if the round is complete.
        is_done: bool,
    },
    /// The request failed.
    Failed {
        /// The reason, for the operator.
        why: String,
    },
}
