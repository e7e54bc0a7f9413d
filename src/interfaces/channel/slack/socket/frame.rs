//! The frames that Slack sends over a socket. See <https://docs.slack.dev/apis/events-api/using-socket-mode>. Only
//! what Drydock needs is read: a frame with unknown fields or of an unknown type must still be acknowledged.

use crate::interfaces::channel::slack::webhook::text_at;
use serde_json::Value;

/// A frame.
#[derive(Debug, PartialEq)]
pub(super) enum SocketFrame {
    /// The first frame of a socket: events will come over it.
    Hello,
    /// Slack is about to close the socket.
    Disconnect(DisconnectReason),
    /// An event, a press or a command, which must be acknowledged.
    Envelope(Envelope),
    /// Anything else.
    Unknown,
}

/// The reason for which Slack closes a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DisconnectReason {
    /// `warning`, `refresh_requested`: a new socket is to replace this one.
    Refresh,
    /// `link_disabled`: Socket Mode was switched off for the app.
    Disabled,
    /// `too_many_websockets`: ten sockets of the app are open.
    TooMany,
    /// A reason that is not documented.
    Unknown,
}

/// An envelope.
#[derive(Debug, PartialEq)]
pub(super) struct Envelope {
    pub(super) id: String,
    /// The type, which says what the payload is. Drydock does not know every type.
    pub(super) kind: String,
    pub(super) payload: Value,
    /// The number of earlier deliveries that were not acknowledged.
    pub(super) retry_attempt: u64,
}

/// Reads a frame.
pub(super) fn parse_frame(text: &str) -> SocketFrame {
    let Ok(mut frame) = serde_json::from_str::<Value>(text) else {
        return SocketFrame::Unknown;
    };
    let kind = match text_at(&frame, "/type") {
        Some("hello") => return SocketFrame::Hello,
        Some("disconnect") => return SocketFrame::Disconnect(reason(&frame)),
        kind => kind.unwrap_or_default().to_owned(),
    };
    let Some(id) = text_at(&frame, "/envelope_id").map(str::to_owned) else {
        return SocketFrame::Unknown;
    };
    SocketFrame::Envelope(Envelope {
        id,
        kind,
        retry_attempt: frame.get("retry_attempt").and_then(Value::as_u64).unwrap_or(0),
        payload: frame.get_mut("payload").map(Value::take).unwrap_or_default(),
    })
}

fn reason(frame: &Value) -> DisconnectReason {
    match text_at(frame, "/reason") {
        Some("warning" | "refresh_requested") => DisconnectReason::Refresh,
        Some("link_disabled") => DisconnectReason::Disabled,
        Some("too_many_websockets") => DisconnectReason::TooMany,
        Some(_) | None => DisconnectReason::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::{DisconnectReason, Envelope, SocketFrame, parse_frame};
    use serde_json::json;

    #[test]
    fn frames_are_read_as_documented_and_unknown_ones_can_still_be_acknowledged() {
        let envelope = |kind: &str, retry_attempt| {
            SocketFrame::Envelope(Envelope {
                id: "e-1".to_owned(),
                kind: kind.to_owned(),
                payload: json!({"a": 1}),
                retry_attempt,
            })
        };
        let sent = |kind: &str, more: &str| {
            format!(r#"{{"type":"{kind}","envelope_id":"e-1","payload":{{"a":1}}{more}}}"#)
        };
        let disconnect = |reason: &str| format!(r#"{{"type":"disconnect","reason":"{reason}"}}"#);
        let table = [
            (
                r#"{"type":"hello","num_connections":1}"#.to_owned(),
                SocketFrame::Hello,
            ),
            (sent("events_api", ""), envelope("events_api", 0)),
            (
                sent("events_api", r#","retry_attempt":2,"retry_reason":"timeout""#),
                envelope("events_api", 2),
            ),
            (sent("interactive", ""), envelope("interactive", 0)),
            (sent("slash_commands", ""), envelope("slash_commands", 0)),
            (sent("invented", ""), envelope("invented", 0)),
            (
                disconnect("warning"),
                SocketFrame::Disconnect(DisconnectReason::Refresh),
            ),
            (
                disconnect("refresh_requested"),
                SocketFrame::Disconnect(DisconnectReason::Refresh),
            ),
            (
                disconnect("link_disabled"),
                SocketFrame::Disconnect(DisconnectReason::Disabled),
            ),
            (
                disconnect("too_many_websockets"),
                SocketFrame::Disconnect(DisconnectReason::TooMany),
            ),
            (
                disconnect("invented"),
                SocketFrame::Disconnect(DisconnectReason::Unknown),
            ),
            (r#"{"type":"events_api"}"#.to_owned(), SocketFrame::Unknown),
            ("not JSON".to_owned(), SocketFrame::Unknown),
            ("5".to_owned(), SocketFrame::Unknown),
        ];
        for (text, expected) in table {
            assert_eq!(parse_frame(&text), expected, "{text}");
        }
    }
}
