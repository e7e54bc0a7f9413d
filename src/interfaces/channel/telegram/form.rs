//! `multipart/form-data` as required by `sendDocument`.

use bytes::Bytes;
use sha2::{Digest, Sha256};

/// A form with one file.
pub(super) struct MultipartForm {
    /// The `Content-Type` of the request.
    pub(super) content_type: String,
    /// The body of the form.
    pub(super) body: Bytes,
}

/// Builds the form. The boundary is derived from the content and does not occur in it.
pub(super) fn form(fields: &[(&str, String)], file_name: &str, content: &[u8]) -> MultipartForm {
    let boundary = boundary(fields, content);
    let mut body = Vec::with_capacity(content.len() + 2048);
    for (name, value) in fields {
        let head = format!("--{boundary}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n");
        body.extend_from_slice(head.as_bytes());
        body.extend_from_slice(value.as_bytes());
        body.extend_from_slice(b"\r\n");
    }
    let head = format!(
        "--{boundary}\r\nContent-Disposition: form-data; name=\"document\"; filename=\"{}\"\r\n\
         Content-Type: application/octet-stream\r\n\r\n",
        safe_name(file_name)
    );
    body.extend_from_slice(head.as_bytes());
    body.extend_from_slice(content);
    body.extend_from_slice(format!("\r\n--{boundary}--\r\n").as_bytes());
    MultipartForm {
        content_type: format!("multipart/form-data; boundary={boundary}"),
        body: body.into(),
    }
}

fn boundary(fields: &[(&str, String)], content: &[u8]) -> String {
    let mut digest: [u8; 32] = Sha256::digest(content).into();
    // The first round usually ends the loop: content practically never contains its own digest.
    loop {
        let boundary = format!("drydock-{}", hex::encode(&digest[..16]));
        let is_in = |bytes: &[u8]| memchr::memmem::find(bytes, boundary.as_bytes()).is_some();
        if !is_in(content) && !fields.iter().any(|(_, value)| is_in(value.as_bytes())) {
            return boundary;
        }
        digest = Sha256::digest(digest).into();
    }
}

/// Returns a file name that cannot end its header.
fn safe_name(name: &str) -> String {
    let is_safe = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | ' ');
    let safe: String = name
        .chars()
        .map(|c| if is_safe(c) { c } else { '_' })
        .take(128)
        .collect();
    if safe.trim().is_empty() {
        "file".to_owned()
    } else {
        safe
    }
}

#[cfg(test)]
mod tests {
    use super::form;

    #[test]
    fn content_that_names_the_boundary_gets_another_one_and_names_cannot_break_out() {
        let first = form(&[], "a", b"patch");
        let boundary = first
            .content_type
            .rsplit('=')
            .next()
            .unwrap_or_default()
            .to_owned();
        let fields = [("caption", boundary.clone())];
        let second = form(&fields, "x\"\r\n\r\nEvil: 1/../CHG-1.patch", b"patch");
        assert!(!second.content_type.contains(&boundary));
        let body = String::from_utf8_lossy(&second.body).into_owned();
        assert!(
            body.contains("filename=\"x_____Evil_ 1_.._CHG-1.patch\""),
            "{body}"
        );
    }
}
