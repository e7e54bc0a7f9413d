//! Tests that only Linux can run.

mod charts;
mod folded_names;
mod folding;
mod full_output;
mod kernel;
mod missing_layers;
mod running_systemd;
mod server_process;
mod spooled_values;
mod storage;
mod systemd;
