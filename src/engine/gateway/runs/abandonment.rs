//! The end of a run that can never go on. Its message shows it, as far as the stored run is readable.

use super::{MESSAGE, RunReport, Runs};
use crate::base::model::{Action, Op, Reply, RunId, RunStatus};
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
        let shown = message.map(|message| (message.version, self.shown_end(id, &message, why)));
        let stopped = store.abandon_run(id, why, shown, at).await?;
        self.stop(stopped);
        Ok(())
    }

    /// Returns the post of a run's message, which is ignored if it is there, and its edit. Nothing is said to a person without
    /// access.
    fn shown_end(&self, id: RunId, message: &RunMessage, why: &str) -> Vec<Op> {
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
        let address = self.address(id, (&message.channel, &message.place), None);
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
