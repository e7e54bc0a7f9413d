//! The end of a run that can never go on. Its message shows it, as far as the stored run is readable. The run of a slash command
//! has no message, and its end is for the person of the command alone.

use super::slash::{ENDED, is_command};
use super::{MESSAGE, RunReport, Runs};
use crate::base::model::{Action, Op, Reply, ResponseUrl, RunId, RunStatus};
use crate::state::store::{RunMessage, StoreError};
use jiff::Timestamp;

impl Runs {
    /// Ends a run as failed for this reason, with its programs, and shows that. Nothing is done if another has moved it since
    /// it was read.
    pub(super) async fn abandon(
        &self,
        id: RunId,
        why: &'static str,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        let store = &self.parts.store;
        let shown = match store.run_message(id).await? {
            Some(message) => {
                let url = store.run_response_url(id, at).await;
                // Without a readable address, a notice in the chat shows the end.
                let url = url.ok().flatten();
                let ops = match self.stays_silent(id, &message).await? {
                    true => Vec::new(),
                    false => self.shown_end(id, &message, (why, url)),
                };
                Some((message.version, ops))
            }
            None => None,
        };
        if let Some(stopped) = store.abandon_run(id, why, shown, at).await? {
            self.stop(stopped);
            self.tasks.stop(id);
        }
        Ok(())
    }

    /// Returns the post of a run's message, which is ignored if it is there, and its edit; or for the person of a command the
    /// end alone. Nothing is said to a person without access.
    fn shown_end(
        &self,
        id: RunId,
        message: &RunMessage,
        (why, response_url): (&str, Option<ResponseUrl>),
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
        let reply = Reply::text(report.headline());
        let place = (message.channel.as_str(), &message.place);
        if is_command(&message.trigger) {
            let address = self.notice_address(id, place, (&message.owner, response_url));
            return vec![address.post(ENDED, reply)];
        }
        let address = self.address(id, place, None);
        let fill = Action::Fill {
            post: address.id(MESSAGE),
            reply,
        };
        vec![
            address.placeholder(MESSAGE, Reply::text(report.begun())),
            address.op(&format!("{MESSAGE}/{}", message.version), fill),
        ]
    }
}
