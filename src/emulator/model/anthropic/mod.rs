//! Anthropic's Messages API.

pub(super) mod answer;
mod request;

pub(super) use answer::{error_body, stream, whole};
pub(super) use request::read;
