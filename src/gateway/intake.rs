//! The part of a message that is taken in. An invite goes its own way, whatever stands around it; secrets that a person or a payload brings
//! along, and the tokens of buttons, go no further than here.

use super::hex;
use crate::model::{Inbound, InboundKind};
use crate::redact::Redactor;
use sha2::{Digest, Sha256};

/// Characters of an invite's token.
const TOKEN_CHARS: usize = 43;
/// Words around an invite that leave no doubt what the message is for.
const WORDS_AROUND_MAX: usize = 8;
/// The text in place of a token.
const INSTEAD_OF_TOKEN: &str = "[invite]";

/// An invite in a message.
#[derive(Debug, PartialEq, Eq)]
struct FoundInvite<'t> {
    token: &'t str,
    /// True if the message is there for it, and not about something else.
    is_intended: bool,
}

/// The message as an invite, if it is one: a person who writes `join TOKEN please` means `join TOKEN`. What is said
/// beside that in a longer message is kept in a direct one, without the token. Elsewhere others could read it, so it
/// is an invite in any case: one that is burned.
pub(super) fn extract_invite(mut inbound: Inbound) -> Inbound {
    let said = match &inbound.kind {
        InboundKind::Text { text, .. } => text.clone(),
        InboundKind::Command { verb, arguments } => format!("{verb} {arguments}"),
        InboundKind::Join { .. }
        | InboundKind::Click { .. }
        | InboundKind::Hook { .. }
        | InboundKind::Unsupported { .. } => {
            return inbound;
        }
    };
    if let Some(found) = find(&said)
        && (found.is_intended || !inbound.direct)
    {
        inbound.kind = InboundKind::Join {
            token: found.token.to_owned(),
        };
        return inbound;
    }
    match &mut inbound.kind {
        InboundKind::Text { text, quoted, .. } => {
            take_out(text);
            quoted.iter_mut().for_each(take_out);
        }
        InboundKind::Command { verb, arguments } => {
            let mut whole = format!("{verb} {arguments}");
            take_out(&mut whole);
            *arguments = whole.split_off(verb.len() + 1);
        }
        InboundKind::Join { .. }
        | InboundKind::Click { .. }
        | InboundKind::Hook { .. }
        | InboundKind::Unsupported { .. } => {}
    }
    inbound
}

/// The message as it is stored: without secrets, and with the hash of a button's token in the place of the token.
pub(super) fn without_secrets(mut inbound: Inbound, redactor: &Redactor) -> Inbound {
    let redact = |text: &mut String| {
        if let std::borrow::Cow::Owned(redacted) = redactor.redact(text) {
            *text = redacted;
        }
    };
    match &mut inbound.kind {
        InboundKind::Text { text, quoted, .. } => {
            redact(text);
            quoted.iter_mut().for_each(&redact);
        }
        InboundKind::Command { arguments, .. } => redact(arguments),
        InboundKind::Hook { event, fields } => {
            redact(event);
            fields.values_mut().for_each(&redact);
        }
        InboundKind::Click { token, .. } => *token = hex(&Sha256::digest(token.as_bytes())),
        InboundKind::Unsupported { .. } | InboundKind::Join { .. } => {}
    }
    inbound
}

/// The hash that [`without_secrets`] left of a button's token. What is none is the hash of no button.
pub(super) fn hash_of_click(token: &str) -> [u8; 32] {
    let mut hash = [0; 32];
    for (place, byte) in hash.iter_mut().enumerate() {
        let digits = token.get(2 * place..2 * place + 2).unwrap_or_default();
        *byte = u8::from_str_radix(digits, 16).unwrap_or_default();
    }
    hash
}

fn take_out(text: &mut String) {
    // Each round takes one out, so there are no more of them than words.
    while let Some(token) = find(text).map(|found| found.token.to_owned()) {
        *text = text.replace(&token, INSTEAD_OF_TOKEN);
    }
}

/// The first token-shaped word behind `join` or `start`.
fn find(text: &str) -> Option<FoundInvite<'_>> {
    let words: Vec<&str> = text.split_whitespace().map(bare).collect();
    let token = words.windows(2).find_map(|pair| match pair {
        [verb, token] if is_join(verb) && is_token(token) => Some(*token),
        _ => None,
    })?;
    Some(FoundInvite {
        token,
        is_intended: words.len() <= WORDS_AROUND_MAX + 2,
    })
}

/// A word without the marks that people and markup put around it; a token has none of them.
fn bare(word: &str) -> &str {
    word.trim_matches(|char: char| !(char.is_ascii_alphanumeric() || char == '-' || char == '_'))
}

fn is_join(word: &str) -> bool {
    // `/start@bot`, as Telegram writes it in groups.
    let verb = word.split('@').next().unwrap_or_default();
    verb.eq_ignore_ascii_case("join") || verb.eq_ignore_ascii_case("start")
}

fn is_token(word: &str) -> bool {
    word.len() == TOKEN_CHARS
        && word
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}

#[cfg(test)]
mod tests {
    use super::{FoundInvite, find, hash_of_click, take_out};
    use crate::gateway::hex;
    use sha2::{Digest, Sha256};

    const TOKEN: &str = "-Aa0_bcdefghijklmnopqrstuvwxyz0123456789ABC";

    /// T94
    #[test]
    fn an_invite_is_found_whatever_stands_around_it() {
        for meant in [
            "join {}",
            "join {} please",
            "please Join: `{}`, thank you!",
            "/start {}",
            "/start@drydock_bot <{}>",
            "START\n\n\"{}\"",
            "I would like to join\t{}",
        ] {
            let text = meant.replace("{}", TOKEN);
            assert_eq!(
                find(&text),
                Some(FoundInvite {
                    token: TOKEN,
                    is_intended: true
                }),
                "{text}"
            );
        }
        let long = format!("{} join {TOKEN} and so on", "word ".repeat(20));
        assert_eq!(find(&long).map(|found| found.is_intended), Some(false));
        for none in [
            "join us",
            "join {}x",
            "the digest {} of the image",
            "joined {}",
            "join the channel {}",
            "",
        ] {
            assert_eq!(find(&none.replace("{}", TOKEN)), None, "{none}");
        }
    }

    #[test]
    fn no_token_is_left_in_what_is_kept() {
        let other = TOKEN.replace('A', "B");
        let mut text = format!("join {TOKEN} or start {other}: {TOKEN}");
        take_out(&mut text);
        assert_eq!(text, "join [invite] or start [invite]: [invite]");
    }

    #[test]
    fn of_a_press_only_the_hash_is_kept() {
        let hash: [u8; 32] = Sha256::digest(b"token").into();
        assert_eq!(hash_of_click(&hex(&hash)), hash);
        assert_eq!(hash_of_click("token"), [0; 32]);
        assert_eq!(hash_of_click("ü"), [0; 32]);
    }
}
