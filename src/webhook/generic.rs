//! Generic webhooks.

use super::Webhook;
use crate::config::HookSettings;
use std::sync::Arc;

pub(super) fn webhook(_name: &str, _settings: &HookSettings) -> Option<Arc<dyn Webhook>> {
    None
}
