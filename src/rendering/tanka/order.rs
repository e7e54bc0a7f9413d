//! The deterministic order in which objects are shown. Objects that others depend on come first.

use super::object::Object;

const KINDS: [&str; 33] = [
    "Namespace",
    "NetworkPolicy",
    "ResourceQuota",
    "LimitRange",
    "PodSecurityPolicy",
    "PodDisruptionBudget",
    "ServiceAccount",
    "Secret",
    "ConfigMap",
    "StorageClass",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "CustomResourceDefinition",
    "ClusterRole",
    "ClusterRoleList",
    "ClusterRoleBinding",
    "ClusterRoleBindingList",
    "Role",
    "RoleList",
    "RoleBinding",
    "RoleBindingList",
    "Service",
    "DaemonSet",
    "Pod",
    "ReplicationController",
    "ReplicaSet",
    "Deployment",
    "HorizontalPodAutoscaler",
    "StatefulSet",
    "Job",
    "CronJob",
    "Ingress",
    "APIService",
];

/// Sorts objects by kind, with some kinds in a fixed order and the rest by name, then by namespace and name. Where
/// Tanka leaves the order open, objects are sorted by version and by their path in the value.
pub(super) fn sort(objects: &mut [Object]) {
    objects.sort_by(|left, right| sort_key(left).cmp(&sort_key(right)));
}

fn sort_key(object: &Object) -> impl Ord + '_ {
    let kind = object.kind();
    let index = KINDS
        .iter()
        .position(|known| *known == kind)
        .unwrap_or(KINDS.len());
    (
        (
            index,
            kind,
            object.namespace(),
            object.name(),
            object.generate_name(),
        ),
        (object.api_version(), object.path.as_str()),
    )
}

#[cfg(test)]
mod tests {
    use super::sort;
    use crate::rendering::tanka::Object;
    use serde_json::json;

    #[test]
    fn objects_have_one_order() {
        let object = |version: &str, kind: &str, namespace: &str, name: &str, path: &str| Object {
            path: path.to_owned(),
            value: json!({
                "apiVersion": version, "kind": kind,
                "metadata": { "namespace": namespace, "name": name },
            }),
        };
        let sorted = [
            object("v1", "Namespace", "", "z", ".a"),
            object("v1", "ConfigMap", "", "z", ".a"),
            object("v1", "ConfigMap", "a", "a", ".a"),
            object("v1", "ConfigMap", "a", "b", ".a"),
            object("v1", "ConfigMap", "a", "b", ".b"),
            object("extensions/v1beta1", "Ingress", "", "x", ".b"),
            object("networking.k8s.io/v1", "Ingress", "", "x", ".a"),
            object("v1", "Alpha", "", "z", ".a"),
            object("v1", "Zeta", "", "a", ".a"),
        ];
        for rotation in 0..sorted.len() {
            let mut objects = sorted.to_vec();
            objects.rotate_left(rotation);
            objects.reverse();
            sort(&mut objects);
            assert_eq!(objects, sorted);
        }
    }
}
