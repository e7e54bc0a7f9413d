//! Stand-ins for the platforms and models, and the demo that runs the product with them. The product uses none of it.

pub mod emulator;
pub mod demo;
