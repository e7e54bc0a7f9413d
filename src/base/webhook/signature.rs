//! HMAC signatures over raw bytes: one strict header, one strict hex form, one constant-time comparison. The expected
//! value is never formatted as text, so that it cannot leak.

use super::{Rejected, STALE_REASON};
use crate::base::model::Secret;
use hmac::{Hmac, KeyInit, Mac};
use http::HeaderMap;
use jiff::Timestamp;
use sha2::Sha256;

/// The tolerated clock difference between a sender and this machine, in both directions.
const CLOCK_DIFFERENCE_SECONDS_MAX: u64 = 300;
/// Bytes of a SHA-256 digest.
const DIGEST_BYTES: usize = 32;
/// The maximum number of digits of a timestamp in seconds; enough for this millennium.
const TIMESTAMP_DIGITS_MAX: usize = 11;

/// Returns true if `hex` is the HMAC-SHA256 of the message parts, in order, under one of the secrets. Accepts only 64
/// hex digits, of either case. Every secret is tried, each in constant time.
pub(crate) fn verify_hex_hmac_sha256(secrets: &[&Secret], message_parts: &[&[u8]], hex: &str) -> bool {
    let Some(digest) = decode_digest(hex) else {
        return false;
    };
    secrets
        .iter()
        .map(|secret| is_digest_of(secret, message_parts, &digest))
        .fold(false, |valid, this| valid | this)
}

/// Returns the value of a header that must occur exactly once, as visible ASCII.
pub(crate) fn single_header<'a>(headers: &'a HeaderMap, name: &str) -> Result<&'a str, Rejected> {
    let mut values = headers.get_all(name).iter();
    let value = values
        .next()
        .ok_or(Rejected::Unauthenticated("a signature header is missing"))?;
    if values.next().is_some() {
        return Err(Rejected::Unauthenticated("a signature header is repeated"));
    }
    value
        .to_str()
        .map_err(|_| Rejected::Unauthenticated("a signature header is not text"))
}

/// Fails unless `seconds` is at most 300 s before or after `at`. The signature must have been verified before.
pub(crate) fn require_fresh(seconds: &str, at: Timestamp) -> Result<(), Rejected> {
    let strict = !seconds.is_empty()
        && seconds.len() <= TIMESTAMP_DIGITS_MAX
        && seconds.bytes().all(|byte| byte.is_ascii_digit());
    let sent = seconds.parse::<i64>().ok().filter(|_| strict);
    let sent = sent.ok_or(Rejected::Unauthenticated(STALE_REASON))?;
    let seconds = sent.saturating_sub(at.as_second());
    match seconds.unsigned_abs() <= CLOCK_DIFFERENCE_SECONDS_MAX {
        true => Ok(()),
        false => Err(Rejected::Stale { seconds }),
    }
}

fn is_digest_of(secret: &Secret, message_parts: &[&[u8]], digest: &[u8; DIGEST_BYTES]) -> bool {
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret.expose().as_bytes()) else {
        return false;
    };
    for part in message_parts {
        mac.update(part);
    }
    mac.verify_slice(digest).is_ok()
}

fn decode_digest(text: &str) -> Option<[u8; DIGEST_BYTES]> {
    let mut digest = [0; DIGEST_BYTES];
    hex::decode_to_slice(text, &mut digest).ok()?;
    Some(digest)
}

/// Returns the signature that [`verify_hex_hmac_sha256`] accepts.
#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(super) fn hex_hmac_sha256(secret: &str, message_parts: &[&[u8]]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
    for part in message_parts {
        mac.update(part);
    }
    hex::encode(mac.finalize().into_bytes())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::{require_fresh, single_header, verify_hex_hmac_sha256};
    use crate::base::model::Secret;
    use crate::base::webhook::Rejected;
    use http::{HeaderMap, HeaderValue};
    use jiff::Timestamp;
    use proptest::prelude::{ProptestConfig, proptest};

    const DIGEST: &str = "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";

    fn secret(text: &str) -> Secret {
        Secret::new(text.to_owned())
    }

    fn verify(hex: &str) -> bool {
        verify_hex_hmac_sha256(
            &[&secret("It's a Secret to Everybody")],
            &[b"Hello, ", b"World!"],
            hex,
        )
    }

    #[test]
    fn the_published_vector_verifies_in_either_case() {
        assert!(verify(DIGEST));
        assert!(verify(&DIGEST.to_uppercase()));
    }

    #[test]
    fn any_of_several_secrets_will_do() {
        let (old, new) = (secret("old"), secret("It's a Secret to Everybody"));
        assert!(verify_hex_hmac_sha256(&[&old, &new], &[b"Hello, World!"], DIGEST));
        assert!(verify_hex_hmac_sha256(&[&new, &old], &[b"Hello, World!"], DIGEST));
        assert!(!verify_hex_hmac_sha256(&[&old], &[b"Hello, World!"], DIGEST));
        assert!(!verify_hex_hmac_sha256(&[], &[b"Hello, World!"], DIGEST));
    }

    /// T13
    #[test]
    fn hex_is_strict() {
        let shorter: String = DIGEST.chars().take(63).collect();
        let long = "a".repeat(1 << 20);
        for hex in [
            "",
            shorter.as_str(),
            &format!("{DIGEST}0"),
            &format!(" {DIGEST}"),
            &format!("{DIGEST}\n"),
            &format!("0x{shorter}"),
            &format!("{shorter}g"),
            &format!("{shorter}\u{0}"),
            &"0".repeat(64),
            &"ä".repeat(32),
            &long,
        ] {
            assert!(!verify(hex), "{}", hex.chars().take(80).collect::<String>());
        }
    }

    /// T12
    #[test]
    fn a_header_is_there_exactly_once() {
        let mut headers = HeaderMap::new();
        assert_eq!(
            single_header(&headers, "x-signature"),
            Err(Rejected::Unauthenticated("a signature header is missing"))
        );
        headers.append("x-signature", HeaderValue::from_static("a"));
        assert_eq!(single_header(&headers, "x-signature"), Ok("a"));
        headers.append("x-signature", HeaderValue::from_static("a"));
        assert_eq!(
            single_header(&headers, "x-signature"),
            Err(Rejected::Unauthenticated("a signature header is repeated"))
        );
        let bytes = HeaderValue::from_bytes(b"\xff\xfe").unwrap();
        headers.insert("x-signature", bytes);
        assert_eq!(
            single_header(&headers, "x-signature"),
            Err(Rejected::Unauthenticated("a signature header is not text"))
        );
    }

    /// T16, CI-27
    #[test]
    fn five_minutes_of_clock_difference_is_the_most() {
        let at = Timestamp::from_second(1_531_420_618).unwrap();
        let stale = |seconds| Err(Rejected::Stale { seconds });
        let unreadable = || Err(Rejected::Unauthenticated("hook.stale"));
        for (seconds, expected) in [
            ("1531420618", Ok(())),
            ("1531420318", Ok(())),
            ("1531420918", Ok(())),
            ("1531420317", stale(-301)),
            ("1531420919", stale(301)),
            ("", unreadable()),
            ("-1531420618", unreadable()),
            ("+1531420618", unreadable()),
            (" 1531420618", unreadable()),
            ("1531420618.0", unreadable()),
            ("1531420618000", unreadable()),
            ("99999999999999999999", unreadable()),
            ("١٥٣", unreadable()),
            ("0", stale(-1_531_420_618)),
        ] {
            assert_eq!(require_fresh(seconds, at), expected, "{seconds:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// T13
        #[test]
        fn no_text_but_the_digest_verifies(hex in "\\PC{0,80}") {
            assert!(!verify(&hex) || hex.eq_ignore_ascii_case(DIGEST));
        }
    }
}
