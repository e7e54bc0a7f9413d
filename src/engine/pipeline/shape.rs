//! The JSON Schema of the file in a form that is fast to check: each part is compiled once.

use super::definition::EXPECTED_TEXTS;
use super::schema::snake_schema;
use regex::Regex;
use serde_json::Value;
use std::collections::HashMap;
use std::sync::LazyLock;

/// The number of a shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ShapeId(usize);

/// The values that a schema accepts.
#[derive(Clone, Debug)]
pub(super) enum Shape {
    /// A shape that is not compiled yet. None is left in the end.
    Pending,
    Boolean,
    Integer {
        min: i64,
        max: i64,
    },
    Text(TextShape),
    Words(Vec<String>),
    /// A text, a number or a boolean.
    Scalar {
        chars_max: usize,
        expected: String,
    },
    List {
        item: ShapeId,
        min: usize,
        max: usize,
    },
    Map(MapShape),
    Fields(FieldsShape),
    /// A text or a map.
    Either {
        text: ShapeId,
        map: ShapeId,
    },
}

/// A text.
#[derive(Clone, Debug)]
pub(super) struct TextShape {
    pub(super) pattern: Option<Regex>,
    pub(super) chars_min: usize,
    pub(super) chars_max: usize,
    /// The words after "expected".
    pub(super) expected: String,
}

/// A map whose keys the author chooses.
#[derive(Clone, Debug)]
pub(super) struct MapShape {
    pub(super) key: Regex,
    pub(super) value: ShapeId,
    pub(super) entries_max: usize,
    /// The words after "expected" for a key.
    pub(super) expected_key: String,
}

/// A map with known keys.
#[derive(Clone, Debug)]
pub(super) struct FieldsShape {
    pub(super) fields: HashMap<String, ShapeId>,
    pub(super) required: Vec<String>,
    /// Keys exactly one of which is required; may be empty.
    pub(super) alternatives: Vec<String>,
}

/// The compiled shapes.
#[derive(Debug)]
pub(super) struct Shapes {
    shapes: Vec<Shape>,
    root: ShapeId,
}

#[allow(
    clippy::expect_used,
    reason = "the schema is a constant of the program, and a test compiles it"
)]
static SHAPES: LazyLock<Shapes> =
    LazyLock::new(|| Shapes::compile(snake_schema()).expect("the schema of pipelines can be checked"));

impl Shapes {
    /// Returns the shapes of a file of pipelines.
    pub(super) fn of_file() -> &'static Self {
        &SHAPES
    }

    pub(super) fn root(&self) -> ShapeId {
        self.root
    }

    pub(super) fn get(&self, id: ShapeId) -> &Shape {
        &self.shapes[id.0]
    }

    fn compile(schema: &Value) -> Result<Self, String> {
        let mut compiler = ShapeCompiler {
            schema,
            shapes: Vec::new(),
            named: HashMap::new(),
        };
        let root = compiler.shape(schema)?;
        Ok(Self {
            shapes: compiler.shapes,
            root,
        })
    }
}

struct ShapeCompiler<'a> {
    schema: &'a Value,
    shapes: Vec<Shape>,
    named: HashMap<String, ShapeId>,
}

impl ShapeCompiler<'_> {
    fn shape(&mut self, schema: &Value) -> Result<ShapeId, String> {
        if let Some(reference) = schema["$ref"].as_str() {
            return self.definition(reference);
        }
        let id = self.reserve();
        let shape = self.compiled(schema)?;
        self.shapes[id.0] = shape;
        Ok(id)
    }

    fn reserve(&mut self) -> ShapeId {
        self.shapes.push(Shape::Pending);
        ShapeId(self.shapes.len() - 1)
    }

    fn definition(&mut self, reference: &str) -> Result<ShapeId, String> {
        if let Some(id) = self.named.get(reference) {
            return Ok(*id);
        }
        let pointer = reference.strip_prefix('#').unwrap_or(reference);
        let schema = self.schema.pointer(pointer).cloned();
        let schema = schema.ok_or_else(|| format!("no {reference}"))?;
        let id = self.reserve();
        self.named.insert(reference.to_owned(), id);
        let shape = self.compiled(&schema)?;
        self.shapes[id.0] = shape;
        Ok(id)
    }

    fn compiled(&mut self, schema: &Value) -> Result<Shape, String> {
        if let Some(words) = words(schema) {
            return Ok(Shape::Words(words));
        }
        if let Some(options) = schema["anyOf"].as_array() {
            return self.either(options);
        }
        let expected = schema["description"].as_str().unwrap_or("text").to_owned();
        let size = |word: &str, default: usize| number(schema, word).unwrap_or(default);
        Ok(match schema["type"].as_str() {
            Some("boolean") => Shape::Boolean,
            Some("integer") => Shape::Integer {
                min: schema["minimum"].as_i64().unwrap_or(0),
                max: schema["maximum"].as_i64().unwrap_or(i64::MAX),
            },
            Some("string") => Shape::Text(TextShape {
                pattern: schema["pattern"].as_str().map(regex).transpose()?,
                chars_min: size("minLength", 0),
                chars_max: size("maxLength", usize::MAX),
                expected,
            }),
            Some("array") => Shape::List {
                item: self.shape(&schema["items"])?,
                min: size("minItems", 0),
                max: size("maxItems", usize::MAX),
            },
            Some("object") => match schema["patternProperties"].as_object() {
                Some(patterns) => {
                    let (pattern, value) = patterns.iter().next().ok_or("no pattern of keys")?;
                    Shape::Map(MapShape {
                        key: regex(pattern)?,
                        value: self.shape(value)?,
                        expected_key: expected_key(pattern),
                        entries_max: size("maxProperties", usize::MAX),
                    })
                }
                None => Shape::Fields(self.fields(schema)?),
            },
            None if schema["type"].is_array() => Shape::Scalar {
                chars_max: size("maxLength", usize::MAX),
                expected,
            },
            _ => return Err(format!("an unknown form: {schema}")),
        })
    }

    fn either(&mut self, options: &[Value]) -> Result<Shape, String> {
        let (mut text, mut map) = (None, None);
        for option in options {
            let id = self.shape(option)?;
            match self.shapes[id.0] {
                Shape::Text(_) => text = Some(id),
                Shape::Fields(_) => map = Some(id),
                _ => return Err(format!("an unknown alternative: {option}")),
            }
        }
        match (text, map) {
            (Some(text), Some(map)) => Ok(Shape::Either { text, map }),
            _ => Err("alternatives of one type".to_owned()),
        }
    }

    fn fields(&mut self, schema: &Value) -> Result<FieldsShape, String> {
        let mut fields = HashMap::new();
        for (name, field) in schema["properties"].as_object().into_iter().flatten() {
            fields.insert(name.clone(), self.shape(field)?);
        }
        let required = schema["required"].as_array().into_iter().flatten();
        let alternatives = schema["oneOf"].as_array().into_iter().flatten();
        Ok(FieldsShape {
            fields,
            required: required.filter_map(Value::as_str).map(str::to_owned).collect(),
            alternatives: alternatives
                .filter_map(|option| option["required"][0].as_str())
                .map(str::to_owned)
                .collect(),
        })
    }
}

/// Returns the words of an enumeration.
fn words(schema: &Value) -> Option<Vec<String>> {
    let word = |value: &Value| value.as_str().map(str::to_owned);
    if let Some(words) = schema["enum"].as_array() {
        return words.iter().map(word).collect();
    }
    let options = schema["oneOf"].as_array()?;
    let words = options.iter().map(|option| match option["enum"].as_array() {
        Some(words) => words.iter().map(word).collect::<Option<Vec<_>>>(),
        None => Some(vec![word(&option["const"])?]),
    });
    Some(words.collect::<Option<Vec<_>>>()?.concat())
}

/// Returns the words for a key of this pattern.
fn expected_key(pattern: &str) -> String {
    let known = EXPECTED_TEXTS.iter().find(|(known, _)| *known == pattern);
    known.map_or_else(|| "a name".to_owned(), |(_, expected)| (*expected).to_owned())
}

fn number(schema: &Value, word: &str) -> Option<usize> {
    usize::try_from(schema[word].as_u64()?).ok()
}

fn regex(pattern: &str) -> Result<Regex, String> {
    Regex::new(pattern).map_err(|error| error.to_string())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn every_part_of_the_schema_can_be_checked() {
        let shapes = Shapes::compile(snake_schema()).unwrap();
        assert!(shapes.shapes.len() > 50, "{}", shapes.shapes.len());
        assert!(!shapes.shapes.iter().any(|shape| matches!(shape, Shape::Pending)));
        // Every list, map and text has a bound.
        for shape in &shapes.shapes {
            let bound = match shape {
                Shape::Text(text) => text.chars_max,
                Shape::List { max, .. } => *max,
                Shape::Map(map) => map.entries_max,
                _ => 0,
            };
            assert!(bound < usize::MAX, "{shape:?}");
        }
    }
}
