//! The working directory as a tree: every case once as this system resolves paths, and once by walking, as a system without
//! such a call does.

mod folded;
mod resolved;
mod walked;
