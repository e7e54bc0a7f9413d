//! The parts that make a repository large: libraries of the applications, and files without importers.

use super::{APPS, app_file};
use std::fmt::Write as _;

/// Returns the files with `count` more libraries in `lib/parts`. Each application imports its share of them. Each
/// library imports the one before it and a layer that all share.
pub(crate) fn with_parts(files: Vec<(String, String)>, count: usize) -> Vec<(String, String)> {
    let mut files = files;
    for (path, content) in &mut files {
        if let Some(app) = (0..APPS).find(|app| *path == app_file(*app)) {
            let _ = writeln!(
                content,
                "+ {{ parts:: (import 'parts/app-{app}/main.libsonnet') }}"
            );
        }
    }
    for app in 0..APPS {
        let own: Vec<usize> = (0..count).filter(|part| part % APPS == app).collect();
        let mut main = "{\n".to_owned();
        for part in &own {
            let _ = writeln!(main, "  part_{part}: (import 'part-{part}.libsonnet'),");
        }
        main.push_str("}\n");
        files.push((format!("lib/parts/app-{app}/main.libsonnet"), main));
        files.extend(own.into_iter().map(|number| {
            (
                format!("lib/parts/app-{app}/part-{number}.libsonnet"),
                part(number),
            )
        }));
    }
    files
}

fn part(number: usize) -> String {
    let before = match number.checked_sub(APPS) {
        Some(before) => format!("local before = import 'part-{before}.libsonnet';\n"),
        None => "local before = { name(prefix):: prefix };\n".to_owned(),
    };
    let mut text = format!(
        "local util = import 'util.libsonnet';\n{before}{{\n  name(prefix):: before.name(prefix + '-{number}'),\n"
    );
    for line in 0..12 {
        let _ = writeln!(
            text,
            "  rule_{line}(config, value='{number}'):: {{ name: 'rule-{line}', config: config, value: value, enabled: std.length(value) > {line} }},"
        );
    }
    text.push_str("  util:: util,\n}\n");
    text
}

/// Returns `count` files that no environment imports: sources of services, documents, and packages deep below `vendor`.
pub(crate) fn around(count: usize) -> impl Iterator<Item = (String, String)> {
    (0..count).map(|number| {
        let path = match number % 3 {
            0 => format!(
                "services/team-{}/service-{}/src/module-{}/file-{number}.rs",
                number % 20,
                number % 300,
                number % 7
            ),
            1 => format!("docs/topic-{}/page-{number}.md", number % 150),
            _ => format!(
                "vendor/package-{}/grafana/dashboards/level-{}/more/deep/file-{number}.libsonnet",
                number % 200,
                number % 11
            ),
        };
        (path, format!("// {number}\n{{ number: {number} }}\n"))
    })
}

/// Returns a generated library in one file of at least `bytes` bytes.
pub(crate) fn large(bytes: usize) -> String {
    let mut text = "{\n  __version:: 'large',\n".to_owned();
    let mut number = 0;
    while text.len() < bytes {
        number += 1;
        let _ = writeln!(
            text,
            "  kind{number}:: {{\n    local kind = {{ kind: 'Kind{number}' }},\n    new(name='name'):: kind + {{ apiVersion: 'v1', metadata: {{ name: name }} }},\n    withLabels(labels):: {{ metadata+: {{ labels: labels }} }},\n    mixin:: {{ spec:: {{ withReplicas(replicas):: {{ spec+: {{ replicas: replicas }} }} }} }},\n  }},"
        );
    }
    text.push_str("}\n");
    text
}
