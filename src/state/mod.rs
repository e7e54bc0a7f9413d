//! Data on disk that Drydock owns, and the files that it works on.

pub mod store;
pub mod recording;
pub mod access;
pub mod workspace;
pub mod download;
