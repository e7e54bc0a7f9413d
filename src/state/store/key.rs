//! The text of a conversation's key. It begins with the person and the chat. So all conversations of one person in one
//! chat are adjacent in the key's index, and no other index is needed.

use super::StoreError;
use super::column::{self, json};
use crate::base::model::{Account, ChatPlace, ConversationKey, Platform, Sender};

/// The range of texts that contains exactly the keys of all hooks.
pub(super) const HOOKS: (&str, &str) = ("[\"hook\",", "[\"hook\"-");

/// The range of texts that contains exactly the keys of all configured schedules.
pub(super) const SCHEDULES: (&str, &str) = ("[\"schedule\",", "[\"schedule\"-");

/// The range of texts that contains exactly the keys of all services with tokens.
pub(super) const SERVICES: (&str, &str) = ("[\"service\",", "[\"service\"-");

/// Converts a key to a column: a JSON array, so that parts cannot be confused.
pub(super) fn text(key: &ConversationKey) -> Result<String, StoreError> {
    let ConversationKey { user, place } = key;
    json(&(
        user.platform,
        &user.account,
        &user.id,
        place.account.platform,
        &place.account.id,
        &place.chat,
        &place.thread,
    ))
}

/// Converts a column to a key.
pub(super) fn from_text(text: &str) -> Result<ConversationKey, StoreError> {
    type Parts = (Platform, String, String, Platform, String, String, Option<String>);
    let (platform, account, id, at, installation, chat, thread): Parts = column::parse("conversation", text)?;
    Ok(ConversationKey {
        user: Sender {
            platform,
            account,
            id,
        },
        place: ChatPlace {
            account: Account {
                platform: at,
                id: installation,
            },
            chat,
            thread,
        },
    })
}

/// Returns the range of texts that contains exactly the keys of this person.
pub(super) fn person_key_range(user: &Sender) -> Result<(String, String), StoreError> {
    range(&json(&(user.platform, &user.account, &user.id))?)
}

/// Returns the range of texts that contains exactly the keys of this sender in the places of this account.
pub(super) fn account_key_range(user: &Sender, account: &Account) -> Result<(String, String), StoreError> {
    range(&json(&(
        user.platform,
        &user.account,
        &user.id,
        account.platform,
        &account.id,
    ))?)
}

/// Returns the range of texts that contains exactly the keys of this person in this chat.
pub(super) fn chat_key_range(
    user: &Sender,
    account: &Account,
    chat: &str,
) -> Result<(String, String), StoreError> {
    range(&json(&(
        user.platform,
        &user.account,
        &user.id,
        account.platform,
        &account.id,
        chat,
    ))?)
}

/// Returns the range of keys that begin with the parts of a JSON array.
fn range(parts: &str) -> Result<(String, String), StoreError> {
    // Only the bracket of the array itself: a part may end with one, but within its quotes.
    let parts = parts.strip_suffix(']').unwrap_or(parts);
    // A comma follows the parts, and `-` is the next character after it. SQLite compares texts by their bytes by
    // default.
    Ok((format!("{parts},"), format!("{parts}-")))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::{chat_key_range, from_text, person_key_range, text};
    use crate::base::model::{Account, ChatPlace, ConversationKey, Platform, Sender};

    fn key(user: &str, chat: &str, thread: Option<&str>) -> ConversationKey {
        ConversationKey {
            user: Sender {
                platform: Platform::Slack,
                account: "T1".to_owned(),
                id: user.to_owned(),
            },
            place: ChatPlace {
                account: Account {
                    platform: Platform::Slack,
                    id: "T0".to_owned(),
                },
                chat: chat.to_owned(),
                thread: thread.map(str::to_owned),
            },
        }
    }

    #[test]
    fn a_key_is_read_as_it_was_written_whatever_is_in_it() {
        for odd in ["U1", "", "\"", "a\",\"b", "]", "\\", "\u{0}", "İ", "x,"] {
            for key in [key(odd, "C1", None), key("U1", odd, Some(odd))] {
                assert_eq!(from_text(&text(&key).unwrap()).unwrap(), key);
            }
        }
    }

    #[test]
    fn neighbours_are_the_threads_of_one_person_in_one_chat() {
        let odd = ["U", "U1", "U1]", "U1\"", "U1,", "U2", "", "]"];
        for user in odd {
            for chat in odd {
                let mine = key(user, chat, None);
                let (after, before) = chat_key_range(&mine.user, &mine.place.account, chat).unwrap();
                for other in odd {
                    for thread in [None, Some(""), Some("1795300000.000001"), Some("]")] {
                        for theirs in [key(other, chat, thread), key(user, other, thread)] {
                            let between = {
                                let text = text(&theirs).unwrap();
                                after < text && text < before
                            };
                            let same = theirs.user == mine.user && theirs.place.chat == mine.place.chat;
                            assert_eq!(between, same, "{theirs:?} for {mine:?}");
                            let (after, before) = person_key_range(&mine.user).unwrap();
                            let text = text(&theirs).unwrap();
                            assert_eq!(after < text && text < before, theirs.user == mine.user);
                        }
                    }
                }
            }
        }
    }
}
