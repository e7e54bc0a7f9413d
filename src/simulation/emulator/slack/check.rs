//! The formats and sizes that Slack requires of a message. Slack refuses with one of a few codes; the additional
//! reason is for the reader of a failed test.

use super::mentions::walk;
use serde_json::Value;
use std::collections::BTreeSet;

const BLOCKS_MAX: usize = 50;
const BLOCKS_CHARS_MAX: usize = 13_200;
const TEXT_CHARS_MAX: usize = 40_000;
const PLAN_TASKS_MAX: usize = 50;
pub(super) const TASK_STATUSES: [&str; 4] = ["pending", "in_progress", "complete", "error"];
const RICH_TEXT_STYLES: [&str; 4] = ["bold", "italic", "strike", "code"];

/// The refusal of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MessageRefusal {
    /// Slack's error code.
    pub(super) code: &'static str,
    /// The reason, in a few words.
    pub(super) why: String,
}

fn refusal(code: &'static str, why: impl Into<String>) -> MessageRefusal {
    MessageRefusal {
        code,
        why: why.into(),
    }
}

fn invalid(why: impl Into<String>) -> MessageRefusal {
    refusal("invalid_blocks", why)
}

/// Checks the text and the blocks of a message.
pub(super) fn message(body: &Value) -> Result<(), MessageRefusal> {
    let text = body["text"].as_str().unwrap_or_default();
    if text.chars().count() > TEXT_CHARS_MAX {
        return Err(refusal("msg_too_long", "the text is longer than 40,000"));
    }
    let Some(blocks) = body.get("blocks") else {
        return if text.trim().is_empty() {
            Err(refusal("no_text", "neither text nor blocks"))
        } else {
            Ok(())
        };
    };
    let list = blocks
        .as_array()
        .ok_or_else(|| invalid("blocks are not a list"))?;
    if list.is_empty() || list.len() > BLOCKS_MAX {
        return Err(invalid(format!("{} blocks", list.len())));
    }
    for block in list {
        one(block)?;
    }
    let chars = blocks.to_string().chars().count();
    if chars > BLOCKS_CHARS_MAX {
        return Err(refusal(
            "msg_blocks_too_long",
            format!("{chars} characters of blocks"),
        ));
    }
    unique_actions(blocks)
}

fn unique_actions(blocks: &Value) -> Result<(), MessageRefusal> {
    let mut seen = BTreeSet::new();
    let mut repeated = None;
    walk(blocks, &mut |node| {
        if let Some(id) = node["action_id"].as_str()
            && !seen.insert(id)
        {
            repeated = Some(id);
        }
    });
    match repeated {
        Some(id) => Err(invalid(format!("action_id `{id}` is used twice"))),
        None => Ok(()),
    }
}

fn one(block: &Value) -> Result<(), MessageRefusal> {
    if block["block_id"]
        .as_str()
        .is_some_and(|id| id.chars().count() > 255)
    {
        return Err(invalid("a block_id is longer than 255"));
    }
    match kind(block) {
        "divider" => Ok(()),
        "section" => section(block),
        "header" => text_object(&block["text"], 150, &["plain_text"]),
        "context" => each(&block["elements"], 10, |element| {
            text_object(element, 3_000, &["plain_text", "mrkdwn"])
        }),
        "actions" => each(&block["elements"], 25, button),
        "rich_text" => each(&block["elements"], usize::MAX, rich_text),
        "container" => container(block),
        "plan" => plan(block),
        other => Err(invalid(format!("unsupported type: `{other}`"))),
    }
}

/// Checks a container. See <https://docs.slack.dev/reference/block-kit/blocks/container-block>.
fn container(block: &Value) -> Result<(), MessageRefusal> {
    text_object(&block["title"], 150, &["plain_text"])?;
    let is_flag = |name: &str| block.get(name).is_none_or(Value::is_boolean);
    if !is_flag("is_collapsible") || !is_flag("default_collapsed") {
        return Err(invalid("a container's flag is not a boolean"));
    }
    if block["default_collapsed"] == true && block["is_collapsible"] != true {
        return Err(invalid("a container is collapsed and not collapsible"));
    }
    each(&block["child_blocks"], 10, |child| match kind(child) {
        "actions" | "context" | "divider" | "header" | "rich_text" | "section" => one(child),
        other => Err(invalid(format!("`{other}` in a container"))),
    })
}

/// Checks a plan and its tasks. See <https://docs.slack.dev/reference/block-kit/blocks/plan-block> and
/// <https://docs.slack.dev/reference/block-kit/blocks/task-card-block>.
fn plan(block: &Value) -> Result<(), MessageRefusal> {
    let is_filled = |text: &Value| text.as_str().is_some_and(|text| !text.trim().is_empty());
    if !is_filled(&block["title"]) {
        return Err(invalid("a plan without a title in plain text"));
    }
    let Some(tasks) = block.get("tasks") else {
        return Ok(());
    };
    let mut ids = BTreeSet::new();
    each(tasks, PLAN_TASKS_MAX, |task| {
        let of_type = task.get("type").is_none_or(|kind| kind == "task_card");
        let status = task.get("status").map(|status| status.as_str());
        let has_status =
            status.is_none_or(|status| status.is_some_and(|status| TASK_STATUSES.contains(&status)));
        let is_rich = |name: &str| {
            task.get(name)
                .is_none_or(|text| kind(text) == "rich_text" && one(text).is_ok())
        };
        if !of_type || !is_filled(&task["task_id"]) || !is_filled(&task["title"]) {
            return Err(invalid("a task without an id or without a title in plain text"));
        }
        if !has_status || !is_rich("details") || !is_rich("output") {
            return Err(invalid(format!("a task has another form: {task}")));
        }
        Ok(())
    })?;
    let mut all = tasks.as_array().into_iter().flatten();
    match all.all(|task| ids.insert(task["task_id"].to_string())) {
        true => Ok(()),
        false => Err(invalid("a plan has two tasks with one id")),
    }
}

fn section(block: &Value) -> Result<(), MessageRefusal> {
    let kinds = ["plain_text", "mrkdwn"];
    if block["fields"].is_array() {
        each(&block["fields"], 10, |field| text_object(field, 2_000, &kinds))?;
        return if block["text"].is_null() {
            Ok(())
        } else {
            text_object(&block["text"], 3_000, &kinds)
        };
    }
    text_object(&block["text"], 3_000, &kinds)
}

fn button(element: &Value) -> Result<(), MessageRefusal> {
    if kind(element) != "button" {
        return Err(invalid(format!("unsupported element: `{}`", kind(element))));
    }
    text_object(&element["text"], 75, &["plain_text"])?;
    for (field, chars_max) in [("value", 2_000), ("action_id", 255), ("url", 3_000)] {
        if element[field]
            .as_str()
            .is_some_and(|text| text.chars().count() > chars_max)
        {
            return Err(invalid(format!(
                "a button's `{field}` is longer than {chars_max}"
            )));
        }
    }
    match element.get("style").map(|style| style.as_str()) {
        None | Some(Some("primary" | "danger")) => {}
        Some(_) => return Err(invalid("a button has an unknown style")),
    }
    match element.get("confirm") {
        Some(dialog) => confirmation(dialog),
        None => Ok(()),
    }
}

/// Checks a dialog. See <https://docs.slack.dev/reference/block-kit/composition-objects/confirmation-dialog-object>.
fn confirmation(dialog: &Value) -> Result<(), MessageRefusal> {
    text_object(&dialog["title"], 100, &["plain_text"])?;
    text_object(&dialog["text"], 300, &["plain_text"])?;
    text_object(&dialog["confirm"], 30, &["plain_text"])?;
    text_object(&dialog["deny"], 30, &["plain_text"])
}

/// Checks a modal. See <https://docs.slack.dev/reference/views/modal-views>.
pub(super) fn modal(view: &Value) -> Result<(), MessageRefusal> {
    if kind(view) != "modal" {
        return Err(refusal("invalid_arguments", "the view is no modal"));
    }
    for field in ["title", "submit", "close"] {
        text_object(&view[field], 24, &["plain_text"])?;
    }
    for (field, chars_max) in [("private_metadata", 3_000), ("callback_id", 255)] {
        let chars = view[field].as_str().unwrap_or_default().chars().count();
        if chars > chars_max {
            return Err(refusal(
                "invalid_arguments",
                format!("`{field}` has {chars} characters"),
            ));
        }
    }
    each(&view["blocks"], 100, |block| match kind(block) {
        "input" => input(block),
        _ => one(block),
    })
}

/// Checks a view of the Home tab. See <https://docs.slack.dev/reference/views/home-tab-views>. Blocks that the documentation
/// does not list for Home tabs are refused.
pub(super) fn home(view: &Value) -> Result<(), MessageRefusal> {
    let known = ["type", "blocks", "private_metadata", "callback_id", "external_id"];
    let mut fields = view.as_object().into_iter().flat_map(|view| view.keys());
    if kind(view) != "home" || fields.any(|field| !known.contains(&field.as_str())) {
        return Err(refusal("invalid_arguments", "the view is no view of a Home tab"));
    }
    each(&view["blocks"], 100, |block| match kind(block) {
        "actions" | "context" | "divider" | "header" | "rich_text" | "section" => one(block),
        other => Err(invalid(format!("`{other}` in a Home tab"))),
    })?;
    unique_actions(&view["blocks"])
}

fn input(block: &Value) -> Result<(), MessageRefusal> {
    text_object(&block["label"], 2_000, &["plain_text"])?;
    let element = &block["element"];
    if kind(element) != "plain_text_input" {
        return Err(invalid(format!("an input of type `{}`", kind(element))));
    }
    match element["max_length"].as_u64() {
        Some(1..=3_000) | None => Ok(()),
        Some(_) => Err(invalid("a text field of more than 3,000 characters")),
    }
}

fn rich_text(element: &Value) -> Result<(), MessageRefusal> {
    let spans = &element["elements"];
    match kind(element) {
        "rich_text_section" | "rich_text_quote" => each(spans, usize::MAX, span),
        "rich_text_preformatted" => each(spans, usize::MAX, |element| match kind(element) {
            "text" | "link" => span(element),
            other => Err(invalid(format!("`{other}` in preformatted text"))),
        }),
        "rich_text_list" => {
            if !matches!(element["style"].as_str(), Some("bullet" | "ordered")) {
                return Err(invalid("a list without a style"));
            }
            if element["indent"].as_u64().unwrap_or(0) > 8 {
                return Err(invalid("a list is indented by more than 8"));
            }
            each(spans, usize::MAX, |item| match kind(item) {
                "rich_text_section" => each(&item["elements"], usize::MAX, span),
                other => Err(invalid(format!("`{other}` in a list"))),
            })
        }
        other => Err(invalid(format!("unsupported rich text: `{other}`"))),
    }
}

fn span(element: &Value) -> Result<(), MessageRefusal> {
    let filled = |field: &str| element[field].as_str().is_some_and(|text| !text.is_empty());
    let ok = match kind(element) {
        "text" => filled("text"),
        "link" => filled("url"),
        "user" => filled("user_id"),
        "channel" => filled("channel_id"),
        "usergroup" => filled("usergroup_id"),
        "broadcast" => filled("range"),
        "emoji" => filled("name"),
        _ => false,
    };
    let styled = element["style"].as_object().is_none_or(|style| {
        style
            .iter()
            .all(|(name, value)| RICH_TEXT_STYLES.contains(&name.as_str()) && value.is_boolean())
    });
    if ok && styled {
        return Ok(());
    }
    Err(invalid(format!("a bad rich text element: {element}")))
}

fn text_object(object: &Value, chars_max: usize, kinds: &[&str]) -> Result<(), MessageRefusal> {
    let text = object["text"].as_str().unwrap_or_default();
    let chars = text.chars().count();
    if !kinds.contains(&kind(object)) || chars == 0 || chars > chars_max {
        return Err(invalid(format!("a `{}` of {chars} characters", kind(object))));
    }
    Ok(())
}

fn each(
    list: &Value,
    count_max: usize,
    check: impl Fn(&Value) -> Result<(), MessageRefusal>,
) -> Result<(), MessageRefusal> {
    match list.as_array() {
        Some(items) if !items.is_empty() && items.len() <= count_max => items.iter().try_for_each(check),
        Some(items) => Err(invalid(format!("{} elements", items.len()))),
        None => Err(invalid("elements are missing")),
    }
}

fn kind(value: &Value) -> &str {
    value["type"].as_str().unwrap_or_default()
}
