//! Parses `multipart/form-data` as Discord documents it: `payload_json` and `files[n]`. See
//! <https://docs.discord.com/developers/reference#uploading-files>.

use bytes::Bytes;
use serde_json::Value;

/// The body of a message, and its files with their names.
pub(super) type FormContent = (Value, Vec<(String, Bytes)>);

/// Parses a form; `None` if it is not well formed.
pub(super) fn read(content_type: &str, body: &Bytes) -> Option<FormContent> {
    let boundary = content_type.strip_prefix("multipart/form-data; boundary=")?;
    let opening = format!("--{boundary}");
    let delimiter = format!("\r\n--{boundary}");
    let mut payload = None;
    let mut files = Vec::new();
    let start = memchr::memmem::find(body, opening.as_bytes())?;
    let mut rest = body.get(start + opening.len()..)?;
    while !rest.starts_with(b"--") {
        rest = rest.strip_prefix(b"\r\n")?;
        let head_end = memchr::memmem::find(rest, b"\r\n\r\n")?;
        let head = std::str::from_utf8(rest.get(..head_end)?).ok()?;
        rest = rest.get(head_end + 4..)?;
        let end = memchr::memmem::find(rest, delimiter.as_bytes())?;
        let value = rest.get(..end)?;
        rest = rest.get(end + delimiter.len()..)?;
        let name = quoted(head, "; name=\"")?;
        match quoted(head, "; filename=\"") {
            Some(file) if name == format!("files[{}]", files.len()) => {
                files.push((file.to_owned(), Bytes::copy_from_slice(value)));
            }
            None if name == "payload_json" => payload = Some(serde_json::from_slice(value).ok()?),
            Some(_) | None => return None,
        }
    }
    Some((payload?, files))
}

fn quoted<'a>(head: &'a str, before: &str) -> Option<&'a str> {
    let (_, rest) = head.split_once(before)?;
    Some(rest.split_once('"')?.0)
}
