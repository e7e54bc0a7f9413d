//! The layers of the sandbox on Linux.

use serde::{Deserialize, Serialize};

/// One layer of the sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LayerName {
    /// The process ends with the thread that started it.
    ParentDeath,
    /// Limits on memory, processor time, files and processes.
    ResourceLimits,
    /// The process can open, create or name no file, and connect no socket.
    Landlock,
    /// The process may make only the system calls of a calculation: no open, socket, fork or exec.
    SystemCalls,
    /// The process cannot gain privileges through a program it starts.
    NoNewPrivileges,
}

impl LayerName {
    /// The layers of this system. All are required unless the configuration allows them to be missing.
    pub const ALL: [Self; 5] = [
        Self::ParentDeath,
        Self::ResourceLimits,
        Self::Landlock,
        Self::SystemCalls,
        Self::NoNewPrivileges,
    ];

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
            Self::Landlock => {
                "Without this layer only seccomp keeps a program that is evaluated from files and the network."
            }
            Self::SystemCalls => {
                "A program that breaks out of the evaluator may use every system call of its user; only Landlock \
                 keeps it from files."
            }
            Self::NoNewPrivileges => {
                "A program that breaks out of the evaluator may start one that has more rights than this user."
            }
        }
    }

    /// Returns the system that provides the layer.
    pub fn origin(self) -> &'static str {
        match self {
            Self::ParentDeath | Self::ResourceLimits => {
                "every Linux has it; a container runtime or a supervisor that filters system calls can remove it"
            }
            Self::Landlock => {
                "Linux 5.13 or newer, built with it and started with `landlock` in its list `lsm=` (see \
                 /sys/kernel/security/lsm)"
            }
            Self::SystemCalls => "Linux 4.8 or newer, built with CONFIG_SECCOMP_FILTER",
            Self::NoNewPrivileges => "Linux 3.5 or newer; it comes with the filter of system calls",
        }
    }

    /// Returns the name of the layer in the configuration.
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
