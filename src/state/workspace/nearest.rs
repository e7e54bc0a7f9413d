//! Existing paths that are similar to a missing path. They are a hint for the model, so the search is cheap and
//! bounded rather than exact.

use crate::base::model::{RepoPath, edit_distance_within};

/// Maximum number of paths in a hint.
const HINTS_MAX: usize = 3;
/// Maximum number of paths that are compared.
const FILES_MAX: usize = 50_000;
/// Maximum edit distance between two similar paths.
const DISTANCE_MAX: usize = 3;

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
            edit_distance_within(file.as_str(), asked.as_str(), DISTANCE_MAX).map(|letters| (letters, 1))
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
