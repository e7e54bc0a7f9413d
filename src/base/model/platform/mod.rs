//! [`Platform`]: the kinds of services that accounts belong to, and the properties of a chat platform that the engine
//! depends on. The engine asks for a property and never for a platform, so a new platform changes nothing there.

mod discord;
mod slack;
mod telegram;

use super::ChatPlace;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Defines the platforms, each with its name and properties, so that none can be missing from a list.
macro_rules! platforms {
    ($($(#[$about:meta])* $variant:ident: $name:literal, $chat:expr;)+) => {
        /// The kind of service that an account belongs to.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Platform {
            $($(#[$about])* $variant,)+
        }

        impl Platform {
            /// All platforms.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// Returns the name for ids, logs and tables. For a chat platform it is also the `kind` of its channels.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }

            /// Returns the properties of a platform where people write; `None` for others.
            pub const fn chat(self) -> Option<&'static ChatProperties> {
                match self {
                    $(Self::$variant => $chat,)+
                }
            }
        }
    };
}

platforms! {
    /// A Slack workspace.
    Slack: "slack", Some(&slack::PROPERTIES);
    /// A Telegram bot.
    Telegram: "telegram", Some(&telegram::PROPERTIES);
    /// A Discord application with a bot.
    Discord: "discord", Some(&discord::PROPERTIES);
    /// A signed webhook; its sender is the service identity `hook:<name>`.
    Hook: "hook", None;
    /// A schedule of the configuration, with the service identity `schedule:<name>`, and the places of all work that a
    /// schedule starts.
    Schedule: "schedule", None;
    /// A program with tokens of its own; its sender is the service identity `service:<name>`.
    Service: "service", None;
    /// The places of the agent steps of pipelines. Nobody writes there, and nothing is posted there.
    Pipeline: "pipeline", None;
    /// The terminal of the user who started the program.
    Terminal: "terminal", None;
}

/// The properties of a chat platform that modules below its channel depend on.
#[derive(Debug)]
pub struct ChatProperties {
    /// The header that authenticates the platform's requests, in lower case; empty if it sends none.
    pub signature_header: &'static str,
    /// Returns true if two texts have the form of an account and of a person's id.
    pub is_sender: fn(account: &str, id: &str) -> bool,
    /// A sender, as an example of that form.
    pub sender_example: &'static str,
    /// Returns true if the id of a chat alone shows that it is no private chat of one person.
    pub is_group: fn(chat: &str) -> bool,
    /// True if a notice in a group can be shown to one person only.
    pub has_ephemeral_notices: bool,
    /// True if such a notice is shown only in the main view and in threads that have an answer.
    pub hides_notices_in_new_threads: bool,
    /// True if the platform sends commands without the thread in which they were typed.
    pub drops_threads_of_commands: bool,
    /// True if a thread in a group belongs to the person who began it, as a reply to their message.
    pub threads_have_owners: bool,
    /// True if the platform asks [`super::Button::confirmation`] before a press counts.
    pub confirms_presses: bool,
    /// True if a thread shows that work goes on, with a way to stop it, until the platform is told that it has ended.
    pub shows_work: bool,
    /// The commands and presses that carry an address for private answers.
    pub response_urls: ResponseUrlUse,
    /// Returns the address that opens a thread of a group in the client of the platform; `None` if it has none.
    pub thread_link: fn(&ChatPlace) -> Option<String>,
    /// The way to write a command, for the help of people, such as "`/word` in Telegram".
    pub command_form: &'static str,
    /// Returns the way to redeem an invite. The name of the bot is missing if it is not known yet.
    pub invite: fn(bot_name: Option<&str>, token: &str) -> String,
    /// Shortest time between two edits of any status cards.
    pub card_edit_spacing: Duration,
    /// The maximum number of characters in one message.
    pub message_chars_max: usize,
}

/// The commands and presses that carry an address for private answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseUrlUse {
    /// None.
    Nowhere,
    /// Those outside of threads.
    OutsideThreads,
    /// All.
    Everywhere,
}

impl Platform {
    /// Returns the properties of all chat platforms, in the order of their addition.
    pub fn chats() -> impl DoubleEndedIterator<Item = &'static ChatProperties> {
        Self::ALL.iter().filter_map(|platform| platform.chat())
    }

    /// Returns the header that authenticates the platform's requests; an empty text if it sends none.
    pub const fn signature_header(self) -> &'static str {
        match self.chat() {
            Some(chat) => chat.signature_header,
            None => "",
        }
    }

    /// Returns the maximum number of characters in one message; 0 if people do not write there.
    pub const fn message_chars_max(self) -> usize {
        match self.chat() {
            Some(chat) => chat.message_chars_max,
            None => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::Platform;

    #[test]
    fn a_platform_has_one_name_in_ids_and_in_stored_messages() {
        for platform in Platform::ALL {
            let stored = serde_json::to_value(platform).unwrap();
            assert_eq!(stored, platform.as_str());
        }
    }

    #[test]
    fn the_example_of_a_sender_has_the_form_of_its_platform() {
        for platform in Platform::ALL {
            let Some(chat) = platform.chat() else { continue };
            let parts: Vec<&str> = chat.sender_example.split(':').collect();
            let [name, account, id] = parts.as_slice() else {
                panic!("{platform:?}: expected three parts");
            };
            assert_eq!(*name, platform.as_str());
            assert!((chat.is_sender)(account, id), "{platform:?}");
        }
    }

    #[test]
    fn a_private_chat_is_never_taken_for_a_group() {
        let is_group = |platform: Platform, chat: &str| platform.chat().map(|of| (of.is_group)(chat));
        for (platform, chat, expected) in [
            (Platform::Slack, "C0PLATFORM", true),
            (Platform::Slack, "G0OLDGROUP", true),
            (Platform::Slack, "D0ALICE", false),
            (Platform::Telegram, "-1001", true),
            (Platform::Telegram, "4201", false),
            (Platform::Discord, "1200000000000000001", false),
        ] {
            assert_eq!(is_group(platform, chat), Some(expected), "{chat}");
        }
    }
}
