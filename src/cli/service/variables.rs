//! The variables of a service. A service manager does not pass on those of a shell.

use crate::base::system::ServiceManager;
use crate::cli::CliError;
use std::collections::BTreeMap;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Bytes of a file of variables.
const FILE_BYTES_MAX: u64 = 262_144;

/// Returns the file of variables that belongs to a configuration, and the variables in it.
pub(super) fn service_variables(
    manager: ServiceManager,
    configuration: &Path,
) -> Result<(PathBuf, BTreeMap<String, String>), CliError> {
    let file = configuration.with_extension("env");
    let variables = match manager {
        ServiceManager::Systemd => read(&file)?,
        ServiceManager::Launchd => BTreeMap::new(),
    };
    Ok((file, variables))
}

/// Returns the advice for a configuration that needs a variable which a service does not have.
pub(super) fn advice(manager: ServiceManager, file: &Path) -> String {
    match manager {
        ServiceManager::Systemd => format!(
            "write NAME=value lines to {}, with mode 600, or name files with {{ file = \"path\" }}",
            file.display()
        ),
        ServiceManager::Launchd => "name files with { file = \"path\" }".to_owned(),
    }
}

fn read(file: &Path) -> Result<BTreeMap<String, String>, CliError> {
    let refused = |why: String| CliError::config(format!("{}: {why}", file.display()));
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let mut options = std::fs::OpenOptions::new();
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, flags);
    let opened = match options.read(true).open(file) {
        Ok(opened) => opened,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(error) => return Err(refused(error.to_string())),
    };
    let mode = opened
        .metadata()
        .map_err(|error| refused(error.to_string()))?
        .permissions()
        .mode();
    if mode & 0o077 != 0 {
        return Err(refused(format!(
            "others can read it; run: chmod 600 {}",
            file.display()
        )));
    }
    let mut text = String::new();
    let read = opened.take(FILE_BYTES_MAX).read_to_string(&mut text);
    read.map_err(|error| refused(error.to_string()))?;
    parsed(&text).map_err(|line| {
        refused(format!(
            "line {line}: write NAME=value, without spaces around `=` and without a backslash"
        ))
    })
}

/// Returns the variables of a text, or the number of a line that is not one. Of the syntax of systemd it accepts what
/// cannot be misread: a name, and a value that may have quotes around it.
fn parsed(text: &str) -> Result<BTreeMap<String, String>, usize> {
    let mut variables = BTreeMap::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        let (name, value) = line.split_once('=').ok_or(number + 1)?;
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if name.is_empty() || !name.chars().all(is_name) || value.starts_with(' ') {
            return Err(number + 1);
        }
        let quote = ['"', '\''].into_iter().find(|quote| value.starts_with(*quote));
        let value = match quote {
            Some(quote) => value
                .strip_prefix(quote)
                .and_then(|value| value.strip_suffix(quote))
                .ok_or(number + 1)?,
            None => value,
        };
        if value.contains(['\\', '"', '\'']) {
            return Err(number + 1);
        }
        variables.insert(name.to_owned(), value.to_owned());
    }
    Ok(variables)
}

#[cfg(test)]
mod tests {
    use super::parsed;
    use std::collections::BTreeMap;

    #[test]
    fn variables_are_read_as_systemd_reads_them() {
        let text = "# keys\n\nSLACK_BOT_TOKEN=xoxb-1\nA=\"two words\"\n B='three'\n;C=4\nD=a=b\nE=\n";
        let expected = [
            ("SLACK_BOT_TOKEN", "xoxb-1"),
            ("A", "two words"),
            ("B", "three"),
            ("D", "a=b"),
            ("E", ""),
        ];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(parsed(text), Ok(BTreeMap::from(expected)));
    }

    #[test]
    fn a_line_that_could_be_misread_is_refused_with_its_number() {
        for line in ["export A=1", "A", "=1", "A= 1", "A=\"1", "A=1\\", "A=it's"] {
            assert_eq!(parsed(&format!("\n{line}\n")), Err(2), "{line}");
        }
    }
}
