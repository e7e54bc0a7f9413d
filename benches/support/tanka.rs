//! A repository as a platform team has it: a generated library of Kubernetes kinds in `vendor`, a layer
//! of its own on it in `lib`, and environments that mix both. It is the same in every run.

use std::fmt::Write as _;

/// Applications; each is a library file that environments share.
pub(crate) const APPS: usize = 20;
/// The file every environment imports.
pub(crate) const SHARED: &str = "lib/util.libsonnet";

/// A field of a kind: its name, what it holds, and what lies below it.
struct Field(&'static str, Shape);

enum Shape {
    Text,
    Number,
    List,
    Map,
    Object(&'static [Field]),
}

use Shape::{List, Map, Number, Object, Text};

const METADATA: &[Field] = &[
    Field("annotations", Map),
    Field("clusterName", Text),
    Field("creationTimestamp", Text),
    Field("deletionGracePeriodSeconds", Number),
    Field("deletionTimestamp", Text),
    Field("finalizers", List),
    Field("generateName", Text),
    Field("generation", Number),
    Field("labels", Map),
    Field("managedFields", List),
    Field("name", Text),
    Field("namespace", Text),
    Field("ownerReferences", List),
    Field("resourceVersion", Text),
    Field("selfLink", Text),
    Field("uid", Text),
];
const SELECTOR: &[Field] = &[Field("matchExpressions", List), Field("matchLabels", Map)];
const EXEC: &[Field] = &[Field("command", List)];
const HTTP_GET: &[Field] = &[
    Field("host", Text),
    Field("httpHeaders", List),
    Field("path", Text),
    Field("port", Text),
    Field("scheme", Text),
];
const PROBE: &[Field] = &[
    Field("exec", Object(EXEC)),
    Field("failureThreshold", Number),
    Field("httpGet", Object(HTTP_GET)),
    Field("initialDelaySeconds", Number),
    Field("periodSeconds", Number),
    Field("successThreshold", Number),
    Field("terminationGracePeriodSeconds", Number),
    Field("timeoutSeconds", Number),
];
const SECURITY: &[Field] = &[
    Field("fsGroup", Number),
    Field("fsGroupChangePolicy", Text),
    Field("runAsGroup", Number),
    Field("runAsNonRoot", Text),
    Field("runAsUser", Number),
    Field(
        "seLinuxOptions",
        Object(&[
            Field("level", Text),
            Field("role", Text),
            Field("type", Text),
            Field("user", Text),
        ]),
    ),
    Field(
        "seccompProfile",
        Object(&[Field("localhostProfile", Text), Field("type", Text)]),
    ),
    Field("supplementalGroups", List),
    Field("sysctls", List),
];
const TERMS: &[Field] = &[
    Field("preferredDuringSchedulingIgnoredDuringExecution", List),
    Field("requiredDuringSchedulingIgnoredDuringExecution", List),
];
const AFFINITY: &[Field] = &[
    Field("nodeAffinity", Object(TERMS)),
    Field("podAffinity", Object(TERMS)),
    Field("podAntiAffinity", Object(TERMS)),
];
const POD: &[Field] = &[
    Field("activeDeadlineSeconds", Number),
    Field("affinity", Object(AFFINITY)),
    Field("automountServiceAccountToken", Text),
    Field("containers", List),
    Field(
        "dnsConfig",
        Object(&[
            Field("nameservers", List),
            Field("options", List),
            Field("searches", List),
        ]),
    ),
    Field("dnsPolicy", Text),
    Field("enableServiceLinks", Text),
    Field("ephemeralContainers", List),
    Field("hostAliases", List),
    Field("hostIPC", Text),
    Field("hostNetwork", Text),
    Field("hostPID", Text),
    Field("hostname", Text),
    Field("imagePullSecrets", List),
    Field("initContainers", List),
    Field("nodeName", Text),
    Field("nodeSelector", Map),
    Field("overhead", Map),
    Field("preemptionPolicy", Text),
    Field("priority", Number),
    Field("priorityClassName", Text),
    Field("readinessGates", List),
    Field("restartPolicy", Text),
    Field("runtimeClassName", Text),
    Field("schedulerName", Text),
    Field("securityContext", Object(SECURITY)),
    Field("serviceAccount", Text),
    Field("serviceAccountName", Text),
    Field("shareProcessNamespace", Text),
    Field("subdomain", Text),
    Field("terminationGracePeriodSeconds", Number),
    Field("tolerations", List),
    Field("topologySpreadConstraints", List),
    Field("volumes", List),
];
const TEMPLATE: &[Field] = &[Field("metadata", Object(METADATA)), Field("spec", Object(POD))];
const WORKLOAD: &[Field] = &[
    Field("minReadySeconds", Number),
    Field("paused", Text),
    Field("podManagementPolicy", Text),
    Field("progressDeadlineSeconds", Number),
    Field("replicas", Number),
    Field("revisionHistoryLimit", Number),
    Field("selector", Object(SELECTOR)),
    Field("serviceName", Text),
    Field(
        "strategy",
        Object(&[
            Field(
                "rollingUpdate",
                Object(&[Field("maxSurge", Text), Field("maxUnavailable", Text)]),
            ),
            Field("type", Text),
        ]),
    ),
    Field("template", Object(TEMPLATE)),
    Field("volumeClaimTemplates", List),
];
const CONTAINER: &[Field] = &[
    Field("args", List),
    Field("command", List),
    Field("env", List),
    Field("envFrom", List),
    Field("image", Text),
    Field("imagePullPolicy", Text),
    Field(
        "lifecycle",
        Object(&[
            Field(
                "postStart",
                Object(&[Field("exec", Object(EXEC)), Field("httpGet", Object(HTTP_GET))]),
            ),
            Field(
                "preStop",
                Object(&[Field("exec", Object(EXEC)), Field("httpGet", Object(HTTP_GET))]),
            ),
        ]),
    ),
    Field("livenessProbe", Object(PROBE)),
    Field("name", Text),
    Field("ports", List),
    Field("readinessProbe", Object(PROBE)),
    Field(
        "resources",
        Object(&[
            Field("claims", List),
            Field("limits", Map),
            Field("requests", Map),
        ]),
    ),
    Field("securityContext", Object(SECURITY)),
    Field("startupProbe", Object(PROBE)),
    Field("stdin", Text),
    Field("terminationMessagePath", Text),
    Field("terminationMessagePolicy", Text),
    Field("tty", Text),
    Field("volumeDevices", List),
    Field("volumeMounts", List),
    Field("workingDir", Text),
];
const SERVICE: &[Field] = &[
    Field("clusterIP", Text),
    Field("clusterIPs", List),
    Field("externalIPs", List),
    Field("externalName", Text),
    Field("externalTrafficPolicy", Text),
    Field("healthCheckNodePort", Number),
    Field("internalTrafficPolicy", Text),
    Field("ipFamilies", List),
    Field("ipFamilyPolicy", Text),
    Field("loadBalancerClass", Text),
    Field("loadBalancerIP", Text),
    Field("loadBalancerSourceRanges", List),
    Field("ports", List),
    Field("selector", Map),
    Field("sessionAffinity", Text),
    Field("type", Text),
];
const INGRESS: &[Field] = &[
    Field(
        "defaultBackend",
        Object(&[
            Field(
                "resource",
                Object(&[Field("apiGroup", Text), Field("kind", Text), Field("name", Text)]),
            ),
            Field("service", Object(&[Field("name", Text)])),
        ]),
    ),
    Field("ingressClassName", Text),
    Field("rules", List),
    Field("tls", List),
];
const SCALER: &[Field] = &[
    Field(
        "behavior",
        Object(&[
            Field(
                "scaleDown",
                Object(&[Field("policies", List), Field("selectPolicy", Text)]),
            ),
            Field(
                "scaleUp",
                Object(&[Field("policies", List), Field("selectPolicy", Text)]),
            ),
        ]),
    ),
    Field("maxReplicas", Number),
    Field("metrics", List),
    Field("minReplicas", Number),
    Field(
        "scaleTargetRef",
        Object(&[
            Field("apiVersion", Text),
            Field("kind", Text),
            Field("name", Text),
        ]),
    ),
];
const BUDGET: &[Field] = &[
    Field("maxUnavailable", Text),
    Field("minAvailable", Text),
    Field("selector", Object(SELECTOR)),
    Field("unhealthyPodEvictionPolicy", Text),
];
const RULE: &[Field] = &[
    Field("apiGroups", List),
    Field("nonResourceURLs", List),
    Field("resourceNames", List),
    Field("resources", List),
    Field("verbs", List),
];
const ROLE_REF: &[Field] = &[Field("apiGroup", Text), Field("kind", Text), Field("name", Text)];

/// A kind: group, version, name of its file, and its fields. One that is a part of others has no kind.
struct Kind(
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    &'static [Field],
);

const KINDS: &[Kind] = &[
    Kind(
        "apps",
        "v1",
        "daemonSet",
        "DaemonSet",
        &[
            Field("metadata", Object(METADATA)),
            Field("spec", Object(WORKLOAD)),
        ],
    ),
    Kind(
        "apps",
        "v1",
        "deployment",
        "Deployment",
        &[
            Field("metadata", Object(METADATA)),
            Field("spec", Object(WORKLOAD)),
        ],
    ),
    Kind(
        "apps",
        "v1",
        "replicaSet",
        "ReplicaSet",
        &[
            Field("metadata", Object(METADATA)),
            Field("spec", Object(WORKLOAD)),
        ],
    ),
    Kind(
        "apps",
        "v1",
        "statefulSet",
        "StatefulSet",
        &[
            Field("metadata", Object(METADATA)),
            Field("spec", Object(WORKLOAD)),
        ],
    ),
    Kind(
        "autoscaling",
        "v2",
        "horizontalPodAutoscaler",
        "HorizontalPodAutoscaler",
        &[Field("metadata", Object(METADATA)), Field("spec", Object(SCALER))],
    ),
    Kind(
        "batch",
        "v1",
        "cronJob",
        "CronJob",
        &[
            Field("metadata", Object(METADATA)),
            Field(
                "spec",
                Object(&[
                    Field("jobTemplate", Object(&[Field("spec", Object(WORKLOAD))])),
                    Field("schedule", Text),
                ]),
            ),
        ],
    ),
    Kind(
        "batch",
        "v1",
        "job",
        "Job",
        &[
            Field("metadata", Object(METADATA)),
            Field("spec", Object(WORKLOAD)),
        ],
    ),
    Kind(
        "core",
        "v1",
        "configMap",
        "ConfigMap",
        &[
            Field("binaryData", Map),
            Field("data", Map),
            Field("immutable", Text),
            Field("metadata", Object(METADATA)),
        ],
    ),
    Kind("core", "v1", "container", "", CONTAINER),
    Kind(
        "core",
        "v1",
        "containerPort",
        "",
        &[
            Field("containerPort", Number),
            Field("hostIP", Text),
            Field("hostPort", Number),
            Field("name", Text),
            Field("protocol", Text),
        ],
    ),
    Kind(
        "core",
        "v1",
        "envVar",
        "",
        &[
            Field("name", Text),
            Field("value", Text),
            Field(
                "valueFrom",
                Object(&[
                    Field(
                        "configMapKeyRef",
                        Object(&[Field("key", Text), Field("name", Text)]),
                    ),
                    Field("secretKeyRef", Object(&[Field("key", Text), Field("name", Text)])),
                ]),
            ),
        ],
    ),
    Kind(
        "core",
        "v1",
        "namespace",
        "Namespace",
        &[
            Field("metadata", Object(METADATA)),
            Field("spec", Object(&[Field("finalizers", List)])),
        ],
    ),
    Kind(
        "core",
        "v1",
        "node",
        "Node",
        &[Field("metadata", Object(METADATA)), Field("spec", Object(POD))],
    ),
    Kind(
        "core",
        "v1",
        "persistentVolumeClaim",
        "PersistentVolumeClaim",
        &[
            Field("metadata", Object(METADATA)),
            Field(
                "spec",
                Object(&[
                    Field("accessModes", List),
                    Field(
                        "resources",
                        Object(&[Field("limits", Map), Field("requests", Map)]),
                    ),
                    Field("selector", Object(SELECTOR)),
                    Field("storageClassName", Text),
                    Field("volumeName", Text),
                ]),
            ),
        ],
    ),
    Kind("core", "v1", "pod", "Pod", TEMPLATE),
    Kind(
        "core",
        "v1",
        "secret",
        "Secret",
        &[
            Field("data", Map),
            Field("metadata", Object(METADATA)),
            Field("stringData", Map),
            Field("type", Text),
        ],
    ),
    Kind(
        "core",
        "v1",
        "service",
        "Service",
        &[
            Field("metadata", Object(METADATA)),
            Field("spec", Object(SERVICE)),
        ],
    ),
    Kind(
        "core",
        "v1",
        "serviceAccount",
        "ServiceAccount",
        &[
            Field("imagePullSecrets", List),
            Field("metadata", Object(METADATA)),
            Field("secrets", List),
        ],
    ),
    Kind(
        "core",
        "v1",
        "servicePort",
        "",
        &[
            Field("appProtocol", Text),
            Field("name", Text),
            Field("nodePort", Number),
            Field("port", Number),
            Field("protocol", Text),
            Field("targetPort", Text),
        ],
    ),
    Kind(
        "core",
        "v1",
        "volume",
        "",
        &[
            Field(
                "configMap",
                Object(&[
                    Field("defaultMode", Number),
                    Field("items", List),
                    Field("name", Text),
                ]),
            ),
            Field(
                "emptyDir",
                Object(&[Field("medium", Text), Field("sizeLimit", Text)]),
            ),
            Field("name", Text),
            Field(
                "secret",
                Object(&[
                    Field("defaultMode", Number),
                    Field("items", List),
                    Field("secretName", Text),
                ]),
            ),
        ],
    ),
    Kind(
        "core",
        "v1",
        "volumeMount",
        "",
        &[
            Field("mountPath", Text),
            Field("mountPropagation", Text),
            Field("name", Text),
            Field("readOnly", Text),
            Field("subPath", Text),
        ],
    ),
    Kind(
        "networking",
        "v1",
        "ingress",
        "Ingress",
        &[
            Field("metadata", Object(METADATA)),
            Field("spec", Object(INGRESS)),
        ],
    ),
    Kind(
        "networking",
        "v1",
        "networkPolicy",
        "NetworkPolicy",
        &[
            Field("metadata", Object(METADATA)),
            Field(
                "spec",
                Object(&[
                    Field("egress", List),
                    Field("ingress", List),
                    Field("podSelector", Object(SELECTOR)),
                    Field("policyTypes", List),
                ]),
            ),
        ],
    ),
    Kind(
        "policy",
        "v1",
        "podDisruptionBudget",
        "PodDisruptionBudget",
        &[Field("metadata", Object(METADATA)), Field("spec", Object(BUDGET))],
    ),
    Kind(
        "rbac",
        "v1",
        "clusterRole",
        "ClusterRole",
        &[Field("metadata", Object(METADATA)), Field("rules", List)],
    ),
    Kind("rbac", "v1", "policyRule", "", RULE),
    Kind(
        "rbac",
        "v1",
        "role",
        "Role",
        &[Field("metadata", Object(METADATA)), Field("rules", List)],
    ),
    Kind(
        "rbac",
        "v1",
        "roleBinding",
        "RoleBinding",
        &[
            Field("metadata", Object(METADATA)),
            Field("roleRef", Object(ROLE_REF)),
            Field("subjects", List),
        ],
    ),
];

/// Every file of a repository of `environments` environments, with its path.
pub(crate) fn files(environments: usize) -> Vec<(String, String)> {
    let mut files = vec![
        (
            "jsonnetfile.json".to_owned(),
            "{\"version\":1,\"dependencies\":[],\"legacyImports\":true}\n".to_owned(),
        ),
        ("lib/k.libsonnet".to_owned(), K.to_owned()),
        ("lib/kausal.libsonnet".to_owned(), KAUSAL.to_owned()),
        ("lib/config.libsonnet".to_owned(), CONFIG.to_owned()),
        (SHARED.to_owned(), UTIL.to_owned()),
        ("vendor/doc-util/main.libsonnet".to_owned(), DOC_UTIL.to_owned()),
    ];
    files.extend(library());
    files.extend((0..APPS).map(|app| (app_file(app), application(app))));
    for number in 0..environments {
        let directory = directory(number);
        files.push((format!("{directory}/main.jsonnet"), environment(number)));
        files.push((format!("{directory}/spec.json"), settings(number)));
    }
    files
}

/// The directory of an environment.
pub(crate) fn directory(number: usize) -> String {
    format!("environments/team-{}/env-{number}", number % 25)
}

/// The library of an application; every environment uses the one of its number, modulo [`APPS`].
pub(crate) fn app_file(app: usize) -> String {
    format!("lib/apps/app-{app}.libsonnet")
}

fn library() -> Vec<(String, String)> {
    let mut files = Vec::new();
    let mut groups: Vec<(&str, &str)> = KINDS.iter().map(|kind| (kind.0, kind.1)).collect();
    groups.dedup();
    let mut main = "{\n  local d = (import 'doc-util/main.libsonnet'),\n  '#':: d.pkg(name='k8s', url='example.com/k8s', help='Generated library.'),\n".to_owned();
    for (group, version) in groups {
        let _ = writeln!(main, "  {group}:: (import '_gen/{group}/main.libsonnet'),");
        files.push((
            format!("vendor/k8s/_gen/{group}/main.libsonnet"),
            format!("{{\n  {version}: (import '{version}/main.libsonnet'),\n}}\n"),
        ));
        let mut of_version = "{\n".to_owned();
        for kind in KINDS.iter().filter(|kind| kind.0 == group && kind.1 == version) {
            let _ = writeln!(of_version, "  {0}: (import '{0}.libsonnet'),", kind.2);
            files.push((
                format!("vendor/k8s/_gen/{group}/{version}/{}.libsonnet", kind.2),
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

/// The file of a kind, as the generator of the Kubernetes library writes it.
fn source(Kind(group, version, file, kind, fields): &Kind) -> String {
    let mut out = "{\n  local d = (import 'doc-util/main.libsonnet'),\n".to_owned();
    let _ = writeln!(
        out,
        "  '#':: d.pkg(name='{file}', url='', help='\"{kind} of group {group} enables declarative updates of what it describes.\"'),"
    );
    write_fields(&mut out, fields, &mut Vec::new());
    if !kind.is_empty() {
        let api = if *group == "core" {
            (*version).to_owned()
        } else {
            format!("{}/{version}", group_name(group))
        };
        let _ = writeln!(
            out,
            "  '#new':: d.fn(help='new returns an instance of {kind}', args=[d.arg(name='name', type=d.T.string)]),"
        );
        let _ = writeln!(
            out,
            "  new(name): {{\n    apiVersion: '{api}',\n    kind: '{kind}',\n  }} + self.metadata.withName(name=name),"
        );
    }
    out.push_str("  '#mixin': 'ignore',\n  mixin: self,\n}\n");
    out
}

fn group_name(group: &str) -> String {
    match group {
        "networking" | "rbac" => format!("{group}.k8s.io").replace("rbac.", "rbac.authorization."),
        group => group.to_owned(),
    }
}

fn write_fields(out: &mut String, fields: &[Field], path: &mut Vec<&'static str>) {
    let indent = "  ".repeat(path.len() + 1);
    let above = path.clone();
    let value = |body: &str| {
        above
            .iter()
            .rev()
            .fold(body.to_owned(), |inside, name| format!("{{ {name}+: {inside} }}"))
    };
    for Field(name, shape) in fields {
        let mut letters = name.chars();
        let first = letters.next().map(|first| first.to_ascii_uppercase());
        let title: String = first.into_iter().chain(letters).collect();
        let function = |out: &mut String, suffix: &str, kind: &str, body: &str| {
            let _ = writeln!(
                out,
                "{indent}'#with{title}{suffix}':: d.fn(help='\"The {name} of the object. It may not be changed once the object has been created, and more about it is in the conventions of the interface.\"', args=[d.arg(name='{name}', type=d.T.{kind})]),"
            );
            let _ = writeln!(out, "{indent}with{title}{suffix}({name}): {},", value(body));
        };
        match shape {
            Text => function(out, "", "string", &format!("{{ {name}: {name} }}")),
            Number => function(out, "", "integer", &format!("{{ {name}: {name} }}")),
            List => {
                function(
                    out,
                    "",
                    "array",
                    &format!("{{ {name}: if std.isArray(v={name}) then {name} else [{name}] }}"),
                );
                function(
                    out,
                    "Mixin",
                    "array",
                    &format!("{{ {name}+: if std.isArray(v={name}) then {name} else [{name}] }}"),
                );
            }
            Map => {
                function(out, "", "object", &format!("{{ {name}: {name} }}"));
                function(out, "Mixin", "object", &format!("{{ {name}+: {name} }}"));
            }
            Object(below) => {
                let _ = writeln!(
                    out,
                    "{indent}'#{name}':: d.obj(help='\"What the {name} of the object holds.\"'),\n{indent}{name}: {{"
                );
                path.push(name);
                write_fields(out, below, path);
                path.pop();
                let _ = writeln!(out, "{indent}}},");
            }
        }
    }
}

fn application(app: usize) -> String {
    let mut out = format!(
        "// Application {app}: its components, and what is special about each.\n\
         local util = import 'util.libsonnet';\n\n\
         (import 'config.libsonnet') + {{\n  _config+:: {{\n    app: 'app-{app}',\n    port: {},\n  }},\n  local c = self._config,\n",
        8_000 + app
    );
    for component in 0..1 + app % 5 {
        let name = ["web", "api", "worker", "cache", "gateway"][component];
        let _ = writeln!(
            out,
            "  {name}: util.component(c, '{name}-' + c.app, {{\n    LOG_LEVEL: c.logLevel,\n    PEERS: std.join(',', ['%s-%d.%s' % ['{name}', i, c.namespace] for i in std.range(0, c.replicas - 1)]),\n    FEATURE_{app}: std.toString(c.features),\n  }}) + {{\n    deployment+: util.withBudget({}, '{}Mi'),\n  }},",
            100 + 50 * component,
            128 << (app % 3),
        );
    }
    out.push_str("}\n");
    out
}

fn environment(number: usize) -> String {
    let stage = ["dev", "staging", "prod"][number % 3];
    format!(
        "local app = import 'apps/app-{}.libsonnet';\nlocal k = import 'k.libsonnet';\n\n\
         app {{\n  _config+:: {{\n    cluster: 'cluster-{}',\n    stage: '{stage}',\n    namespace: 'team-{}-{number}',\n    replicas: {},\n    image+: {{ tag: 'v1.{}.{}' }},\n    features+: {{ rollout: {} }},\n  }},\n\n\
         \x20 namespace: k.core.v1.namespace.new($._config.namespace)\n\
         \x20            + k.core.v1.namespace.metadata.withLabelsMixin({{ stage: $._config.stage }}),\n}}\n",
        number % APPS,
        number % 7,
        number % 25,
        1 + number % 6,
        number % 10,
        number,
        number % 100,
    )
}

fn settings(number: usize) -> String {
    format!(
        "{{\n  \"apiVersion\": \"tanka.dev/v1alpha1\",\n  \"kind\": \"Environment\",\n  \"metadata\": {{\n    \"name\": \"environments/team-{0}/env-{number}\"\n  }},\n  \"spec\": {{\n    \"apiServer\": \"https://cluster-{1}.example.com:6443\",\n    \"namespace\": \"team-{0}-{number}\",\n    \"resourceDefaults\": {{ \"labels\": {{ \"team\": \"team-{0}\" }} }}\n  }}\n}}\n",
        number % 25,
        number % 7
    )
}

const K: &str = "(import 'k8s/main.libsonnet') + (import 'kausal.libsonnet')\n";

/// The kinds as people want to write them.
const KAUSAL: &str = r"// What the generated library lacks.
{
  local this = self,
  core+:: {
    v1+: {
      container+: {
        new(name, image):: self.withName(name) + self.withImage(image),
        withEnvMap(env):: self.withEnvMixin([
          this.core.v1.envVar.withName(name) + this.core.v1.envVar.withValue(env[name])
          for name in std.objectFields(env)
        ]),
      },
      containerPort+: {
        new(name, port):: self.withName(name) + self.withContainerPort(port),
      },
      configMap+: {
        new(name, data={}):: super.new(name) + self.withData(data),
      },
      servicePort+: {
        new(name, port):: self.withName(name) + self.withPort(port) + self.withTargetPort(name),
      },
      volume+: {
        fromConfigMap(name, map):: self.withName(name) + self.configMap.withName(map),
      },
      volumeMount+: {
        new(name, path):: self.withName(name) + self.withMountPath(path) + self.withReadOnly(true),
      },
    },
  },
  apps+:: {
    v1+: {
      deployment+: {
        new(name, replicas, containers, labels)::
          super.new(name)
          + self.spec.withReplicas(replicas)
          + self.spec.template.spec.withContainers(containers)
          + self.spec.template.metadata.withLabels(labels)
          + self.spec.selector.withMatchLabels(labels),
        mapContainers(f):: {
          spec+: { template+: { spec+: { containers: std.map(f, super.containers) } } },
        },
      },
    },
  },
}
";

const CONFIG: &str = r"{
  _config+:: {
    app: error 'app must be given',
    namespace: error 'namespace must be given',
    cluster: error 'cluster must be given',
    stage: 'dev',
    port: 8080,
    replicas: 1,
    logLevel: if self.stage == 'prod' then 'warn' else 'debug',
    image: { registry: 'registry.example.com', repository: 'team/app', tag: 'latest' },
    domain: '%s.%s.example.com' % [self.stage, self.cluster],
    features: { rollout: 0, tracing: true, regions: ['eu', 'us'] },
  },
}
";

/// What every application is made with.
const UTIL: &str = r"local k = import 'k.libsonnet';

local deployment = k.apps.v1.deployment;
local container = k.core.v1.container;
local containerPort = k.core.v1.containerPort;
local service = k.core.v1.service;
local servicePort = k.core.v1.servicePort;
local ingress = k.networking.v1.ingress;
local scaler = k.autoscaling.v2.horizontalPodAutoscaler;
local budget = k.policy.v1.podDisruptionBudget;
local role = k.rbac.v1.role;
local roleBinding = k.rbac.v1.roleBinding;
local rule = k.rbac.v1.policyRule;

{
  revision:: 'r1',

  labels(c, name):: {
    'app.kubernetes.io/name': name,
    'app.kubernetes.io/part-of': c.app,
    'app.kubernetes.io/managed-by': 'tanka',
  },

  annotations(c):: {
    'example.com/stage': c.stage,
    'example.com/library': $.revision,
  },

  image(c):: '%(registry)s/%(repository)s:%(tag)s' % c.image,

  probe(path, seconds)::
    container.readinessProbe.httpGet.withPath(path)
    + container.readinessProbe.httpGet.withPort('http')
    + container.readinessProbe.withInitialDelaySeconds(seconds)
    + container.readinessProbe.withPeriodSeconds(seconds * 2)
    + container.readinessProbe.withTimeoutSeconds(1)
    + container.livenessProbe.httpGet.withPath(path + '/live')
    + container.livenessProbe.httpGet.withPort('http')
    + container.livenessProbe.withFailureThreshold(3),

  withBudget(cpu, memory):: deployment.mapContainers(function(c) c + (
    container.resources.withRequestsMixin({ cpu: '%dm' % cpu, memory: memory })
    + container.resources.withLimitsMixin({ memory: memory })
  )),

  container(c, name, env)::
    container.new(name, $.image(c))
    + container.withImagePullPolicy('IfNotPresent')
    + container.withPorts([
      containerPort.new('http', c.port),
      containerPort.new('metrics', c.port + 1000),
    ])
    + container.withArgs(['--%s=%s' % [key, env[key]] for key in std.objectFields(env)])
    + container.withEnvMap({ NAMESPACE: c.namespace, CLUSTER: c.cluster } + env)
    + container.withVolumeMounts([k.core.v1.volumeMount.new('config', '/etc/' + name)])
    + container.securityContext.withRunAsNonRoot(true)
    + container.securityContext.withRunAsUser(1000)
    + $.probe('/healthz', 5),

  component(c, name, env):: {
    local labels = $.labels(c, name),
    local annotations = $.annotations(c),
    config:
      k.core.v1.configMap.new(name, {
        'config.json': std.manifestJsonEx({ name: name, env: env, features: c.features }, '  '),
        'settings.ini': std.manifestIni({ main: { port: c.port, stage: c.stage }, sections: {} }),
      })
      + k.core.v1.configMap.metadata.withLabelsMixin(labels),
    deployment:
      deployment.new(name, c.replicas, [$.container(c, name, env)], labels)
      + deployment.metadata.withLabelsMixin(labels)
      + deployment.metadata.withAnnotationsMixin(annotations)
      + deployment.spec.strategy.withType('RollingUpdate')
      + deployment.spec.strategy.rollingUpdate.withMaxSurge('25%')
      + deployment.spec.withRevisionHistoryLimit(10)
      + deployment.spec.template.metadata.withAnnotationsMixin({
        'example.com/config': std.md5(std.manifestJson(env)),
      })
      + deployment.spec.template.spec.withServiceAccountName(name)
      + deployment.spec.template.spec.withTerminationGracePeriodSeconds(30)
      + deployment.spec.template.spec.withNodeSelectorMixin({ pool: c.stage })
      + deployment.spec.template.spec.withVolumesMixin([k.core.v1.volume.fromConfigMap('config', name)])
      + deployment.spec.template.spec.affinity.podAntiAffinity.withPreferredDuringSchedulingIgnoredDuringExecutionMixin([{
        weight: 100,
        podAffinityTerm: { labelSelector: { matchLabels: labels }, topologyKey: 'kubernetes.io/hostname' },
      }]),
    service:
      service.new(name)
      + service.metadata.withLabelsMixin(labels)
      + service.spec.withPorts([servicePort.new('http', 80), servicePort.new('metrics', 9090)])
      + service.spec.withSelector(labels)
      + service.spec.withType('ClusterIP'),
    ingress:
      ingress.new(name)
      + ingress.metadata.withLabelsMixin(labels)
      + ingress.metadata.withAnnotationsMixin({ 'cert-manager.io/cluster-issuer': 'letsencrypt' })
      + ingress.spec.withIngressClassName('nginx')
      + ingress.spec.withRules([{
        host: '%s.%s' % [name, c.domain],
        http: { paths: [{ path: '/', pathType: 'Prefix', backend: { service: { name: name, port: { name: 'http' } } } }] },
      }]),
    serviceAccount:
      k.core.v1.serviceAccount.new(name)
      + k.core.v1.serviceAccount.metadata.withLabelsMixin(labels),
    role:
      role.new(name)
      + role.withRules([
        rule.withApiGroups(['']) + rule.withResources(['configmaps', 'secrets']) + rule.withVerbs(['get', 'list']),
        rule.withApiGroups(['apps']) + rule.withResources(['deployments']) + rule.withVerbs(['get']),
      ]),
    roleBinding:
      roleBinding.new(name)
      + roleBinding.roleRef.withApiGroup('rbac.authorization.k8s.io')
      + roleBinding.roleRef.withKind('Role')
      + roleBinding.roleRef.withName(name)
      + roleBinding.withSubjects([{ kind: 'ServiceAccount', name: name, namespace: c.namespace }]),
  } + (if c.stage == 'prod' then {
         scaler:
           scaler.new(name)
           + scaler.spec.withMinReplicas(c.replicas)
           + scaler.spec.withMaxReplicas(c.replicas * 3)
           + scaler.spec.scaleTargetRef.withApiVersion('apps/v1')
           + scaler.spec.scaleTargetRef.withKind('Deployment')
           + scaler.spec.scaleTargetRef.withName(name),
         budget:
           budget.new(name)
           + budget.spec.withMaxUnavailable('1')
           + budget.spec.selector.withMatchLabels($.labels(c, name)),
       } else {}),
}
";

const DOC_UTIL: &str = r"{
  T: { string: 'string', integer: 'integer', array: 'array', object: 'object' },
  pkg(name, url, help):: { name: name, url: url, help: help },
  fn(help, args=[]):: { 'function': { help: help, args: args } },
  obj(help, fields={}):: { object: { help: help, fields: fields } },
  arg(name, type, default=null):: { name: name, type: type, default: default },
}
";
