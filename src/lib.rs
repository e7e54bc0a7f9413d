//! Drydock prepares changes to configuration repositories on request, and never applies them.
//!
//! # Embedding
//!
//! A program of your own can use the loop of models and tools without the gateway: see [`engine::bot`]. It supplies a
//! [`Messenger`](engine::bot::Messenger) and a [`BotBehaviour`](engine::bot::BotBehaviour), which decides who may ask.
//! [`function_tool`](interfaces::tool::function_tool) makes a tool from a function, and a
//! [`ContextStrategy`](engine::agent::context::ContextStrategy) decides what a model sees of a long conversation. The folder
//! `examples/` has a program for each.
//!
//! ```no_run
//! use drydock::engine::bot::{Bot, BotOptions};
//! # async fn example(options: BotOptions) -> Result<(), drydock::engine::bot::BotError> {
//! Bot::new(options)
//!     .run(&tokio_util::sync::CancellationToken::new())
//!     .await
//! # }
//! ```
//!
//! # Modules
//!
//! Each folder is a layer. The layers, and the modules of each, are listed in reading order, which is dependency order: a
//! module uses only modules above it, and `tests/it/map.rs` checks that. To follow one message, start with
//! [`engine::gateway`].

// Active only in test builds with deliberate crashes.
mod crash_point;
mod planted;

pub mod base;
pub mod state;
pub mod rendering;
pub mod interfaces;
pub mod engine;
pub mod server;
pub mod simulation;
pub mod cli;
