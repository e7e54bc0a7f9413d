//! Files that the next request brings along: images and documents as they are, text as a block of data without its secrets.

use super::Terminal;
use crate::base::model::{
    ATTACHED_BYTES_MAX, ATTACHMENT_BYTES_MAX, ATTACHMENTS_MAX, AttachedFile, Attachment, MediaType, RepoPath,
    group_thousands, one_line, pluralize,
};
use crate::cli::CliError;
use crate::engine::agent::prompt;
use std::io::Read;
use std::path::Path;

/// Bytes of a text file that is part of a request.
const TEXT_BYTES_MAX: usize = 128 << 10;

/// The files that the next request brings along.
#[derive(Default)]
pub(super) struct PendingFiles {
    attachments: Vec<Attachment>,
    /// The blocks of data with the texts, each with the name of its file.
    texts: Vec<(String, String)>,
}

impl PendingFiles {
    /// Returns a request with what belongs to it, and the attachments.
    pub(super) fn into_request(self, request: &str) -> (String, Vec<Attachment>) {
        let mut parts = vec![request.to_owned()];
        let files = self.attachments.iter().map(Attachment::file);
        parts.extend(files.map(|file| format!("[Attached: {file}]")));
        parts.extend(self.texts.into_iter().map(|(_, block)| block));
        (parts.join("\n\n"), self.attachments)
    }

    fn len(&self) -> usize {
        self.attachments.len() + self.texts.len()
    }

    fn names(&self) -> Vec<String> {
        let files = self.attachments.iter().map(|file| file.file().to_string());
        let texts = self.texts.iter().map(|(name, _)| format!("{name} (text)"));
        files.chain(texts).collect()
    }

    fn bytes(&self) -> u64 {
        self.attachments.iter().map(|file| file.file().bytes).sum()
    }
}

/// The content of a file that can be attached.
enum FileContent {
    Media(MediaType, Vec<u8>),
    Text(String),
}

impl Terminal {
    /// Attaches a file to the next request, and returns its description. An error attaches nothing.
    pub(in crate::cli) fn attach(&mut self, path: &str) -> Result<String, CliError> {
        let refused = |why: String| CliError::usage(format!("{}: {why}", one_line(path)));
        if self.pending.len() >= ATTACHMENTS_MAX {
            let most = pluralize(ATTACHMENTS_MAX, "file", "files");
            return Err(refused(format!(
                "a request has at most {most}; send this one with the next request"
            )));
        }
        let name = Path::new(path).file_name().unwrap_or_default();
        let name = self.redactor.redact(&name.to_string_lossy()).into_owned();
        match read(path).map_err(refused)? {
            FileContent::Text(text) => self.attach_text(path, &name, &text).map_err(refused),
            FileContent::Media(media, content) => {
                let file = Attachment::new(&name, media, &content);
                self.attach_media(file).map_err(refused)
            }
        }
    }

    /// Returns the descriptions of the files that the next request brings along.
    pub(in crate::cli) fn attached(&self) -> Vec<String> {
        self.pending.names()
    }

    fn attach_media(&mut self, attachment: Attachment) -> Result<String, String> {
        let models = self.models.models();
        let model = models.first();
        if let Some(why) = model.and_then(|model| model.refusal_of(std::slice::from_ref(&attachment))) {
            return Err(why);
        }
        let all = self.pending.bytes().saturating_add(attachment.file().bytes);
        if all > ATTACHED_BYTES_MAX as u64 {
            return Err(format!(
                "the images and documents of a request have at most {} together, and with this one they have {}",
                bytes(ATTACHED_BYTES_MAX as u64),
                bytes(all)
            ));
        }
        let described = attachment.file().to_string();
        self.pending.attachments.push(attachment);
        Ok(described)
    }

    /// Attaches a text. Its secrets are learnt first, as those of a file that a tool reads.
    fn attach_text(&mut self, path: &str, name: &str, text: &str) -> Result<String, String> {
        if self.workspace.guard.denied.is_denied(path) || self.workspace.guard.denied.is_denied(name) {
            return Err("its name is that of a file with secrets, which models do not read".to_owned());
        }
        self.redactor.learn_file(None, text.as_bytes());
        if RepoPath::parse(name).is_ok_and(|name| self.redactor.is_secret_file(&name)) {
            self.redactor.learn_named_file(text.as_bytes());
        }
        let name = one_line(name);
        let block = prompt::data_block("an attached file", &name, &self.redactor.redact(text));
        let described = format!("{name} (text, {})", bytes(text.len() as u64));
        self.pending.texts.push((name, block));
        Ok(described)
    }
}

/// Returns the descriptions of files, for the events of a script.
pub(super) fn described(attachments: &[Attachment]) -> Vec<&AttachedFile> {
    attachments.iter().map(Attachment::file).collect()
}

/// Reads a file that can be attached. The error says what would work.
fn read(path: &str) -> Result<FileContent, String> {
    let content = content_of(path)?;
    if content.is_empty() {
        return Err("the file is empty".to_owned());
    }
    let too_large = |kind: &str, most: usize| {
        format!(
            "{kind} has at most {}, and this one has {}",
            bytes(most as u64),
            bytes(content.len() as u64)
        )
    };
    if let Some(media) = MediaType::of_content(&content) {
        let kind = if media.is_image() {
            "an image"
        } else {
            "a document"
        };
        return match content.len() > media.bytes_max() {
            true => Err(too_large(kind, media.bytes_max())),
            false => Ok(FileContent::Media(media, content)),
        };
    }
    if content.contains(&0) || std::str::from_utf8(&content).is_err() {
        return Err(
            "it is no image (PNG, JPEG, GIF or WebP), no PDF and no text in UTF-8; convert it to one of these"
                .to_owned(),
        );
    }
    if content.len() > TEXT_BYTES_MAX {
        return Err(too_large("a text file", TEXT_BYTES_MAX));
    }
    String::from_utf8(content)
        .map(FileContent::Text)
        .map_err(|_| "it is no text in UTF-8".to_owned())
}

#[allow(
    clippy::disallowed_methods,
    reason = "the shell reads the files that its arguments name"
)]
fn content_of(path: &str) -> Result<Vec<u8>, String> {
    let about = std::fs::metadata(path).map_err(|why| match why.kind() {
        std::io::ErrorKind::NotFound => "there is no such file; check the path".to_owned(),
        _ => why.to_string(),
    })?;
    if !about.is_file() {
        return Err("it is no file; name a file".to_owned());
    }
    if about.len() > ATTACHMENT_BYTES_MAX as u64 {
        return Err(format!(
            "an attached file has at most {}, and this one has {}",
            bytes(ATTACHMENT_BYTES_MAX as u64),
            bytes(about.len())
        ));
    }
    let file = std::fs::File::open(path).map_err(|why| why.to_string())?;
    let mut content = Vec::new();
    // The file may grow while it is read.
    let mut bounded = file.take(ATTACHMENT_BYTES_MAX as u64);
    bounded.read_to_end(&mut content).map_err(|why| why.to_string())?;
    Ok(content)
}

fn bytes(number: u64) -> String {
    format!("{} bytes", group_thousands(number))
}
