//! `tanka_show`: renders one environment to Kubernetes objects, as YAML.

use super::ToolError;
use super::adapter::{ToolBody, ToolFunction};
use super::arguments::ToolArguments;
use super::rendering::RenderingContext;
use crate::base::model::Effect;
use crate::rendering::inspect::{self, EnvironmentView};
use crate::rendering::jsonnet::CrossCheckMode;
use crate::rendering::tanka::{Filter, RenderedEnvironment, Target};
use schemars::JsonSchema;
use serde::Deserialize;

pub(super) struct TankaShow;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TankaShowArguments {
    /// Directory or name of the environment, such as `environments/dev`.
    env_path: String,
    /// Name of the environment, where one file holds several.
    #[serde(default)]
    name: Option<String>,
    /// Show only objects that match one of these expressions over `Kind/name`, such as `deployment/web-.*`.
    #[serde(default)]
    include: Vec<String>,
    /// Leave out objects that match one of these expressions over `Kind/name`.
    #[serde(default)]
    exclude: Vec<String>,
}

impl ToolArguments for TankaShowArguments {
    const SUBJECT: Option<&'static str> = Some("env_path");
    const ALIASES: &'static [(&'static str, &'static str)] = &[
        ("path", "env_path"),
        ("env", "env_path"),
        ("environment", "env_path"),
    ];
}

impl ToolBody for TankaShow {
    type Arguments = TankaShowArguments;
    type CallContext = RenderingContext;

    const NAME: &'static str = "tanka_show";
    const DESCRIPTION: &'static str = "Renders an environment from the files of this workspace and shows its Kubernetes objects as YAML, \
                                       cross-checked by a second engine. The values of Secrets are hidden.";
    const EFFECT: Effect = Effect::Read;
    const EXAMPLES: &'static [&'static str] = &[r#"{"env_path":"environments/dev"}"#];
    const COMMAND: Option<&'static str> = Some("tanka env show");
    const RUN: ToolFunction<Self> =
        ToolFunction::Async(|context, arguments| Box::pin(run(context, arguments)));
}

async fn run(context: &RenderingContext, arguments: TankaShowArguments) -> Result<String, ToolError> {
    let RenderingContext {
        renderer,
        tree,
        cancel,
    } = context;
    let TankaShowArguments {
        env_path,
        name,
        include,
        exclude,
    } = arguments;
    let filter = Filter::new(&include, &exclude)?;
    let target = Target {
        name,
        cross_check: CrossCheckMode::On,
        ..Target::from_path(env_path)
    };
    let rendered = inspect::render_and_learn(renderer, tree, &target, &filter, cancel).await?;
    Ok(shown(&rendered))
}

fn shown(rendered: &RenderedEnvironment) -> String {
    let EnvironmentView {
        heading,
        cross_check,
        warnings,
        yaml,
    } = inspect::environment_view(rendered);
    let warnings: String = warnings.iter().map(|warning| format!("# {warning}\n")).collect();
    format!("# {heading}\n# {cross_check}\n{warnings}{yaml}")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::TankaShow;
    use crate::interfaces::tool::ToolError;
    use crate::interfaces::tool::rendering::testing::call;
    use crate::interfaces::tool::testing::{failure, paths_outside};
    use serde_json::{Value, json};

    const MAIN: &str = r#"{
        "s": {"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"},"data":{"token":"aHVudGVyMg=="},"stringData":{"n":1}},
        "d": {"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web"},"spec":{"replicas":1000000}}
    }"#;

    async fn show(arguments: Value) -> Result<String, ToolError> {
        let files = [
            ("tkrc.yaml", ""),
            ("environments/dev/main.jsonnet", MAIN),
            (
                "environments/dev/spec.json",
                r#"{"spec":{"namespace":"dev"},"team":"ops"}"#,
            ),
        ];
        call::<TankaShow>(&files, arguments).await
    }

    /// TK-39
    #[tokio::test]
    async fn objects_are_shown_with_whole_numbers_and_without_secrets() {
        let shown = show(json!({ "path": "environments/dev" })).await.unwrap();
        assert_eq!(
            shown,
            "# `environments/dev`: 2 objects\n\
             # Cross-checked: a second engine has the same value.\n\
             # Warning: `team` is deprecated, use `metadata.labels.team` instead.\n\
             apiVersion: v1\ndata:\n  token: (hidden)\nkind: Secret\nmetadata:\n  name: s\n  namespace: dev\n\
             stringData:\n  \"n\": (hidden)\n---\n\
             apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: web\n  namespace: dev\nspec:\n  replicas: 1000000\n"
        );
    }

    /// T56: a `Secret` is redacted at any place: in a template, inside another object, in the annotation of
    /// `kubectl apply`.
    #[tokio::test]
    async fn a_secret_inside_another_object_is_hidden_too() {
        let inner = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "inner" }, "stringData": { "password": "hunter2" } });
        let metadata = |name: &str| json!({ "name": name });
        let applied = json!({ "kubectl.kubernetes.io/last-applied-configuration": inner.to_string() });
        let objects = json!({
            "template": { "apiVersion": "template.openshift.io/v1", "kind": "Template", "metadata": metadata("t"), "objects": [inner] },
            "crossplane": { "apiVersion": "kubernetes.crossplane.io/v1alpha1", "kind": "Object", "metadata": metadata("o"),
                "spec": { "forProvider": { "manifest": inner } } },
            "applied": { "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "s", "annotations": applied },
                "data": { "password": "aHVudGVyMg==" } },
        });
        let main = objects.to_string();
        let files = [
            ("tkrc.yaml", ""),
            ("environments/dev/main.jsonnet", main.as_str()),
            ("environments/dev/spec.json", "{}"),
        ];
        let shown = call::<TankaShow>(&files, json!({ "env_path": "environments/dev" }))
            .await
            .unwrap();
        assert!(shown.starts_with("# `environments/dev`: 3 objects"), "{shown}");
        assert!(
            !shown.contains("hunter2") && !shown.contains("aHVudGVyMg"),
            "{shown}"
        );
        assert_eq!(shown.matches("(hidden)").count(), 4, "{shown}");
    }

    /// An invalid object may still contain a secret.
    #[tokio::test]
    async fn an_invalid_object_is_reported_without_its_content() {
        for main in [
            r#"{"s": {"apiVersion":"v1","kind":"Secret","metadata":{},"stringData":{"token":"hunter2"}}}"#,
            r#"{"s": {"kind":"Secret","stringData":{"token":"hunter2"}}}"#,
        ] {
            let files = [
                ("tkrc.yaml", ""),
                ("environments/dev/main.jsonnet", main),
                ("environments/dev/spec.json", "{}"),
            ];
            let why = failure(call::<TankaShow>(&files, json!({ "env_path": "environments/dev" })).await);
            assert!(why.contains(".s") && !why.contains("hunter2"), "{why}");
        }
    }

    #[tokio::test]
    async fn only_wanted_objects_are_shown() {
        let shown = |include: Value, exclude: Value| async move {
            let arguments = json!({ "env_path": "environments/dev", "include": include, "exclude": exclude });
            show(arguments).await.unwrap().lines().next().unwrap().to_owned()
        };
        assert_eq!(
            shown(json!(["secret/.*"]), json!([])).await,
            "# `environments/dev`: 1 object"
        );
        assert_eq!(
            shown(json!([".*"]), json!(["secret/.*"])).await,
            "# `environments/dev`: 1 object"
        );
        assert_eq!(
            shown(json!([]), json!([".*"])).await,
            "# `environments/dev`: 0 objects"
        );
    }

    #[tokio::test]
    async fn what_is_no_environment_says_what_would_work() {
        let unknown = failure(show(json!({ "env_path": "environments/staging" })).await);
        let advice = "found no matching environments; `tanka_find_environments` lists what there is.\n";
        assert!(unknown.starts_with(advice), "{unknown}");
        let environment =
            r#"{"apiVersion":"tanka.dev/v1alpha1","kind":"Environment","metadata":{"name":"eu"},"spec":{}}"#;
        let files = [("tkrc.yaml", ""), ("environments/all/main.jsonnet", environment)];
        let arguments = json!({ "env_path": "environments/all", "name": "x" });
        assert_eq!(
            failure(call::<TankaShow>(&files, arguments).await),
            "found no matching environments; `tanka_find_environments` lists what is below `environments/all`"
        );
        let expression = failure(show(json!({ "env_path": "environments/dev", "include": ["("] })).await);
        assert!(
            expression.starts_with("`(` is not a regular expression"),
            "{expression}"
        );
    }

    /// T35
    #[tokio::test]
    async fn paths_outside_are_refused() {
        for text in paths_outside() {
            // An empty path and `.` mean the repository itself.
            if ["", ".", "./", "./."].contains(&text.as_str()) || text.trim_end_matches('/').is_empty() {
                continue;
            }
            let refused = failure(show(json!({ "env_path": text })).await);
            let says = [
                "outside the repository",
                "git metadata",
                "found no matching environments",
            ];
            assert!(
                says.iter().any(|why| refused.contains(why)),
                "{text:.60}: {refused}"
            );
        }
    }
}
