//! The layers of the sandbox on macOS.

use serde::{Deserialize, Serialize};

/// One layer of the sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LayerName {
    /// The process ends when its parent has ended.
    ParentDeath,
    /// Limits on memory, processor time, files and processes.
    ResourceLimits,
    /// The process can open no file, create no socket, start no program and call no system service.
    Seatbelt,
}

impl LayerName {
    /// The layers of this system. All are required unless the configuration allows them to be missing.
    pub const ALL: [Self; 3] = [Self::ParentDeath, Self::ResourceLimits, Self::Seatbelt];

    /// Returns what a program could do without the layer, as a complete sentence.
    pub fn loss(self) -> &'static str {
        match self {
            Self::ParentDeath => {
                "If this program is killed, an evaluation that it has started continues until its limit of processor \
                 time."
            }
            Self::ResourceLimits => {
                "A program that is evaluated may use all memory and processor time of this machine until its time \
                 limit."
            }
            Self::Seatbelt => {
                "A program that breaks out of the evaluator may do whatever this user may: read files, connect, start programs."
            }
        }
    }

    /// Returns the system that provides the layer.
    pub fn origin(self) -> &'static str {
        match self {
            Self::ParentDeath | Self::ResourceLimits => "nothing that a Mac lacks",
            Self::Seatbelt => "macOS 10.13 or newer, and no sandbox around this program already",
        }
    }

    /// Returns the name of the layer in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::ParentDeath => "parent_death",
            Self::ResourceLimits => "resource_limits",
            Self::Seatbelt => "seatbelt",
        }
    }
}

impl std::fmt::Display for LayerName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::ParentDeath => "death with its parent",
            Self::ResourceLimits => "resource limits",
            Self::Seatbelt => "Seatbelt",
        })
    }
}
