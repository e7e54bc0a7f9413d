//! Tests that only Linux can run.

mod folded_names;
mod folding;
mod kernel;
mod missing_layers;
