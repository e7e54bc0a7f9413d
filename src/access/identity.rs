//! Proof that somebody was admitted, and what they may do.

use crate::model::{RepoPath, Role, Sender, UserId};
use globset::{Glob, GlobMatcher};
use serde::{Deserialize, Serialize};

/// A role in some repositories and environments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// What.
    pub role: Role,
    /// Glob over configured repository names: `*`, `infra-*`.
    pub repositories: String,
    /// Globs over environment directories, matched against the whole path (`environments/dev`) and
    /// the path below the first directory (`dev`). `**` means no restriction.
    pub environments: Vec<String>,
}

/// Proof of admission. Cannot be built outside `access`.
#[derive(Clone, Debug)]
pub struct Identity {
    user: UserId,
    name: String,
    sender: Sender,
    grants: Vec<CompiledGrant>,
}

#[derive(Clone, Debug)]
struct CompiledGrant {
    role: Role,
    repositories: GlobMatcher,
    environments: Vec<GlobMatcher>,
    unrestricted: bool,
    globs: Vec<String>,
}

impl Identity {
    /// Compiles the grants of an admitted user. A glob that does not compile grants nothing.
    pub(super) fn new(user: UserId, name: String, sender: Sender, grants: &[Grant]) -> Self {
        let grants = grants.iter().filter_map(CompiledGrant::new).collect();
        Self {
            user,
            name,
            sender,
            grants,
        }
    }

    /// The user's row id.
    pub fn user(&self) -> UserId {
        self.user
    }

    /// The name given with the invite.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The platform account that was admitted.
    pub fn sender(&self) -> &Sender {
        &self.sender
    }

    /// The highest role this identity has in a repository.
    pub fn role(&self, repository: &str) -> Option<Role> {
        self.grants_for(repository).map(|grant| grant.role).max()
    }

    /// Globs of the environments this identity may change in a repository, each once, sorted.
    pub fn environments(&self, repository: &str) -> Vec<String> {
        let editors = self
            .grants_for(repository)
            .filter(|grant| grant.role >= Role::Editor);
        let globs: std::collections::BTreeSet<String> =
            editors.flat_map(|grant| grant.globs.iter().cloned()).collect();
        globs.into_iter().collect()
    }

    /// True if any grant makes this identity an administrator.
    pub fn is_admin(&self) -> bool {
        self.grants.iter().any(|grant| grant.role == Role::Admin)
    }

    /// May this identity write `path`, which belongs to `environment` (its directory), or is shared
    /// by all environments (`None`)? The error says what the grant covers.
    pub fn may_write(
        &self,
        repository: &str,
        path: &RepoPath,
        environment: Option<&str>,
    ) -> Result<(), String> {
        let editors: Vec<_> = self
            .grants_for(repository)
            .filter(|grant| grant.role >= Role::Editor)
            .collect();
        if editors.is_empty() {
            return Err(format!("{} has role viewer: cannot write", self.name));
        }
        if editors.iter().any(|grant| grant.covers(environment)) {
            return Ok(());
        }
        let shown = self.environments(repository).join(", ");
        Err(match environment {
            Some(environment) => format!("`{environment}` is not in your grant ({shown})"),
            None => format!("`{path}` is shared by all environments; your grant covers only {shown}"),
        })
    }

    fn grants_for<'a>(&'a self, repository: &str) -> impl Iterator<Item = &'a CompiledGrant> {
        self.grants
            .iter()
            .filter(move |grant| grant.repositories.is_match(repository))
    }
}

impl CompiledGrant {
    fn new(grant: &Grant) -> Option<Self> {
        let compile = |glob: &str| Glob::new(glob).map(|glob| glob.compile_matcher());
        Some(Self {
            role: grant.role,
            repositories: compile(&grant.repositories).ok()?,
            environments: grant
                .environments
                .iter()
                .map(|glob| compile(glob))
                .collect::<Result<_, _>>()
                .ok()?,
            unrestricted: grant.role == Role::Admin || grant.environments.iter().any(|glob| glob == "**"),
            globs: grant.environments.clone(),
        })
    }

    fn covers(&self, environment: Option<&str>) -> bool {
        let Some(environment) = environment else {
            return self.unrestricted;
        };
        let below = environment.split_once('/').map(|(_, below)| below);
        self.unrestricted
            || self
                .environments
                .iter()
                .any(|glob| glob.is_match(environment) || below.is_some_and(|below| glob.is_match(below)))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::{Grant, Identity, Role};
    use crate::model::{Platform, RepoPath, Sender, UserId};

    fn holds(role: Role, repositories: &str, environments: &[&str]) -> Identity {
        let sender = Sender {
            platform: Platform::Slack,
            account: "T1".into(),
            id: "U1".into(),
        };
        let grant = Grant {
            role,
            repositories: repositories.into(),
            environments: environments.iter().map(|glob| (*glob).to_owned()).collect(),
        };
        Identity::new(UserId(1), "alice".into(), sender, &[grant])
    }

    #[test]
    fn a_grant_covers_its_environments_and_says_so_otherwise() {
        let alice = holds(Role::Editor, "infra", &["dev", "staging-*"]);
        let path = RepoPath::parse("environments/dev/main.jsonnet").unwrap();
        let writes = |environment| alice.may_write("infra", &path, environment);
        assert_eq!(writes(Some("environments/dev")), Ok(()));
        assert_eq!(writes(Some("environments/staging-eu")), Ok(()));
        assert_eq!(
            writes(Some("environments/prod")),
            Err("`environments/prod` is not in your grant (dev, staging-*)".into())
        );
        assert_eq!(
            writes(None),
            Err("`environments/dev/main.jsonnet` is shared by all environments; your grant covers only dev, staging-*".into())
        );
        assert_eq!(
            alice.may_write("apps", &path, Some("environments/dev")),
            Err("alice has role viewer: cannot write".into())
        );
    }

    #[test]
    fn viewers_write_nothing_and_broken_globs_grant_nothing() {
        let path = RepoPath::parse("a").unwrap();
        assert!(
            holds(Role::Viewer, "*", &["**"])
                .may_write("infra", &path, None)
                .is_err()
        );
        assert!(
            holds(Role::Editor, "*", &["**"])
                .may_write("infra", &path, None)
                .is_ok()
        );
        assert!(
            holds(Role::Admin, "*", &[])
                .may_write("infra", &path, None)
                .is_ok()
        );
        for broken in [holds(Role::Admin, "[", &["**"]), holds(Role::Admin, "*", &["["])] {
            assert_eq!((broken.role("infra"), broken.is_admin()), (None, false));
        }
    }
}
