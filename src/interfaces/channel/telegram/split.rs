//! Splits a long reply into messages of Telegram.

use super::render::{self, RenderOptions, UNITS_MAX};
use crate::base::model::Reply;
use crate::interfaces::channel::split::{PageSize, pages};

/// Returns the messages of a reply, in order, and stops when there are more than `messages_max`.
pub(super) fn messages(reply: &Reply, link_hosts: &[String], messages_max: usize) -> Vec<Reply> {
    let fits = |reply: &Reply| is_one_message(reply, link_hosts);
    pages(reply, &page_size(&fits), messages_max)
}

fn page_size(fits: &dyn Fn(&Reply) -> bool) -> PageSize<'_> {
    PageSize {
        chars_max: UNITS_MAX,
        fits,
    }
}

fn is_one_message(reply: &Reply, link_hosts: &[String]) -> bool {
    let setting = RenderOptions {
        link_hosts,
        chat: None,
    };
    render::fits(reply, setting)
}

#[cfg(test)]
mod tests;
