//! The rate limits of calls: a bucket for each route, and 50 calls a second in all. Discord publishes only the second
//! figure, and states the first with each answer; the sizes here are ordinary ones. See
//! <https://docs.discord.com/developers/topics/rate-limits>.

use super::rest::DiscordCall;
use axum::response::Response;
use http::HeaderValue;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use tokio::time::Instant;

/// The number of calls within a second in all.
const CALLS_A_SECOND_MAX: usize = 50;

/// The counted calls.
#[derive(Debug, Default)]
pub(super) struct CallRates {
    /// The buckets, by route and the channel, server or application in it.
    buckets: BTreeMap<String, RouteBucket>,
    /// The calls of the last second that count against the limit of all.
    all: VecDeque<Instant>,
    /// The routes of the refused calls.
    pub(super) refused: Vec<String>,
}

#[derive(Debug)]
struct RouteBucket {
    used: usize,
    full_at: Instant,
}

/// The state of a bucket, as the headers of an answer show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ShownBucket {
    route: String,
    limit: usize,
    remaining: usize,
    reset_after: Duration,
}

/// A call that came too early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RateRefusal {
    pub(super) milliseconds: u64,
    /// `user` for the limit of a route, and `global` for that of all calls.
    pub(super) scope: &'static str,
    pub(super) bucket: Option<ShownBucket>,
}

/// Returns the size of a route's bucket and the time after which it is full again; `None` for a route without one.
fn size(route: &str) -> Option<(usize, Duration)> {
    match route {
        "POST channels/messages" | "PATCH channels/messages" | "GET channels/messages" => {
            Some((5, Duration::from_secs(5)))
        }
        _ if route.starts_with("PUT channels/messages/reactions")
            || route.starts_with("DELETE channels/messages/reactions") =>
        {
            Some((1, Duration::from_millis(250)))
        }
        _ => None,
    }
}

impl CallRates {
    /// Counts a call. Returns the state of its bucket afterwards.
    pub(super) fn count(
        &mut self,
        call: &DiscordCall,
        now: Instant,
    ) -> Result<Option<ShownBucket>, RateRefusal> {
        let counted = self.try_count(call, now);
        if counted.is_err() {
            self.refused.push(call.route());
        }
        counted
    }

    fn try_count(&mut self, call: &DiscordCall, now: Instant) -> Result<Option<ShownBucket>, RateRefusal> {
        const SECOND: Duration = Duration::from_secs(1);
        while self.all.front().is_some_and(|at| now - *at >= SECOND) {
            self.all.pop_front();
        }
        // The routes of interactions are not bound to the limit of all calls.
        let kind = call.path.first().map(String::as_str);
        let is_bound = !matches!(kind, Some("interactions" | "webhooks"));
        if let Some(oldest) = self
            .all
            .front()
            .filter(|_| is_bound && self.all.len() >= CALLS_A_SECOND_MAX)
        {
            return Err(RateRefusal {
                milliseconds: milliseconds(*oldest + SECOND - now),
                scope: "global",
                bucket: None,
            });
        }
        let bucket = self.count_route(call, now)?;
        if is_bound {
            self.all.push_back(now);
        }
        Ok(bucket)
    }

    fn count_route(&mut self, call: &DiscordCall, now: Instant) -> Result<Option<ShownBucket>, RateRefusal> {
        let route = call.route();
        let Some((limit, period)) = size(&route) else {
            return Ok(None);
        };
        let key = format!("{route} {}", call.path.get(1).map_or("", String::as_str));
        let bucket = self.buckets.entry(key).or_insert(RouteBucket {
            used: 0,
            full_at: now,
        });
        if bucket.full_at <= now {
            (bucket.used, bucket.full_at) = (0, now + period);
        }
        let is_empty = bucket.used >= limit;
        bucket.used += usize::from(!is_empty);
        let shown = ShownBucket {
            route,
            limit,
            remaining: limit - bucket.used,
            reset_after: bucket.full_at - now,
        };
        match is_empty {
            false => Ok(Some(shown)),
            true => Err(RateRefusal {
                milliseconds: milliseconds(shown.reset_after),
                scope: "user",
                bucket: Some(shown),
            }),
        }
    }
}

/// Returns a wait in whole milliseconds that does not end too early.
fn milliseconds(wait: Duration) -> u64 {
    u64::try_from(wait.as_micros().div_ceil(1_000)).unwrap_or(u64::MAX)
}

/// Adds the headers of a bucket.
pub(super) fn with_rates(mut response: Response, bucket: Option<&ShownBucket>) -> Response {
    let Some(bucket) = bucket else { return response };
    let headers = response.headers_mut();
    headers.insert("x-ratelimit-limit", HeaderValue::from(bucket.limit));
    headers.insert("x-ratelimit-remaining", HeaderValue::from(bucket.remaining));
    let seconds = Duration::from_millis(milliseconds(bucket.reset_after)).as_secs_f64();
    if let Ok(reset) = HeaderValue::from_str(&format!("{seconds:.3}")) {
        headers.insert("x-ratelimit-reset-after", reset);
    }
    if let Ok(name) = HeaderValue::from_str(&hex::encode(&bucket.route)) {
        headers.insert("x-ratelimit-bucket", name);
    }
    response
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::{CallRates, RateRefusal};
    use crate::simulation::emulator::discord::rest::DiscordCall;
    use serde_json::Value;
    use std::time::Duration;
    use tokio::time::Instant;

    fn call(method: &str, path: &str) -> DiscordCall {
        DiscordCall {
            method: method.to_owned(),
            path: path.split('/').map(str::to_owned).collect(),
            query: Vec::new(),
            body: Value::Null,
            files: Vec::new(),
        }
    }

    fn wait(refused: &RateRefusal) -> (u64, &'static str) {
        (refused.milliseconds, refused.scope)
    }

    #[test]
    fn a_channel_takes_five_messages_in_five_seconds() {
        let (mut rates, now) = (CallRates::default(), Instant::now());
        let post = call("POST", "channels/501/messages");
        for remaining in (0..5).rev() {
            let shown = rates.count(&post, now).unwrap().unwrap();
            assert_eq!(
                (shown.remaining, shown.reset_after),
                (remaining, Duration::from_secs(5))
            );
        }
        let later = now + Duration::from_millis(1_500);
        assert_eq!(wait(&rates.count(&post, later).unwrap_err()), (3_500, "user"));
        // An edit, and a message in another channel, have buckets of their own.
        for other in [
            call("PATCH", "channels/501/messages/9"),
            call("POST", "channels/502/messages"),
        ] {
            assert_eq!(rates.count(&other, later).unwrap().unwrap().remaining, 4);
        }
        assert_eq!(rates.refused, ["POST channels/messages"]);
        let full = now + Duration::from_secs(5);
        assert_eq!(rates.count(&post, full).unwrap().unwrap().remaining, 4);
    }

    #[test]
    fn an_application_makes_fifty_calls_a_second_beside_its_interactions() {
        let (mut rates, now) = (CallRates::default(), Instant::now());
        for channel in 0..50 {
            let read = call("GET", &format!("channels/{channel}"));
            assert_eq!(rates.count(&read, now), Ok(None));
        }
        let read = call("GET", "channels/1");
        assert_eq!(wait(&rates.count(&read, now).unwrap_err()), (1_000, "global"));
        let answer = call("POST", "interactions/77/token/callback");
        assert_eq!(rates.count(&answer, now), Ok(None));
        assert_eq!(rates.count(&read, now + Duration::from_secs(1)), Ok(None));
    }
}
