//! The shared support of the tests.

pub(crate) mod app;
pub(crate) mod built;
pub(crate) mod discord;
pub(crate) mod evaluation;
pub(crate) mod file_host;
pub(crate) mod git_server;
pub(crate) mod hostile;
pub(crate) mod json_schema;
pub(crate) mod log;
pub(crate) mod machine;
pub(crate) mod packed_chart;
pub(crate) mod phone;
pub(crate) mod relay;
pub(crate) mod require;
pub(crate) mod schemas;
pub(crate) mod screen;
pub(crate) mod shell;
pub(crate) mod sign;
pub(crate) mod source;
pub(crate) mod third_party_emulator;
pub(crate) mod telegram_proxy;
pub(crate) mod world;
