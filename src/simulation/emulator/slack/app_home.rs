//! The App Home: its Home tab shows each user the view that was published for them last, and Slack sends an event when a
//! user opens a tab. See <https://docs.slack.dev/surfaces/app-home>, <https://docs.slack.dev/reference/methods/views.publish>
//! and <https://docs.slack.dev/reference/events/app_home_opened>.

use super::api::MethodResult;
use super::people::{GatewayResponse, SayError};
use super::state::SlackState;
use super::{Mention, SlackEmulator, SlackOptions, check, mentions};
use serde_json::{Value, json};

/// The maximum number of bytes of a view.
const VIEW_BYTES_MAX: usize = 250 << 10;
/// The event for the opening of a tab of the App Home.
const HOME_OPENED: &str = "app_home_opened";

/// A tab of the App Home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HomeTab {
    /// The tab with the published view.
    Home,
    /// The conversation with the bot.
    Messages,
}

/// The view that a user sees in the Home tab.
#[derive(Clone, Debug, PartialEq)]
pub struct PublishedHome {
    /// The view as it was sent.
    pub view: Value,
    /// The number of publications for the user so far.
    pub publications: usize,
}

impl PublishedHome {
    /// Returns the text that the user reads, block by block.
    pub fn visible(&self) -> Vec<String> {
        let blocks = self.view["blocks"].as_array().into_iter().flatten();
        blocks.map(mentions::visible).collect()
    }

    /// Returns the mentions and links of the view.
    pub fn mentions(&self) -> Vec<Mention> {
        mentions::mentions_in_blocks(&self.view["blocks"])
    }
}

/// Publishes the view of the Home tab of a user.
pub(super) fn publish(state: &mut SlackState, options: &SlackOptions, body: &Value) -> MethodResult {
    let (user, view) = (body["user_id"].as_str().unwrap_or_default(), &body["view"]);
    if state.users.get(user) != Some(&options.team) {
        state
            .problems
            .push(format!("a Home tab of `{user}`, who is no user here"));
        return Err("invalid_arguments".to_owned());
    }
    // The sender cannot know this.
    if !state.has_home_tab() {
        return Err("not_enabled".to_owned());
    }
    if view.to_string().len() > VIEW_BYTES_MAX {
        state.problems.push("a view of more than 250 KB".to_owned());
        return Err("view_too_large".to_owned());
    }
    if let Err(why) = check::home(view) {
        state.problems.push(format!("a bad view: {}", why.why));
        return Err(why.code.to_owned());
    }
    let id = state.next_id("V");
    let home = state
        .homes
        .entry(user.to_owned())
        .or_insert_with(|| PublishedHome {
            view: Value::Null,
            publications: 0,
        });
    home.view = view.clone();
    home.publications += 1;
    Ok(json!({"view": {"id": id, "type": "home", "blocks": view["blocks"]}}))
}

impl SlackEmulator {
    /// Opens a tab of the App Home as a user. Slack sends an event at each opening, with the view if one was published.
    pub async fn open_app_home(&self, user: &str, tab: HomeTab) -> Result<GatewayResponse, SayError> {
        let (is_requested, view) = self.with_state(|state| {
            let is_shown = tab == HomeTab::Messages || state.has_home_tab();
            let published = state.homes.get(user).filter(|_| tab == HomeTab::Home);
            let view = published.map(|home| home.view.clone());
            (is_shown && state.is_subscribed(HOME_OPENED), view)
        });
        if !is_requested {
            return Err(SayError::NotRequested);
        }
        let at = (self.shared.options.at)();
        let event_ts = self.shared.change(|state| state.next_ts(at));
        let tab = match tab {
            HomeTab::Home => "home",
            HomeTab::Messages => "messages",
        };
        let mut event = json!({"type": HOME_OPENED, "user": user, "channel": format!("D{user}"), "tab": tab,
            "event_ts": event_ts});
        if let Some(view) = view {
            event["view"] = view;
        }
        let envelope = self.envelope(&event);
        self.send_event(&envelope).await
    }
}
