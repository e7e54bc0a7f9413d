//! Modals: a press gives a trigger, which opens one modal within three seconds, and a submitted modal is sent to the
//! gateway. See <https://docs.slack.dev/surfaces/modals> and <https://docs.slack.dev/reference/methods/views.open>.

use super::api::MethodResult;
use super::people::{GatewayResponse, SayError};
use super::state::SlackState;
use super::{SlackEmulator, SlackOptions, check};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

/// The time in which a trigger opens a modal.
const TRIGGER_KEPT: SignedDuration = SignedDuration::from_secs(3);

/// The trigger of a press.
#[derive(Debug)]
pub(super) struct Trigger {
    user: String,
    at: Timestamp,
    is_exchanged: bool,
}

/// A modal that a user sees.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenView {
    /// The id.
    pub id: String,
    /// The user who sees it.
    pub user: String,
    /// The view as it was sent.
    pub view: Value,
}

impl OpenView {
    /// Returns the title.
    pub fn title(&self) -> &str {
        self.view["title"]["text"].as_str().unwrap_or_default()
    }
}

impl SlackState {
    /// Returns a new trigger for a press of a user.
    pub(super) fn new_trigger(&mut self, user: &str, at: Timestamp) -> String {
        self.count += 1;
        let id = format!("{}.{}.abcdef", self.count, at.as_second());
        let trigger = Trigger {
            user: user.to_owned(),
            at: match self.are_triggers_late {
                true => Timestamp::UNIX_EPOCH,
                false => at,
            },
            is_exchanged: false,
        };
        self.triggers.insert(id.clone(), trigger);
        id
    }
}

/// Opens a modal.
pub(super) fn open(state: &mut SlackState, options: &SlackOptions, body: &Value) -> MethodResult {
    let id = body["trigger_id"].as_str().unwrap_or_default();
    let at = (options.at)();
    let Some(trigger) = state.triggers.get_mut(id) else {
        return Err("invalid_trigger_id".to_owned());
    };
    if trigger.is_exchanged {
        return Err("exchanged_trigger_id".to_owned());
    }
    if at.duration_since(trigger.at) > TRIGGER_KEPT {
        return Err("expired_trigger_id".to_owned());
    }
    let view = &body["view"];
    if let Err(why) = check::modal(view) {
        state.problems.push(format!("a bad view: {}", why.why));
        return Err(why.code.to_owned());
    }
    trigger.is_exchanged = true;
    let user = trigger.user.clone();
    let id = state.next_id("V");
    let answer = json!({"view": {"id": id, "type": "modal", "private_metadata": view["private_metadata"]}});
    state.views.push(OpenView {
        id,
        user,
        view: view.clone(),
    });
    Ok(answer)
}

impl SlackEmulator {
    /// Makes the triggers of all later presses too old to open a modal, as on a slow network.
    pub fn delay_triggers(&self) {
        self.shared.change(|state| state.are_triggers_late = true);
    }

    /// Writes words into the only field of the newest modal of a user, and submits it. An empty answer closes it.
    pub async fn submit(&self, user: &str, words: &str) -> Result<GatewayResponse, SayError> {
        let open = self.with_state(|state| {
            let mut newest_first = state.views.iter().rev();
            newest_first.find(|open| open.user == user).cloned()
        });
        let open = open.ok_or_else(|| SayError::NoButton("a modal".to_owned()))?;
        let id = open.id.clone();
        let answer = self.submit_view(user, open, words).await?;
        if answer.status == 200 && answer.body.is_empty() {
            self.shared
                .change(|state| state.views.retain(|open| open.id != id));
        }
        Ok(answer)
    }

    /// Submits a modal as any user, whatever became of it.
    pub async fn submit_view(
        &self,
        user: &str,
        open: OpenView,
        words: &str,
    ) -> Result<GatewayResponse, SayError> {
        let OpenView { id, mut view, .. } = open;
        let input = view["blocks"][0].clone();
        let name = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (block, action) = (name(&input["block_id"]), name(&input["element"]["action_id"]));
        let value = json!({"type": "plain_text_input", "value": words});
        view["id"] = json!(id);
        view["state"] = json!({ "values": { block: { action: value } } });
        let team = self.team_of(user);
        let at = (self.shared.options.at)();
        let trigger = self.shared.change(|state| state.new_trigger(user, at));
        self.send_interaction(&json!({
            "type": "view_submission",
            "user": {"id": user, "team_id": team},
            "team": {"id": self.shared.options.team},
            "api_app_id": "A0DRYDOCK",
            "trigger_id": trigger,
            "view": view,
        }))
        .await
    }
}
