//! The generated library in `vendor`, in the files and the format of its real generator: a documented function for
//! every field.

use super::documentation::help;
use super::kinds::{self, FieldShape, KindField, LibraryKind};
use std::fmt::Write as _;

/// Returns the files of the library with their paths.
pub(super) fn files() -> Vec<(String, String)> {
    let kinds = kinds::all();
    let mut groups: Vec<(&str, &str)> = kinds.iter().map(|kind| (kind.group, kind.version)).collect();
    groups.dedup();
    let mut files = Vec::new();
    let mut main = "{\n  local d = (import 'doc-util/main.libsonnet'),\n  '#':: d.pkg(name='k8s', url='example.com/k8s', help='The kinds of a cluster, generated.'),\n".to_owned();
    for (group, version) in groups {
        let _ = writeln!(main, "  {group}:: (import '_gen/{group}/main.libsonnet'),");
        files.push((
            format!("vendor/k8s/_gen/{group}/main.libsonnet"),
            format!(
                "{{\n  local d = (import 'doc-util/main.libsonnet'),\n  '#':: d.pkg(name='{group}', url='', help=''),\n  {version}: (import '{version}/main.libsonnet'),\n}}\n"
            ),
        ));
        let mut of_version = format!(
            "{{\n  local d = (import 'doc-util/main.libsonnet'),\n  '#':: d.pkg(name='{version}', url='', help=''),\n"
        );
        for kind in kinds
            .iter()
            .filter(|kind| kind.group == group && kind.version == version)
        {
            let file = kind.file;
            let _ = writeln!(of_version, "  {file}: (import '{file}.libsonnet'),");
            files.push((
                format!("vendor/k8s/_gen/{group}/{version}/{file}.libsonnet"),
                source(kind),
            ));
        }
        of_version.push_str("}\n");
        files.push((
            format!("vendor/k8s/_gen/{group}/{version}/main.libsonnet"),
            of_version,
        ));
    }
    main.push_str("}\n");
    files.push(("vendor/k8s/main.libsonnet".to_owned(), main));
    files
}

fn source(kind: &LibraryKind) -> String {
    let LibraryKind {
        group, version, file, ..
    } = kind;
    let mut out = format!(
        "{{\n  local d = (import 'doc-util/main.libsonnet'),\n  '#':: d.pkg(name='{file}', url='', help='\"{file} of {group}/{version} describes what its name says, as the cluster stores it.\"'),\n"
    );
    write_fields(&mut out, &kind.fields, &mut Vec::new());
    if let Some(name) = kind.name {
        let api = match *group {
            "core" => (*version).to_owned(),
            group => format!("{}/{version}", group_name(group)),
        };
        let _ = write!(
            out,
            "  '#new':: d.fn(help='new returns an instance of {name}', args=[d.arg(name='name', type=d.T.string)]),\n  \
             new(name): {{\n    apiVersion: '{api}',\n    kind: '{name}',\n  }} + self.metadata.withName(name=name),\n"
        );
    }
    out.push_str("  '#mixin': 'ignore',\n  mixin: self,\n}\n");
    out
}

fn group_name(group: &str) -> &str {
    match group {
        "coordination" => "coordination.k8s.io",
        "networking" => "networking.k8s.io",
        "rbac" => "rbac.authorization.k8s.io",
        "scheduling" => "scheduling.k8s.io",
        "storage" => "storage.k8s.io",
        group => group,
    }
}

fn write_fields(out: &mut String, fields: &[KindField], above: &mut Vec<&'static str>) {
    for field in fields {
        let name = field.name;
        let listed = format!("if std.isArray(v={name}) then {name} else [{name}]");
        match &field.shape {
            FieldShape::Text => function(out, field, above, "string", ("", &format!(": {name}"))),
            FieldShape::Number => function(out, field, above, "integer", ("", &format!(": {name}"))),
            FieldShape::Boolean => function(out, field, above, "boolean", ("", &format!(": {name}"))),
            FieldShape::List => {
                function(out, field, above, "array", ("", &format!(": {listed}")));
                function(out, field, above, "array", ("Mixin", &format!("+: {listed}")));
            }
            FieldShape::Map => {
                function(out, field, above, "object", ("", &format!(": {name}")));
                function(out, field, above, "object", ("Mixin", &format!("+: {name}")));
            }
            FieldShape::Object(below) => {
                let indent = "  ".repeat(above.len() + 1);
                let help = help(field, above);
                let _ = writeln!(
                    out,
                    "{indent}'#{name}':: d.obj(help='\"{help}\"'),\n{indent}{name}: {{"
                );
                above.push(name);
                write_fields(out, below, above);
                above.pop();
                let _ = writeln!(out, "{indent}}},");
            }
        }
    }
}

/// Returns the function that sets a field, or adds to it, with its documentation.
fn function(
    out: &mut String,
    field: &KindField,
    above: &[&'static str],
    kind: &str,
    (suffix, value): (&str, &str),
) {
    let name = field.name;
    let indent = "  ".repeat(above.len() + 1);
    let mut letters = name.chars();
    let first = letters.next().map(|first| first.to_ascii_uppercase());
    let title: String = first.into_iter().chain(letters).collect();
    let note = match suffix {
        "" => "",
        _ => "\\n\\n**Note:** adds to what is there already.",
    };
    let set = above
        .iter()
        .rev()
        .fold(format!("{{ {name}{value} }}"), |inside, name| {
            format!("{{ {name}+: {inside} }}")
        });
    let help = help(field, above);
    let _ = write!(
        out,
        "{indent}'#with{title}{suffix}':: d.fn(help='\"{help}\"{note}', args=[d.arg(name='{name}', type=d.T.{kind})]),\n\
         {indent}with{title}{suffix}({name}): {set},\n"
    );
}
