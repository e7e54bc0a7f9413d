//! The path of a field in an object: `spec.template.spec.containers[name=web].image`.

/// A step into an object.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum FieldStep {
    /// A field of a map.
    Field(String),
    /// The list item with this value in its merge key.
    Keyed { key: &'static str, value: String },
    /// The list item at this position, counted from 0.
    Item(usize),
}

/// Formats the steps as text. Ambiguous names are quoted.
pub(super) fn format_path(steps: &[FieldStep]) -> String {
    let mut out = String::new();
    for step in steps {
        match step {
            FieldStep::Field(name) if is_plain(name) => {
                if !out.is_empty() {
                    out.push('.');
                }
                out.push_str(name);
            }
            FieldStep::Field(name) => out.push_str(&format!("[{}]", quoted(name))),
            FieldStep::Keyed { key, value } if is_plain(value) => out.push_str(&format!("[{key}={value}]")),
            FieldStep::Keyed { key, value } => out.push_str(&format!("[{key}={}]", quoted(value))),
            FieldStep::Item(position) => out.push_str(&format!("[{position}]")),
        }
    }
    out
}

fn is_plain(name: &str) -> bool {
    !name.is_empty()
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
}

fn quoted(name: &str) -> String {
    serde_json::Value::from(name).to_string()
}

#[cfg(test)]
mod tests {
    use super::{FieldStep, format_path};

    #[test]
    fn a_path_reads_as_people_write_it() {
        let field = |name: &str| FieldStep::Field(name.to_owned());
        let web = FieldStep::Keyed {
            key: "name",
            value: "web".to_owned(),
        };
        assert_eq!(
            format_path(&[
                field("spec"),
                field("containers"),
                web,
                field("args"),
                FieldStep::Item(2)
            ]),
            "spec.containers[name=web].args[2]"
        );
        let label = [
            field("metadata"),
            field("labels"),
            field("app.kubernetes.io/name"),
        ];
        assert_eq!(
            format_path(&label),
            r#"metadata.labels["app.kubernetes.io/name"]"#
        );
        assert_eq!(format_path(&[field("a]\n.b")]), r#"["a]\n.b"]"#);
    }
}
