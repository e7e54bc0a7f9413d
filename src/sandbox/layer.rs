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

    /// What a program could do without it, as a whole sentence.
    pub fn loss(self) -> &'static str {
        match self {
            Self::ParentDeath => {
                "If this program is killed, an evaluation it has started goes on until its bound of processor time."
            }
            Self::ResourceLimits => {
                "A program that is evaluated may take all memory and processor time of this machine until its time is over."
            }
            Self::Landlock => {
                "One layer less keeps a program that is evaluated from files and the network: seccomp alone does."
            }
            Self::SystemCalls => {
                "A program that breaks out of the evaluator may use every system call of its user; Landlock alone keeps it \
                 from files."
            }
            Self::NoNewPrivileges => {
                "A program that breaks out of the evaluator may start one that has more rights than this user."
            }
        }
    }

    /// The system that has it.
    pub fn origin(self) -> &'static str {
        match self {
            Self::ParentDeath | Self::ResourceLimits => {
                "every Linux has it; a container runtime or a supervisor that filters system calls takes it away"
            }
            Self::Landlock => {
                "Linux 5.13 or newer, built with it and started with `landlock` in its list `lsm=` (see \
                 /sys/kernel/security/lsm)"
            }
            Self::SystemCalls => "Linux 4.8 or newer, built with CONFIG_SECCOMP_FILTER",
            Self::NoNewPrivileges => "Linux 3.5 or newer; it comes with the filter of system calls",
        }
    }

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

/// What this system has of the jail, where that is enough.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Layers that confine an inmate.
    pub present: Vec<LayerName>,
    /// Layers it does without, since the operator listed them.
    pub absent: Vec<LayerName>,
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

/// The same where only listed layers may be missing, by the names of the configuration: if another one is, that is
/// [`JailError::Weaker`] with all that are.
pub fn standing(program: &Program, may_lack: &[String]) -> Result<Standing, JailError> {
    let (present, absent): (Vec<Layer>, Vec<Layer>) =
        layers(program)?.into_iter().partition(|layer| layer.present);
    let names =
        |layers: Vec<Layer>| -> Vec<LayerName> { layers.into_iter().map(|layer| layer.name).collect() };
    let (present, absent) = (names(present), names(absent));
    let not_listed = |layer: &&LayerName| !may_lack.iter().any(|name| name == layer.name());
    let refused: Vec<LayerName> = absent.iter().filter(not_listed).copied().collect();
    match refused.is_empty() {
        true => Ok(Standing { present, absent }),
        false => Err(JailError::Weaker(refused)),
    }
}
