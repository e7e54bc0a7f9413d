//! Plans, the blocks that show tasks with their states.
//! See <https://docs.slack.dev/reference/block-kit/blocks/plan-block>.

use super::render::{heading, or_sign, words};
use crate::base::model::{TaskList, TaskState};
use crate::interfaces::channel::markdown::backticks;
use crate::interfaces::channel::visible::escape_label;
use serde_json::{Value, json};

/// The type of the block.
pub(super) const KIND: &str = "plan";
/// The maximum number of tasks in a plan.
const TASKS_MAX: usize = 50;
/// The maximum number of characters of a title. Slack documents none, so this is that of a task in a stream.
const TITLE_CHARS_MAX: usize = 256;

/// Returns the plan of some tasks. More tasks than a plan may have are several plans.
pub(super) fn blocks(list: &TaskList) -> Vec<Value> {
    let earlier = (list.earlier > 0).then(|| (format!("{} earlier", list.earlier), TaskState::Done));
    let shown = list.tasks.iter().map(|task| (task.text.clone(), task.state));
    let cards: Vec<Value> = earlier
        .into_iter()
        .chain(shown)
        .enumerate()
        .map(|(index, (text, state))| {
            json!({
                "type": "task_card",
                "task_id": format!("task-{}", index + 1),
                "title": title(&text),
                "status": status(state),
            })
        })
        .collect();
    let plans = cards
        .chunks(TASKS_MAX)
        .map(|cards| json!({"type": KIND, "title": title(&list.title), "tasks": cards}));
    plans.collect()
}

/// Returns a plan as a heading and a text with signs.
pub(super) fn as_text(plan: &Value) -> Vec<Value> {
    let cards = plan["tasks"].as_array().into_iter().flatten();
    let lines: Vec<String> = cards
        .map(|card| {
            let title = card["title"].as_str().unwrap_or_default();
            format!("{} {title}", sign(&card["status"]))
        })
        .collect();
    let title = plan["title"].as_str().unwrap_or_default();
    let text = words(&backticks(&lines.join("\n")), None);
    heading(title, None).into_iter().chain(text).collect()
}

pub(super) fn title(text: &str) -> String {
    or_sign(escape_label(text, TITLE_CHARS_MAX))
}

pub(super) const fn status(state: TaskState) -> &'static str {
    match state {
        TaskState::Running => "in_progress",
        TaskState::Done => "complete",
        TaskState::Failed => "error",
    }
}

fn sign(shown: &Value) -> char {
    let states = [TaskState::Done, TaskState::Failed];
    let state = states.into_iter().find(|state| *shown == status(*state));
    state.unwrap_or(TaskState::Running).sign()
}
