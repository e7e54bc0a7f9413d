//! Selection of the repository for a request.

use super::parts::Parts;
use crate::state::access::Identity;
use crate::state::store::Conversation;

pub(super) enum RepositoryChoiceError {
    /// The person may read no repository.
    NoGrant,
    /// The person may read these repositories, and the request names none of them.
    Ambiguous(Vec<String>),
}

impl Parts {
    /// Selects the repository for a request, and returns the text without the word that named it. Repositories that the
    /// person may not read are treated as nonexistent.
    pub(super) fn resolve_repository(
        &self,
        identity: &Identity,
        channel: &str,
        conversation: &Conversation,
        words: &str,
    ) -> Result<(String, String), RepositoryChoiceError> {
        let granted: Vec<&str> = self
            .repositories
            .names()
            .filter(|name| identity.role(name).is_some())
            .collect();
        if let Some((word, rest)) = words.split_once(':')
            && granted.contains(&word.trim())
        {
            return Ok((word.trim().to_owned(), rest.trim().to_owned()));
        }
        let bound = conversation.repository.as_deref();
        let default = self
            .config
            .channels
            .get(channel)
            .and_then(|settings| settings.common().repository());
        let chosen = bound
            .into_iter()
            .chain(default)
            .find(|name| granted.contains(name));
        match (chosen, granted.as_slice()) {
            (Some(name), _) => Ok((name.to_owned(), words.to_owned())),
            (None, [only]) => Ok(((*only).to_owned(), words.to_owned())),
            (None, []) => Err(RepositoryChoiceError::NoGrant),
            (None, several) => Err(RepositoryChoiceError::Ambiguous(
                several.iter().map(|name| (*name).to_owned()).collect(),
            )),
        }
    }
}
