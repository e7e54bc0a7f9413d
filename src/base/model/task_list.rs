//! [`TaskList`]: the pieces of running work with their states. A platform that cannot show states shows signs.

use serde::{Deserialize, Serialize};

/// The pieces of running work, oldest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskList {
    /// The title: one line without markup.
    pub title: String,
    /// The number of tasks before the first one, which are not shown.
    pub earlier: usize,
    /// The tasks.
    pub tasks: Vec<ListedTask>,
}

/// A piece of work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedTask {
    /// The description: one line without markup.
    pub text: String,
    /// The state.
    pub state: TaskState,
}

/// The state of a piece of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskState {
    /// It runs.
    Running,
    /// It is done.
    Done,
    /// It has failed.
    Failed,
}

impl TaskState {
    /// Returns the sign of the state in a text.
    pub const fn sign(self) -> char {
        match self {
            Self::Running => '…',
            Self::Done => '✓',
            Self::Failed => '✗',
        }
    }
}

impl TaskList {
    /// Returns the tasks as lines of text, without the title.
    pub fn lines(&self) -> String {
        let earlier = (self.earlier > 0).then(|| format!("… {} earlier", self.earlier));
        let tasks = self
            .tasks
            .iter()
            .map(|task| format!("{} {}", task.state.sign(), task.text));
        earlier.into_iter().chain(tasks).collect::<Vec<_>>().join("\n")
    }
}
