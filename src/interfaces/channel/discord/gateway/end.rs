//! The ends of connections.

use twilight_model::gateway::CloseCode;

/// The reason for which a connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectionEnd {
    /// Discord refuses every connection with this close code.
    Refused(u16),
    /// Discord closed it with this code, or with 0 for none.
    Closed(u16),
    /// Discord asks for another connection.
    Reconnect,
    /// The session has ended.
    InvalidSession,
    /// The connection broke, or a frame was not written in time.
    Lost,
    /// A heartbeat was not answered.
    Silent,
    /// An event was not stored.
    Unaccepted,
    /// A frame was too long, or was none of the gateway.
    Unreadable,
    /// The receiver of the messages is gone.
    Stopped,
}

impl ConnectionEnd {
    /// Returns true if the session can be resumed.
    pub(super) fn keeps_session(self) -> bool {
        match self {
            Self::Refused(_) | Self::InvalidSession => false,
            Self::Closed(code) => !matches!(
                CloseCode::try_from(code),
                Ok(CloseCode::NotAuthenticated | CloseCode::InvalidSequence | CloseCode::SessionTimedOut)
            ),
            Self::Reconnect
            | Self::Lost
            | Self::Silent
            | Self::Unaccepted
            | Self::Unreadable
            | Self::Stopped => true,
        }
    }
}
