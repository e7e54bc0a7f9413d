//! Files that a person attaches to a message: images and documents, which a model reads beside the text.

use super::{group_thousands, is_invisible};
use base64::{Engine, prelude::BASE64_STANDARD};
use serde::{Deserialize, Serialize, Serializer};
use sha2::{Digest, Sha256};
use std::fmt;
use std::sync::Arc;

/// The maximum number of files of one message.
pub const ATTACHMENTS_MAX: usize = 5;
/// The maximum number of bytes of one file.
pub const ATTACHMENT_BYTES_MAX: usize = 5 << 20;
/// The maximum number of bytes of an image. Anthropic refuses an image with more than 5 MiB, and counts them in base64:
/// `image exceeds 5 MB maximum`.
const IMAGE_BYTES_MAX: usize = ATTACHMENT_BYTES_MAX / 4 * 3;
/// The maximum number of bytes of all images and documents of a request. Gemini takes requests of at most 20 MB, in which
/// they are base64: <https://ai.google.dev/gemini-api/docs/document-processing>.
pub const ATTACHED_BYTES_MAX: usize = 14 << 20;

/// The tokens that an image is expected to have: an estimate that is rather too high. Anthropic counts
/// `width * height / 750` after it has scaled an image down to about 1,600 tokens
/// (<https://platform.claude.com/docs/en/build-with-claude/vision>). That models with a high resolution count three times
/// as many is an assumption. Gemini counts 258 for a tile of 768 pixels, and OpenAI 85 for an image and 170 for a tile of
/// 512 pixels, but some of its small models count more. The size of an image is not read.
const IMAGE_TOKENS: u32 = 4_784;
/// The tokens that a page of a document is expected to have. Anthropic counts 1,500 to 3,000, with the image of the page
/// (<https://platform.claude.com/docs/en/build-with-claude/pdf-support>); Gemini counts 258.
const PAGE_TOKENS: u32 = 3_000;
/// The bytes of a page in a document whose pages cannot be counted, because they are compressed.
const PAGE_BYTES: usize = 50 << 10;

/// The maximum number of characters of a name.
const NAME_CHARS_MAX: usize = 200;

/// The type of a file that models read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MediaType {
    /// An image.
    #[serde(rename = "image/png")]
    Png,
    /// An image.
    #[serde(rename = "image/jpeg")]
    Jpeg,
    /// An image.
    #[serde(rename = "image/gif")]
    Gif,
    /// An image.
    #[serde(rename = "image/webp")]
    Webp,
    /// A document.
    #[serde(rename = "application/pdf")]
    Pdf,
}

impl MediaType {
    /// The types.
    pub const ALL: [Self; 5] = [Self::Png, Self::Jpeg, Self::Gif, Self::Webp, Self::Pdf];

    /// Recognises the type of a file by its first bytes.
    pub fn of_content(content: &[u8]) -> Option<Self> {
        let is_webp = content.starts_with(b"RIFF") && content.get(8..12) == Some(b"WEBP");
        let beginnings: [(&[u8], Self); 5] = [
            (b"\x89PNG\r\n\x1a\n", Self::Png),
            (b"\xff\xd8\xff", Self::Jpeg),
            (b"GIF87a", Self::Gif),
            (b"GIF89a", Self::Gif),
            (b"%PDF-", Self::Pdf),
        ];
        let known = beginnings.iter().find(|(first, _)| content.starts_with(first));
        known.map(|(_, media)| *media).or(is_webp.then_some(Self::Webp))
    }

    /// Returns the type with this word.
    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|media| media.word() == word)
    }

    /// Returns the word of the type in the configuration.
    pub fn word(self) -> &'static str {
        match self {
            Self::Png => "png",
            Self::Jpeg => "jpeg",
            Self::Gif => "gif",
            Self::Webp => "webp",
            Self::Pdf => "pdf",
        }
    }

    /// Returns the name of the type in requests: `image/png`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Png => "image/png",
            Self::Jpeg => "image/jpeg",
            Self::Gif => "image/gif",
            Self::Webp => "image/webp",
            Self::Pdf => "application/pdf",
        }
    }

    /// Returns true for an image, and false for a document.
    pub fn is_image(self) -> bool {
        self != Self::Pdf
    }

    /// Returns the maximum number of bytes of a file of the type.
    pub fn bytes_max(self) -> usize {
        match self.is_image() {
            true => IMAGE_BYTES_MAX,
            false => ATTACHMENT_BYTES_MAX,
        }
    }
}

/// A set of types.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MediaTypes([bool; MediaType::ALL.len()]);

impl MediaTypes {
    /// Returns true if a type is in the set.
    pub fn contains(self, media: MediaType) -> bool {
        self.iter().any(|known| known == media)
    }

    /// Returns the types of the set.
    pub fn iter(self) -> impl Iterator<Item = MediaType> {
        let all = MediaType::ALL.into_iter().zip(self.0);
        all.filter_map(|(media, is_in)| is_in.then_some(media))
    }
}

impl FromIterator<MediaType> for MediaTypes {
    fn from_iter<I: IntoIterator<Item = MediaType>>(types: I) -> Self {
        let types: Vec<MediaType> = types.into_iter().collect();
        Self(MediaType::ALL.map(|media| types.contains(&media)))
    }
}

/// The description of an attached file, without its content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttachedFile {
    /// The name, without its directory.
    pub name: String,
    /// The type.
    pub media_type: MediaType,
    /// The number of bytes.
    pub bytes: u64,
    /// The digest of the content, in hexadecimal digits.
    pub sha256: String,
}

impl fmt::Display for AttachedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = group_thousands(self.bytes);
        write!(f, "{} ({}, {bytes} bytes)", self.name, self.media_type.name())
    }
}

/// An attached file. Its content is stored once, in the form that all requests need.
#[derive(Clone, PartialEq, Eq)]
pub struct Attachment {
    file: Arc<AttachedFile>,
    base64: Arc<str>,
    tokens: u32,
}

impl Attachment {
    /// Creates an attachment from the content of a file. Invisible characters of the name are left out.
    pub fn new(name: &str, media_type: MediaType, content: &[u8]) -> Self {
        let name = name
            .chars()
            .filter(|char| !char.is_control() && !is_invisible(*char));
        let file = AttachedFile {
            name: name.take(NAME_CHARS_MAX).collect(),
            media_type,
            bytes: content.len() as u64,
            sha256: hex::encode(Sha256::digest(content)),
        };
        Self {
            file: Arc::new(file),
            base64: BASE64_STANDARD.encode(content).into(),
            tokens: match media_type.is_image() {
                true => IMAGE_TOKENS,
                false => PAGE_TOKENS.saturating_mul(pages(content)),
            },
        }
    }

    /// Returns the description of the file.
    pub fn file(&self) -> &AttachedFile {
        &self.file
    }

    /// Returns the type of the file.
    pub fn media_type(&self) -> MediaType {
        self.file.media_type
    }

    /// Returns the content in base64.
    pub fn base64(&self) -> &str {
        &self.base64
    }

    /// Returns the number of tokens that the file is expected to have.
    pub fn tokens(&self) -> u32 {
        self.tokens
    }
}

impl fmt::Debug for Attachment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Attachment").field(&self.file).finish()
    }
}

/// Serialises the description of the file. The content is part of requests only.
impl Serialize for Attachment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.file.serialize(serializer)
    }
}

/// Returns the number of pages of a PDF: the number of its page objects, or an estimate if they are compressed.
fn pages(content: &[u8]) -> u32 {
    let objects = memchr::memmem::find_iter(content, b"/Type").filter(|at| {
        let rest = content.get(at + b"/Type".len()..).unwrap_or_default();
        let rest = rest.trim_ascii_start().strip_prefix(b"/Page");
        rest.is_some_and(|rest| rest.first().is_none_or(|next| !next.is_ascii_alphanumeric()))
    });
    let pages = match objects.count() {
        0 => content.len().div_ceil(PAGE_BYTES),
        pages => pages,
    };
    u32::try_from(pages).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::{Attachment, MediaType, MediaTypes};

    #[test]
    fn the_first_bytes_of_a_file_are_its_type() {
        for (content, media) in [
            (&b"\x89PNG\r\n\x1a\n\0\0"[..], Some(MediaType::Png)),
            (b"\xff\xd8\xff\xe0\0\x10JFIF", Some(MediaType::Jpeg)),
            (b"GIF87a", Some(MediaType::Gif)),
            (b"GIF89a\x01", Some(MediaType::Gif)),
            (b"RIFF\x10\0\0\0WEBPVP8 ", Some(MediaType::Webp)),
            (b"%PDF-1.7\n", Some(MediaType::Pdf)),
            (b"RIFF\x10\0\0\0WAVEfmt ", None),
            (b"RIFF", None),
            (b"\x89PNG\n\x1a\n", None),
            (b" %PDF-1.7", None),
            (b"<svg/>", None),
            (b"", None),
        ] {
            assert_eq!(MediaType::of_content(content), media, "{content:?}");
        }
        for media in MediaType::ALL {
            assert_eq!(MediaType::of_word(media.word()), Some(media));
            let written = serde_json::to_string(&media).unwrap_or_default();
            assert_eq!(written, format!("\"{}\"", media.name()));
        }
        assert_eq!(MediaType::of_word("svg"), None);
    }

    #[test]
    fn a_set_has_the_types_it_was_made_of() {
        let set: MediaTypes = [MediaType::Pdf, MediaType::Png].into_iter().collect();
        assert_eq!(set.iter().collect::<Vec<_>>(), [MediaType::Png, MediaType::Pdf]);
        assert!(set.contains(MediaType::Pdf) && !set.contains(MediaType::Gif));
    }

    #[test]
    fn an_attachment_is_described_without_its_content() {
        let image = Attachment::new("a\u{202e}\nb.png", MediaType::Png, b"abc");
        assert_eq!(image.file().to_string(), "ab.png (image/png, 3 bytes)");
        assert_eq!(image.base64(), "YWJj");
        let digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let written = serde_json::to_value(&image).unwrap_or_default();
        let expected =
            serde_json::json!({"name": "ab.png", "media_type": "image/png", "bytes": 3, "sha256": digest});
        assert_eq!(written, expected);
        assert!(!format!("{image:?}").contains("YWJj"));
    }

    #[test]
    fn the_pages_of_a_document_are_counted_or_estimated() {
        let tokens = |content: &[u8]| Attachment::new("a.pdf", MediaType::Pdf, content).tokens();
        let two = b"%PDF-1.4 <</Type/Pages>> <</Type /Page/Parent 1>> <</Type\n/Page>> <</Type/PageLabel>>";
        assert_eq!(tokens(two), 6_000);
        assert_eq!(tokens(b"%PDF-1.7 compressed"), 3_000);
        assert_eq!(tokens(&[b' '; 120_000]), 9_000);
        assert_eq!(Attachment::new("a", MediaType::Gif, b"GIF89a").tokens(), 4_784);
    }
}
