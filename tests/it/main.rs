//! The only integration test binary: one link step, and one place for the shared support.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::string_slice,
    clippy::disallowed_methods,
    reason = "a test says what it expects by failing, and may look at the machine it runs on"
)]

mod support;
#[allow(dead_code, reason = "nobody measures a peak here")]
#[cfg_attr(target_os = "linux", path = "../dojo/memory/linux.rs")]
#[cfg_attr(target_os = "macos", path = "../dojo/memory/macos.rs")]
mod memory;

mod acceptance;
mod api;
mod app_home;
mod admission;
mod attachments;
mod prerender;
mod authority;
mod batch;
mod bots;
mod budgets;
mod cards;
mod drafts;
mod ephemeral_commands;
mod channel_conformance;
mod chart_dependencies;
mod charts;
mod charts_in_chat;
mod cli_admin;
mod cli_ask;
mod cli_auth;
mod cli_channels;
mod cli_charts;
mod cli_chat;
mod cli_chat_session;
mod cli_check;
mod cli_completions;
mod cli_demo;
mod cli_discord;
mod cli_doctor;
mod cli_global_options;
mod cli_help;
mod cli_init;
mod cli_invite;
mod cli_login;
mod cli_models;
mod cli_outbox;
mod cli_pipeline;
mod cli_prompt;
mod cli_pull;
mod cli_pull_refusals;
mod cli_questions;
mod cli_error_locations;
mod cli_screen;
mod cli_screen_commands;
mod cli_secrets;
mod cli_serve;
mod cli_service;
mod cli_slack;
mod cli_steering;
mod cli_stops;
mod cli_resume;
mod cli_review;
mod cli_review_files;
mod cli_review_stops;
mod cli_run;
