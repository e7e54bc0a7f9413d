//! The layers of the sandbox, and which of them this system provides.

use super::{Confinement, ProgramPath, SandboxError, SandboxWorker};
use crate::base::system::LayerName;

/// A layer and its presence on this system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SandboxLayer {
    /// The name of the layer.
    pub name: LayerName,
    /// True if a sandbox worker on this system is confined by the layer.
    pub present: bool,
}

/// The present and absent layers of the sandbox on a system that meets the requirements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerStatus {
    /// Layers that confine a sandbox worker.
    pub present: Vec<LayerName>,
    /// Layers that are missing and that the operator allows to be missing.
    pub absent: Vec<LayerName>,
}

/// Returns the layers of this system. Starts a sandbox worker and reads the layers it reports.
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

/// Divides layers into those that are present and those that are absent. Only layers listed in `may_lack`, by their
/// names in the configuration, may be missing. If another layer is missing, the error is
/// [`SandboxError::MissingLayers`] with all of those.
pub fn layer_status(layers: Vec<SandboxLayer>, may_lack: &[String]) -> Result<LayerStatus, SandboxError> {
    let (present, absent): (Vec<SandboxLayer>, Vec<SandboxLayer>) =
        layers.into_iter().partition(|layer| layer.present);
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
