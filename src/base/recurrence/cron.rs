//! Cron expressions of five fields, as croner reads them.

use super::RecurrenceError;
use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};

/// Parses the five fields of an expression.
pub(super) fn parse(expression: &str) -> Result<Cron, RecurrenceError> {
    let parser = CronParser::builder()
        .seconds(Seconds::Disallowed)
        .year(Year::Disallowed)
        .build();
    parser.parse(expression).map_err(|error| {
        let shown: String = expression.chars().take(60).collect();
        let why = error.to_string();
        let why: String = why.trim_end_matches('.').chars().take(120).collect();
        RecurrenceError::Form(format!("`{shown}` is no cron expression: {why}"))
    })
}
