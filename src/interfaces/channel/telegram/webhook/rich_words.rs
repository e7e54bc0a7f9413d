//! The words of a rich message that a person replied to, without its formats. See
//! <https://core.telegram.org/bots/api#richmessage>.

use serde_json::Value;

/// Returns the words of a rich message: a line for each block, item and row of a table.
pub(super) fn rich_words(rich_message: &Value) -> String {
    let mut words = String::new();
    push_blocks(&rich_message["blocks"], &mut words);
    words.truncate(words.trim_end().len());
    words
}

fn push_blocks(blocks: &Value, words: &mut String) {
    for block in blocks.as_array().into_iter().flatten() {
        for text in [&block["summary"], &block["text"]] {
            if !text.is_null() {
                push_text(text, words);
                words.push('\n');
            }
        }
        for row in block["cells"].as_array().into_iter().flatten() {
            for cell in row.as_array().into_iter().flatten() {
                push_text(&cell["text"], words);
                words.push_str("  ");
            }
            words.truncate(words.trim_end().len());
            words.push('\n');
        }
        for item in block["items"].as_array().into_iter().flatten() {
            push_blocks(&item["blocks"], words);
        }
        push_blocks(&block["blocks"], words);
    }
}

/// Appends a text: a string, a list of texts, or a format with a text in it.
fn push_text(text: &Value, words: &mut String) {
    match text {
        Value::String(text) => words.push_str(text),
        Value::Array(texts) => texts.iter().for_each(|text| push_text(text, words)),
        Value::Object(format) => push_text(format.get("text").unwrap_or(&Value::Null), words),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
