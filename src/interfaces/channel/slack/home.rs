//! The Home tab of the app, which each person sees with a content of their own. A workspace that refuses it shows nothing
//! there; that is logged once a day, and everything else works. See <https://docs.slack.dev/surfaces/app-home>.

use super::client::SlackClient;
use super::connector::RepeatEffect;
use super::optional_blocks::without_optional;
use super::render::blocks;
use crate::base::model::Reply;
use crate::interfaces::channel::SendError;
use serde_json::{Value, json};

pub(super) const METHOD: &str = "views.publish";
/// The event for the opening of a tab of the App Home.
pub(super) const OPENED_EVENT: &str = "app_home_opened";
/// The name of the Home tab in that event.
pub(super) const HOME_TAB: &str = "home";
/// The maximum number of blocks of a view.
const BLOCKS_MAX: usize = 100;
/// The host of links into the client of Slack.
const CLIENT_HOST: &str = "app.slack.com";

/// Returns the view of a page. Its only Markdown is Drydock's own, so links into the client of Slack are kept. Containers and
/// plans are for messages only.
pub(super) fn view(page: &Reply, link_hosts: &[String]) -> Value {
    let link_hosts = [link_hosts, &[CLIENT_HOST.to_owned()]].concat();
    let mut view = without_optional(&json!({"type": "home", "blocks": blocks(&page.parts, &link_hosts)}));
    if let Some(blocks) = view["blocks"].as_array_mut() {
        blocks.truncate(BLOCKS_MAX);
    }
    view
}

impl SlackClient {
    /// Shows a view to a user in the Home tab. A refusal is no failure: the tab repeats what the commands show.
    pub(super) async fn publish_home(
        &self,
        channel: &str,
        user: &str,
        view: &Value,
    ) -> Result<(), SendError> {
        let body = json!({"user_id": user, "view": view});
        match self.call(METHOD, &body, RepeatEffect::Repeatable).await {
            Err(SendError::Refused(code)) => {
                if !self.home_refusals.is_recent() {
                    self.home_refusals.remember();
                    tracing::warn!(
                        channel,
                        code,
                        "slack refuses the Home tab; turn it on under App Home in the settings of the app"
                    );
                }
                Ok(())
            }
            shown => shown.map(|_| ()),
        }
    }
}
