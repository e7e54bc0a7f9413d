//! Slack's signed requests.

use super::Webhook;
use crate::config::SlackSettings;
use crate::model::Installation;
use std::sync::Arc;

pub(super) fn webhook(
    _name: &str,
    _settings: &SlackSettings,
    _installation: &Installation,
) -> Option<Arc<dyn Webhook>> {
    None
}
