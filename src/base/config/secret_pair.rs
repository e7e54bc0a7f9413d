//! Secrets in pairs: while the secret of incoming requests is replaced, its section also has the previous one. A request
//! may be signed with either.

use super::reader::SettingsReader;
use super::settings::Config;
use crate::base::model::Secret;
use crate::base::webhook::SecretPairKeys;
use subtle::ConstantTimeEq;

impl Config {
    /// Calls a function with each section that has two secrets, and the previous one.
    pub fn secret_pairs<T>(&self, of: impl Fn(SecretPairKeys, &[u8]) -> T) -> Vec<T> {
        let channels = self.channels.iter().filter_map(|(name, settings)| {
            let settings = settings.common();
            let previous = settings.with_previous_secret()?;
            let keys = SecretPairKeys::of_channel(name, settings.webhook_secret_key());
            Some(of(keys, previous.common().webhook_secret()?))
        });
        let hooks = self.hooks.iter().filter_map(|(name, settings)| {
            let previous = settings.previous_secret.as_ref()?;
            Some(of(SecretPairKeys::of_hook(name), bytes(previous)))
        });
        channels.chain(hooks).collect()
    }
}

/// Returns the key of the previous secret: `channels.team.previous_signing_secret` for `channels.team.signing_secret`.
pub(super) fn previous_key(path: &str) -> String {
    match path.rsplit_once('.') {
        Some((section, name)) => format!("{section}.previous_{name}"),
        None => format!("previous_{path}"),
    }
}

/// Fetches the previous secret of the one at `path`, which is `current`.
pub(super) fn previous_secret(
    reader: &mut SettingsReader<'_>,
    path: &str,
    current: Option<&Secret>,
) -> Option<Secret> {
    let previous = reader.secret(&previous_key(path));
    check_pair(reader, path, previous.as_ref().map(bytes), current.map(bytes));
    previous
}

fn bytes(secret: &Secret) -> &[u8] {
    secret.expose().as_bytes()
}

/// Refuses a previous secret without a current one, or equal to it.
pub(super) fn check_pair(
    reader: &mut SettingsReader<'_>,
    path: &str,
    previous: Option<&[u8]>,
    current: Option<&[u8]>,
) {
    let key = previous_key(path);
    let name = path.rsplit('.').next().unwrap_or(path);
    if reader.is_set(&key) && !reader.is_set(path) {
        reader.problem(&key, format!("is used only beside {name}, which is not set"));
    }
    if let (Some(previous), Some(current)) = (previous, current)
        && bool::from(previous.ct_eq(current))
    {
        let why = format!("is the same as {name}; set {name} to the new one, or remove this key");
        reader.problem(&key, why);
    }
}
