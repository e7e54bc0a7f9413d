//! The cases with paths resolved by this system.

use crate::state::workspace::{Directory, RepositoryError};
use std::path::Path;

fn open(start: &Path) -> Result<Directory, RepositoryError> {
    Directory::open(start)
}

#[path = "cases.rs"]
mod cases;
