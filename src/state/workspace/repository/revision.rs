//! Revisions as people write them. Only commits that a branch or a tag reaches are found. Other objects in the
//! database may belong to another person.

use super::{RepositoryError, unreadable};
use crate::base::model::is_hex;
use gix::{ObjectId, Repository};
use std::collections::HashSet;

const REVISION_BYTES_MAX: usize = 256;
/// Minimum length of an abbreviated hash in hex digits.
const HASH_DIGITS_MIN: usize = 4;
/// Maximum number of steps of all `~` and `^` together.
const STEPS_MAX: u32 = 100_000;

/// Returns the commit that a revision names. `HEAD` is `head`.
pub(super) fn resolve(
    repository: &Repository,
    revision: &str,
    head: &str,
    is_stopped: &dyn Fn() -> bool,
) -> Result<ObjectId, RepositoryError> {
    let unknown = || RepositoryError::UnknownRevision(shorten(revision));
    if revision.len() > REVISION_BYTES_MAX {
        return Err(unknown());
    }
    let end = revision.find(['~', '^']).unwrap_or(revision.len());
    let (name, steps) = revision.split_at_checked(end).ok_or_else(unknown)?;
    let mut commit = start(repository, name, head, is_stopped)?.ok_or_else(unknown)?;
    let mut left = STEPS_MAX;
    let mut rest = steps;
    while let Some(sign) = rest.chars().next() {
        rest = rest.strip_prefix(sign).unwrap_or_default();
        let digits = rest
            .find(|sign: char| !sign.is_ascii_digit())
            .unwrap_or(rest.len());
        let (number, after) = rest.split_at_checked(digits).ok_or_else(unknown)?;
        rest = after;
        let number: u32 = if number.is_empty() {
            1
        } else {
            number.parse().map_err(|_| unknown())?
        };
        left = left.checked_sub(number.max(1)).ok_or_else(unknown)?;
        commit = match sign {
            '~' => (0..number).try_fold(commit, |commit, _| parent(repository, commit, 1)),
            '^' if number == 0 => Some(commit),
            '^' => parent(repository, commit, number),
            _ => None,
        }
        .ok_or_else(unknown)?;
    }
    Ok(commit)
}

/// Returns the newest common ancestor of two commits.
pub(super) fn merge_base(
    repository: &Repository,
    one: ObjectId,
    other: ObjectId,
) -> Result<ObjectId, RepositoryError> {
    let base = repository
        .merge_base(one, other)
        .map_err(|err| unreadable(&err))?;
    base.map(gix::Id::detach).ok_or_else(|| {
        RepositoryError::Refused(
            "the two commits have no common ancestor; write two dots instead of three".to_owned(),
        )
    })
}

fn start(
    repository: &Repository,
    name: &str,
    head: &str,
    is_stopped: &dyn Fn() -> bool,
) -> Result<Option<ObjectId>, RepositoryError> {
    if matches!(name, "HEAD" | "@") {
        return Ok(ObjectId::from_hex(head.as_bytes())
            .ok()
            .filter(|id| is_commit(repository, *id)));
    }
    if let Some(id) = named(repository, name) {
        return Ok(Some(id));
    }
    let hash =
        (HASH_DIGITS_MIN..=repository.object_hash().len_in_hex()).contains(&name.len()) && is_hex(name);
    if !hash {
        return Ok(None);
    }
    let Ok(prefix) = gix::hash::Prefix::from_hex(name) else {
        return Ok(None);
    };
    let mut candidates = HashSet::new();
    repository
        .objects
        .lookup_prefix(prefix, Some(&mut candidates))
        .map_err(|err| RepositoryError::Unreadable(err.to_string()))?;
    candidates.retain(|id| is_commit(repository, *id));
    if candidates.is_empty() {
        return Ok(None);
    }
    let reached = reachable(repository, candidates, is_stopped)?;
    match reached.as_slice() {
        [only] => Ok(Some(*only)),
        _ => Ok(None),
    }
}

/// Looks up a tag or branch in the order that git uses.
fn named(repository: &Repository, name: &str) -> Option<ObjectId> {
    let spellings = match name.starts_with("refs/") {
        true => vec![name.to_owned()],
        false => ["tags", "heads", "remotes"]
            .iter()
            .map(|kind| format!("refs/{kind}/{name}"))
            .collect(),
    };
    spellings
        .into_iter()
        .filter(|name| is_branch_or_tag(name))
        .find_map(|name| {
            let mut reference = repository.try_find_reference(name.as_str()).ok()??;
            Some(reference.peel_to_commit().ok()?.id)
        })
}

pub(super) fn is_branch_or_tag(name: &str) -> bool {
    ["refs/heads/", "refs/tags/", "refs/remotes/"]
        .iter()
        .any(|kind| name.starts_with(kind))
}

/// Returns the candidates that a branch or tag reaches. The walk ends once all are found.
fn reachable(
    repository: &Repository,
    mut candidates: HashSet<ObjectId>,
    is_stopped: &dyn Fn() -> bool,
) -> Result<Vec<ObjectId>, RepositoryError> {
    let unreadable = |err: gix::Error| RepositoryError::Unreadable(err.to_string());
    let mut tips = Vec::new();
    for reference in repository
        .references()
        .and_then(|all| all.all().map(|all| all.collect::<Vec<_>>()))
        .map_err(unreadable)?
    {
        // A broken reference reaches nothing.
        let Ok(mut reference) = reference else { continue };
        if is_branch_or_tag(&reference.name().as_bstr().to_string())
            && let Ok(commit) = reference.peel_to_commit()
        {
            tips.push(commit.id);
        }
    }
    let mut found = Vec::new();
    let newest_first = gix::revision::walk::Sorting::ByCommitTime(Default::default());
    for commit in repository
        .rev_walk(tips)
        .sorting(newest_first)
        .all()
        .map_err(unreadable)?
    {
        if is_stopped() {
            return Err(RepositoryError::Stopped);
        }
        let id = commit
            .map_err(|err| RepositoryError::Unreadable(err.to_string()))?
            .id;
        if candidates.remove(&id) {
            found.push(id);
        }
        if candidates.is_empty() {
            break;
        }
    }
    Ok(found)
}

fn is_commit(repository: &Repository, id: ObjectId) -> bool {
    repository
        .find_header(id)
        .is_ok_and(|header| header.kind() == gix::objs::Kind::Commit)
}

fn parent(repository: &Repository, commit: ObjectId, number: u32) -> Option<ObjectId> {
    let commit = repository.find_commit(commit).ok()?;
    let index = usize::try_from(number).ok()?.checked_sub(1)?;
    let parent = commit.parent_ids().nth(index)?;
    Some(parent.detach())
}

fn shorten(revision: &str) -> String {
    revision.chars().take(100).collect()
}
