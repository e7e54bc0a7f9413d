//! The effect that a tool may have on the world.

/// The effect of a tool call. There is no variant for clusters or remotes: Drydock prepares, it
/// never applies, commits or pushes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Looks only. Calls of one step with this effect run in parallel.
    Read,
    /// Changes files of this conversation's workspace.
    WriteWorkspace,
    /// Runs a program in the sandbox.
    Execute,
    /// Sends a message to a person.
    Notify,
}
