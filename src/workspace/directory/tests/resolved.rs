//! Paths are resolved as this system does it.

use crate::workspace::{Directory, RepositoryError};
use std::path::Path;

fn open(start: &Path) -> Result<Directory, RepositoryError> {
    Directory::open(start)
}

#[path = "cases.rs"]
mod cases;
