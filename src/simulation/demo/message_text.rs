//! Renders a Slack message as plain text, as a user sees it: lists with bullets, buttons in brackets, users by name, and
//! only the title of what is folded.

use super::demo_script::{ALICE, DANA};
use crate::simulation::emulator::slack::{SlackMessage, task_lines};
use serde_json::Value;

/// Renders the message block by block, or only its text if it has no blocks.
pub(super) fn text(message: &SlackMessage) -> String {
    let shown = match message.request["blocks"].as_array() {
        Some(blocks) => blocks.iter().map(block).collect::<Vec<_>>().join("\n"),
        None => message.text.clone(),
    };
    let shown = shown.replace(&format!("<@{ALICE}>"), "@alice");
    shown.replace(&format!("<@{DANA}>"), "@dana")
}

fn block(block: &Value) -> String {
    let mut shown = String::new();
    show(block, &mut shown);
    shown.trim_end().to_owned()
}

/// Appends the text of a node. Recursion is bounded because serde_json, which parsed the node, limits the depth.
fn show(node: &Value, shown: &mut String) {
    if let Value::Array(nodes) = node {
        nodes.iter().for_each(|node| show(node, shown));
        return;
    }
    if !node.is_object() {
        return;
    }
    let words = |field: &str| node[field].as_str().unwrap_or_default();
    match words("type") {
        "text" | "plain_text" => shown.push_str(words("text")),
        "mrkdwn" => {
            let text = words("text").replace("&lt;", "<").replace("&gt;", ">");
            shown.push_str(&text.replace("&amp;", "&"));
        }
        "link" => {
            let text = node["text"].as_str().or(node["url"].as_str());
            shown.push_str(text.unwrap_or_default());
        }
        "user" => shown.push_str(&format!("<@{}>", words("user_id"))),
        "button" => {
            let label = node["text"]["text"].as_str().unwrap_or_default();
            shown.push_str(&format!("[{label}] "));
        }
        "container" if node["default_collapsed"] == true => {
            shown.push_str("▸ ");
            show(&node["title"], shown);
        }
        "container" => {
            shown.push_str("▾ ");
            show(&node["title"], shown);
            for child in node["child_blocks"].as_array().into_iter().flatten() {
                break_line(shown);
                show(child, shown);
            }
        }
        "plan" => {
            shown.push_str(&format!("*{}*", words("title")));
            for line in task_lines(node) {
                break_line(shown);
                shown.push_str(&line);
            }
        }
        "rich_text_list" => {
            for item in node["elements"].as_array().into_iter().flatten() {
                break_line(shown);
                shown.push_str("• ");
                show(item, shown);
            }
            break_line(shown);
        }
        "rich_text_preformatted" => {
            break_line(shown);
            show(&node["elements"], shown);
            break_line(shown);
        }
        _ => {
            for field in ["text", "title", "fields", "elements", "rows", "child_blocks"] {
                show(&node[field], shown);
            }
        }
    }
}

fn break_line(shown: &mut String) {
    if !shown.is_empty() && !shown.ends_with('\n') {
        shown.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::block;
    use serde_json::json;

    #[test]
    fn slack_lists_and_buttons_are_shown_as_plain_text() {
        let section = |text: &str| json!({ "type": "rich_text_section", "elements": [{ "type": "text", "text": text }] });
        let list = json!({ "type": "rich_text_list", "elements": [section("one"), section("two")] });
        let text = json!({ "type": "rich_text", "elements": [section("I know:"), list, section("and that is all")] });
        assert_eq!(block(&text), "I know:\n• one\n• two\nand that is all");
        let button =
            |label: &str| json!({ "type": "button", "text": { "type": "plain_text", "text": label } });
        let actions = json!({ "type": "actions", "elements": [button("Get patch"), button("Discard")] });
        assert_eq!(block(&actions), "[Get patch] [Discard]");
        let plan = json!({ "type": "plan", "title": "Working, step 2", "tasks": [
            { "task_id": "1", "title": "file_read a", "status": "complete" },
            { "task_id": "2", "title": "file_edit a", "status": "in_progress" }] });
        assert_eq!(block(&plan), "*Working, step 2*\n✓ file_read a\n… file_edit a");
        let details = |is_closed: bool| {
            json!({ "type": "container", "title": { "type": "plain_text", "text": "7 checks" },
            "default_collapsed": is_closed, "child_blocks": [text] })
        };
        assert_eq!(block(&details(true)), "▸ 7 checks");
        assert_eq!(
            block(&details(false)),
            "▾ 7 checks\nI know:\n• one\n• two\nand that is all"
        );
        let marked = json!({ "type": "section", "text": { "type": "mrkdwn", "text": "a &lt; b &amp;lt;" } });
        assert_eq!(block(&marked), "a < b &lt;");
    }
}
