//! Changes of the configuration file by commands. Comments, order and format of everything else stay. A change that would
//! make the file invalid is not written.

use crate::base::config::error::{ConfigError, SettingLocation};
use crate::base::config::settings::Config;
use crate::base::config::sources::{ConfigSources, SourceFile};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use toml_edit::{DocumentMut, InlineTable, Item, Table, Value};

/// The mode of a new file. It holds no secret, and the server may run as another user.
const NEW_FILE_MODE: u32 = 0o644;

/// A reference to a secret, as a user writes it: `env:NAME` or `file:PATH`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretReference {
    /// The variable of this name.
    Variable(String),
    /// The file at this path.
    File(String),
}

impl SecretReference {
    /// Parses a reference. The error does not repeat the text, which may be a secret.
    pub fn parse(text: &str) -> Result<Self, String> {
        let is_name = |name: &str| {
            !name.is_empty()
                && name
                    .bytes()
                    .all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
        };
        match text.split_once(':') {
            Some(("env", name)) if is_name(name) => Ok(Self::Variable(name.to_owned())),
            Some(("file", path)) if !path.is_empty() && !path.chars().any(char::is_control) => {
                Ok(Self::File(path.to_owned()))
            }
            _ => Err(
                "write env:NAME or file:PATH; a secret itself does not belong on a command line".to_owned(),
            ),
        }
    }

    fn to_value(&self) -> Value {
        let (key, text) = match self {
            Self::Variable(name) => ("env", name),
            Self::File(path) => ("file", path),
        };
        let mut table = InlineTable::new();
        table.insert(key, Value::from(text.as_str()));
        Value::InlineTable(table)
    }
}

/// A value of a new key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NewValue {
    /// A text.
    Text(String),
    /// A reference to a secret.
    Secret(SecretReference),
    /// `true` or `false`.
    Boolean(bool),
    /// Texts below the key, such as those of `post_to`.
    Texts(Vec<(&'static str, String)>),
}

impl NewValue {
    fn to_value(&self) -> Value {
        match self {
            Self::Text(text) => Value::from(text.as_str()),
            Self::Secret(reference) => reference.to_value(),
            Self::Boolean(boolean) => Value::from(*boolean),
            Self::Texts(texts) => {
                let texts = texts.iter().map(|(key, text)| (*key, Value::from(text.as_str())));
                Value::InlineTable(texts.collect())
            }
        }
    }
}

/// The keys of a new section.
pub type NewKeys = Vec<(&'static str, NewValue)>;

/// The reason why a file is not changed.
#[derive(Debug, thiserror::Error)]
pub enum EditError {
    /// The file, as it is or as it would be, is no valid configuration.
    #[error("{0}")]
    Invalid(#[from] ConfigError),
    /// The file has the section already, or lacks it.
    #[error("{0}")]
    Refused(String),
    /// The file cannot be replaced.
    #[error("the configuration file cannot be written: {0}")]
    Unwritable(#[from] std::io::Error),
}

/// A configuration file that is being changed.
#[derive(Debug)]
pub struct ConfigEdit {
    file: PathBuf,
    /// The first lines of a new file.
    comment: String,
    before: String,
    document: DocumentMut,
}

impl ConfigEdit {
    /// Begins to change a file that was read.
    pub fn new(source: &SourceFile) -> Result<Self, EditError> {
        let document = source.text.parse::<DocumentMut>().map_err(|error| {
            let place = SettingLocation::WholeFile {
                shown: source.path.display().to_string(),
            };
            ConfigError::one(
                place,
                format!("this is not TOML: {}", error.message().replace('\n', " ")),
            )
        })?;
        Ok(Self {
            file: source.path.clone(),
            comment: String::new(),
            before: source.text.clone(),
            document,
        })
    }

    /// Begins a new file with a comment.
    pub fn create(path: &Path, comment: &str) -> Self {
        Self {
            file: path.to_owned(),
            comment: comment.to_owned(),
            before: String::new(),
            document: DocumentMut::new(),
        }
    }

    /// Returns the text of the changed file.
    pub fn text(&self) -> String {
        format!("{}{}", self.comment, self.document)
    }

    /// Adds a table such as `model` to a new file.
    pub fn add_table(&mut self, name: &str, keys: &[(&str, NewValue)]) -> Result<(), EditError> {
        let table = self.new_table(keys);
        match self.document.insert(name, Item::Table(table)) {
            None => Ok(()),
            Some(_) => Err(EditError::Refused(format!("[{name}] is there already"))),
        }
    }

    /// Adds a section such as `channels.team` at the end of the sections of its kind.
    pub fn add_section(
        &mut self,
        kind: &str,
        name: &str,
        keys: &[(&str, NewValue)],
    ) -> Result<(), EditError> {
        let table = self.new_table(keys);
        let sections = self.sections(kind)?;
        if sections.contains_key(name) {
            return Err(EditError::Refused(format!(
                "[{kind}.{name}] is there already; remove it first, or choose another name"
            )));
        }
        sections.insert(name, Item::Table(table));
        Ok(())
    }

    /// Sets keys of a section, and adds the section if there is none. Its other keys and all comments stay.
    pub fn set_keys(&mut self, kind: &str, name: &str, keys: &[(&str, NewValue)]) -> Result<(), EditError> {
        if !self.has_section(kind, name) {
            return self.add_section(kind, name, keys);
        }
        let section = self
            .sections(kind)?
            .get_mut(name)
            .and_then(Item::as_table_mut)
            .ok_or_else(|| {
                EditError::Refused(format!(
                    "`{kind}.{name}` is written in one line; write it as [{kind}.{name}]"
                ))
            })?;
        for (key, value) in keys {
            match section.get_mut(key).and_then(Item::as_value_mut) {
                Some(old) => {
                    let decor = old.decor().clone();
                    *old = value.to_value();
                    *old.decor_mut() = decor;
                }
                None => drop(section.insert(key, Item::Value(value.to_value()))),
            }
        }
        Ok(())
    }

    /// Returns true if there is such a section.
    pub fn has_section(&self, kind: &str, name: &str) -> bool {
        let sections = self.document.get(kind).and_then(Item::as_table_like);
        sections.is_some_and(|sections| sections.contains_key(name))
    }

    fn new_table(&self, keys: &[(&str, NewValue)]) -> Table {
        let mut table = Table::new();
        for (key, value) in keys {
            table.insert(key, Item::Value(value.to_value()));
        }
        if !self.text().trim().is_empty() {
            table.decor_mut().set_prefix("\n");
        }
        table
    }

    /// Removes a section with its own comment.
    pub fn remove_section(&mut self, kind: &str, name: &str) -> Result<(), EditError> {
        match self.sections(kind)?.remove(name) {
            Some(_) => Ok(()),
            None => Err(EditError::Refused(format!("there is no [{kind}.{name}]"))),
        }
    }

    fn sections(&mut self, kind: &str) -> Result<&mut Table, EditError> {
        let item = self.document.entry(kind).or_insert_with(|| {
            let mut sections = Table::new();
            sections.set_implicit(true);
            Item::Table(sections)
        });
        let refused = EditError::Refused(format!(
            "`{kind}` is written in one line; write it as [{kind}.<name>]"
        ));
        item.as_table_mut().ok_or(refused)
    }

    /// Checks the changed file, and replaces the old one at once. The environment is that of the program.
    pub fn save(self, sources: &ConfigSources) -> Result<(), EditError> {
        let text = self.checked(sources)?;
        replace(&self.file, &self.before, &text)?;
        Ok(())
    }

    /// Checks the new file, and writes nothing.
    pub fn check(&self, sources: &ConfigSources) -> Result<(), EditError> {
        self.checked(sources).map(|_| ())
    }

    /// Checks the new file, and writes it if there is none of its name.
    pub fn save_new(&self, sources: &ConfigSources) -> Result<(), EditError> {
        let text = self.checked(sources)?;
        create(&self.file, &text)?;
        Ok(())
    }

    fn checked(&self, sources: &ConfigSources) -> Result<String, EditError> {
        let text = self.text();
        let changed = ConfigSources {
            file: Some(SourceFile {
                path: self.file.clone(),
                text: text.clone(),
            }),
            ..sources.clone()
        };
        Config::for_channel_list(changed)?;
        Ok(text)
    }
}

/// Writes a whole file, or nothing if there is one.
#[allow(
    clippy::disallowed_methods,
    reason = "this is where the configuration file is written"
)]
fn create(path: &Path, text: &str) -> std::io::Result<()> {
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        Some(_) | None => Path::new("."),
    };
    let mut file = tempfile::NamedTempFile::new_in(directory)?;
    file.write_all(text.as_bytes())?;
    let readable = std::fs::Permissions::from_mode(NEW_FILE_MODE);
    file.as_file().set_permissions(readable)?;
    file.as_file().sync_all()?;
    file.persist_noclobber(path).map_err(|error| error.error)?;
    std::fs::File::open(directory)?.sync_all()
}

/// Replaces a file, if it still has the content `before`. A reader sees the old text or the new one.
#[allow(
    clippy::disallowed_methods,
    reason = "this is where the configuration file is written"
)]
fn replace(path: &Path, before: &str, text: &str) -> std::io::Result<()> {
    // A symbolic link stays, and its target is replaced.
    let path = path.canonicalize()?;
    let directory = path.parent().unwrap_or(Path::new("/"));
    let mut file = tempfile::NamedTempFile::new_in(directory)?;
    file.write_all(text.as_bytes())?;
    let old = std::fs::metadata(&path)?;
    file.as_file().set_permissions(old.permissions())?;
    let new = file.as_file().metadata()?;
    if (new.uid(), new.gid()) != (old.uid(), old.gid()) {
        std::os::unix::fs::fchown(file.as_file(), Some(old.uid()), Some(old.gid())).map_err(|error| {
            let why = format!("it belongs to another user or group: {error}; run this as its owner");
            std::io::Error::new(error.kind(), why)
        })?;
    }
    file.as_file().sync_all()?;
    if std::fs::read_to_string(&path)? != before {
        return Err(std::io::Error::other(
            "somebody else changed it meanwhile; try again",
        ));
    }
    file.persist(&path).map_err(|error| error.error)?;
    std::fs::File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::{ConfigEdit, NewValue, SecretReference};
    use crate::base::config::sources::SourceFile;

    const FILE: &str = "# Ours.\n[server]   # here\nlisten = '127.0.0.1:80'\n\n# Work.\n[channels.work]\nkind = \"slack\"\n\
        bot_token = { env = \"A_TOKEN\" }\n\n# Limits.\n[limits]\nsteps_max = 9 # few\n";

    fn edit(text: &str) -> ConfigEdit {
        ConfigEdit::new(&SourceFile {
            path: "drydock.toml".into(),
            text: text.to_owned(),
        })
        .unwrap()
    }

    #[test]
    fn a_change_keeps_all_comments_and_the_order() {
        let mut added = edit(FILE);
        let keys = [
            ("kind", NewValue::Text("telegram".to_owned())),
            (
                "bot_token",
                NewValue::Secret(SecretReference::File("a b\"c".to_owned())),
            ),
        ];
        added.add_section("channels", "bot", &keys).unwrap();
        let section = "\n[channels.bot]\nkind = \"telegram\"\nbot_token = { file = 'a b\"c' }\n";
        let expected = FILE.replace("\n# Limits.", &format!("{section}\n# Limits."));
        assert_eq!(added.document.to_string(), expected);
        let mut removed = edit(&expected);
        removed.remove_section("channels", "bot").unwrap();
        assert_eq!(removed.document.to_string(), FILE);
        removed.remove_section("channels", "work").unwrap();
        assert_eq!(
            removed.document.to_string(),
            "# Ours.\n[server]   # here\nlisten = '127.0.0.1:80'\n\n# Limits.\n[limits]\nsteps_max = 9 # few\n"
        );
    }

    #[test]
    fn a_changed_key_keeps_the_other_keys_of_its_section_and_all_comments() {
        let text = |text: &str| NewValue::Text(text.to_owned());
        let mut changed = edit(&format!(
            "{FILE}\n[profiles.default] # mine\nmodel = 'a' # small\n# Also.\nfallbacks = ['b']\n"
        ));
        assert!(changed.has_section("profiles", "default") && !changed.has_section("profiles", "other"));
        let keys = [("provider", text("openai")), ("model", text("c"))];
        changed.set_keys("profiles", "default", &keys).unwrap();
        changed
            .set_keys("profiles", "other", &[("access", text("read"))])
            .unwrap();
        let sections = "\n[profiles.default] # mine\nmodel = \"c\" # small\n# Also.\nfallbacks = ['b']\n\
            provider = \"openai\"\n\n[profiles.other]\naccess = \"read\"\n";
        assert_eq!(changed.text(), format!("{FILE}{sections}"));
        let mut inline = edit("profiles.default = { model = 'a' }\n");
        assert!(inline.set_keys("profiles", "default", &keys).is_err());
    }

    #[test]
    fn a_secret_is_only_ever_a_reference() {
        for (text, parsed) in [
            (
                "env:A_TOKEN",
                Some(SecretReference::Variable("A_TOKEN".to_owned())),
            ),
            ("file:/run/a", Some(SecretReference::File("/run/a".to_owned()))),
            ("xoxb-1-2-abc", None),
            ("42:AAsecret", None),
            ("env:", None),
            ("env:a b", None),
            ("file:", None),
            ("file:a\nb", None),
        ] {
            let result = SecretReference::parse(text);
            assert_eq!(result.clone().ok(), parsed, "{text}");
            assert!(
                !result.is_err_and(|why| why.contains("secret:") || why.contains("xoxb")),
                "{text}"
            );
        }
    }
}
