//! Tests of all kinds of channels together.

mod any_json;
mod secret_pairs;
