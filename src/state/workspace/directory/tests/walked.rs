//! The cases with paths resolved component by component.

use crate::state::workspace::directory::handle::{Handle, PathResolution};
use crate::state::workspace::{Directory, RepositoryError};
use std::path::Path;

fn open(start: &Path) -> Result<Directory, RepositoryError> {
    Directory::open_by(|root| Handle::open_with(PathResolution::Walk, root), start)
}

#[allow(clippy::duplicate_mod, reason = "the same cases, with the other resolution")]
#[path = "cases.rs"]
mod cases;
