//! The function `nameFormat`: the subset of Go templates that names an object by its fields. Unsupported constructs are
//! refused by name.

use super::word_case;
use serde_json::Value;

/// Characters of a template.
const FORMAT_CHARS_MAX: usize = 4_096;
/// Nesting of parentheses.
const DEPTH_MAX: usize = 32;
/// Functions a template may call.
const FUNCTIONS: &str =
    "print, printf, snakecase, kebabcase, lower, upper, replace, trunc, trimPrefix, trimSuffix, default";

/// A parsed template.
#[derive(Debug, PartialEq)]
pub(super) struct NameTemplate(Vec<TemplatePiece>);

#[derive(Debug, PartialEq)]
enum TemplatePiece {
    Text(String),
    Pipeline(Pipeline),
}

/// Commands in a pipeline; each receives the output of the previous one.
type Pipeline = Vec<TemplateCall>;

#[derive(Debug, PartialEq)]
struct TemplateCall {
    function: Option<String>,
    arguments: Vec<Argument>,
}

#[derive(Debug, PartialEq)]
enum Argument {
    /// A field path such as `.a.b`; empty for the object itself.
    Field(Vec<String>),
    Text(String),
    Number(i64),
    Pipeline(Pipeline),
}

/// A value in a template; `None` if it does not exist.
type TemplateValue = Option<Value>;
type TemplateResult<T> = Result<T, String>;

impl NameTemplate {
    pub(super) fn parse(format: &str) -> TemplateResult<Self> {
        if format.chars().count() > FORMAT_CHARS_MAX {
            return Err(format!("nameFormat has more than {FORMAT_CHARS_MAX} characters"));
        }
        let mut pieces = Vec::new();
        let mut rest = format;
        while let Some((text, action)) = rest.split_once("{{") {
            let (action, after) = split_action(action).ok_or("nameFormat: `{{` without `}}`")?;
            let (trims_before, action) = match action.strip_prefix('-') {
                Some(action) if action.starts_with(char::is_whitespace) => (true, action),
                Some(_) | None => (false, action),
            };
            let (trims_after, action) = match action.strip_suffix('-') {
                Some(action) if action.ends_with(char::is_whitespace) => (true, action),
                Some(_) | None => (false, action),
            };
            let text = if trims_before { text.trim_end() } else { text };
            pieces.push(TemplatePiece::Text(text.to_owned()));
            pieces.push(TemplatePiece::Pipeline(
                ActionParser { rest: action }.parse_action()?,
            ));
            rest = if trims_after { after.trim_start() } else { after };
        }
        pieces.push(TemplatePiece::Text(rest.to_owned()));
        Ok(Self(pieces))
    }

    /// Returns the name of an object.
    pub(super) fn name(&self, object: &Value) -> TemplateResult<String> {
        let mut name = String::new();
        for piece in &self.0 {
            match piece {
                TemplatePiece::Text(text) => name.push_str(text),
                TemplatePiece::Pipeline(pipeline) => match evaluate_pipeline(pipeline, object)? {
                    None => name.push_str("<no value>"),
                    given => name.push_str(&text(&given)?),
                },
            }
        }
        Ok(name)
    }
}

/// Splits at the `}}` that ends an action. A string in the action may contain `}}`.
fn split_action(action: &str) -> Option<(&str, &str)> {
    let mut quote = None;
    let mut escaped = false;
    for (at, character) in action.char_indices() {
        match quote {
            None if action.get(at..)?.starts_with("}}") => {
                return Some((action.get(..at)?, action.get(at + 2..)?));
            }
            None if matches!(character, '"' | '`') => quote = Some(character),
            None => {}
            Some('"') if escaped => escaped = false,
            Some('"') if character == '\\' => escaped = true,
            Some(open) if open == character => quote = None,
            Some(_) => {}
        }
    }
    None
}

struct ActionParser<'a> {
    rest: &'a str,
}

impl ActionParser<'_> {
    fn parse_action(mut self) -> TemplateResult<Pipeline> {
        let pipeline = self.pipeline(0)?;
        match self.peek() {
            None => Ok(pipeline),
            Some(character) => Err(format!("nameFormat: unexpected `{character}`")),
        }
    }

    fn pipeline(&mut self, depth: usize) -> TemplateResult<Pipeline> {
        if depth > DEPTH_MAX {
            return Err("nameFormat nests too deeply".to_owned());
        }
        let mut commands = vec![self.command(depth)?];
        while self.peek() == Some('|') {
            self.take();
            commands.push(self.command(depth)?);
        }
        Ok(commands)
    }

    fn command(&mut self, depth: usize) -> TemplateResult<TemplateCall> {
        let mut command = TemplateCall {
            function: None,
            arguments: Vec::new(),
        };
        if self.peek().is_some_and(char::is_alphabetic) {
            command.function = Some(self.word());
        }
        while let Some(next) = self.peek() {
            let argument = match next {
                '|' | ')' => break,
                '.' => self.field()?,
                '"' | '`' => self.text()?,
                '(' => {
                    self.take();
                    let inner = self.pipeline(depth + 1)?;
                    match self.take() {
                        Some(')') => Argument::Pipeline(inner),
                        _ => return Err("nameFormat: `(` without `)`".to_owned()),
                    }
                }
                '-' | '0'..='9' => {
                    let digits = self.take_while(|character| character == '-' || character.is_ascii_digit());
                    let number = digits.parse();
                    Argument::Number(number.map_err(|_| format!("nameFormat: `{digits}` is not a number"))?)
                }
                other => return Err(format!("nameFormat: unexpected `{other}`")),
            };
            command.arguments.push(argument);
        }
        match (&command.function, command.arguments.len()) {
            (None, 0) => Err("nameFormat: something is missing in `{{ }}`".to_owned()),
            (None, 2..) => Err("nameFormat: a value is not a function".to_owned()),
            (None, _) | (Some(_), _) => Ok(command),
        }
    }

    fn field(&mut self) -> TemplateResult<Argument> {
        let path = self.take_while(|character| matches!(character, '.' | '_') || character.is_alphanumeric());
        let names = path.split('.').skip(1);
        match path.as_str() {
            "." => Ok(Argument::Field(Vec::new())),
            _ if names.clone().any(str::is_empty) => Err(format!("nameFormat: `{path}` is not a field")),
            _ => Ok(Argument::Field(names.map(str::to_owned).collect())),
        }
    }

    fn text(&mut self) -> TemplateResult<Argument> {
        let open = self.take();
        let mut text = String::new();
        loop {
            match self.next() {
                None => return Err("nameFormat: a text is not terminated".to_owned()),
                end if end == open => return Ok(Argument::Text(text)),
                Some('\\') if open == Some('"') => match self.next() {
                    Some('n') => text.push('\n'),
                    Some('t') => text.push('\t'),
                    Some(plain @ ('"' | '\\')) => text.push(plain),
                    _ => return Err("nameFormat: an escape is not supported".to_owned()),
                },
                Some(character) => text.push(character),
            }
        }
    }

    fn word(&mut self) -> String {
        self.take_while(|character| character == '_' || character.is_alphanumeric())
    }

    fn take_while(&mut self, belongs: impl Fn(char) -> bool) -> String {
        self.rest = self.rest.trim_start();
        let end = self.rest.find(|character| !belongs(character));
        let (word, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        self.rest = rest;
        word.to_owned()
    }

    fn peek(&mut self) -> Option<char> {
        self.rest = self.rest.trim_start();
        self.rest.chars().next()
    }

    fn take(&mut self) -> Option<char> {
        self.peek()?;
        self.next()
    }

    fn next(&mut self) -> Option<char> {
        let mut characters = self.rest.chars();
        let next = characters.next();
        self.rest = characters.as_str();
        next
    }
}

fn evaluate_pipeline(pipeline: &Pipeline, object: &Value) -> TemplateResult<TemplateValue> {
    let mut before: Option<TemplateValue> = None;
    for command in pipeline {
        let mut given = Vec::new();
        for argument in &command.arguments {
            given.push(match argument {
                Argument::Field(names) => field(object, names)?,
                Argument::Text(text) => Some(text.as_str().into()),
                Argument::Number(number) => Some((*number).into()),
                Argument::Pipeline(pipeline) => evaluate_pipeline(pipeline, object)?,
            });
        }
        let piped = before.take();
        if command.function.is_none() && piped.is_some() {
            return Err("nameFormat: a value is not a function".to_owned());
        }
        given.extend(piped);
        before = Some(match &command.function {
            None => given.into_iter().next().flatten(),
            Some(function) => Some(call(function, &given)?.into()),
        });
    }
    Ok(before.flatten())
}

fn field(object: &Value, names: &[String]) -> TemplateResult<TemplateValue> {
    let mut value = Some(object);
    for name in names {
        value = match value {
            Some(Value::Object(fields)) => fields.get(name),
            Some(_) | None => return Err(format!("nameFormat: there is nothing to look up `{name}` in")),
        };
    }
    Ok(value.cloned())
}

fn call(function: &str, given: &[TemplateValue]) -> TemplateResult<String> {
    let at = |index: usize| -> TemplateResult<String> {
        let value = given
            .get(index)
            .ok_or_else(|| format!("nameFormat: `{function}` needs more arguments"))?;
        text(value)
    };
    let takes = |count: usize| match given.len() == count {
        true => Ok(()),
        false => Err(format!(
            "nameFormat: `{function}` takes {count} arguments, not {}",
            given.len()
        )),
    };
    match (function, given.len()) {
        ("print", _) => return print(given),
        ("printf", 1..) => return printf(&at(0)?, given.get(1..).unwrap_or_default()),
        ("snakecase" | "kebabcase" | "lower" | "upper", _) => takes(1)?,
        ("replace", _) => takes(3)?,
        ("trunc" | "trimPrefix" | "trimSuffix" | "default", _) => takes(2)?,
        _ => {
            return Err(format!(
                "nameFormat: `{function}` is not supported; supported are {FUNCTIONS}"
            ));
        }
    }
    Ok(match function {
        "snakecase" => word_case::lowercase_words(&at(0)?, '_'),
        "kebabcase" => word_case::lowercase_words(&at(0)?, '-'),
        "lower" => at(0)?.to_lowercase(),
        "upper" => at(0)?.to_uppercase(),
        "replace" => at(2)?.replace(&at(0)?, &at(1)?),
        "trunc" => truncate(
            &at(1)?,
            given.first().and_then(|length| length.as_ref()?.as_i64()),
        )?,
        "trimPrefix" => {
            let text = at(1)?;
            text.strip_prefix(&at(0)?).map_or(text.clone(), str::to_owned)
        }
        "trimSuffix" => {
            let text = at(1)?;
            text.strip_suffix(&at(0)?).map_or(text.clone(), str::to_owned)
        }
        _ => match given.get(1) {
            Some(Some(value)) if !is_empty(value) => at(1)?,
            Some(_) | None => at(0)?,
        },
    })
}

/// Returns the beginning of a text, or its end if the length is negative.
fn truncate(text: &str, length: Option<i64>) -> TemplateResult<String> {
    let length = length.ok_or("nameFormat: `trunc` takes a number and a text")?;
    let count = usize::try_from(length.unsigned_abs()).unwrap_or(usize::MAX);
    Ok(match length < 0 {
        false => text.chars().take(count).collect(),
        true => {
            let all = text.chars().count();
            text.chars().skip(all.saturating_sub(count)).collect()
        }
    })
}

/// Prints values. As in Go, a space separates two values if neither is a text.
fn print(given: &[TemplateValue]) -> TemplateResult<String> {
    let is_text = |value: &TemplateValue| value.as_ref().is_some_and(Value::is_string);
    let mut out = String::new();
    for (index, value) in given.iter().enumerate() {
        let before = index.checked_sub(1).and_then(|before| given.get(before));
        if before.is_some_and(|before| !is_text(before) && !is_text(value)) {
            out.push(' ');
        }
        out.push_str(&text(value)?);
    }
    Ok(out)
}

fn printf(format: &str, given: &[TemplateValue]) -> TemplateResult<String> {
    let mut out = String::new();
    let mut values = given.iter();
    let mut characters = format.chars();
    while let Some(character) = characters.next() {
        match (character, character == '%') {
            (_, false) => out.push(character),
            (_, true) => match characters.next() {
                Some('%') => out.push('%'),
                Some('s' | 'v' | 'd') => {
                    let value = values.next().ok_or("nameFormat: `printf` needs more arguments")?;
                    out.push_str(&text(value)?);
                }
                other => {
                    let verb = other.map(String::from).unwrap_or_default();
                    return Err(format!(
                        "nameFormat: `%{verb}` is not supported; supported are %s, %v and %d"
                    ));
                }
            },
        }
    }
    match values.next() {
        None => Ok(out),
        Some(_) => Err("nameFormat: `printf` has more arguments than verbs".to_owned()),
    }
}

fn text(value: &TemplateValue) -> TemplateResult<String> {
    match value {
        None | Some(Value::Null) => Ok("<nil>".to_owned()),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(Value::Bool(value)) => Ok(value.to_string()),
        Some(Value::Number(number)) => Ok(number.to_string()),
        Some(Value::Array(_)) => Err("nameFormat: a list has no text".to_owned()),
        Some(Value::Object(_)) => Err("nameFormat: an object has no text".to_owned()),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Bool(true) => false,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::NameTemplate;
    use serde_json::json;

    fn name(format: &str) -> Result<String, String> {
        let object = json!({
            "kind": "ConfigMap",
            "metadata": { "name": "web-settings", "namespace": "apps", "generation": 3 },
            "list": [1],
        });
        NameTemplate::parse(format)?.name(&object)
    }

    #[test]
    fn names_are_made_as_go_makes_them() {
        for (format, expected) in [
            (
                "{{ print .kind \"_\" .metadata.name | snakecase }}",
                "config_map_web_settings",
            ),
            ("{{ print .metadata.namespace \"_\" .kind }}", "apps_ConfigMap"),
            ("{{.kind}}-{{.metadata.name}}", "ConfigMap-web-settings"),
            ("a  {{- .kind -}}  b", "aConfigMapb"),
            (
                "{{ printf \"%s/%d%%\" .kind .metadata.generation }}",
                "ConfigMap/3%",
            ),
            ("{{ print .metadata.generation .metadata.generation }}", "3 3"),
            ("{{ print .kind .metadata.labels }}", "ConfigMap<nil>"),
            ("{{ .metadata.labels }}", "<no value>"),
            ("{{ .metadata.labels | default \"none\" | upper }}", "NONE"),
            ("{{ (print .kind `}}` | lower) }}", "configmap}}"),
            ("{{ .metadata.name | replace \"-\" \"\\\"\" }}", "web\"settings"),
            (
                "{{ trunc 3 .metadata.name }}{{ trunc -3 .metadata.name }}",
                "webngs",
            ),
            ("{{ .kind | trimSuffix \"Map\" | trimPrefix \"Con\" }}", "fig"),
            ("{{ kebabcase .kind }}", "config-map"),
            ("plain", "plain"),
        ] {
            assert_eq!(name(format).as_deref(), Ok(expected), "{format}");
        }
    }

    #[test]
    fn what_is_not_known_is_refused_by_name() {
        for (format, expected) in [
            ("{{ env \"HOME\" }}", "`env` is not supported"),
            ("{{ if .kind }}x{{ end }}", "`if` is not supported"),
            ("{{ .metadata.labels.app }}", "nothing to look up `app` in"),
            ("{{ .metadata }}", "an object has no text"),
            ("{{ print .list }}", "a list has no text"),
            ("{{ .kind", "`{{` without `}}`"),
            ("{{ }}", "something is missing"),
            ("{{ .kind .kind }}", "is not a function"),
            ("{{ .kind | .kind }}", "is not a function"),
            ("{{ snakecase }}", "takes 1 arguments, not 0"),
            ("{{ printf \"%x\" 1 }}", "`%x` is not supported"),
            ("{{ printf \"%s\" }}", "needs more arguments"),
            ("{{ printf \"a\" 1 }}", "more arguments than verbs"),
            ("{{ \"a }}", "`{{` without `}}`"),
            ("{{ \"\\x\" }}", "an escape is not supported"),
            ("{{ (.kind }}", "`(` without `)`"),
            ("{{ .a..b }}", "is not a field"),
            ("{{ $x }}", "unexpected `$`"),
        ] {
            let error = name(format).unwrap_err();
            assert!(error.contains(expected), "{format}: {error}");
        }
        let deep = format!("{{{{ {} }}}}", "(".repeat(1_000));
        assert!(name(&deep).unwrap_err().contains("nests too deeply"));
    }
}
