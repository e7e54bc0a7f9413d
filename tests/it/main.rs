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
mod cli_runs;
mod cli_tanka;
mod cli_tanka_fmt;
mod cli_tanka_lint;
mod cli_terminal;
mod code_channels;
mod commands;
mod connect_chapters;
mod shown_results;
mod shown_texts;
mod conformance;
mod context;
mod crash;
mod delivery;
mod dependencies;
mod channels_without_app;
mod unordered_delivery;
mod sent_files;
mod discord;
mod discord_forms;
mod discord_gateway;
mod discord_interactions;
mod discord_missed;
mod discord_people;
mod docs;
mod environments;
mod evaluation;
mod exports;
mod failures;
mod fallbacks;
mod fairness;
mod release_build;
mod hooks;
mod image;
mod ingress;
mod isolation;
mod sandbox;
mod schedules;
mod agent_steps;
#[cfg(target_os = "linux")]
mod linux;
mod steering;
mod stored_text;
mod linked_secrets;
mod long_answers;
mod map;
mod matrix;
mod merges;
mod messages;
mod mirrors;
mod model_output;
mod environment_moves;
mod object_format;
mod other_changes;
mod mutations;
mod no_apply;
mod other_systems;
mod outbox;
mod outputs;
mod packages;
mod packages_in_chat;
mod panics;
mod platform_schemas;
mod platforms;
mod postconditions;
mod questions;
mod queue;
mod evaluation_memo;
mod repository_choice;
mod request_size;
mod restarts;
mod retention;
mod runs;
mod result_buttons;
mod revisions;
mod revocation;
mod secret_pairs;
mod secrets;
mod slack_late_stops;
mod slack_sessions;
mod slack_streams;
mod slow_clients;
mod socket_mode;
mod unknown_senders;
mod third_party_models;
mod third_party_telegram;
mod style;
mod thread_members;
mod turn_reports;
