//! Telegram's Bot API: private chats, groups and topics, webhook pushes and long polling. It checks every request
//! like Telegram, and more strictly: input that Telegram would silently correct is a problem here. It listens on
//! loopback only.

mod check;
mod ephemeral;
mod form;
mod links;
mod messages;
mod methods;
mod profile;
mod rich;
mod sent_files;
mod server;
mod state;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests;

pub use rich::{RichWords, rich_words};
pub use state::{PostedMessage, ShownDraft, TelegramFault};

use crate::simulation::emulator::RequestedWait;
use crate::simulation::emulator::lasting_fault::LastingFault;
use crate::simulation::emulator::traffic::SentRequest;
use jiff::Timestamp;
use serde_json::{Value, json};
use server::SharedTelegram;
use state::{EmulatedUser, TelegramState};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};

/// The id of the emulated bot.
pub const BOT_ID: i64 = 42;
/// The user name of the emulated bot.
pub const BOT_NAME: &str = "drydock_bot";

/// A running emulator. Stops when dropped.
pub struct TelegramEmulator {
    shared: Arc<SharedTelegram>,
    address: SocketAddr,
    http: reqwest::Client,
    _running: DropGuard,
}

/// An update and the result of its delivery.
#[derive(Clone, Debug)]
pub struct PushedUpdate {
    /// The update, which can be sent again.
    pub update: Value,
    /// The message of the update.
    pub message: i64,
    /// The status of the webhook's answer; `None` if the update waits to be polled, or got no answer.
    pub status: Option<u16>,
}

impl TelegramEmulator {
    /// Starts a Bot API for one bot on a free loopback port. `http` is used for webhook pushes.
    pub async fn start(token: &str, http: reqwest::Client) -> std::io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(SharedTelegram::new(token));
        let cancel = CancellationToken::new();
        tokio::spawn(server::accept(listener, Arc::clone(&shared), cancel.clone()));
        Ok(Self {
            shared,
            address,
            http,
            _running: cancel.drop_guard(),
        })
    }

    /// Returns the value for `api_base_url`.
    pub fn api_base_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Records requests from now on.
    pub fn record_traffic(&self) {
        self.shared.traffic.start();
    }

    /// Returns the recorded requests, oldest first.
    pub fn traffic(&self) -> Vec<SentRequest> {
        self.shared.traffic.received()
    }

    /// Adds a group; a group with topics is a forum.
    pub fn add_group(&self, chat: i64, topics: &[i64]) {
        self.shared.change(|state| state.add_group(chat, topics));
    }

    /// Pushes updates to this address from now on, as if the bot had registered it.
    pub fn connect_to(&self, url: &str, secret: &str) {
        self.shared.change(|state| {
            state.webhook = Some(state::RegisteredWebhook {
                url: url.to_owned(),
                secret: secret.to_owned(),
            });
        });
    }

    /// Writes a message as a user. This also creates the user's private chat.
    pub async fn say(&self, user: i64, chat: i64, text: &str) -> PushedUpdate {
        self.write(user, chat, json!({"text": text})).await
    }

    /// Writes in a topic as a user.
    pub async fn say_in_topic(&self, user: i64, chat: i64, topic: i64, text: &str) -> PushedUpdate {
        let fields = json!({"text": text, "message_thread_id": topic, "is_topic_message": true});
        self.write(user, chat, fields).await
    }

    /// Replies to a message as a user.
    pub async fn reply(&self, user: i64, chat: i64, to: i64, text: &str) -> PushedUpdate {
        let replied = self.shared.read(|state| state.describe_message(chat, to));
        self.write(user, chat, json!({"text": text, "reply_to_message": replied}))
            .await
    }

    /// Forwards, as a user, the words of another one.
    pub async fn forward(&self, user: i64, chat: i64, author: i64, text: &str) -> PushedUpdate {
        let origin = json!({"type": "user", "date": 1, "sender_user": EmulatedUser(author).describe()});
        self.write(user, chat, json!({"text": text, "forward_origin": origin}))
            .await
    }

    /// Sends, as a user, a message with these fields in addition to author and chat: a photo, a caption.
    pub async fn write(&self, user: i64, chat: i64, fields: Value) -> PushedUpdate {
        let (update, message) = self
            .shared
            .change(|state| state.record_message(user, chat, fields));
        let status = self.deliver("message", update.clone()).await;
        PushedUpdate {
            update,
            message,
            status,
        }
    }

    /// Returns the `Document` of a file that a user sends, for [`TelegramEmulator::write`].
    pub fn document(&self, name: &str, content: &[u8]) -> Value {
        self.shared
            .change(|state| sent_files::store(state, name, content))
    }

    /// Edits a user's message as that user.
    pub async fn edit(&self, user: i64, chat: i64, message: i64, text: &str) -> PushedUpdate {
        let update = self
            .shared
            .change(|state| state.record_edit(user, chat, message, text));
        let status = self.deliver("edited_message", update.clone()).await;
        PushedUpdate {
            update,
            message,
            status,
        }
    }

    /// Presses the button with this label as a user. `None` if the message has no such button.
    pub async fn click(&self, user: i64, chat: i64, message: i64, label: &str) -> Option<PushedUpdate> {
        let update = self
            .shared
            .change(|state| state.record_press(user, chat, message, label))?;
        let status = self.deliver("callback_query", update.clone()).await;
        Some(PushedUpdate {
            update,
            message,
            status,
        })
    }

    /// Presses a button of a message as the user saw it, even if the message was edited since. `None` if it had no such
    /// button.
    pub async fn click_as_seen(
        &self,
        user: i64,
        chat: i64,
        seen: &PostedMessage,
        label: &str,
    ) -> Option<PushedUpdate> {
        let update = self
            .shared
            .change(|state| state.record_press_as_seen(user, chat, seen, label))?;
        let status = self.deliver("callback_query", update.clone()).await;
        Some(PushedUpdate {
            update,
            message: seen.id,
            status,
        })
    }

    /// Presses, as a user, Telegram's own button on a draft in their private chat. `None` if no draft with a button is
    /// shown.
    pub async fn stop_draft(&self, user: i64) -> Option<PushedUpdate> {
        let update = self.shared.change(|state| state.record_stop(user))?;
        let status = self.deliver("stopped_message_generation", update.clone()).await;
        Some(PushedUpdate {
            update,
            message: 0,
            status,
        })
    }

    /// Returns the draft that a user sees in their private chat.
    pub fn draft(&self, user: i64) -> Option<ShownDraft> {
        self.shared.read(|state| state.drafts.get(&user).cloned())
    }

    /// Refuses drafts from now on, like a server from before them. Such a server knows no rich messages either.
    pub fn forget_drafts(&self) {
        self.shared.change(|state| {
            state.missing_methods = &["sendMessageDraft", "sendRichMessage", "sendRichMessageDraft"]
        });
    }

    /// Refuses rich messages from now on, like a server from before them.
    pub fn forget_rich_messages(&self) {
        self.shared
            .change(|state| state.missing_methods = &["sendRichMessage", "sendRichMessageDraft"]);
    }

    /// Knows all methods from now on, like a server after an upgrade.
    pub fn upgrade(&self) {
        self.shared.change(|state| state.missing_methods = &[]);
    }

    /// Delivers any update, possibly again: pushes it to the webhook, or queues it for polling.
    pub async fn send_update(&self, update: Value) -> Option<u16> {
        let webhook = self.shared.change(|state| {
            if state.webhook.is_none() {
                state.queue(update.clone());
            }
            state.webhook.clone()
        })?;
        let request = self
            .http
            .post(&webhook.url)
            .header("X-Telegram-Bot-Api-Secret-Token", &webhook.secret)
            .json(&update);
        Some(request.send().await.ok()?.status().as_u16())
    }

    async fn deliver(&self, kind: &str, update: Value) -> Option<u16> {
        if self.shared.read(|state| state.is_wanted(kind)) {
            self.send_update(update).await
        } else {
            None
        }
    }

    /// Enforces rate limits from now on: at most 60 messages and edits per minute and 4 per second in a chat, 20 per
    /// minute in a group, and 30 per second in total.
    pub fn limit_rates(&self) {
        self.shared
            .change(|state| state.rates = Some(state::Rates::default()));
    }

    /// Returns the number of messages and edits that exceeded the rate limits.
    pub fn rate_violations(&self) -> usize {
        self.shared
            .read(|state| state.rates.as_ref().map_or(0, |rates| rates.refused))
    }

    /// Returns the waits that calls in a chat were answered with, oldest first.
    pub fn requested_waits(&self) -> Vec<RequestedWait> {
        self.shared.read(|state| state.waits.all().to_vec())
    }

    /// Makes the next `count` calls of a method fail.
    pub fn fail(&self, method: &str, count: usize, fault: TelegramFault) {
        let faults = std::iter::repeat_n((method.to_owned(), fault), count);
        self.shared.change(|state| state.faults.extend(faults));
    }

    /// Makes all calls of a method fail until [`TelegramEmulator::recover`]; of every method if `method` is empty.
    pub fn fail_all(&self, method: &str, fault: TelegramFault) {
        let lasting = LastingFault::always(method, fault);
        self.shared.change(|state| state.lasting_faults.push(lasting));
    }

    /// Makes a number of a thousand calls of a method fail until [`TelegramEmulator::recover`]; the same seed affects
    /// the same calls.
    pub fn fail_some(&self, method: &str, fault: TelegramFault, of_thousand: u64, seed: u64) {
        let lasting = LastingFault::sometimes(method, fault, of_thousand, seed);
        self.shared.change(|state| state.lasting_faults.push(lasting));
    }

    /// Ends the failures of a method.
    pub fn recover(&self, method: &str) {
        self.shared.change(|state| {
            state.faults.retain(|(of, _)| of != method);
            state.lasting_faults.retain(|lasting| !lasting.applies_to(method));
        });
    }

    /// Rejects the token until [`TelegramEmulator::restore_token`]: every call is answered with 401.
    pub fn revoke_token(&self) {
        self.shared.change(|state| state.is_revoked = true);
    }

    /// Accepts the token again.
    pub fn restore_token(&self) {
        self.shared.change(|state| state.is_revoked = false);
    }

    /// Turns the privacy mode of the bot on: it does not see all messages of groups.
    pub fn keep_groups_private(&self) {
        self.shared.change(|state| state.is_private = true);
    }

    /// Shows a time in the answers from now on, like a server whose clock differs from that of this machine.
    pub fn show_date(&self, date: Timestamp) {
        self.shared.change(|state| state.date = Some(date));
    }

    /// Records a failed delivery to the webhook, at a time in seconds.
    pub fn record_webhook_error(&self, at: i64, why: &str) {
        self.shared
            .change(|state| state.webhook_error = Some((at, why.to_owned())));
    }

    /// Returns the commands that are suggested in a scope, such as `all_group_chats`, in all languages.
    pub fn suggested_commands(&self, scope: &str) -> Vec<Value> {
        let place = (scope.to_owned(), String::new());
        self.shared
            .read(|state| state.commands.get(&place).cloned().unwrap_or_default())
    }

    /// Removes a message, so that it can no longer be replied to or edited.
    pub fn delete(&self, chat: i64, message: i64) {
        self.shared.change(|state| state.delete(chat, message));
    }

    /// Returns the bot's messages in a chat in their current form, oldest first.
    pub fn messages(&self, chat: i64) -> Vec<PostedMessage> {
        self.shared.read(|state| state.posted(chat))
    }

    /// Returns the bot's reaction on a message.
    pub fn reaction(&self, chat: i64, message: i64) -> Option<String> {
        self.shared
            .read(|state| state.reactions.get(&(chat, message)).cloned())
    }

    /// Returns the answers to button presses: callback id and text, oldest first.
    pub fn answers(&self) -> Vec<(String, String)> {
        self.shared.read(|state| state.answers.clone())
    }

    /// Returns all calls: method and parameters, oldest first.
    pub fn calls(&self) -> Vec<(String, Value)> {
        self.shared.read(|state| state.calls.clone())
    }

    /// Returns the number of updates that wait to be polled or confirmed.
    pub fn updates_waiting(&self) -> usize {
        self.shared.read(|state| state.updates.len())
    }

    /// Restarts update ids at any number, as Telegram does after a quiet week.
    pub fn restart_update_ids(&self, next: i64) {
        self.shared.change(|state| state.next_update = next);
    }

    /// Ends the waiting poll with an empty answer, as Telegram does after half a minute without updates.
    pub fn end_poll(&self) {
        self.shared.change(|state| state.polls_ended = state.polls);
    }

    /// Answers polls at once from now on, whatever their `timeout`, like a proxy with a short deadline.
    pub fn hurry_polls(&self) {
        self.shared.change(|state| state.polls_ended = u64::MAX);
    }

    /// Returns the problems of the requests so far.
    pub fn problems(&self) -> Vec<String> {
        self.shared.read(|state| state.problems.clone())
    }

    /// Waits until `is_so` returns true; false if it does not within `bound`.
    pub async fn wait_until(&self, bound: Duration, is_so: impl Fn(&Self) -> bool) -> bool {
        let mut changes = self.shared.changes();
        let waiting = async {
            while !is_so(self) {
                if changes.changed().await.is_err() {
                    return false;
                }
            }
            true
        };
        tokio::time::timeout(bound, waiting).await.unwrap_or(false)
    }
}

impl std::fmt::Debug for TelegramEmulator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TelegramEmulator({})", self.address)
    }
}

impl SharedTelegram {
    fn new(token: &str) -> Self {
        Self::with(TelegramState::new(token))
    }
}
