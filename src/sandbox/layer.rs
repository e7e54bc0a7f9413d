//! The layers of the sandbox, and which of them this system has.

use super::{Confinement, ProgramPath, SandboxError, SandboxWorker};
use crate::system::LayerName;

/// A layer, and whether it is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SandboxLayer {
    /// The name of the layer.
    pub name: LayerName,
    /// True when a sandbox worker on this system really is confined by it.
    pub present: bool,
}

/// The layers of the sandbox on this system, where they are enough.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerStatus {
    /// Layers that confine a sandbox worker.
    pub present: Vec<LayerName>,
    /// Layers it does without, since the operator listed them.
    pub absent: Vec<LayerName>,
}

/// Returns the layers this system has, found out by building a sandbox and asking its worker.
pub fn layers(program: &ProgramPath) -> Result<Vec<SandboxLayer>, SandboxError> {
    let mut worker = SandboxWorker::start(program, &Confinement::default())?;
    let present = worker.wait_until_confined()?;
    Ok(LayerName::ALL
        .into_iter()
        .map(|name| SandboxLayer {
            name,
            present: present.contains(&name),
        })
        .collect())
}

/// Returns the layers that are present and absent. Only those listed in `may_lack`, by the names of the configuration,
/// may be missing: if another one is, that is [`SandboxError::MissingLayers`] with all that are.
pub fn layer_status(program: &ProgramPath, may_lack: &[String]) -> Result<LayerStatus, SandboxError> {
    let (present, absent): (Vec<SandboxLayer>, Vec<SandboxLayer>) =
        layers(program)?.into_iter().partition(|layer| layer.present);
    let names = |layers: Vec<SandboxLayer>| -> Vec<LayerName> {
        layers.into_iter().map(|layer| layer.name).collect()
    };
    let (present, absent) = (names(present), names(absent));
    let not_listed = |layer: &&LayerName| !may_lack.iter().any(|name| name == layer.name());
    let refused: Vec<LayerName> = absent.iter().filter(not_listed).copied().collect();
    match refused.is_empty() {
        true => Ok(LayerStatus { present, absent }),
        false => Err(SandboxError::MissingLayers(refused)),
    }
}
