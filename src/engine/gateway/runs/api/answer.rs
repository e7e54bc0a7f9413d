//! The answers to requests about runs: those that say no, and those about a run that was requested.

use super::writer::RunWriter;
use super::{RunApi, may_see};
use crate::base::model::RunStatus;
use crate::engine::gateway::handover::HandoverAnswer;
use crate::state::store::RunCreation;

/// The seconds after which a request for which there was no place may succeed.
const PLACE_SECONDS: u64 = 5;
/// The seconds after which a run may start when too many are open.
const RUNS_SECONDS: u64 = 30;
/// The reason why a run was left out.
const SKIPPED: &str = "another run of its group has not ended, and this pipeline does not wait for it";
/// The reason why a key is refused.
const KEY_USED: &str =
    "this `Idempotency-Key` belongs to another request, or to a run that is removed by now; use another one";

/// The reason why a request does not get what it asks for.
pub(super) enum ApiRefusal {
    /// The answer says so.
    Answer(HandoverAnswer),
    /// The store or another part failed.
    Fault(anyhow::Error),
}

/// The answer to a request, or the reason why it gets another one.
pub(super) type ApiResult = Result<HandoverAnswer, ApiRefusal>;

impl From<HandoverAnswer> for ApiRefusal {
    fn from(answer: HandoverAnswer) -> Self {
        Self::Answer(answer)
    }
}

impl<E: std::error::Error + Send + Sync + 'static> From<E> for ApiRefusal {
    fn from(error: E) -> Self {
        Self::Fault(error.into())
    }
}

/// Returns the answer to a request. A fault is logged.
pub(super) fn answered(result: ApiResult, what: &str) -> HandoverAnswer {
    match result {
        Ok(answer) | Err(ApiRefusal::Answer(answer)) => answer,
        Err(ApiRefusal::Fault(error)) => {
            tracing::error!(error = format!("{error:#}"), "{what} failed");
            HandoverAnswer::Unavailable
        }
    }
}

/// Returns the answer to a person with too many requests of one kind.
pub(super) fn no_place(what: &str) -> ApiRefusal {
    let answer = HandoverAnswer::TooMany {
        why: format!("too many {what} are open"),
        seconds: PLACE_SECONDS,
    };
    answer.into()
}

/// Returns the answer to a request that cannot be followed as it is, without the problem of a field.
fn unprocessable(why: &str) -> ApiRefusal {
    let answer = HandoverAnswer::Unprocessable {
        why: why.to_owned(),
        problems: Vec::new(),
    };
    answer.into()
}

impl RunApi {
    /// Returns the outcome of a request with one of these names that came before.
    pub(super) async fn known(&self, names: &[String]) -> Result<Option<RunCreation>, ApiRefusal> {
        match names.is_empty() {
            true => Ok(None),
            false => Ok(self.parts.store.run_of_request(names.to_vec()).await?),
        }
    }

    /// Returns the answer about a run that was requested.
    pub(super) async fn created(&self, outcome: RunCreation, writer: &RunWriter) -> ApiResult {
        let refused = |why: &str| -> ApiResult { Err(HandoverAnswer::Refused(why.to_owned()).into()) };
        let id = match outcome {
            RunCreation::Created(id) | RunCreation::Known(Some(id)) => id,
            RunCreation::Known(None) => return Err(unprocessable(KEY_USED)),
            RunCreation::Skipped(_) => return refused(SKIPPED),
            RunCreation::TooLarge => {
                return Err(unprocessable("its values are too large; give shorter ones"));
            }
            RunCreation::Gone => return Err(HandoverAnswer::NotFound.into()),
            RunCreation::Unfinished => return refused("it has not ended; cancel it first"),
            RunCreation::Succeeded => return refused("it succeeded; start a new one"),
            RunCreation::NotKept => return refused("it was skipped before it began; start a new one"),
            RunCreation::TooMany => {
                let why = "too many runs are open; cancel one, or wait".to_owned();
                let seconds = RUNS_SECONDS;
                return Err(HandoverAnswer::TooMany { why, seconds }.into());
            }
        };
        let row = self.parts.store.run(id).await?;
        let row = row.filter(|row| may_see(&self.parts.access, &writer.person, &row.head));
        let row = row.ok_or(HandoverAnswer::NotFound)?;
        let document = self.document_for(writer, &row)?;
        match outcome {
            RunCreation::Created(_) => Ok(HandoverAnswer::Created {
                location: format!("/api/runs/{id}"),
                document,
            }),
            _ if row.head.status == RunStatus::Skipped => refused(SKIPPED),
            _ => Ok(HandoverAnswer::Document(document)),
        }
    }
}
