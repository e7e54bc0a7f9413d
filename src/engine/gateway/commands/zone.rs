//! `zone`: the time zone in which a person writes and reads the times of their schedules.

use super::{AcceptedCommand, CommandRunner};
use crate::base::model::Reply;
use crate::base::recurrence::{is_zone, nearest_zone, spelled_zone};
use crate::state::access::Identity;

/// The argument with which a person has no time zone of their own any more.
const SERVER: &str = "server";

impl CommandRunner {
    /// Shows the time zone of the person, stores the one that the command names, or removes it.
    pub(super) async fn own_zone(
        &self,
        arguments: &str,
        asked: &AcceptedCommand,
        identity: &Identity,
    ) -> anyhow::Result<Reply> {
        let of_server = &self.parts.config.server.zone;
        let name = arguments.trim().trim_matches('`').trim();
        let zone = match name {
            "" => {
                return Ok(Reply::text(match self.zone_of(identity).await? {
                    Some(own) => format!(
                        "Your time zone is {own}. `!zone NAME` changes it, and `!zone {SERVER}` removes it."
                    ),
                    None => format!(
                        "You have no time zone of your own, so your schedules use that of the server, {of_server}. `!zone \
                         NAME` sets one, such as Europe/Berlin."
                    ),
                }));
            }
            name if name.eq_ignore_ascii_case(SERVER) => None,
            name => match spelled_zone(name) {
                Ok(zone) => Some(zone),
                Err(why) => {
                    let nearest = nearest_zone(name);
                    let hint = nearest.map(|nearest| format!(" Did you mean `{nearest}`?"));
                    let hint = hint.unwrap_or_default();
                    return Ok(Reply::text(format!("Nothing was changed: {why}.{hint}")));
                }
            },
        };
        let stored = self.parts.store.set_zone(identity.user(), zone, asked.inbox);
        Ok(Reply::text(match stored.await? {
            Some(own) => format!(
                "Your time zone is {own}. New schedules use it, unless their times name another one; those that exist keep \
                 theirs. I show you the times of all of them in it."
            ),
            None => format!(
                "You have no time zone of your own. New schedules use that of the server, {of_server}; those that exist keep \
                 theirs."
            ),
        }))
    }

    /// Returns the time zone that a person has chosen; `None` without one, or if it is not known any more.
    pub(super) async fn zone_of(&self, identity: &Identity) -> anyhow::Result<Option<String>> {
        let zone = self.parts.store.zone_of(identity.user()).await?;
        Ok(zone.filter(|zone| is_zone(zone)))
    }
}
