//! Splits a long reply into messages of Telegram.

use super::render::{self, RenderOptions, UNITS_MAX};
use crate::base::model::Reply;
use crate::interfaces::channel::split::{self, PageSize};

/// Returns the messages of a reply, in order.
pub(in crate::interfaces::channel) fn split(reply: &Reply, link_hosts: &[String]) -> Vec<Reply> {
    let fits = rendered_fits(link_hosts);
    split::split(reply, &page_size(&fits))
}

/// Returns true if a reply fits into `messages_max` messages. Stops at that number.
pub(in crate::interfaces::channel) fn fits(
    reply: &Reply,
    link_hosts: &[String],
    messages_max: usize,
) -> bool {
    let fits = rendered_fits(link_hosts);
    split::fits(reply, &page_size(&fits), messages_max)
}

fn page_size(fits: &dyn Fn(&Reply) -> bool) -> PageSize<'_> {
    PageSize {
        chars_max: UNITS_MAX,
        fits,
    }
}

/// Returns a predicate that renders a reply and is true if it fits one message.
fn rendered_fits(link_hosts: &[String]) -> impl Fn(&Reply) -> bool {
    let setting = RenderOptions {
        link_hosts,
        chat: None,
    };
    move |reply| render::fits(reply, setting)
}

#[cfg(test)]
mod tests;
