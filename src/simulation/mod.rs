//! Stand-ins for the platforms and models, and the demo that runs the product with them. The server uses none of it.

pub mod emulator;
pub mod demo;
