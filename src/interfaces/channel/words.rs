//! The words that people type for an invite or after the name of a command. They are the same on all platforms.

use crate::base::model::InboundKind;

/// The number of characters of an invite token.
const INVITE_TOKEN_CHARS: usize = 43;

/// Returns the invite of a text that is exactly `join <token>`.
pub(super) fn invite(text: &str) -> Option<InboundKind> {
    let mut words = text.split_whitespace();
    let (verb, token, rest) = (words.next()?, words.next()?, words.next());
    let token_shaped = token.len() == INVITE_TOKEN_CHARS
        && token
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
    (verb.eq_ignore_ascii_case("join") && token_shaped && rest.is_none()).then(|| InboundKind::Join {
        token: token.to_owned(),
    })
}

/// Returns the command of the words after `/drydock`.
pub(super) fn command(words: &str) -> InboundKind {
    let words = words.trim_start_matches(['/', '!']).trim();
    let (verb, arguments) = words.split_once(char::is_whitespace).unwrap_or((words, ""));
    let verb = if verb.is_empty() {
        "help".to_owned()
    } else {
        verb.to_lowercase()
    };
    InboundKind::Command {
        verb,
        arguments: arguments.trim().to_owned(),
    }
}
