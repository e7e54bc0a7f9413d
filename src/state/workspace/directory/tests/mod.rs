//! The working directory as a tree. Each case runs twice: with the path resolution of this system, and component by
//! component as on a system without that call.

mod folded;
mod resolved;
mod walked;
