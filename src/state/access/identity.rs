//! Proof of admission, and the permissions of the admitted person.

use super::people;
use crate::base::model::{RepoPath, RequiredGrant, Role, Sender, UserId, quoted};
use crate::state::store::people::GrantRow;
use globset::{Glob, GlobMatcher};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::watch;

/// A role in some repositories and environments.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Grant {
    /// The role.
    pub role: Role,
    /// Glob over configured repository names: `*`, `infra-*`.
    pub repositories: String,
    /// Globs over environment directories, matched against the whole path (`environments/dev`) and
    /// the path below the first directory (`dev`). `**` means no restriction.
    pub environments: Vec<String>,
}

/// Proof of admission. Only `access` can create one. It always reflects the user's current grants: a changed or revoked
/// grant takes effect at once in every copy.
#[derive(Clone, Debug)]
pub struct Identity {
    user: UserId,
    name: String,
    sender: Sender,
    current_grants: CurrentGrants,
    /// True if every grant counts as that of a viewer.
    is_reading_only: bool,
    /// The environments outside of which nothing is written. One must be in each of them.
    limits: Vec<EnvironmentGlobs>,
}

/// The current grants of a user, shared by all copies of their identity. `None` after revocation.
#[derive(Clone, Debug)]
pub(super) struct CurrentGrants(watch::Sender<Option<Arc<[CompiledGrant]>>>);

#[derive(Clone, Debug)]
pub(super) struct CompiledGrant {
    role: Role,
    repositories: GlobMatcher,
    environments: EnvironmentGlobs,
}

/// Globs over environment directories.
#[derive(Clone, Debug)]
struct EnvironmentGlobs {
    matchers: Vec<GlobMatcher>,
    unrestricted: bool,
    globs: Vec<String>,
}

impl CurrentGrants {
    /// Compiles grants. A glob that does not compile grants nothing.
    pub(super) fn new(grants: &[Grant]) -> Self {
        Self(watch::Sender::new(Some(compiled(grants))))
    }

    pub(super) fn set(&self, grants: &[Grant]) {
        self.0.send_replace(Some(compiled(grants)));
    }

    /// Removes the grants permanently.
    pub(super) fn revoke(&self) {
        self.0.send_replace(None);
    }
}

/// The most grants, and the most globs, that are kept compiled.
const COMPILED_MAX: usize = 1_000;

/// Compiles grants. Many people and services have the same.
fn compiled(grants: &[Grant]) -> Arc<[CompiledGrant]> {
    static COMPILED: Mutex<BTreeMap<Vec<Grant>, Arc<[CompiledGrant]>>> = Mutex::new(BTreeMap::new());
    let mut known = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(compiled) = known.get(grants) {
        return Arc::clone(compiled);
    }
    let compiled: Arc<[CompiledGrant]> = grants.iter().filter_map(CompiledGrant::new).collect();
    if known.len() >= COMPILED_MAX {
        known.clear();
    }
    known.insert(grants.to_vec(), Arc::clone(&compiled));
    compiled
}

impl Identity {
    pub(super) fn new(user: UserId, name: String, sender: Sender, standing: CurrentGrants) -> Self {
        Self {
            user,
            name,
            sender,
            current_grants: standing,
            is_reading_only: false,
            limits: Vec::new(),
        }
    }

    /// Returns the same person with the rights of a viewer wherever they have any.
    pub(crate) fn reading_only(&self) -> Self {
        Self {
            is_reading_only: true,
            ..self.clone()
        }
    }

    /// Returns the same person, who writes only files of environments that match one glob of each list. A list with a glob
    /// that does not compile allows nothing.
    pub(crate) fn within_environments(&self, lists: &[Vec<String>]) -> Self {
        let mut limits = self.limits.clone();
        limits.extend(lists.iter().map(|globs| {
            EnvironmentGlobs::new(globs).unwrap_or_else(|| EnvironmentGlobs {
                matchers: Vec::new(),
                unrestricted: false,
                globs: globs.clone(),
            })
        }));
        Self {
            limits,
            ..self.clone()
        }
    }

    pub(super) fn current_grants(&self) -> &CurrentGrants {
        &self.current_grants
    }

    /// Returns the same person with the grants from the store.
    pub(crate) fn with_stored(&self, rows: &[GrantRow]) -> Self {
        let grants: Vec<Grant> = rows.iter().filter_map(people::grant).collect();
        Self {
            current_grants: CurrentGrants::new(&grants),
            ..self.clone()
        }
    }

    /// Returns the user's row id.
    pub fn user(&self) -> UserId {
        self.user
    }

    /// Returns the name from the invite.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the platform account that was admitted.
    pub fn sender(&self) -> &Sender {
        &self.sender
    }

    /// Returns the highest role of this identity in a repository right now, or `None` after revocation.
    pub fn role(&self, repository: &str) -> Option<Role> {
        let grants = self.grants();
        grants_in(&grants, repository).map(|grant| grant.role).max()
    }

    /// True if the user is revoked.
    pub fn is_revoked(&self) -> bool {
        self.current_grants.0.borrow().is_none()
    }

    /// Waits until the user is revoked.
    pub async fn wait_until_revoked(&self) {
        self.wait_until(Self::is_revoked).await;
    }

    /// Waits until this identity has no role in the repository.
    pub async fn wait_until_locked_out(&self, repository: &str) {
        self.wait_until(|identity| identity.role(repository).is_none())
            .await;
    }

    async fn wait_until(&self, holds: impl Fn(&Self) -> bool) {
        let mut changes = self.current_grants.0.subscribe();
        while !holds(self) {
            // The channel cannot close, because this identity holds the sender.
            if changes.changed().await.is_err() {
                return;
            }
        }
    }

    /// Returns true if this identity has any grant right now.
    pub(super) fn has_grants(&self) -> bool {
        !self.grants().is_empty()
    }

    /// Returns true if this is the one grant of this identity.
    pub(super) fn has_only(&self, grant: &Grant) -> bool {
        let Grant {
            role,
            repositories,
            environments,
        } = grant;
        let is_same = |known: &CompiledGrant| {
            known.role == *role
                && known.repositories.glob().glob() == repositories
                && known.environments.globs == *environments
        };
        matches!(&*self.grants(), [known] if is_same(known))
    }

    /// Returns the globs of environments that this identity may change in a repository, sorted and without duplicates.
    pub fn environments(&self, repository: &str) -> Vec<String> {
        let grants = self.grants();
        let editors = grants_in(&grants, repository).filter(|grant| grant.role >= Role::Editor);
        let globs: std::collections::BTreeSet<String> = editors
            .flat_map(|grant| grant.environments.globs.iter().cloned())
            .collect();
        globs.into_iter().collect()
    }

    /// True if at least one grant allows changes.
    pub fn may_edit(&self) -> bool {
        self.grants().iter().any(|grant| grant.role >= Role::Editor)
    }

    /// True if at least one grant is for an administrator.
    pub fn is_admin(&self) -> bool {
        self.grants().iter().any(|grant| grant.role == Role::Admin)
    }

    /// Checks that this identity may write `path`. The path belongs to `environment` (its directory), or all
    /// environments share it (`None`). The error names what the grant covers.
    pub fn may_write(
        &self,
        repository: &str,
        path: &RepoPath,
        environment: Option<&str>,
    ) -> Result<(), String> {
        if self.is_revoked() {
            return Err(format!("the access of {} was revoked: cannot write", self.name));
        }
        if self.role(repository) < Some(Role::Editor) {
            return Err(format!("{} has role viewer: cannot write", self.name));
        }
        if self.covers(repository, environment) {
            return Ok(());
        }
        if let Some(limit) = self.exceeded_limit(environment) {
            let path = environment.unwrap_or(path.as_str());
            return Err(format!(
                "`{path}` is outside of this work, which may change only {limit}"
            ));
        }
        let shown = self.environments(repository).join(", ");
        Err(match environment {
            Some(environment) => format!("`{environment}` is not in your grant ({shown})"),
            None => format!("`{path}` is shared by all environments; your grant covers only {shown}"),
        })
    }

    /// Checks that the grant covers everything the change needs. The error names what is missing and why it is needed.
    pub fn may_prepare(&self, repository: &str, needs: &[RequiredGrant]) -> Result<(), String> {
        let Some(missing) = needs
            .iter()
            .find(|need| !self.covers(repository, need.environment.as_deref()))
        else {
            return Ok(());
        };
        let shown = self.environments(repository).join(", ");
        let limit = self.exceeded_limit(missing.environment.as_deref());
        let grant = match (limit, shown.is_empty()) {
            (Some(limit), _) => format!("this work may change only {limit}"),
            (None, true) => "your grant covers no environment".to_owned(),
            (None, false) => format!("your grant covers only {shown}"),
        };
        Err(match &missing.environment {
            Some(environment) => format!(
                "{}, which requires a grant for {}; {grant}",
                missing.because,
                quoted(environment)
            ),
            None => format!(
                "{}, which requires a grant for all environments; {grant}",
                missing.because
            ),
        })
    }

    /// True if this identity may write files of one environment, or files of all environments (`None`).
    fn covers(&self, repository: &str, environment: Option<&str>) -> bool {
        let grants = self.grants();
        self.exceeded_limit(environment).is_none()
            && grants_in(&grants, repository)
                .filter(|grant| grant.role >= Role::Editor)
                .any(|grant| grant.covers(environment))
    }

    /// Returns the globs of the first limit that an environment, or what all of them share (`None`), is outside of.
    fn exceeded_limit(&self, environment: Option<&str>) -> Option<String> {
        let exceeded = self.limits.iter().find(|limit| !limit.cover(environment))?;
        Some(match exceeded.globs.is_empty() {
            true => "no environment".to_owned(),
            false => exceeded.globs.join(", "),
        })
    }

    fn grants(&self) -> Arc<[CompiledGrant]> {
        let grants = self.current_grants.0.borrow().clone().unwrap_or_default();
        match self.is_reading_only {
            true => grants.iter().map(CompiledGrant::of_viewer).collect(),
            false => grants,
        }
    }
}

fn grants_in<'a>(grants: &'a [CompiledGrant], repository: &str) -> impl Iterator<Item = &'a CompiledGrant> {
    grants
        .iter()
        .filter(move |grant| grant.repositories.is_match(repository))
}

/// Compiles a glob. The grants of many people have the same few, and compiling one takes far longer than finding it.
fn compile(glob: &str) -> Option<GlobMatcher> {
    static COMPILED: Mutex<BTreeMap<String, GlobMatcher>> = Mutex::new(BTreeMap::new());
    let mut compiled = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = compiled.get(glob) {
        return Some(known.clone());
    }
    let matcher = Glob::new(glob).ok()?.compile_matcher();
    if compiled.len() >= COMPILED_MAX {
        compiled.clear();
    }
    compiled.insert(glob.to_owned(), matcher.clone());
    Some(matcher)
}

impl CompiledGrant {
    fn new(grant: &Grant) -> Option<Self> {
        Some(Self {
            role: grant.role,
            repositories: compile(&grant.repositories)?,
            environments: EnvironmentGlobs::new(&grant.environments)?,
        })
    }

    fn of_viewer(&self) -> Self {
        Self {
            role: Role::Viewer,
            ..self.clone()
        }
    }

    fn covers(&self, environment: Option<&str>) -> bool {
        self.role == Role::Admin || self.environments.cover(environment)
    }
}

impl EnvironmentGlobs {
    fn new(globs: &[String]) -> Option<Self> {
        Some(Self {
            matchers: globs.iter().map(|glob| compile(glob)).collect::<Option<_>>()?,
            unrestricted: globs.iter().any(|glob| glob == "**"),
            globs: globs.to_vec(),
        })
    }

    /// True if a glob matches an environment, or if all environments are covered, which what they share (`None`) needs.
    fn cover(&self, environment: Option<&str>) -> bool {
        let Some(environment) = environment else {
            return self.unrestricted;
        };
        let below = environment.split_once('/').map(|(_, below)| below);
        self.unrestricted
            || self
                .matchers
                .iter()
                .any(|glob| glob.is_match(environment) || below.is_some_and(|below| glob.is_match(below)))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
