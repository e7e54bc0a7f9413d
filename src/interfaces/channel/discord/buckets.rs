//! The buckets of routes: after each answer, Discord says how many calls of the route remain, and how long until there
//! are more. A call that would exceed its bucket waits. See
//! <https://docs.discord.com/developers/topics/rate-limits#header-format>.

use clru::CLruCache;
use reqwest::header::HeaderMap;
use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// The number of routes that are remembered.
const ROUTES_MAX: NonZeroUsize = match NonZeroUsize::new(1_024) {
    Some(count) => count,
    None => NonZeroUsize::MIN,
};
/// The longest time that a bucket is believed to be empty.
const EMPTY_SECONDS_MAX: f64 = 60.0;

/// The routes whose buckets are empty, and the times at which they are full again.
pub(super) struct Buckets {
    empty: Mutex<CLruCache<String, Instant>>,
}

impl Buckets {
    pub(super) fn new() -> Self {
        Self {
            empty: Mutex::new(CLruCache::new(ROUTES_MAX)),
        }
    }

    /// Returns the wait until a route takes another call; `None` if it takes one now.
    pub(super) fn wait(&self, route: &str) -> Option<Duration> {
        let empty = self.empty.lock().unwrap_or_else(PoisonError::into_inner);
        let until = *empty.peek(route)?;
        let wait = until.saturating_duration_since(Instant::now());
        (!wait.is_zero()).then_some(wait)
    }

    /// Reads the headers of an answer.
    pub(super) fn record(&self, route: String, headers: &HeaderMap) {
        let number = |name: &str| -> Option<f64> {
            let number: f64 = headers.get(name)?.to_str().ok()?.parse().ok()?;
            (number.is_finite() && number >= 0.0).then_some(number)
        };
        let (Some(remaining), Some(reset)) =
            (number("x-ratelimit-remaining"), number("x-ratelimit-reset-after"))
        else {
            return;
        };
        let mut empty = self.empty.lock().unwrap_or_else(PoisonError::into_inner);
        if remaining < 1.0 {
            empty.put(
                route,
                Instant::now() + Duration::from_secs_f64(reset.min(EMPTY_SECONDS_MAX)),
            );
        } else {
            empty.pop(&route);
        }
    }
}

/// Returns the route of a call: its path with the id of the channel, server or application, and without all later ids.
/// Reactions share one bucket, whatever the emoji.
pub(super) fn route(method: &str, path: &str) -> String {
    let path = path.split_once('?').map_or(path, |(path, _)| path);
    let mut route = method.to_owned();
    let mut is_after_reactions = false;
    for (index, part) in path.split('/').enumerate() {
        let is_id = index > 1 && part.bytes().all(|byte| byte.is_ascii_digit());
        route.push('/');
        route.push_str(if is_id || is_after_reactions { "*" } else { part });
        is_after_reactions = part == "reactions";
    }
    route
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::{Buckets, route};
    use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
    use std::time::Duration;

    fn headers(remaining: &'static str, reset: &'static str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("x-ratelimit-remaining", remaining),
            ("x-ratelimit-reset-after", reset),
        ] {
            headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn a_route_has_the_id_of_its_channel_and_no_other() {
        let reaction = route("PUT", "channels/501/messages/77/reactions/%F0%9F%91%80/@me");
        assert_eq!(reaction, "PUT/channels/501/messages/*/reactions/*/@me");
        assert_eq!(
            route("GET", "channels/501/messages?limit=9"),
            "GET/channels/501/messages"
        );
        assert_ne!(
            route("POST", "channels/501/messages"),
            route("POST", "channels/502/messages")
        );
    }

    /// R17
    #[tokio::test(start_paused = true)]
    async fn a_call_waits_until_its_empty_bucket_is_full_again() {
        let buckets = Buckets::new();
        let wait = |route: &str| buckets.wait(route);
        buckets.record("a".to_owned(), &headers("1", "5"));
        assert_eq!(wait("a"), None);
        buckets.record("a".to_owned(), &headers("0", "1.5"));
        assert_eq!((wait("a"), wait("b")), (Some(Duration::from_millis(1_500)), None));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(wait("a"), Some(Duration::from_millis(500)));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(wait("a"), None);
        for (remaining, reset) in [("0", "-1"), ("0", "NaN"), ("0", "soon"), ("x", "5")] {
            buckets.record("c".to_owned(), &headers(remaining, reset));
            assert_eq!(wait("c"), None, "{remaining} {reset}");
        }
        buckets.record("d".to_owned(), &headers("0", "1e30"));
        assert_eq!(wait("d"), Some(Duration::from_secs(60)));
    }
}
