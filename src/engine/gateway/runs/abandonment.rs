//! The end of a run that can never go on. Its message shows it, as far as the stored run is readable.

use super::slash::{ENDED, is_command};
use super::{MESSAGE, RunReport, Runs};
use crate::base::model::{Action, Op, Reply, ResponseUrl, RunId, RunStatus};
use crate::state::store::{RunMessage, StoreError};
use jiff::Timestamp;

impl Runs {
    /// Ends a run as failed for this reason, and edits its message.
    pub(super) async fn abandon(
        &self,
        id: RunId,
        why: &'static str,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        let store = &self.parts.store;
        let message = store.run_message(id).await?;
        let response_url = match &message {
            Some(message) if is_command(&message.trigger) => store.run_response_url(id, at).await?,
            _ => None,
        };
        let shown = message.map(|message| {
            let ops = self.shown_end(id, (&message, response_url), why);
            (message.version, ops)
        });
        let stopped = store.abandon_run(id, why, shown, at).await?;
        self.stop(stopped);
        Ok(())
    }

    /// Returns the post of a run's message, which is ignored if it is there, and its edit; or for the person of a command the
    /// end alone. Nothing is said to a person without access.
    fn shown_end(
        &self,
        id: RunId,
        (message, response_url): (&RunMessage, Option<ResponseUrl>),
        why: &str,
    ) -> Vec<Op> {
        let is_person = message.owner.platform.chat().is_some();
        let has_access = self.parts.access.admit(&message.owner).is_some();
        if !self.parts.config.channels.contains_key(&message.channel) || is_person && !has_access {
            return Vec::new();
        }
        let (status, why) = match &message.end {
            Some((status, why)) => (*status, why.as_deref()),
            None => (RunStatus::Failed, Some(why)),
        };
        let report = RunReport::of_end(id, (&message.pipeline, &message.repository), status, why);
        let place = (message.channel.as_str(), &message.place);
        if is_command(&message.trigger) {
            let address = self.notice_address(id, place, (&message.owner, response_url));
            return vec![address.post(ENDED, Reply::text(report.headline()))];
        }
        let address = self.address(id, place, None);
        let fill = Action::Fill {
            post: address.id(MESSAGE),
            reply: Reply::text(report.headline()),
        };
        vec![
            address.placeholder(MESSAGE, Reply::text(report.begun())),
            address.op(&format!("{MESSAGE}/{}", message.version), fill),
        ]
    }
}
