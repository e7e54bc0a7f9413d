//! Reads the configuration of a repository as text before anything is opened. Refuses a configuration that could
//! run programs or lead elsewhere, because the repository may come from an untrusted person.

use super::RepositoryError;
use crate::base::model::short_line;
use std::path::{Component, Path, PathBuf};

/// Maximum size of a configuration file in bytes. Larger ones are refused.
const CONFIG_BYTES_MAX: u64 = 1 << 20;

/// Maximum length of a format name in an error text, in characters.
const FORMAT_CHARS_MAX: usize = 40;

/// The level of trust in the configuration of a repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trust {
    /// Untrusted: settings that could run a program or lead elsewhere are refused.
    Nobody,
    /// The configuration of the person at the terminal. Hooks, filters and shared objects are their own tools. They
    /// are not refused, and not run either.
    Owner,
}

/// The directories of a repository.
pub(super) struct RepositoryPaths {
    /// The git directory of this work tree, which is opened.
    pub git: PathBuf,
    /// The directory of its objects and branches.
    pub common: PathBuf,
    work_tree: Option<PathBuf>,
}

/// Finds the git directory of a work tree or a bare repository at `path`.
pub(super) fn find(path: &Path) -> Result<RepositoryPaths, RepositoryError> {
    let dot_git = path.join(".git");
    if dot_git.is_dir() {
        return Ok(RepositoryPaths {
            git: dot_git.clone(),
            common: dot_git,
            work_tree: Some(path.to_owned()),
        });
    }
    if dot_git.is_file() {
        return linked(path, &dot_git);
    }
    if path.join("HEAD").is_file() && path.join("objects").is_dir() && path.join("refs").is_dir() {
        return Ok(RepositoryPaths {
            git: path.to_owned(),
            common: path.to_owned(),
            work_tree: None,
        });
    }
    Err(RepositoryError::Refused(format!(
        "`{}` is not a git repository; name a directory that holds `.git`, or a bare repository",
        path.display()
    )))
}

/// Resolves a work tree of `git worktree add`: a file names its git directory, and that names the common one.
fn linked(path: &Path, dot_git: &Path) -> Result<RepositoryPaths, RepositoryError> {
    let text = read(dot_git)?.unwrap_or_default();
    let named = text
        .strip_prefix("gitdir:")
        .map(str::trim)
        .filter(|name| !name.is_empty());
    let Some(named) = named else {
        return Err(RepositoryError::Refused(format!(
            "`{}` names no git directory",
            dot_git.display()
        )));
    };
    let git = path.join(named);
    let common = match read(&git.join("commondir"))? {
        Some(common) => normal(&git.join(common.trim())),
        None => git.clone(),
    };
    Ok(RepositoryPaths {
        git,
        common,
        work_tree: Some(path.to_owned()),
    })
}

/// Refuses a repository whose object format or reference format is not supported.
pub(super) fn check_formats(place: &RepositoryPaths) -> Result<(), RepositoryError> {
    let Some(text) = read(&place.common.join("config"))? else {
        return Ok(());
    };
    // The code that opens the repository reports an invalid configuration.
    let Ok(parsed) = parse(&text) else { return Ok(()) };
    let named = |key: &str| {
        let value = parsed.string(&format!("extensions.{key}"));
        value.map(|value| value.to_string().to_ascii_lowercase())
    };
    let objects = named("objectFormat").filter(|format| !matches!(format.as_str(), "sha1" | "sha256"));
    if let Some(format) = objects {
        return Err(RepositoryError::Format(format!(
            "its objects are in the format `{}`, and only `sha1` and `sha256` are read",
            short_line(&format, FORMAT_CHARS_MAX)
        )));
    }
    match named("refStorage").filter(|format| format != "files") {
        Some(format) => Err(RepositoryError::Format(format!(
            "its branches are in the format `{}`, and only `files` is read; `git refs migrate --ref-format=files` converts it",
            short_line(&format, FORMAT_CHARS_MAX)
        ))),
        None => Ok(()),
    }
}

fn parse(text: &str) -> Result<gix::config::File, gix::Error> {
    gix::config::File::from_bytes_no_includes(
        text.as_bytes(),
        gix::config::file::Metadata::from(gix::config::Source::Local),
        gix::config::file::init::Options::default(),
    )
}

/// Refuses a repository whose configuration contains a forbidden setting.
pub(super) fn vet(place: &RepositoryPaths) -> Result<(), RepositoryError> {
    for file in [place.common.join("config"), place.git.join("config.worktree")] {
        if let Some(text) = read(&file)? {
            vet_config(&text, &shown(&file), place)?;
        }
    }
    let file = place.common.join("objects/info/alternates");
    let objects = normal(&place.common.join("objects"));
    for (number, line) in read(&file)?.unwrap_or_default().lines().enumerate() {
        let inside = normal(&objects.join(line)).starts_with(normal(&place.common));
        if !line.is_empty() && !line.starts_with('#') && !inside {
            return Err(RepositoryError::Refused(format!(
                "{}:{}: objects outside of the repository are not allowed",
                shown(&file),
                number + 1
            )));
        }
    }
    Ok(())
}

fn vet_config(text: &str, shown: &str, place: &RepositoryPaths) -> Result<(), RepositoryError> {
    let parsed = parse(text)
        .map_err(|_| RepositoryError::Refused(format!("{shown}: this is not a git configuration")))?;
    for section in parsed.sections() {
        let name = section.header().name().to_string().to_ascii_lowercase();
        let keys: Vec<String> = section.value_names().collect();
        if name.starts_with("include") {
            return Err(refused(text, shown, &name, ""));
        }
        for key in keys {
            let lower = key.to_ascii_lowercase();
            if !allowed(&name, &lower) {
                return Err(refused(text, shown, &name, &key));
            }
            if name == "core" && lower == "worktree" {
                let value = section
                    .value(&key)
                    .map(|value| value.to_string())
                    .unwrap_or_default();
                let meant = place.work_tree.as_deref().map(normal);
                if meant != Some(normal(&place.git.join(value))) {
                    return Err(refused(text, shown, &name, &key));
                }
            }
        }
    }
    Ok(())
}

/// False for a setting that makes git or a library run a program. Section and key are in lower case.
fn allowed(section: &str, key: &str) -> bool {
    let program = match section {
        "filter" => true,
        "core" => {
            matches!(
                key,
                "fsmonitor" | "hookspath" | "sshcommand" | "gitproxy" | "alternaterefscommand"
            )
        }
        "diff" => matches!(key, "command" | "textconv" | "external"),
        "merge" => key == "driver",
        _ => key == "process",
    };
    !program
}

fn refused(text: &str, shown: &str, section: &str, key: &str) -> RepositoryError {
    let line = line_of(text, section, key)
        .map(|line| format!(":{line}"))
        .unwrap_or_default();
    let name = if key.is_empty() {
        section.to_owned()
    } else {
        format!("{section}.{key}")
    };
    RepositoryError::Refused(format!("{shown}{line}: {name} is not allowed"))
}

/// Returns the line of a key, for the error text only. The parser has already decided that it is refused.
fn line_of(text: &str, section: &str, key: &str) -> Option<usize> {
    let mut current = String::new();
    for (number, line) in text.lines().enumerate() {
        let mut rest = line.trim_start();
        if let Some(header) = rest.strip_prefix('[') {
            let end = header.find(|sign: char| !sign.is_ascii_alphanumeric() && sign != '-');
            current = header.get(..end.unwrap_or(header.len()))?.to_ascii_lowercase();
            rest = header.split_once(']').map_or("", |(_, after)| after).trim_start();
            if key.is_empty() && current == section {
                return Some(number + 1);
            }
        }
        let word = rest
            .split(|sign: char| sign == '=' || sign.is_whitespace())
            .next()?;
        if !key.is_empty() && current == section && word.eq_ignore_ascii_case(key) {
            return Some(number + 1);
        }
    }
    None
}

#[allow(
    clippy::disallowed_methods,
    reason = "a mirror's own settings are vetted as files"
)]
fn read(file: &Path) -> Result<Option<String>, RepositoryError> {
    let refused = |why: String| RepositoryError::Refused(format!("{}: {why}", shown(file)));
    let metadata = match std::fs::metadata(file) {
        Ok(metadata) => metadata,
        Err(err) if err.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(err) => return Err(refused(err.to_string())),
    };
    if !metadata.is_file() || metadata.len() > CONFIG_BYTES_MAX {
        return Err(refused("not a file of ordinary size".to_owned()));
    }
    let bytes = std::fs::read(file).map_err(|err| refused(err.to_string()))?;
    String::from_utf8(bytes)
        .map(Some)
        .map_err(|_| refused("not UTF-8".to_owned()))
}

/// Returns the last components of a file inside a repository: `repo.git/config`, `app/.git/config`.
fn shown(file: &Path) -> String {
    let parts: Vec<String> = file
        .components()
        .filter(|component| matches!(component, Component::Normal(_)))
        .map(|component| component.as_os_str().to_string_lossy().into_owned())
        .collect();
    let git = parts
        .iter()
        .rposition(|part| part == ".git")
        .map(|at| at.saturating_sub(1));
    let start = git.unwrap_or_else(|| {
        let end = parts
            .iter()
            .rposition(|part| part == "objects")
            .unwrap_or(parts.len().saturating_sub(1));
        end.saturating_sub(1)
    });
    parts.get(start..).unwrap_or_default().join("/")
}

/// Returns the canonical path, or the path without its `..` if it does not exist.
fn normal(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| {
        path.components().fold(PathBuf::new(), |mut done, component| {
            match component {
                Component::ParentDir => {
                    done.pop();
                }
                other => done.push(other),
            }
            done
        })
    })
}
