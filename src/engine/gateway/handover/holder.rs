//! The person to whom the token of a request belongs.

use super::{HandoverAnswer, NAME};
use crate::engine::gateway::audit::IngressAudit;
use crate::engine::gateway::parts::Parts;
use crate::state::access::{AccessError, Identity, TokenHolder, TokenScope};
use jiff::Timestamp;

/// Returns the identities of the person of a token, one for each of their accounts, or the answer to a request that the token
/// does not permit. A refusal is recorded.
pub(in crate::engine::gateway) async fn token_holder(
    parts: &Parts,
    audit: &IngressAudit,
    (token, scope): (&str, TokenScope),
    at: Timestamp,
) -> Result<Result<Vec<Identity>, HandoverAnswer>, AccessError> {
    Ok(match parts.access.holder_of_token(token, scope, at).await? {
        TokenHolder::Person(identities) => Ok(identities),
        TokenHolder::OutOfScope => {
            audit.rejected(NAME, "token.scope", at);
            let why = format!("the token has no scope `{scope}`");
            Err(HandoverAnswer::Forbidden(why))
        }
        TokenHolder::Invalid => {
            audit.rejected(NAME, "login.token", at);
            Err(HandoverAnswer::Unauthenticated)
        }
    })
}
