//! The agent step of the pipeline that an alert starts.

use super::{ScriptedTurn, edit, read};
use crate::simulation::emulator::model::{ScriptedAnswer, calls};
use serde_json::json;

/// Doubles the memory of `worker` in staging, and concludes.
pub(super) fn more_memory(turn: &ScriptedTurn<'_>) -> ScriptedAnswer {
    let image = "worker:2.0.1',";
    match turn.step {
        0 => calls("file_read", read("staging")),
        1 => {
            let with_memory = format!("{image}\n    memory: '256Mi',");
            calls("file_edit", edit("staging", image, &with_memory))
        }
        _ => calls(
            "conclude",
            json!({
                "verdict": "pass",
                "summary": "worker in staging ran out of its 128Mi of memory. A limit of 256Mi is prepared.",
            }),
        ),
    }
}
