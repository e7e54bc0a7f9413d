//! Splits a long reply into messages of Discord.

use super::render::{CHARS_MAX, MentionUse, render};
use crate::base::model::Reply;
use crate::interfaces::channel::split::{PageSize, pages};

/// The maximum number of messages that a reply is said to fit into. Discord cannot hide details, and its messages are
/// short, so a longer diff is left to its file.
pub(super) const FITTING_MESSAGES_MAX: usize = 2;

/// Returns the messages of a reply, in order, and stops when there are more than `messages_max`.
pub(super) fn messages(reply: &Reply, link_hosts: &[String], messages_max: usize) -> Vec<Reply> {
    let fits = |reply: &Reply| render(reply, link_hosts, MentionUse::Mentioned).fits();
    let size = PageSize {
        chars_max: CHARS_MAX,
        fits: &fits,
    };
    pages(reply, &size, messages_max)
}
