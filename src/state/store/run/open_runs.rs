//! The numbers of runs that have not ended.

use crate::base::model::RunStatus;
use crate::state::store::column::{count, word};
use crate::state::store::{Store, StoreError};
use serde::{Deserialize, Serialize};

/// The query for the numbers of [`OpenRuns`], in the order of its fields. It reads open runs only.
const COUNTS: &str = "SELECT
      COUNT(*) FILTER (WHERE status = ?1),
      COUNT(*) FILTER (WHERE status <> ?1 AND NOT asks),
      COUNT(*) FILTER (WHERE status <> ?1 AND asks)
    FROM (SELECT status, EXISTS (
            SELECT 1 FROM run_question WHERE run_question.run = run.id AND run_question.closed_at IS NULL) AS asks
          FROM run INDEXED BY run_open WHERE ended_at IS NULL)";

/// The numbers of runs that have not ended. Each run is counted once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenRuns {
    /// Runs that wait until no other run of their group runs.
    pub queued: u64,
    /// Runs whose steps run, without an open question.
    pub running: u64,
    /// Runs with an open question to a person.
    pub waiting_for_person: u64,
}

impl Store {
    /// Returns the numbers of runs that have not ended.
    pub async fn open_runs(&self) -> Result<OpenRuns, StoreError> {
        self.read(|tx| {
            let queued = word(&RunStatus::Queued)?;
            let counts = tx.prepare_cached(COUNTS)?.query_row([queued], |row| {
                Ok(OpenRuns {
                    queued: count(row.get(0)?),
                    running: count(row.get(1)?),
                    waiting_for_person: count(row.get(2)?),
                })
            })?;
            Ok(counts)
        })
        .await
    }
}
