//! The effects of tools.

/// The effect of a tool call. There is no variant for clusters or remotes: Drydock only prepares changes; it never
/// applies, commits or pushes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Reads only. Calls of one step with this effect run in parallel.
    Read,
    /// Changes files of this conversation's workspace.
    WriteWorkspace,
    /// Runs a program in the sandbox.
    Execute,
    /// Sends a message to a user.
    Notify,
}
