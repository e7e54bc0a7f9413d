//! Package addresses on the command line and in files: `github.com/org/repo/dir@version`. The accepted forms are
//! those of jsonnet-bundler. A suspicious address is reported differently from a mistake.

use super::dependency::{Dependency, Git, PackageSource, Scheme};
use crate::state::download::RemoteRefused;
use regex::{Captures, Regex};
use std::sync::LazyLock;

/// Maximum length of an address in bytes.
const URI_BYTES_MAX: usize = 2_048;
/// The default version.
const USUAL_VERSION: &str = "master";

/// The reason why a text is not a package address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UriError {
    /// The text does not have the form of a package address.
    #[error("Unable to parse package URI `{0}`")]
    Unparsable(String),
    /// The text is an address that is never contacted, although it is well formed.
    #[error(transparent)]
    Refused(#[from] RemoteRefused),
}

/// The forms `ssh://git@host/user/repo.git`, `git@host:user/repo.git`, `host/group/subgroup/repo.git` and
/// `host/user/repo`. The first match is used.
const FORMS: [(Scheme, &str); 4] = [
    (
        Scheme::Ssh,
        r"^ssh://git@(?P<host>.+)/(?P<user>.+)/(?P<repo>.+).git",
    ),
    (Scheme::Ssh, r"^git@(?P<host>.+):(?P<user>.+)/(?P<repo>.+).git"),
    (
        Scheme::Https,
        r"^(?:https?://)?(?P<host>[a-zA-Z0-9][a-zA-Z0-9.-]{1,61}[a-zA-Z0-9]\.[a-zA-Z]{2,})/(?P<user>[-_~a-zA-Z0-9/.]+)/(?P<repo>[-_a-zA-Z0-9.]+)\.git",
    ),
    (
        Scheme::Https,
        r"^(?:https?://)?(?P<host>[a-zA-Z0-9][a-zA-Z0-9.-]{1,61}[a-zA-Z0-9]\.[a-zA-Z]{2,})/(?P<user>[-_~a-zA-Z0-9.]+)/(?P<repo>[-_a-zA-Z0-9.]+)",
    ),
];

/// The optional parts after a form. The first match is used.
const ENDS: [&str; 4] = [
    r"/(?P<subdir>.*)@(?P<version>.*)",
    r"/(?P<subdir>.*)",
    r"@(?P<version>.*)",
    "",
];

/// Each form combined with each ending. The expressions are constant and compile. An invalid one would match
/// nothing.
static EXPRESSIONS: LazyLock<Vec<(Scheme, Vec<Regex>)>> = LazyLock::new(|| {
    let with_ends = |form: &str| {
        ENDS.iter()
            .flat_map(|end| Regex::new(&format!("{form}{end}")))
            .collect()
    };
    FORMS
        .iter()
        .map(|(scheme, form)| (*scheme, with_ends(form)))
        .collect()
});

/// Parses the address of a package in a git repository.
pub fn parse(text: &str) -> Result<Dependency, UriError> {
    let unparsable = || UriError::Unparsable(text.chars().take(200).collect());
    screen(text)?;
    let odd = |next: char| next.is_whitespace() || next.is_control() || next == '\\';
    if text.len() > URI_BYTES_MAX || text.contains(odd) {
        return Err(unparsable());
    }
    for (scheme, expressions) in EXPRESSIONS.iter() {
        // The last expression is the form without an ending. All others start with it.
        let fits = expressions.last().is_some_and(|form| form.is_match(text));
        if fits
            && let Some(found) = expressions
                .iter()
                .find_map(|expression| expression.captures(text))
        {
            return Ok(dependency(*scheme, &found));
        }
    }
    Err(unparsable())
}

fn dependency(scheme: Scheme, found: &Captures<'_>) -> Dependency {
    let part = |name: &str| found.name(name).map_or("", |part| part.as_str());
    let repo = part("repo");
    let git = Git {
        scheme,
        host: part("host").to_owned(),
        user: part("user").to_owned(),
        repo: repo.strip_suffix(".git").unwrap_or(repo).to_owned(),
        subdir: part("subdir").trim_start_matches('/').to_owned(),
    };
    let version = match part("version") {
        "" => USUAL_VERSION,
        version => version,
    };
    Dependency::new(PackageSource::Git(git), version)
}

/// Refuses addresses that select another access method: helpers, options, files, credentials. The error differs
/// from that of a mistake, so that an attack is noticed.
pub(super) fn screen(text: &str) -> Result<(), RemoteRefused> {
    let refused = |why: String| Err(RemoteRefused(why));
    if text.starts_with('-') {
        return refused("it reads as an option, because it starts with `-`".to_owned());
    }
    // In `ext::command`, the first word names a program that git would run.
    if let Some((helper, _)) = text.split_once("::")
        && helper
            .chars()
            .all(|next| next.is_ascii_alphanumeric() || "+-.".contains(next))
    {
        return refused(format!("scheme {}", shown(helper)));
    }
    if let Some((scheme, rest)) = text.split_once("://") {
        let authority = rest.split('/').next().unwrap_or_default();
        if !["https", "http", "ssh"].contains(&scheme) {
            return refused(format!("scheme {}", shown(scheme)));
        }
        let user = authority.rsplit_once('@').map(|(user, _)| user);
        if scheme != "ssh" && user.is_some() {
            return refused("it holds a user or password".to_owned());
        }
        if scheme == "ssh" && (user != Some("git") || authority.starts_with('-')) {
            return refused("scheme ssh".to_owned());
        }
    }
    Ok(())
}

fn shown(scheme: &str) -> String {
    scheme
        .chars()
        .take(40)
        .collect::<String>()
        .escape_debug()
        .to_string()
}
