//! The sections of the configuration that have two secrets, with the retirements that are stored.

use crate::base::config::Config;
use crate::base::webhook::SecretPairs;
use crate::state::store::{Store, StoreError};
use tracing::warn;

/// Returns the sections that have two secrets. A previous secret that was retired before is refused.
pub(crate) async fn secret_pairs(config: &Config, store: &Store) -> Result<SecretPairs, StoreError> {
    let pairs = config.secret_pairs(|keys, previous| {
        let hash = store.secret_hash(&keys.previous, previous);
        (keys, hash)
    });
    let secret_pairs = SecretPairs::new(pairs.clone());
    for (keys, hash) in pairs {
        let key = keys.previous;
        if let Some(since) = store.secret_retired_at(hash).await? {
            secret_pairs.retire(&key, since);
            warn!(
                key,
                "`{key}` was retired at {since:.0} and is refused; remove it from the configuration"
            );
        }
    }
    Ok(secret_pairs)
}
