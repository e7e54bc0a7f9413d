//! Images and documents in requests: the checks that the services document.

use crate::base::model::MediaType;
use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::Bytes;
use serde_json::Value;

/// An image or a document in a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestFile {
    /// The type, such as `image/png`.
    pub media_type: String,
    /// The name, if the request has one.
    pub name: Option<String>,
    /// The content.
    pub content: Bytes,
}

/// The files that a service accepts.
#[derive(Clone, Copy, Debug)]
pub(super) struct FileRules {
    /// The types.
    pub(super) types: &'static [&'static str],
    /// The maximum number of characters of the base64 of one file.
    pub(super) base64_max: usize,
}

/// The types of images of Anthropic and OpenAI.
pub(super) const IMAGES: &[&str] = &["image/png", "image/jpeg", "image/gif", "image/webp"];
/// The type of documents.
pub(super) const DOCUMENTS: &[&str] = &["application/pdf"];

/// Reads a file of a type, whose content is base64.
pub(super) fn read(media_type: &Value, base64: &Value, rules: FileRules) -> Result<RequestFile, String> {
    let media_type = media_type.as_str().ok_or("media_type: Field required")?;
    let base64 = base64.as_str().ok_or("data: Field required")?;
    if !rules.types.contains(&media_type) {
        let expected = rules.types.join("', '");
        return Err(format!("media_type: Input should be '{expected}'"));
    }
    if base64.len() > rules.base64_max {
        let (bytes, most) = (base64.len(), rules.base64_max);
        return Err(format!(
            "the file exceeds the maximum: {bytes} bytes > {most} bytes"
        ));
    }
    let content = BASE64_STANDARD
        .decode(base64)
        .map_err(|_| "data: invalid base64 data")?;
    let actual = MediaType::of_content(&content).map(MediaType::name);
    if actual != Some(media_type) {
        return Err(format!("the file is no {media_type}"));
    }
    Ok(RequestFile {
        media_type: media_type.to_owned(),
        name: None,
        content: content.into(),
    })
}

/// Reads a file from a `data:` URL.
pub(super) fn read_url(url: &Value, rules: FileRules) -> Result<RequestFile, String> {
    let url = url.as_str().ok_or("a URL is required")?;
    let parts = url
        .strip_prefix("data:")
        .and_then(|rest| rest.split_once(";base64,"));
    let (media_type, base64) = parts.ok_or("expected a base64-encoded data URL with a MIME type")?;
    read(&media_type.into(), &base64.into(), rules)
}

#[cfg(test)]
mod tests {
    use super::{DOCUMENTS, FileRules, IMAGES, read, read_url};
    use serde_json::json;

    const RULES: FileRules = FileRules {
        types: IMAGES,
        base64_max: 16,
    };

    #[test]
    fn a_file_that_a_service_would_not_accept_is_refused() {
        let read = |media: &str, base64: &str| {
            let read = read(&json!(media), &json!(base64), RULES);
            read.map(|file| file.content.to_vec())
        };
        assert_eq!(read("image/gif", "R0lGODlh"), Ok(b"GIF89a".to_vec()));
        for (media, base64, why) in [
            ("image/bmp", "R0lGODlh", "Input should be"),
            ("image/gif", "R0lGODlhAAAAAAAAAAAA", "20 bytes > 16 bytes"),
            ("image/gif", "R0lGODl", "invalid base64"),
            ("image/gif", "R0lGODl_", "invalid base64"),
            ("image/png", "R0lGODlh", "is no image/png"),
        ] {
            let refused = read(media, base64).err().unwrap_or_default();
            assert!(refused.contains(why), "{refused}");
        }
    }

    #[test]
    fn a_url_is_one_with_data() {
        let rules = FileRules {
            types: DOCUMENTS,
            base64_max: 100,
        };
        let read = |url: &str| read_url(&json!(url), rules);
        assert!(read("data:application/pdf;base64,JVBERi0xLjc=").is_ok());
        for url in [
            "https://example.com/a.pdf",
            "data:application/pdf,JVBERi0xLjc=",
            "JVBERi0xLjc=",
        ] {
            assert!(read(url).is_err(), "{url}");
        }
    }
}
