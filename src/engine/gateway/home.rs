//! The page of the bot that a platform shows beside its chat: the person's open changes, what they may do, and help. It
//! costs no tokens. A page may be lost, because the platform reports each opening: it passes neither the inbox nor the
//! outbox. It is shown again when the person's work may have changed it.

mod page;

use super::outgoing::OutgoingMessages;
use super::parts::Parts;
use crate::base::model::{Action, ChatPlace, Inbound, Op, Reply, Sender, UserId};
use futures_util::FutureExt;
use jiff::{SignedDuration, Timestamp};
use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Maximum number of people whose pages are remembered. If all of them are recent, further openings have no effect.
const PAGES_MAX: usize = 10_000;
/// The time for which an opened page is remembered while there is no room.
const REMEMBERED: SignedDuration = SignedDuration::from_hours(1);
/// Maximum number of times per minute that the page of one person is shown.
const SHOWN_PER_MINUTE_MAX: u32 = 10;
/// The number of times per minute after which only an opening shows the page again.
const REFRESHED_PER_MINUTE_MAX: u32 = 6;
/// Maximum number of pages that are composed and sent at once. Further ones wait.
const PAGES_AT_ONCE_MAX: usize = 4;
/// The time for which a person who is not admitted sees the refusal without another one.
const REFUSAL_KEPT: SignedDuration = SignedDuration::from_hours(24);

/// The pages that people have opened since the start.
pub(super) struct HomePages {
    parts: Arc<Parts>,
    outgoing: Arc<OutgoingMessages>,
    opened: Mutex<HashMap<Sender, OpenedPage>>,
    slots: Semaphore,
    shutdown: CancellationToken,
    background: TaskTracker,
}

/// The effect of an opening.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HomeOpening {
    /// The page is shown soon, or was shown often enough.
    Accepted,
    /// The person is not admitted, and is told so.
    Denied,
}

/// The page of a person.
struct OpenedPage {
    channel: String,
    place: ChatPlace,
    /// The person, if they were admitted when they opened it.
    user: Option<UserId>,
    opened_at: Timestamp,
    /// The minute of the newest counted publication, and their number in it.
    counted: (i64, u32),
    /// The time of the refusal, if it is shown or about to be.
    refused_at: Option<Timestamp>,
    progress: PageProgress,
    /// True if the page changed after it was shown often enough within the minute.
    is_outdated: bool,
}

/// The progress of showing a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PageProgress {
    /// Nothing is in work.
    Idle,
    /// The page waits to be composed.
    Waiting,
    /// The page is composed and sent.
    Showing,
}

impl OpenedPage {
    fn new(inbound: &Inbound) -> Self {
        Self {
            channel: inbound.channel.clone(),
            place: inbound.place.clone(),
            user: None,
            opened_at: Timestamp::UNIX_EPOCH,
            counted: (0, 0),
            refused_at: None,
            progress: PageProgress::Idle,
            is_outdated: false,
        }
    }

    /// Counts a publication. Returns false if there were `shown_max` of them within the minute.
    fn count(&mut self, at: Timestamp, shown_max: u32) -> bool {
        let minute = at.as_second().div_euclid(60);
        if self.counted.0 != minute {
            self.counted = (minute, 0);
        }
        let has_room = self.counted.1 < shown_max;
        self.counted.1 += u32::from(has_room);
        has_room
    }

    fn is_refused(&self, at: Timestamp) -> bool {
        self.refused_at
            .is_some_and(|refused_at| at.duration_since(refused_at) < REFUSAL_KEPT)
    }
}

impl HomePages {
    pub(super) fn new(
        parts: &Arc<Parts>,
        outgoing: &Arc<OutgoingMessages>,
        (shutdown, background): (&CancellationToken, &TaskTracker),
    ) -> Self {
        Self {
            parts: Arc::clone(parts),
            outgoing: Arc::clone(outgoing),
            opened: Mutex::default(),
            slots: Semaphore::new(PAGES_AT_ONCE_MAX),
            shutdown: shutdown.clone(),
            background: background.clone(),
        }
    }

    /// Shows the page that a person has opened, in the background. Openings in quick succession are one.
    pub(super) fn open(self: &Arc<Self>, inbound: &Inbound, at: Timestamp) -> HomeOpening {
        let user = self.parts.identity(inbound).map(|identity| identity.user());
        let mut opened = self.opened();
        if opened.len() >= PAGES_MAX && !opened.contains_key(&inbound.sender) {
            opened.retain(|_, page| {
                page.progress != PageProgress::Idle || at.duration_since(page.opened_at) < REMEMBERED
            });
            if opened.len() >= PAGES_MAX {
                return HomeOpening::Accepted;
            }
        }
        let page = opened
            .entry(inbound.sender.clone())
            .or_insert_with(|| OpenedPage::new(inbound));
        page.channel.clone_from(&inbound.channel);
        page.place.clone_from(&inbound.place);
        (page.user, page.opened_at) = (user, at);
        if user.is_none() && page.is_refused(at) || !page.count(at, SHOWN_PER_MINUTE_MAX) {
            return HomeOpening::Accepted;
        }
        page.refused_at = user.is_none().then_some(at);
        page.is_outdated = false;
        self.show_soon(&inbound.sender, page);
        match user {
            Some(_) => HomeOpening::Accepted,
            None => HomeOpening::Denied,
        }
    }

    /// Shows the pages of a person again, if they opened them and were admitted then: their work may have changed them.
    pub(super) fn refresh(self: &Arc<Self>, user: UserId) {
        let at = (self.parts.now)();
        let mut opened = self.opened();
        let pages = opened.iter_mut().filter(|(_, page)| page.user == Some(user));
        for (sender, page) in pages {
            self.refresh_page(sender, page, at);
        }
    }

    /// Shows the pages of a person again, and those of the owner of the conversation: who joined works on the change of
    /// another person, whose page shows it.
    pub(super) fn refresh_with_owner(self: &Arc<Self>, user: UserId, owner: &Sender) {
        self.refresh(user);
        let owner = self.parts.access.admit(owner).map(|owner| owner.user());
        if let Some(owner) = owner.filter(|owner| *owner != user) {
            self.refresh(owner);
        }
    }

    /// Shows a page again: soon, or in the next minute if it was shown often enough in this one.
    fn refresh_page(self: &Arc<Self>, sender: &Sender, page: &mut OpenedPage, at: Timestamp) {
        if page.count(at, REFRESHED_PER_MINUTE_MAX) {
            page.is_outdated = false;
            self.show_soon(sender, page);
            return;
        }
        if std::mem::replace(&mut page.is_outdated, true) {
            return;
        }
        let rest = 60 - at.as_second().rem_euclid(60);
        let rest = Duration::from_secs(u64::try_from(rest).unwrap_or(60));
        let (pages, sender) = (Arc::clone(self), sender.clone());
        self.background.spawn(async move {
            let leaving = pages.shutdown.clone();
            if leaving
                .run_until_cancelled(tokio::time::sleep(rest))
                .await
                .is_some()
                && let Some(page) = pages.opened().get_mut(&sender)
                && std::mem::take(&mut page.is_outdated)
            {
                pages.refresh_page(&sender, page, (pages.parts.now)());
            }
        });
    }

    fn opened(&self) -> MutexGuard<'_, HashMap<Sender, OpenedPage>> {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a task show the page. A page that is being composed may be outdated, so another one follows it.
    fn show_soon(self: &Arc<Self>, sender: &Sender, page: &mut OpenedPage) {
        let before = std::mem::replace(&mut page.progress, PageProgress::Waiting);
        if before != PageProgress::Idle {
            return;
        }
        let (pages, sender) = (Arc::clone(self), sender.clone());
        self.background.spawn(async move {
            let leaving = pages.shutdown.clone();
            leaving.run_until_cancelled(pages.show_waiting(&sender)).await;
        });
    }

    /// Shows the page of a person as long as it waits.
    async fn show_waiting(&self, sender: &Sender) {
        while let Ok(_slot) = self.slots.acquire().await
            && let Some((channel, place)) = self.next_place(sender)
        {
            let showing = AssertUnwindSafe(self.show(sender, channel, place)).catch_unwind();
            let refused_at = match Box::pin(showing).await {
                Ok(Ok(refused_at)) => refused_at,
                Ok(Err(error)) => {
                    tracing::debug!(error = format!("{error:#}"), "the page of a person was not shown");
                    None
                }
                Err(_) => {
                    tracing::error!("showing the page of a person panicked");
                    None
                }
            };
            if let Some(page) = self.opened().get_mut(sender) {
                page.refused_at = refused_at;
            }
        }
    }

    /// Returns the place of a page that waits, which is composed now.
    fn next_place(&self, sender: &Sender) -> Option<(String, ChatPlace)> {
        let mut opened = self.opened();
        let page = opened.get_mut(sender)?;
        let is_waiting = page.progress == PageProgress::Waiting;
        page.progress = match is_waiting {
            true => PageProgress::Showing,
            false => PageProgress::Idle,
        };
        is_waiting.then(|| (page.channel.clone(), page.place.clone()))
    }

    /// Shows the page of a person. Returns the time of the refusal, if it is one.
    async fn show(
        &self,
        sender: &Sender,
        channel: String,
        place: ChatPlace,
    ) -> anyhow::Result<Option<Timestamp>> {
        let Some(delivery) = self.outgoing.delivery(&channel) else {
            return Ok(None);
        };
        let at = (self.parts.now)();
        let (reply, is_refusal) = self.content(sender, &place, at).await?;
        let action = Action::ShowHome {
            to: sender.clone(),
            reply,
        };
        let op = Op {
            id: format!("home/{sender}"),
            channel,
            place,
            action,
            response_url: None,
        };
        delivery.deliver_best_effort(&op).await?;
        Ok(is_refusal.then_some(at))
    }

    /// Returns the page for a person, and true if it is the refusal. Access is looked up again after the page is composed.
    async fn content(
        &self,
        sender: &Sender,
        place: &ChatPlace,
        at: Timestamp,
    ) -> anyhow::Result<(Reply, bool)> {
        if let Some(identity) = self.parts.access.admit(sender) {
            let reply = Box::pin(page::compose(&self.parts, &identity, place, at)).await?;
            if !identity.is_revoked() {
                return Ok((reply, false));
            }
        }
        Ok((self.parts.refusal_page(sender).await?, true))
    }
}
