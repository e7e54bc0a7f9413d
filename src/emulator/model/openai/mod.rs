//! OpenAI's chat completions.

mod answer;
mod request;

pub(super) use answer::{error_body, stream, whole};
pub(super) use request::read;
