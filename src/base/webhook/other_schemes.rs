//! Refuses requests that are signed under two schemes. A genuine sender uses one scheme; a second signature header is
//! an attempt to choose the check. Such a request is refused before any check.

use super::{HookScheme, Rejected};
use crate::base::model::Platform;
use http::HeaderMap;

/// Headers of common schemes that Drydock does not have.
const UNSUPPORTED: [&str; 4] = [
    "x-signature",
    "x-signature-256",
    "x-gitlab-token",
    "webhook-signature",
];

/// Returns the headers that authenticate a request under some scheme, our own or a common one.
pub(crate) fn signature_headers() -> impl Iterator<Item = &'static str> {
    let hooks = HookScheme::ALL
        .iter()
        .flat_map(|scheme| scheme.definition().signature_headers);
    let channels = Platform::chats().map(|chat| chat.signature_header);
    let channels = channels.filter(|header| !header.is_empty());
    hooks.chain(&UNSUPPORTED).copied().chain(channels)
}

/// Refuses a request with a signature header that is not in `own`, the headers of its scheme.
pub(crate) fn refuse_other_schemes(headers: &HeaderMap, own: &[&str]) -> Result<(), Rejected> {
    if signature_headers().any(|header| !own.contains(&header) && headers.contains_key(header)) {
        return Err(Rejected::Unauthenticated("hook.mixed"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{refuse_other_schemes, signature_headers};
    use crate::base::webhook::Rejected;
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

    #[test]
    fn the_headers_of_every_scheme_are_known() {
        let known: Vec<&str> = signature_headers().collect();
        for header in [
            "x-hub-signature",
            "x-hub-signature-256",
            "x-slack-signature",
            "x-telegram-bot-api-secret-token",
            "x-webhook-signature",
            "x-signature",
            "x-signature-256",
            "x-gitlab-token",
            "webhook-signature",
        ] {
            assert!(known.contains(&header), "{header}");
        }
        assert!(known.iter().all(|header| *header == header.to_lowercase()));
    }
}
