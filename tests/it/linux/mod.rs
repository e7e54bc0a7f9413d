//! Tests of what only Linux can show.

mod folded_names;
mod folding;
mod kernel;
mod missing_layers;
