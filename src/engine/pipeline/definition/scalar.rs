//! Texts with a form: names, models, addresses, durations, conditions, and values that may refer to other values. The
//! pattern of each is a part of the JSON Schema, and a file is checked with it before a value is made.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use std::borrow::{Borrow, Cow};
use std::fmt;
use std::time::Duration;

/// Defines a text type with its pattern, and the words for "expected ..." in errors.
macro_rules! patterned_text {
    ($($(#[$about:meta])* $name:ident: $pattern:expr, $chars_max:literal, $expected:literal;)+) => {
        $(
            $(#[$about])*
            #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
            #[serde(transparent)]
            pub struct $name(String);

            impl $name {
                /// Returns the text.
                pub fn as_str(&self) -> &str {
                    &self.0
                }
            }

            impl Borrow<str> for $name {
                fn borrow(&self) -> &str {
                    &self.0
                }
            }

            impl fmt::Display for $name {
                fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    f.write_str(&self.0)
                }
            }

            impl JsonSchema for $name {
                fn schema_name() -> Cow<'static, str> {
                    stringify!($name).into()
                }

                fn json_schema(_: &mut SchemaGenerator) -> Schema {
                    text_schema($pattern, $chars_max, $expected)
                }
            }
        )+

        /// The patterns, with the words for "expected ..." in errors.
        pub(in crate::engine::pipeline) const EXPECTED_TEXTS: &[(&str, &str)] = &[$(($pattern, $expected)),+];
    };
}

fn text_schema(pattern: &str, chars_max: usize, expected: &str) -> Schema {
    json_schema!({ "type": "string", "pattern": pattern, "minLength": 1, "maxLength": chars_max, "description": expected })
}

/// Text without `${`.
const LITERAL_PATTERN: &str = r"^([^$]|\$+[^${])*\$*$";
/// Text without `${`, or exactly one reference.
const VALUE_PATTERN: &str = r"^(([^$]|\$+[^${])*\$*|\$\{(params\.[a-z][a-z0-9_]*|steps\.[a-z][a-z0-9_]*\.(output|status)|trigger\.[a-z][a-z0-9_]*)\})$";
/// A number of seconds, minutes or hours.
const TIME_PATTERN: &str = "^[1-9][0-9]{0,4}(s|m|h)$";

patterned_text! {
    /// The name of a pipeline.
    PipelineName: "^[a-z0-9]([a-z0-9-]{0,62}[a-z0-9])?$", 64, "lower-case letters, digits and `-` between them, at most 64";
    /// The name of a step, a parameter, a field or a tool of a definition.
    Identifier: "^[a-z][a-z0-9_]{0,63}$", 64, "a lower-case letter, then lower-case letters, digits and `_`, at most 64";
    /// The name of a tool of Drydock or of a definition.
    ToolName: "^[a-z][a-z0-9_]*$", 64, "the name of a tool, such as file_read";
    /// The name of an environment variable.
    VariableName: "^[A-Za-z_][A-Za-z0-9_]{0,127}$", 128, "the name of a variable, such as LOG_LEVEL";
    /// A container image.
    ImageName: "^[a-z0-9][A-Za-z0-9._/:@-]*$", 512, "an image, such as registry.example.com/tools/lint:1.2";
    /// A model with its provider.
    ModelReference: "^[a-z0-9][a-z0-9_-]*/[A-Za-z0-9][A-Za-z0-9._:/@-]*$", 200, "provider/model, such as anthropic/claude-sonnet-4-5";
    /// The address of a server.
    ServerUrl: "^(https://[A-Za-z0-9.-]+|http://(localhost|127\\.0\\.0\\.1))(:[0-9]{1,5})?(/[A-Za-z0-9._~/%-]*)?$", 512,
        "an https URL without user, query or fragment (http only to loopback)";
    /// A slash command.
    ChatCommand: "^/[a-z][a-z0-9_-]*$", 32, "a slash command, such as /review";
    /// A JSON pointer into a payload.
    PayloadPointer: "^(/([^/~]|~[01])*)+$", 256, "a JSON pointer, such as /pull_request/number";
    /// A target of replies.
    ReplyTarget: "^(github-comment|slack-response|channel:[A-Za-z0-9_-]+:[^:$\\s]+)$", 200,
        "github-comment, slack-response or channel:NAME:CHAT";
    /// A condition in the Common Expression Language.
    ConditionText: "\\S", 1_000, "a condition, such as params.environment == 'dev'";
    /// Text that no value is spliced into.
    LiteralText: LITERAL_PATTERN, 20_000, "text of 1 to 20,000 characters without `${`; give values as `params` or `values` instead";
}

/// Text, or exactly one reference to a value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum PipelineValue {
    /// The text itself.
    Literal(String),
    /// A reference to a value.
    Reference(ValueReference),
}

/// A reference to a value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ValueReference {
    /// `${params.NAME}`
    Parameter(String),
    /// `${steps.NAME.output}`
    StepOutput(String),
    /// `${steps.NAME.status}`
    StepStatus(String),
    /// `${trigger.FIELD}`
    Trigger(String),
}

impl ValueReference {
    /// Returns the reference that is the whole text, if it is one.
    pub fn parse(text: &str) -> Option<Self> {
        let inner = text.strip_prefix("${")?.strip_suffix('}')?;
        let mut parts = inner.split('.');
        let reference = match (parts.next()?, parts.next()?, parts.next()) {
            ("params", name, None) => Self::Parameter(name.to_owned()),
            ("trigger", name, None) => Self::Trigger(name.to_owned()),
            ("steps", name, Some("output")) => Self::StepOutput(name.to_owned()),
            ("steps", name, Some("status")) => Self::StepStatus(name.to_owned()),
            _ => return None,
        };
        parts.next().is_none().then_some(reference)
    }
}

impl fmt::Display for ValueReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Parameter(name) => write!(f, "${{params.{name}}}"),
            Self::StepOutput(name) => write!(f, "${{steps.{name}.output}}"),
            Self::StepStatus(name) => write!(f, "${{steps.{name}.status}}"),
            Self::Trigger(name) => write!(f, "${{trigger.{name}}}"),
        }
    }
}

impl From<String> for PipelineValue {
    fn from(text: String) -> Self {
        match ValueReference::parse(&text) {
            Some(reference) => Self::Reference(reference),
            None => Self::Literal(text),
        }
    }
}

impl From<PipelineValue> for String {
    fn from(value: PipelineValue) -> Self {
        value.to_string()
    }
}

impl fmt::Display for PipelineValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Literal(text) => f.write_str(text),
            Self::Reference(reference) => reference.fmt(f),
        }
    }
}

impl JsonSchema for PipelineValue {
    fn schema_name() -> Cow<'static, str> {
        "PipelineValue".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string", "pattern": VALUE_PATTERN, "maxLength": 20_000,
            "description": "text without `${`, or exactly ${params.NAME}, ${steps.NAME.output}, ${steps.NAME.status} or ${trigger.FIELD}",
        })
    }
}

/// A duration, written as `30s`, `10m` or `2h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TimeLimit(Duration);

impl TimeLimit {
    /// Creates a limit of some seconds.
    pub const fn from_seconds(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }

    /// Returns the duration.
    pub fn duration(self) -> Duration {
        self.0
    }
}

impl TryFrom<String> for TimeLimit {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        const EXPECTED: &str = "expected a duration, such as 30s, 10m or 2h";
        let units = [('s', 1), ('m', 60), ('h', 3_600)];
        let seconds = units.iter().find_map(|(unit, seconds)| {
            let number: u64 = text.strip_suffix(*unit)?.parse().ok()?;
            number.checked_mul(*seconds)
        });
        seconds.map(Self::from_seconds).ok_or(EXPECTED)
    }
}

impl From<TimeLimit> for String {
    fn from(limit: TimeLimit) -> Self {
        limit.to_string()
    }
}

impl fmt::Display for TimeLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        match seconds {
            _ if seconds > 0 && seconds.is_multiple_of(3_600) => write!(f, "{}h", seconds / 3_600),
            _ if seconds > 0 && seconds.is_multiple_of(60) => write!(f, "{}m", seconds / 60),
            _ => write!(f, "{seconds}s"),
        }
    }
}

impl JsonSchema for TimeLimit {
    fn schema_name() -> Cow<'static, str> {
        "TimeLimit".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        text_schema(TIME_PATTERN, 6, "a duration, such as 30s, 10m or 2h")
    }
}

/// A text, a number or a boolean.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ScalarValue {
    /// `true` or `false`.
    Boolean(bool),
    /// A whole number.
    Integer(i64),
    /// A number.
    Number(f64),
    /// Text.
    Text(String),
}

impl fmt::Display for ScalarValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Boolean(value) => value.fmt(f),
            Self::Integer(value) => value.fmt(f),
            Self::Number(value) => value.fmt(f),
            Self::Text(value) => f.write_str(value),
        }
    }
}

impl JsonSchema for ScalarValue {
    fn schema_name() -> Cow<'static, str> {
        "ScalarValue".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": ["string", "number", "boolean"], "maxLength": 1_000,
            "description": "a text, a number, true or false",
        })
    }
}
