//! The requests of operators.

use super::{RunOrder, ScheduleOrder};
use crate::base::model::{RunId, RunStatus};
use crate::engine::gateway::RoundStart;
use crate::state::access::{AuditorRight, Grant, NewPerson, NewToken, Role};
use crate::state::store::{DeadLetterFilter, Prune};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// A request from an operator.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case")]
pub enum AdminRequest {
    /// Creates an invite.
    Invite {
        /// The person's display name.
        name: String,
        /// The person's role.
        role: Role,
        /// Glob over repository names.
        repositories: String,
        /// Globs over environments.
        environments: Vec<String>,
        /// The hours for which the invite is valid.
        hours: u32,
    },
    /// Lists every admitted person, including revoked ones.
    Users,
    /// Shows one person, found by id, name or `slack:T0ACME:U0ALICE`.
    User {
        /// The id, name or account of the person.
        which: String,
    },
    /// Admits an account by its id.
    Add {
        /// The account, the name and the grant of the person.
        person: NewPerson,
    },
    /// Revokes a person's access at once.
    Revoke {
        /// The id, name or account of the person.
        which: String,
    },
    /// Replaces all grants of a person with this one, at once.
    Grant {
        /// The id, name or account of the person.
        which: String,
        /// The grant.
        grant: Grant,
    },
    /// Gives a person the right to read the conversations of others, or takes it away, at once.
    Auditor {
        /// The id, name or account of the person.
        which: String,
        /// The change of the right.
        right: AuditorRight,
    },
    /// Makes a token for a person or a service.
    CreateToken {
        /// The id, name or account of the person or service.
        person: String,
        /// The token.
        token: NewToken,
    },
    /// Lists the tokens of all people and services.
    Tokens,
    /// Ends a token at once.
    RevokeToken {
        /// The name of the token.
        name: String,
        /// The id, name or account of its person; not needed if one person has a token of this name.
        person: Option<String>,
    },
    /// Lists the secrets of the sections that have two of them.
    Secrets,
    /// Refuses the previous secret of a key from now on.
    RetireSecret {
        /// The key, such as `hooks.release.previous_secret`.
        key: String,
    },
    /// Shows the recording of a conversation, found by its id or a change such as `CHG-42`.
    Session {
        /// The id of the conversation, or the name of a change.
        which: String,
    },
    /// Checks the hash chain of the audit log.
    Audit,
    /// Lists the newest lines of the audit log that match all given filters.
    AuditList {
        /// A kind such as `ingress.rejected`, or its part before the dot.
        kind: Option<String>,
        /// The person in the lines: an id, a name or `slack:T0ACME:U0ALICE`.
        person: Option<String>,
        /// The earliest time to include.
        since: Option<Timestamp>,
        /// Maximum number of lines.
        limit: u32,
    },
    /// Reports the state of the running server.
    Status,
    /// Reports the stored amount and the retention time of each kind of data.
    Data,
    /// Lists the dead letters, and reports the health of the channels.
    Outbox {
        /// A channel to list; `None` for all.
        channel: Option<String>,
    },
    /// Sends dead letters again.
    OutboxRetry {
        /// The dead letters to send again.
        which: DeadLetterFilter,
    },
    /// Drops dead letters. They are never sent.
    OutboxDrop {
        /// The dead letters to drop.
        which: DeadLetterFilter,
    },
    /// Lists the schedules of the configuration and of all people.
    Schedules,
    /// Shows or changes one schedule.
    Schedule {
        /// Its number, or its name if no other has it.
        which: String,
        /// The order.
        order: ScheduleOrder,
    },
    /// Lists the newest runs of pipelines that match all given filters.
    Runs {
        /// The repository of the runs.
        repository: Option<String>,
        /// Their state.
        status: Option<RunStatus>,
    },
    /// Shows or changes one run.
    Run {
        /// Its number.
        id: RunId,
        /// The order.
        order: RunOrder,
    },
    /// Prunes data that is older than its retention time. One request works for some seconds; repeat it until it is
    /// done.
    Prune {
        /// The choice between removing old rows and counting them.
        prune: Prune,
        /// The choice between starting a round and continuing one.
        begin: RoundStart,
    },
}
