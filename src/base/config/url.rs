//! URLs that an operator may configure. Requests with credentials go there, so a URL must be unambiguous.

use std::net::IpAddr;

/// The maximum number of bytes of a URL.
const URL_BYTES_MAX: usize = 500;

/// An absolute URL without user, query or fragment: `https`, or `http` to loopback.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Url {
    text: String,
    https: bool,
}

impl Url {
    /// Checks a URL and removes a trailing slash.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let clean = text
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && !b"?#@\\\"<>`".contains(&byte));
        if !clean || text.len() > URL_BYTES_MAX {
            return None;
        }
        let uri: http::Uri = text.parse().ok()?;
        let host = uri.host().filter(|host| !host.is_empty())?;
        let https = match uri.scheme_str()? {
            "https" => true,
            "http" if is_loopback(host) => false,
            _ => return None,
        };
        Some(Self {
            text: text.trim_end_matches('/').to_owned(),
            https,
        })
    }

    /// Returns the URL without a trailing slash.
    pub(super) fn as_str(&self) -> &str {
        &self.text
    }

    pub(super) fn is_https(&self) -> bool {
        self.https
    }
}

/// Returns a URL without a trailing slash: `https`, or `http` to loopback; `None` for any other text.
pub fn checked_url(text: &str) -> Option<String> {
    Url::parse(text).map(|url| url.text)
}

fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost"
        || address
            .parse::<IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_unambiguous_https_or_loopback_is_a_url() {
        for good in [
            "https://api.anthropic.com",
            "https://host:8443/v1/",
            "http://127.0.0.1:9",
            "http://localhost:11434/v1",
            "http://[::1]:80/x",
        ] {
            assert_eq!(
                Url::parse(good).map(|url| url.text),
                Some(good.trim_end_matches('/').to_owned())
            );
        }
        for bad in [
            "http://example.com",
            "http://127.0.0.1.example.com",
            "http://localhost.example.com",
            "https://user:pass@example.com",
            "https://example.com/?q=1",
            "https://example.com/#f",
            "ftp://example.com",
            "example.com",
            "/path",
            "https://",
            "https://exa mple.com",
            "http://2130706433/",
            "file:///etc/passwd",
        ] {
            assert_eq!(Url::parse(bad), None, "{bad}");
        }
    }
}
