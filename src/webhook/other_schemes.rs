//! Refuses requests that are signed under two schemes. A genuine sender uses one scheme; a second signature header is
//! an attempt to choose the check. Such a request is refused before any check.

use super::Rejected;
use http::HeaderMap;

/// The headers that authenticate a request under some scheme, our own or a common one.
const SIGNATURE_HEADERS: [&str; 9] = [
    "x-hub-signature",
    "x-hub-signature-256",
    "x-slack-signature",
    "x-telegram-bot-api-secret-token",
    "x-webhook-signature",
    "x-signature",
    "x-signature-256",
    "x-gitlab-token",
    "webhook-signature",
];

/// Refuses a request with a signature header that is not in `own`, the headers of its scheme.
pub(super) fn refuse_other_schemes(headers: &HeaderMap, own: &[&str]) -> Result<(), Rejected> {
    if SIGNATURE_HEADERS
        .iter()
        .any(|header| !own.contains(header) && headers.contains_key(*header))
    {
        return Err(Rejected::Unauthenticated("hook.mixed"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::refuse_other_schemes;
    use crate::webhook::Rejected;
    use http::{HeaderMap, HeaderValue};

    /// T12, CI-27
    #[test]
    fn a_second_scheme_is_refused_whatever_its_value() {
        let mut headers = HeaderMap::new();
        headers.insert("x-hub-signature-256", HeaderValue::from_static("sha256=00"));
        headers.insert("x-hub-signature", HeaderValue::from_static("sha1=00"));
        let own = ["x-hub-signature-256", "x-hub-signature"];
        assert_eq!(refuse_other_schemes(&headers, &own), Ok(()));
        headers.insert("x-slack-signature", HeaderValue::from_static(""));
        assert_eq!(
            refuse_other_schemes(&headers, &own),
            Err(Rejected::Unauthenticated("hook.mixed"))
        );
    }
}
