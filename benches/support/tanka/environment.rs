//! Applications, and the environments that use them: static ones with a `spec.json`, and inline ones.

use super::{APPS, app_file, directory};
use std::fmt::Write as _;

const COMPONENTS: [&str; 6] = ["web", "api", "worker", "cache", "gateway", "admin"];
const STAGES: [&str; 3] = ["dev", "staging", "prod"];

/// The style of an environment.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum EnvironmentStyle {
    /// The settings are in a `spec.json` beside the environment.
    Static,
    /// The environment is an object of kind `Environment`, with its settings.
    Inline,
}

/// Returns the style of an environment: every other one of an application is inline.
pub(crate) fn style(number: usize) -> EnvironmentStyle {
    match (number + number / APPS) % 2 {
        0 => EnvironmentStyle::Static,
        _ => EnvironmentStyle::Inline,
    }
}

/// Returns the number of components of an environment. Each is a deployment with the objects that belong to it.
pub(crate) fn components(number: usize) -> usize {
    components_of(number % APPS)
}

fn components_of(app: usize) -> usize {
    3 + app % 4
}

/// Returns the files of an environment with their paths.
pub(super) fn files(number: usize) -> Vec<(String, String)> {
    let directory = directory(number);
    let main = format!("{directory}/main.jsonnet");
    match style(number) {
        EnvironmentStyle::Static => vec![
            (main, format!("{}{}", imports(number), data(number, ""))),
            (format!("{directory}/spec.json"), settings(number)),
        ],
        EnvironmentStyle::Inline => vec![(main, inline(number))],
    }
}

/// Returns the code of `tanka.dev/environment` for an environment.
pub(crate) fn given(number: usize) -> String {
    match style(number) {
        EnvironmentStyle::Static => settings(number),
        EnvironmentStyle::Inline => "error 'the environment is written inline'".to_owned(),
    }
}

/// Returns the library of an application.
pub(super) fn application(app: usize) -> String {
    let mut out = format!(
        "// Application {app}: its components, and what is special about each.\n\
         local util = import 'util.libsonnet';\n\n\
         (import 'config.libsonnet') + {{\n  _config+:: {{\n    app: 'app-{app}',\n    port: {},\n  }},\n  local c = self._config,\n\n  boundary: util.boundary(c),\n",
        8_000 + app
    );
    for (component, name) in COMPONENTS.iter().enumerate().take(components_of(app)) {
        let _ = write!(
            out,
            "\n  {name}: util.component(c, '{name}-' + c.app, {{\n    LOG_LEVEL: c.logLevel,\n    PEERS: std.join(',', ['%s-%d.%s' % ['{name}', i, c.namespace] for i in std.range(0, c.replicas - 1)]),\n    FEATURE_{app}: std.toString(c.features),\n    CACHE_SIZE: '{}',\n  }}) + {{\n    deployment+: util.withBudget({}, '{}Mi'),\n  }},\n",
            64 * (component + 1),
            100 + 50 * component,
            128 << (app % 3),
        );
    }
    out.push_str("}\n");
    out
}

fn imports(number: usize) -> String {
    let app = app_file(number % APPS);
    let app = app.strip_prefix("lib/").unwrap();
    format!("local app = import '{app}';\nlocal k = import 'k.libsonnet';\n\n")
}

/// Returns the objects of an environment. Nested objects are indented further.
fn data(number: usize, indent: &str) -> String {
    let (cluster, stage, team) = (number % 7, STAGES[number % 3], number % 25);
    let (replicas, minor, rollout) = (1 + number % 6, number % 10, number % 100);
    let lines = format!(
        "app {{\n  _config+:: {{\n    cluster: 'cluster-{cluster}',\n    stage: '{stage}',\n    namespace: 'team-{team}-{number}',\n    replicas: {replicas},\n    image+: {{ tag: 'v1.{minor}.{number}' }},\n    features+: {{ rollout: {rollout} }},\n  }},\n\n  \
         namespace: k.core.v1.namespace.new($.{0}_config.namespace)\n             + k.core.v1.namespace.metadata.withLabelsMixin({{ stage: $.{0}_config.stage }}),\n}}\n",
        match indent {
            "" => "",
            _ => "data.",
        }
    );
    let lines = lines.lines().map(|line| match line {
        "" => "\n".to_owned(),
        line => format!("{indent}{line}\n"),
    });
    lines.collect::<String>().trim_start().to_owned()
}

fn inline(number: usize) -> String {
    let (cluster, team) = (number % 7, number % 25);
    let data = data(number, "  ");
    format!(
        "{}{{\n  apiVersion: 'tanka.dev/v1alpha1',\n  kind: 'Environment',\n  metadata: {{\n    name: '{}',\n  }},\n  spec: {{\n    apiServer: 'https://cluster-{cluster}.example.com:6443',\n    namespace: 'team-{team}-{number}',\n    resourceDefaults: {{ labels: {{ team: 'team-{team}' }} }},\n  }},\n  data: {},\n}}\n",
        imports(number),
        directory(number),
        data.trim_end(),
    )
}

fn settings(number: usize) -> String {
    let (cluster, team) = (number % 7, number % 25);
    format!(
        "{{\n  \"apiVersion\": \"tanka.dev/v1alpha1\",\n  \"kind\": \"Environment\",\n  \"metadata\": {{\n    \"name\": \"{}\"\n  }},\n  \"spec\": {{\n    \"apiServer\": \"https://cluster-{cluster}.example.com:6443\",\n    \"namespace\": \"team-{team}-{number}\",\n    \"resourceDefaults\": {{ \"labels\": {{ \"team\": \"team-{team}\" }} }}\n  }}\n}}\n",
        directory(number),
    )
}
