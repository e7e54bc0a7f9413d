//! Draws a message as a phone shows it: lines of 40 columns, folded parts as their title.

use drydock::simulation::emulator::slack::SlackMessage;
use drydock::simulation::emulator::telegram::PostedMessage;
use serde_json::Value;

/// The number of columns of the drawing.
const COLUMNS: usize = 40;
/// The number of lines of an expandable quote that Telegram shows at first.
const QUOTE_LINES: usize = 3;

/// Draws a message of Slack. `▸` is a closed container, `▾` an open one, and `~` a grey line.
pub(crate) fn slack(message: &SlackMessage) -> String {
    let mut lines = Vec::new();
    for block in message.request["blocks"].as_array().into_iter().flatten() {
        draw(block, &mut lines);
    }
    picture(&lines)
}

/// Draws a message of Telegram. `▸` is a closed fold or a quote that opens on a touch, `▾` an open fold, and `~` a grey
/// line.
pub(crate) fn telegram(message: &PostedMessage) -> String {
    let mut lines = match &message.rich {
        Some(rich) => rich_lines(&rich["blocks"]),
        None => text_lines(message),
    };
    for row in &message.keyboard {
        let labels: Vec<String> = row.iter().map(|(label, _)| format!("[{label}]")).collect();
        lines.push(labels.join(" "));
    }
    picture(&lines)
}

/// Returns the lines of blocks of a rich message.
fn rich_lines(blocks: &Value) -> Vec<String> {
    let blocks = blocks.as_array().into_iter().flatten();
    blocks.flat_map(rich_block).collect()
}

fn rich_block(block: &Value) -> Vec<String> {
    let text = rich_text(&block["text"]);
    let inner = || rich_lines(&block["blocks"]).into_iter();
    match block["type"].as_str().unwrap() {
        "heading" => vec![format!("*{text}*")],
        "footer" => vec![format!("~ {text}")],
        "divider" => vec!["———".to_owned()],
        "blockquote" => inner().map(|line| format!("| {line}")).collect(),
        "details" => {
            let (sign, inner) = match block["is_open"] == true {
                true => ('▾', inner().collect()),
                false => ('▸', Vec::new()),
            };
            let title = format!("{sign} {}", rich_text(&block["summary"]));
            let inner = inner.into_iter().map(|line: String| format!("  {line}"));
            std::iter::once(title).chain(inner).collect()
        }
        "table" => {
            let rows = block["cells"].as_array().unwrap().iter();
            let row = |row: &Value| {
                let cells = row.as_array().unwrap().iter();
                cells
                    .map(|cell| rich_text(&cell["text"]))
                    .collect::<Vec<_>>()
                    .join(" | ")
            };
            rows.map(row).collect()
        }
        "list" => {
            let items = block["items"].as_array().unwrap().iter();
            items.flat_map(list_item).collect()
        }
        _ => text.split('\n').map(str::to_owned).collect(),
    }
}

fn list_item(item: &Value) -> Vec<String> {
    let sign = match (
        item["has_checkbox"] == true,
        item["is_checked"] == true,
        &item["value"],
    ) {
        (true, true, _) => "[x]".to_owned(),
        (true, false, _) => "[ ]".to_owned(),
        (false, _, Value::Number(number)) => format!("{number}."),
        (false, _, _) => "-".to_owned(),
    };
    let lines = rich_lines(&item["blocks"]).into_iter().enumerate();
    lines
        .map(|(index, line)| match index {
            0 => format!("{sign} {line}"),
            _ => format!("  {line}"),
        })
        .collect()
}

fn rich_text(text: &Value) -> String {
    match text {
        Value::String(text) => text.clone(),
        Value::Array(texts) => texts.iter().map(rich_text).collect(),
        Value::Object(format) => rich_text(&format["text"]),
        Value::Null | Value::Bool(_) | Value::Number(_) => String::new(),
    }
}

/// Returns the lines of a text with entities.
fn text_lines(message: &PostedMessage) -> Vec<String> {
    let units: Vec<u16> = message.text.encode_utf16().collect();
    let range = |entity: &Value| {
        let number = |name: &str| usize::try_from(entity[name].as_u64().unwrap()).unwrap();
        number("offset")..number("offset") + number("length")
    };
    let kind_at = |at: usize, kind: &str| {
        let mut found = message.entities.iter().filter(|entity| entity["type"] == kind);
        found.any(|entity| range(entity).contains(&at))
    };
    let mut lines = Vec::new();
    let (mut at, mut quoted) = (0, 0);
    for line in String::from_utf16(&units).unwrap().split('\n') {
        let text = match kind_at(at, "bold") && !line.is_empty() {
            true => format!("*{line}*"),
            false => line.to_owned(),
        };
        let is_quoted = kind_at(at, "expandable_blockquote");
        quoted = if is_quoted { quoted + 1 } else { 0 };
        match (is_quoted, quoted) {
            (true, 1) => lines.push(format!("▸ {text}")),
            (true, count) if count <= QUOTE_LINES => lines.push(format!("  {text}")),
            (true, count) if count == QUOTE_LINES + 1 => lines.push("  …".to_owned()),
            (true, _) => {}
            (false, _) if kind_at(at, "italic") => lines.push(format!("~ {text}")),
            (false, _) => lines.push(text),
        }
        at += line.encode_utf16().count() + 1;
    }
    lines
}

fn draw(block: &Value, lines: &mut Vec<String>) {
    let text = |value: &Value| value["text"].as_str().unwrap_or_default().to_owned();
    match block["type"].as_str().unwrap_or_default() {
        "container" => {
            let is_closed = block["default_collapsed"] == true;
            let sign = if is_closed { '▸' } else { '▾' };
            lines.push(format!("{sign} {}", text(&block["title"])));
            if !is_closed {
                let mut inner = Vec::new();
                for child in block["child_blocks"].as_array().into_iter().flatten() {
                    draw(child, &mut inner);
                }
                let inner = inner.iter().flat_map(|line| line.trim_end().split('\n'));
                lines.extend(inner.map(|line| format!("  {line}")));
            }
        }
        "section" => lines.push(text(&block["text"])),
        "context" => {
            for element in block["elements"].as_array().into_iter().flatten() {
                lines.push(format!("~ {}", text(element)));
            }
        }
        "actions" => {
            let labels = block["elements"].as_array().into_iter().flatten();
            let labels = labels.map(|element| format!("[{}]", text(&element["text"])));
            lines.push(labels.collect::<Vec<_>>().join(" "));
        }
        _ => {
            let mut shown = String::new();
            spans(block, &mut shown);
            lines.push(shown.trim_end().to_owned());
        }
    }
}

fn spans(node: &Value, shown: &mut String) {
    match node["type"].as_str().unwrap_or_default() {
        "text" => shown.push_str(node["text"].as_str().unwrap_or_default()),
        "user" => shown.push_str("@person"),
        "link" => shown.push_str(node["text"].as_str().or(node["url"].as_str()).unwrap_or_default()),
        _ => {
            for element in node["elements"].as_array().into_iter().flatten() {
                spans(element, shown);
            }
        }
    }
}

/// Wraps lines at the edge of the screen.
fn picture(lines: &[String]) -> String {
    let mut drawn = String::new();
    for line in lines
        .iter()
        .flat_map(|line| line.trim_end_matches('\n').split('\n'))
    {
        let mut room: Vec<char> = line.chars().collect();
        while room.len() > COLUMNS {
            let head = &room[..=COLUMNS];
            let at = head
                .iter()
                .rposition(|character| *character == ' ')
                .filter(|at| *at > 0);
            let at = at.unwrap_or(COLUMNS);
            let rest = room.split_off(at);
            drawn.extend(room);
            drawn.push('\n');
            let skipped = usize::from(rest.first() == Some(&' '));
            room = rest[skipped..].to_vec();
        }
        drawn.extend(room);
        drawn.push('\n');
    }
    drawn
}
