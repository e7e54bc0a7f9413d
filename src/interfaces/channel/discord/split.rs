//! Splits a long reply into messages of Discord.

use super::render::{CHARS_MAX, MentionUse, render};
use crate::base::model::Reply;
use crate::interfaces::channel::split::{self, PageSize};

/// The maximum number of messages that a reply is said to fit into. Discord cannot hide details, and its messages are
/// short, so a longer diff is left to its file.
const FITTING_MESSAGES_MAX: usize = 2;

/// Returns the messages of a reply, in order.
pub(super) fn split(reply: &Reply, link_hosts: &[String]) -> Vec<Reply> {
    let fits = rendered_fits(link_hosts);
    split::split(reply, &page_size(&fits))
}

/// Returns true if a reply fits into `messages_max` messages. Stops at that number.
pub(super) fn fits(reply: &Reply, link_hosts: &[String], messages_max: usize) -> bool {
    let fits = rendered_fits(link_hosts);
    split::fits(reply, &page_size(&fits), messages_max.min(FITTING_MESSAGES_MAX))
}

fn page_size(fits: &dyn Fn(&Reply) -> bool) -> PageSize<'_> {
    PageSize {
        chars_max: CHARS_MAX,
        fits,
    }
}

/// Returns a predicate that renders a reply and is true if it fits one message.
fn rendered_fits(link_hosts: &[String]) -> impl Fn(&Reply) -> bool {
    move |reply| render(reply, link_hosts, MentionUse::Mentioned).fits()
}
