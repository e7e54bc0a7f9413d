//! What only Linux can show.

mod kernel;
mod missing_layers;
