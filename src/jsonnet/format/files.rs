//! Many files of a tree, formatted on all cores. Nothing is written here: whoever asked writes all of
//! the changes or none.

use super::format;
use crate::model::{FileVersion, RepoPath};
use crate::workspace::Tree;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Threads for one call.
const THREADS_MAX: usize = 16;
/// Files for which another thread is worth its start.
const FILES_PER_THREAD_MIN: usize = 4;
/// Files a thread takes at a time.
const FILES_AT_ONCE: usize = 8;
/// What all changed files may have together, before and after.
const KEPT_BYTES_MAX: usize = 1 << 30;

/// A file whose text is to change.
#[derive(Clone, Debug)]
pub struct Reformatted {
    /// Where it is.
    pub path: RepoPath,
    /// What it is.
    pub before: FileVersion,
    /// The text in the one style.
    pub after: String,
}

/// The files that are not in the one style, in the order of `paths`. The `Err` names every file that
/// cannot be read or is no Jsonnet; then nothing may be written.
pub fn reformat(tree: &dyn Tree, paths: &[RepoPath]) -> Result<Vec<Reformatted>, Vec<String>> {
    let kept_bytes = AtomicUsize::new(0);
    let mut changes = Vec::new();
    let mut problems = Vec::new();
    for one in on_all_cores(paths, &|path| reformat_one(tree, path, &kept_bytes)) {
        match one {
            Ok(None) => {}
            Ok(Some(change)) => changes.push(change),
            Err(problem) => problems.push(problem),
        }
    }
    if problems.is_empty() {
        Ok(changes)
    } else {
        Err(problems)
    }
}

fn reformat_one(
    tree: &dyn Tree,
    path: &RepoPath,
    kept_bytes: &AtomicUsize,
) -> Result<Option<Reformatted>, String> {
    let before = tree.read(path).map_err(|error| error.to_string())?;
    let text = std::str::from_utf8(&before.content).map_err(|_| format!("{path}: the file is not UTF-8"))?;
    let after = format(text).map_err(|error| format!("{path}:{error}"))?;
    if after == text {
        return Ok(None);
    }
    let bytes = text.len() + after.len();
    if kept_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes > KEPT_BYTES_MAX {
        return Err(format!(
            "{path}: more than {KEPT_BYTES_MAX} bytes would change at once; name fewer files"
        ));
    }
    Ok(Some(Reformatted {
        path: path.clone(),
        before,
        after,
    }))
}

/// What `work` makes of each thing, in their order. Each thread takes a few things at a time until none
/// is left, so that one with large files does not keep the others waiting.
fn on_all_cores<T: Sync, R: Send>(things: &[T], work: &(impl Fn(&T) -> R + Sync)) -> Vec<R> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = cores.min(THREADS_MAX).min(things.len() / FILES_PER_THREAD_MIN);
    if threads < 2 {
        return things.iter().map(work).collect();
    }
    let next = AtomicUsize::new(0);
    let share = || {
        let mut done: Vec<(usize, Vec<R>)> = Vec::new();
        loop {
            let start = next.fetch_add(FILES_AT_ONCE, Ordering::Relaxed);
            let end = things.len().min(start.saturating_add(FILES_AT_ONCE));
            let Some(taken) = things.get(start..end).filter(|taken| !taken.is_empty()) else {
                return done;
            };
            done.push((start, taken.iter().map(work).collect()));
        }
    };
    let mut shares = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(share)).collect();
        let mut done = share();
        for other in others {
            match other.join() {
                Ok(more) => done.extend(more),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        done
    });
    shares.sort_by_key(|(start, _)| *start);
    shares.into_iter().flat_map(|(_, done)| done).collect()
}

#[cfg(test)]
mod tests {
    use super::{FILES_AT_ONCE, on_all_cores};

    #[test]
    fn answers_are_in_the_order_of_the_things() {
        for count in [0, 1, 7, 8, FILES_AT_ONCE * 2 + 1, 1_000] {
            let things: Vec<usize> = (0..count).collect();
            let doubled = on_all_cores(&things, &|thing| thing * 2);
            let expected: Vec<usize> = (0..count).map(|thing| thing * 2).collect();
            assert_eq!(doubled, expected);
        }
    }
}
