//! Environments in the output format of `tk env list`.

use super::TankaError;
use super::environment::Environment;
use crate::base::model::one_line;

/// Number of spaces between two cells and after the last.
const PADDING: usize = 4;

/// Formats one line per environment: name, default namespace and cluster.
pub fn table(environments: &[Environment]) -> String {
    let header = ["NAME", "NAMESPACE", "SERVER"];
    let rows = environments.iter().map(|environment| {
        [
            one_line(&environment.metadata.name),
            one_line(&environment.spec.namespace),
            one_line(&environment.spec.api_server),
        ]
    });
    let rows: Vec<[String; 3]> = std::iter::once(header.map(str::to_owned)).chain(rows).collect();
    let widths = [0, 1, 2].map(|column| {
        let lengths = rows.iter().map(|row| row[column].chars().count());
        lengths.max().unwrap_or(0) + PADDING
    });
    let mut out = String::new();
    for row in rows {
        for (cell, width) in row.iter().zip(widths) {
            out.push_str(&format!("{cell:<width$}"));
        }
        out.push('\n');
    }
    out
}

/// Formats the environments as JSON on one line with a line feed, with fields in Tanka's order.
pub fn json(environments: &[Environment]) -> Result<String, TankaError> {
    let text = serde_json::to_string(environments).map_err(|err| TankaError::Internal(err.to_string()))?;
    // These characters occur only inside strings. Go escapes them so that browsers do not read them as markup.
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                out.push_str(&format!("\\u{:04x}", u32::from(character)));
            }
            _ => out.push(character),
        }
    }
    out.push('\n');
    Ok(out)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::{json, table};
    use crate::rendering::tanka::Environment;

    #[test]
    fn the_list_looks_as_that_of_tanka() {
        let mut environment = Environment::default();
        environment.metadata.name = "environments/basic".to_owned();
        environment.spec.namespace = "basic-ns".to_owned();
        environment.spec.api_server = "https://localhost:6443?a&b".to_owned();
        let environments = [environment];
        assert_eq!(
            table(&environments),
            "NAME                  NAMESPACE    SERVER                        \n\
             environments/basic    basic-ns     https://localhost:6443?a&b    \n"
        );
        let mut forged = environments.clone();
        forged[0].spec.namespace = "a\nprod    prod-ns".to_owned();
        assert_eq!(table(&forged).lines().count(), 2);
        assert_eq!(table(&[]), "NAME    NAMESPACE    SERVER    \n");
        assert!(json(&environments).unwrap().contains("6443?a\\u0026b"));
        assert_eq!(json(&[]).unwrap(), "[]\n");
    }
}
