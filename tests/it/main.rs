//! The one integration binary: one link step, one place for what the tests share.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::string_slice,
    clippy::disallowed_methods,
    reason = "a test says what it expects by failing, and may look at the machine it runs on"
)]

mod support;

mod acceptance;
mod admission;
mod ahead;
mod authority;
mod batch;
mod cards;
mod chart_dependencies;
mod charts;
mod charts_in_chat;
mod cli_admin;
mod cli_ask;
mod cli_charts;
mod cli_chat;
mod cli_check;
mod cli_demo;
mod cli_help;
mod cli_outbox;
mod cli_places;
mod cli_serve;
mod cli_tanka;
mod cli_tanka_fmt;
mod cli_tanka_lint;
mod cli_terminal;
mod commands;
mod conformance;
mod crash;
mod delivery;
mod dependencies;
mod elsewhere;
mod disorder;
mod docs;
mod environments;
mod evaluation;
mod failures;
mod fairness;
mod for_use;
mod hooks;
mod image;
mod ingress;
mod isolation;
mod jail;
#[cfg(target_os = "linux")]
mod linux;
mod kept_words;
mod linked_secrets;
mod long_answers;
mod map;
mod matrix;
mod mirrors;
mod model_output;
mod moves;
mod object_format;
mod mutations;
mod no_apply;
mod other_systems;
mod outbox;
mod packages;
mod packages_in_chat;
mod panics;
mod platforms;
mod postconditions;
mod queue;
mod remembered;
mod request_size;
mod restarts;
mod retention;
mod revocation;
mod secrets;
mod slow_clients;
mod strangers;
mod strangers_models;
mod strangers_telegram;
mod style;
mod told;
