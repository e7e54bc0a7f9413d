//! The part of an unfinished text that is safe to show. A text that arrives in pieces is redacted as a whole each time,
//! and only its stable beginning is shown: no secret begins in it and ends after it. So no piece of a secret is shown
//! before the rest of it arrives.

use super::visible_text::VisibleText;
use super::{Redactor, patterns};

impl Redactor {
    /// Returns the length of the stable beginning of a text, in bytes. Whatever text follows, redacting the beginning
    /// gives the beginning of the redacted text.
    ///
    /// A secret without a space is inside one word, so the text is stable up to its last complete word. Two kinds of secrets
    /// have spaces: private keys, and known values. A text that could be the beginning or a part of one is not stable.
    pub fn stable_bytes(&self, text: &str) -> usize {
        let learnt = self.learned_values();
        let unfinished = |text: &str| {
            let known = learnt.as_ref().and_then(|learnt| learnt.unfinished(text));
            let all = [
                patterns::unfinished_key(text),
                self.shared.live.unfinished(text),
                known,
            ];
            all.into_iter().flatten().min()
        };
        let mut end = after_last_space(text, text.len());
        while end > 0 {
            let shown = text.get(..end).unwrap_or_default();
            let seen = VisibleText::new(shown);
            let hidden = seen.as_ref().and_then(|seen| {
                let start = unfinished(&seen.text)?;
                Some(seen.original_range(&(start..start + 1)).start)
            });
            match unfinished(shown).into_iter().chain(hidden).min() {
                Some(start) => end = after_last_space(text, start.min(end - 1)),
                None => break,
            }
        }
        // A secret may begin with the space before it.
        text.get(..end).unwrap_or_default().trim_ascii_end().len()
    }
}

/// Returns the position after the last space or line end in the first `end` bytes.
fn after_last_space(text: &str, end: usize) -> usize {
    let before = text.as_bytes().get(..end).unwrap_or_default();
    before
        .iter()
        .rposition(u8::is_ascii_whitespace)
        .map_or(0, |at| at + 1)
}

#[cfg(test)]
mod tests {
    use crate::base::model::Secret;
    use crate::base::redact::Redactor;
    use proptest::prelude::{ProptestConfig, prop_assert, proptest};
    use proptest::sample::select;

    const PHRASE: &str = "correct horse battery staple";
    const LINES: &str = "kXv83hFq\nZ9mQw4Tb\nP0sLr7Ny";

    fn redactor() -> Redactor {
        Redactor::new([PHRASE, LINES, "vQ8-hunter2-0"].map(|secret| Secret::new(secret.to_owned())))
    }

    /// Shows a text as it arrives, and checks that what was shown is always the beginning of the redacted text.
    fn shown_in_pieces(redactor: &Redactor, text: &str) -> Result<usize, String> {
        let whole = redactor.redact(text).into_owned();
        let (mut longest, mut checked) = (0, None);
        for (end, _) in text.char_indices().chain([(text.len(), ' ')]) {
            let (arrived, _) = text.split_at(end);
            let stable = redactor.stable_bytes(arrived);
            if checked.replace(stable) == Some(stable) {
                continue;
            }
            let shown = redactor.redact(text.split_at(stable).0).into_owned();
            if !whole.starts_with(&shown) {
                return Err(format!("{shown:?} is not the beginning of {whole:?}"));
            }
            longest = longest.max(stable);
        }
        Ok(longest)
    }

    #[test]
    fn no_part_of_a_secret_is_shown_before_the_rest_arrives() {
        let redactor = redactor();
        let key = "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEAx\nMIIEowIBAAKCAQEAxMIIEowIBAAKCAQEAx\n-----END RSA PRIVATE KEY-----";
        for secret in [
            PHRASE,
            LINES,
            "vQ8-hunter2-0",
            key,
            "ghp_0123456789abcdefghijABCDEFGHIJ012345",
        ] {
            let text = format!("It is {secret} and no more.\n");
            let shown = shown_in_pieces(&redactor, &text);
            assert_eq!(shown, Ok(text.len() - 1));
        }
        assert_eq!(redactor.stable_bytes("It is correct horse "), "It is".len());
        assert_eq!(redactor.stable_bytes("It is cor"), "It is".len());
        assert_eq!(
            redactor.stable_bytes("A key: -----BEGIN PRIVATE KEY-----\nMII \n"),
            "A key:".len()
        );
        assert_eq!(redactor.stable_bytes("-----BEGIN CERTIFICATE-----\nMII\n"), 31);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

        #[test]
        fn shown_pieces_are_the_beginning_of_the_redacted_text(
            pieces in proptest::collection::vec(select(vec![
                "correct", "horse", "battery", "staple", " ", "\n", "the ", "password: ", "Zx9-Kq2.Wm7vT4",
                "kXv83hFq\n", "Z9mQw4Tb", "P0sLr7Ny", "-----BEGIN ", "RSA PRIVATE KEY", "-----", "-----END ",
                "vQ8-hunter2", "-0", "authorization: bearer ", "ghp_0123456789abcdefghij", "ABCDEFGHIJ012345", "\u{200b}",
                "ä", "name: A_TOKEN\nvalue: ",
            ]), 0..24)
        ) {
            let shown = shown_in_pieces(&redactor(), &pieces.concat());
            prop_assert!(shown.is_ok(), "{shown:?}");
        }
    }
}
