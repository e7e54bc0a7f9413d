//! The extent of the table: the cases of every run, or each row in each wire format.

use super::table::{AttackClass, CaseRow, WireFormat};

/// The environment variable that chooses the extent of the table.
const WIRES: &str = "DRYDOCK_DOJO_WIRES";

/// The extent of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TableExtent {
    /// The cases of every run.
    Usual,
    /// Each row in each wire format, unless it names its own.
    EachWire,
}

impl TableExtent {
    /// Returns the extent that the environment asks for.
    pub(crate) fn chosen() -> Self {
        match std::env::var(WIRES).as_deref() {
            Ok("all") => Self::EachWire,
            Ok(other) => panic!("{WIRES} is `all` or not set, and not {other:?}"),
            Err(_) => Self::Usual,
        }
    }
}

impl CaseRow {
    /// Returns the wire formats of its cases.
    pub(crate) fn wires(&self, extent: TableExtent) -> &[WireFormat] {
        match (&self.wire, extent) {
            (Some(wires), _) => wires,
            (None, TableExtent::Usual) => &[WireFormat::Anthropic],
            (None, TableExtent::EachWire) => &WireFormat::ALL,
        }
    }
}

impl AttackClass {
    /// Returns the extent of the class. One that measures memory or time is always the usual one.
    pub(crate) fn extent(&self, chosen: TableExtent) -> TableExtent {
        match (self.memory_mib_max, self.bystander_seconds_max) {
            (None, None) => chosen,
            (Some(_), _) | (_, Some(_)) => TableExtent::Usual,
        }
    }
}
