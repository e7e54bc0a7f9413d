//! The time of a delivery by Slack's clock and by ours. Slack may deliver an event minutes late, and the two clocks differ.

use super::TIMESTAMP;
use http::HeaderMap;
use jiff::{SignedDuration, Timestamp};

/// The difference of the clocks up to which a press over a socket still counts for the work that it was meant for.
const SOCKET_CLOCK_DIFFERENCE: SignedDuration = SignedDuration::from_secs(5);

/// The time of a delivery by both clocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct DeliveryTime {
    slack: Timestamp,
    ours: Timestamp,
}

impl DeliveryTime {
    /// Returns the time of a signed request, in which Slack says its own.
    pub(super) fn of_request(headers: &HeaderMap, at: Timestamp) -> Self {
        let sent = headers.get(TIMESTAMP).and_then(|sent| sent.to_str().ok());
        let slack = sent.and_then(|seconds| Timestamp::from_second(seconds.parse().ok()?).ok());
        Self {
            slack: slack.unwrap_or(at),
            ours: at,
        }
    }

    /// Returns the time of an envelope of Socket Mode, which has no time of Slack.
    pub(super) fn over_socket(at: Timestamp) -> Self {
        Self {
            slack: at.checked_sub(SOCKET_CLOCK_DIFFERENCE).unwrap_or(at),
            ours: at,
        }
    }

    /// Returns the time of an event by our clock, for Slack's `event_ts`: seconds and a fraction. It is not after the
    /// delivery.
    pub(super) fn ours(self, event_ts: &str) -> Option<Timestamp> {
        let (seconds, fraction) = event_ts.split_once('.').unwrap_or((event_ts, "0"));
        let millis: i64 = format!("{fraction:0<3}").get(..3)?.parse().ok()?;
        let event = Timestamp::from_second(seconds.parse().ok()?).ok()?;
        let event = event.checked_add(SignedDuration::from_millis(millis)).ok()?;
        let age = self.slack.duration_since(event).max(SignedDuration::ZERO);
        self.ours.checked_sub(age).ok()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::DeliveryTime;
    use http::{HeaderMap, HeaderValue};
    use jiff::Timestamp;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    /// The clock of Slack is an hour behind ours, and the event is two minutes and a half old.
    #[test]
    fn the_age_of_an_event_is_measured_by_the_clock_of_slack() {
        let mut headers = HeaderMap::new();
        headers.insert(
            "x-slack-request-timestamp",
            HeaderValue::from_static("1795262400"),
        );
        let time = DeliveryTime::of_request(&headers, at("2026-11-21T13:00:00Z"));
        for (event_ts, expected) in [
            ("1795262250.500000", Some(at("2026-11-21T12:57:30.5Z"))),
            ("1795262250", Some(at("2026-11-21T12:57:30Z"))),
            // Slack says the time of a request in whole seconds.
            ("1795262400.900000", Some(at("2026-11-21T13:00:00Z"))),
            ("1795262399.000001", Some(at("2026-11-21T12:59:59Z"))),
            ("", None),
            ("now", None),
            ("1795262250.x", None),
            ("99999999999999999999.1", None),
        ] {
            assert_eq!(time.ours(event_ts), expected, "{event_ts}");
        }
    }

    #[test]
    fn over_a_socket_a_small_difference_of_the_clocks_is_tolerated() {
        let time = DeliveryTime::over_socket(at("2026-11-21T12:00:00Z"));
        assert_eq!(time.ours("1795262398.000000"), Some(at("2026-11-21T12:00:00Z")));
        assert_eq!(time.ours("1795262280.000000"), Some(at("2026-11-21T11:58:05Z")));
    }
}
