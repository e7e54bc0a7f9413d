//! Telegram's signed requests.

use super::Webhook;
use crate::config::TelegramSettings;
use crate::model::Installation;
use std::sync::Arc;

pub(super) fn webhook(
    _name: &str,
    _settings: &TelegramSettings,
    _installation: &Installation,
) -> Option<Arc<dyn Webhook>> {
    None
}
