//! Parses `multipart/form-data` strictly.

use bytes::Bytes;
use serde_json::{Map, Value};

pub(super) struct ParsedForm {
    pub(super) parameters: Map<String, Value>,
    pub(super) file: Option<(String, Bytes)>,
}

/// Parses a form; `None` if it is not well formed.
pub(super) fn read(content_type: &str, body: &Bytes) -> Option<ParsedForm> {
    let boundary = content_type.strip_prefix("multipart/form-data; boundary=")?;
    let delimiter = format!("\r\n--{boundary}");
    let mut form = ParsedForm {
        parameters: Map::new(),
        file: None,
    };
    let mut rest = body.get(boundary.len() + 2..)?;
    if !body.starts_with(format!("--{boundary}").as_bytes()) {
        return None;
    }
    while rest != b"--\r\n" {
        rest = rest.strip_prefix(b"\r\n")?;
        let head_end = memchr::memmem::find(rest, b"\r\n\r\n")?;
        let head = std::str::from_utf8(rest.get(..head_end)?).ok()?;
        rest = rest.get(head_end + 4..)?;
        let end = memchr::memmem::find(rest, delimiter.as_bytes())?;
        let value = rest.get(..end)?;
        rest = rest.get(end + delimiter.len()..)?;
        let name = quoted(head, "; name=\"")?;
        match quoted(head, "; filename=\"") {
            Some(file) if name == "document" => {
                form.file = Some((file.to_owned(), Bytes::copy_from_slice(value)));
            }
            Some(_) => return None,
            None => {
                let text = String::from_utf8(value.to_vec()).ok()?;
                form.parameters.insert(name.to_owned(), Value::String(text));
            }
        }
    }
    Some(form)
}

fn quoted<'a>(head: &'a str, before: &str) -> Option<&'a str> {
    let (_, rest) = head.split_once(before)?;
    Some(rest.split_once('"')?.0)
}
