//! The layers of the jail, and which of them this system has.

use super::{Confinement, Inmate, JailError, Program};
use serde::{Deserialize, Serialize};

/// One layer of the jail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LayerName {
    /// It dies with the process that started it.
    ParentDeath,
    /// Bounds on memory, processor time, files and processes.
    ResourceLimits,
    /// No file can be opened, made or named, and no socket connected.
    Landlock,
    /// Only the system calls of a calculation work: no open, socket, fork, exec.
    SystemCalls,
    /// No program it might start could gain rights.
    NoNewPrivileges,
}

impl LayerName {
    /// All of them. What is required unless someone says otherwise.
    pub const ALL: [Self; 5] = [
        Self::ParentDeath,
        Self::ResourceLimits,
        Self::Landlock,
        Self::SystemCalls,
        Self::NoNewPrivileges,
    ];

    /// The name an operator writes in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::ParentDeath => "parent_death",
            Self::ResourceLimits => "resource_limits",
            Self::Landlock => "landlock",
            Self::SystemCalls => "system_calls",
            Self::NoNewPrivileges => "no_new_privileges",
        }
    }
}

impl std::fmt::Display for LayerName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::ParentDeath => "death with its parent",
            Self::ResourceLimits => "resource limits",
            Self::Landlock => "Landlock",
            Self::SystemCalls => "seccomp",
            Self::NoNewPrivileges => "no_new_privs",
        })
    }
}

/// A layer, and whether it is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layer {
    /// Which.
    pub name: LayerName,
    /// True when an inmate on this system really is confined by it.
    pub present: bool,
}

/// Which layers this system has, found out by building a jail and asking its inmate.
pub fn layers(program: &Program) -> Result<Vec<Layer>, JailError> {
    let mut inmate = Inmate::start(program, &Confinement::default())?;
    let present = inmate.confined()?;
    Ok(LayerName::ALL
        .into_iter()
        .map(|name| Layer {
            name,
            present: present.contains(&name),
        })
        .collect())
}
