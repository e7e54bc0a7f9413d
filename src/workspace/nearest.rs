//! Existing paths that are similar to a missing path. They are a hint for the model, so the search is cheap and
//! bounded rather than exact.

use crate::model::RepoPath;

/// Maximum number of paths in a hint.
const HINTS_MAX: usize = 3;
/// Maximum number of paths that are compared.
const FILES_MAX: usize = 50_000;
/// Maximum edit distance between two similar paths.
const DISTANCE_MAX: usize = 3;
/// Maximum length of a path that is compared letter by letter, in bytes.
const COMPARED_BYTES_MAX: usize = 200;

/// Returns up to three similar paths: first those with the same file name, ordered by the number of matching
/// directories, then those with a small edit distance.
pub(super) fn nearest(files: &[RepoPath], asked: &RepoPath) -> Vec<RepoPath> {
    let mut ranked: Vec<(usize, usize, &RepoPath)> = Vec::new();
    for file in files.iter().take(FILES_MAX) {
        let rank = if file.file_name() == asked.file_name() {
            let file_parts = file.as_str().split('/').count();
            Some((
                file_parts.abs_diff(asked.as_str().split('/').count()) + unlike(file, asked),
                0,
            ))
        } else {
            distance(file.as_str().as_bytes(), asked.as_str().as_bytes()).map(|letters| (letters, 1))
        };
        if let Some((rank, kind)) = rank {
            ranked.push((rank, kind, file));
            // Keeps enough candidates for the best ones without keeping every `main.jsonnet` of a large repository.
            if ranked.len() > 256 {
                ranked.sort();
                ranked.truncate(HINTS_MAX);
            }
        }
    }
    ranked.sort();
    ranked
        .into_iter()
        .take(HINTS_MAX)
        .map(|(_, _, path)| path.clone())
        .collect()
}

/// Returns the number of directories of the requested path that the file's path lacks.
fn unlike(file: &RepoPath, asked: &RepoPath) -> usize {
    asked
        .as_str()
        .split('/')
        .filter(|part| !file.as_str().split('/').any(|other| other == *part))
        .count()
}

/// Returns the edit distance if it is small.
fn distance(one: &[u8], other: &[u8]) -> Option<usize> {
    if one.len().abs_diff(other.len()) > DISTANCE_MAX || one.len().max(other.len()) > COMPARED_BYTES_MAX {
        return None;
    }
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (index, letter) in one.iter().enumerate() {
        let mut next = Vec::with_capacity(row.len());
        let mut left = index + 1;
        next.push(left);
        for (pair, theirs) in row.windows(2).zip(other) {
            let [diagonal, above] = pair else { continue };
            left = (above + 1)
                .min(left + 1)
                .min(diagonal + usize::from(letter != theirs));
            next.push(left);
        }
        if next.iter().min().is_some_and(|least| *least > DISTANCE_MAX) {
            return None;
        }
        row = next;
    }
    row.last().copied().filter(|letters| *letters <= DISTANCE_MAX)
}
