//! Reports unsupported systems in one sentence, before dependencies fail with many errors.
#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "this is how a build script and cargo speak to each other"
)]

/// The supported systems.
const SYSTEMS: [&str; 2] = ["linux", "macos"];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let system = std::env::var("CARGO_CFG_TARGET_OS").unwrap_or_default();
    if !SYSTEMS.contains(&system.as_str()) {
        println!("cargo::error=Drydock runs on Linux and macOS. Windows: use WSL 2.");
    }
}
