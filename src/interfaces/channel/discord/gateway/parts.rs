//! The parts that all connections of a channel share.

use super::events::EventDecoder;
use super::missed::MissedReader;
use super::position::StoredPosition;
use crate::interfaces::channel::PolledInbound;
use jiff::Timestamp;
use tokio::sync::{mpsc, watch};

/// The parts that all connections of a channel share.
pub(super) struct SharedParts<'a> {
    pub(super) decoder: EventDecoder<'a>,
    pub(super) reader: MissedReader<'a>,
    pub(super) inbox: &'a mpsc::Sender<PolledInbound>,
    pub(super) now: fn() -> Timestamp,
    /// The account of the bot.
    pub(super) bot: &'a str,
    /// The receiver of each new position.
    pub(super) positions: watch::Sender<Option<StoredPosition>>,
}
