//! The person whose program starts or changes a run, and what the answer shows of it: a token that may not show runs gets no
//! output of a step.

use super::answer::ApiRefusal;
use super::{RunApi, RunDocument};
use crate::state::access::{Identity, TokenHolder, TokenScope};
use crate::state::store::RunRow;
use jiff::Timestamp;

/// The person of a token that may change runs.
pub(super) struct RunWriter {
    pub(super) person: Identity,
    /// True if the token may show runs as well.
    may_show: bool,
}

impl RunApi {
    /// Returns the person of a token that may change runs.
    pub(super) async fn writer(&self, token: &str, at: Timestamp) -> Result<RunWriter, ApiRefusal> {
        let person = self.person(token, TokenScope::RunsWrite, at).await?;
        let access = &self.parts.access;
        let reader = access.holder_of_token(token, TokenScope::RunsRead, at).await?;
        Ok(RunWriter {
            person,
            may_show: matches!(reader, TokenHolder::Person(_)),
        })
    }

    /// Returns the document of a run for the one who has started or changed it.
    pub(super) fn document_for(&self, writer: &RunWriter, row: &RunRow) -> serde_json::Result<String> {
        let mut document = RunDocument::of(row, &self.parts.redactor);
        if !writer.may_show {
            document.steps.iter_mut().for_each(|step| step.text.clear());
        }
        serde_json::to_string(&document)
    }
}
