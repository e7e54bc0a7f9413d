//! Turns the value of a program into the objects of an environment, in the same steps as Tanka: extract, expand
//! lists, namespaces, the environment label, defaults, targets, order.

use super::environment::{Environment, ResourceDefaults};
use super::filter::Filter;
use super::label::{self, ENVIRONMENT_LABEL};
use super::object::Object;
use super::{TankaError, extract, order};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

const CLUSTER_WIDE_KINDS: [&str; 23] = [
    "APIService",
    "CertificateSigningRequest",
    "ClusterRole",
    "ClusterRoleBinding",
    "ComponentStatus",
    "CSIDriver",
    "CSINode",
    "CustomResourceDefinition",
    "MutatingWebhookConfiguration",
    "Namespace",
    "Node",
    "NodeMetrics",
    "PersistentVolume",
    "PodSecurityPolicy",
    "PriorityClass",
    "RuntimeClass",
    "SelfSubjectAccessReview",
    "SelfSubjectRulesReview",
    "StorageClass",
    "SubjectAccessReview",
    "TokenReview",
    "ValidatingWebhookConfiguration",
    "VolumeAttachment",
];
/// The annotation `"true"` marks an object as namespaced. Any other value marks it as not namespaced.
const NAMESPACED_ANNOTATION: &str = "tanka.dev/namespaced";

/// Returns the objects in the value of an environment's program.
pub fn process(data: Value, environment: &Environment, filter: &Filter) -> Result<Vec<Object>, TankaError> {
    let objects = extract::extract(data).map_err(|err| err.in_environment(&environment.metadata.name))?;
    let mut objects = extract::open_lists(objects)?;
    if objects.iter().any(is_environment) {
        return Err(TankaError::BothKinds);
    }
    let spec = &environment.spec;
    for object in &mut objects {
        set_namespace(object, &spec.namespace);
    }
    if spec.inject_labels {
        let value = label::value(environment)?;
        for object in &mut objects {
            if let Some(labels) = texts(object, "labels") {
                labels.insert(ENVIRONMENT_LABEL.to_owned(), Value::String(value.clone()));
            }
        }
    }
    for object in &mut objects {
        set_defaults(object, &spec.resource_defaults);
    }
    objects.retain(|object| filter.selects(object));
    order::sort(&mut objects);
    Ok(objects)
}

/// True if an object is a Tanka environment and not an object for the cluster.
pub(super) fn is_environment(object: &Object) -> bool {
    object.kind() == "Environment" && object.api_version().starts_with("tanka.dev/")
}

fn set_namespace(object: &mut Object, namespace: &str) {
    if namespace.is_empty() {
        return;
    }
    let is_cluster_wide = CLUSTER_WIDE_KINDS.contains(&object.kind());
    let Some(metadata) = metadata(object) else { return };
    let annotation = metadata
        .get("annotations")
        .and_then(|annotations| annotations.get(NAMESPACED_ANNOTATION));
    let is_namespaced = match annotation {
        Some(value) => value == "true",
        None => !is_cluster_wide,
    };
    if is_namespaced && !metadata.get("namespace").is_some_and(Value::is_string) {
        metadata.insert("namespace".to_owned(), Value::String(namespace.to_owned()));
    }
    let is_empty = match metadata.get("annotations") {
        Some(Value::Null) => true,
        Some(Value::Object(annotations)) => annotations.is_empty(),
        Some(_) | None => false,
    };
    if is_empty {
        metadata.remove("annotations");
    }
}

fn set_defaults(object: &mut Object, defaults: &ResourceDefaults) {
    add_missing(object, "annotations", &defaults.annotations);
    add_missing(object, "labels", &defaults.labels);
}

fn add_missing(object: &mut Object, field: &str, defaults: &BTreeMap<String, String>) {
    if defaults.is_empty() {
        return;
    }
    let Some(present) = texts(object, field) else {
        return;
    };
    for (name, value) in defaults {
        if !present.contains_key(name) {
            present.insert(name.clone(), Value::String(value.clone()));
        }
    }
}

fn metadata(object: &mut Object) -> Option<&mut Map<String, Value>> {
    object.value.get_mut("metadata")?.as_object_mut()
}

/// Returns the labels or annotations of an object, creating them if there are none.
fn texts<'a>(object: &'a mut Object, field: &str) -> Option<&'a mut Map<String, Value>> {
    let texts = metadata(object)?.entry(field).or_insert(Value::Null);
    if !texts.is_object() {
        *texts = Value::Object(Map::new());
    }
    texts.as_object_mut()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::process;
    use crate::rendering::tanka::{Environment, Filter};
    use serde_json::{Value, json};

    fn object(kind: &str, metadata: Value) -> Value {
        json!({ "apiVersion": "v1", "kind": kind, "metadata": metadata })
    }

    fn environment(namespace: &str) -> Environment {
        let mut environment = Environment::default();
        environment.metadata.name = "e".to_owned();
        environment.metadata.namespace = "e/main.jsonnet".to_owned();
        environment.spec.namespace = namespace.to_owned();
        environment
    }

    fn metadata_of(data: Value, environment: &Environment) -> Value {
        let objects = process(data, environment, &Filter::default()).unwrap();
        objects[0].value["metadata"].clone()
    }

    /// TK-5
    #[test]
    fn what_names_no_namespace_gets_the_default_unless_it_is_cluster_wide() {
        let in_dev = environment("dev");
        for (kind, given, expected) in [
            (
                "ConfigMap",
                json!({ "name": "a" }),
                json!({ "name": "a", "namespace": "dev" }),
            ),
            (
                "ConfigMap",
                json!({ "name": "a", "namespace": "" }),
                json!({ "name": "a", "namespace": "" }),
            ),
            (
                "ConfigMap",
                json!({ "name": "a", "namespace": null }),
                json!({ "name": "a", "namespace": "dev" }),
            ),
            ("Namespace", json!({ "name": "a" }), json!({ "name": "a" })),
            (
                "PersistentVolume",
                json!({ "name": "a", "annotations": { "tanka.dev/namespaced": "true" } }),
                json!({ "name": "a", "annotations": { "tanka.dev/namespaced": "true" }, "namespace": "dev" }),
            ),
            (
                "Foo",
                json!({ "name": "a", "annotations": { "tanka.dev/namespaced": "no" } }),
                json!({ "name": "a", "annotations": { "tanka.dev/namespaced": "no" } }),
            ),
            (
                "Node",
                json!({ "name": "a", "annotations": null, "labels": null }),
                json!({ "name": "a", "labels": null }),
            ),
            (
                "Node",
                json!({ "name": "a", "annotations": {}, "labels": {} }),
                json!({ "name": "a", "labels": {} }),
            ),
        ] {
            assert_eq!(metadata_of(object(kind, given), &in_dev), expected, "{kind}");
        }
    }

    #[test]
    fn without_a_default_namespace_nothing_is_touched() {
        let given = json!({ "name": "a", "annotations": {} });
        assert_eq!(
            metadata_of(object("ConfigMap", given.clone()), &environment("")),
            given
        );
    }

    /// TK-5
    #[test]
    fn labels_and_defaults_never_replace_what_is_there() {
        let mut environment = environment("");
        environment.spec.inject_labels = true;
        let defaults = &mut environment.spec.resource_defaults;
        for (name, value) in [("a", "1"), ("keep", "default")] {
            defaults.annotations.insert(name.to_owned(), value.to_owned());
        }
        defaults.labels.insert("x".to_owned(), "y".to_owned());
        let given = json!({ "name": "a", "annotations": { "keep": "mine" }, "labels": null });
        let metadata = metadata_of(object("ConfigMap", given), &environment);
        assert_eq!(metadata["annotations"], json!({ "a": "1", "keep": "mine" }));
        assert_eq!(metadata["labels"]["x"], json!("y"));
        assert_eq!(
            metadata["labels"]["tanka.dev/environment"]
                .as_str()
                .unwrap()
                .len(),
            48
        );
    }

    #[test]
    fn an_environment_in_a_static_environment_is_refused() {
        let inline =
            json!({ "apiVersion": "tanka.dev/v1alpha1", "kind": "Environment", "metadata": { "name": "x" } });
        let refused = process(inline, &environment("dev"), &Filter::default()).unwrap_err();
        assert!(
            refused
                .to_string()
                .starts_with("found a tanka Environment resource.")
        );
        let other = json!({ "apiVersion": "platform.example.com/v1", "kind": "Environment", "metadata": { "name": "x" } });
        assert_eq!(
            process(other, &environment("dev"), &Filter::default())
                .unwrap()
                .len(),
            1
        );
    }
}
