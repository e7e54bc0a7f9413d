// What every application is made with.
local k = import 'k.libsonnet';

local deployment = k.apps.v1.deployment;
local configMap = k.core.v1.configMap;
local container = k.core.v1.container;
local containerPort = k.core.v1.containerPort;
local envFromSource = k.core.v1.envFromSource;
local envVar = k.core.v1.envVar;
local service = k.core.v1.service;
local serviceAccount = k.core.v1.serviceAccount;
local servicePort = k.core.v1.servicePort;
local toleration = k.core.v1.toleration;
local volume = k.core.v1.volume;
local volumeMount = k.core.v1.volumeMount;
local ingress = k.networking.v1.ingress;
local policy = k.networking.v1.networkPolicy;
local scaler = k.autoscaling.v2.horizontalPodAutoscaler;
local budget = k.policy.v1.podDisruptionBudget;
local role = k.rbac.v1.role;
local roleBinding = k.rbac.v1.roleBinding;
local rule = k.rbac.v1.policyRule;
local subject = k.rbac.v1.subject;

{
  revision:: 'r1',

  // What objects are found by. It may not change while they live.
  selector(c, name):: {
    'app.kubernetes.io/name': name,
    'app.kubernetes.io/instance': '%s-%s' % [name, c.namespace],
  },

  labels(c, name):: $.selector(c, name) {
    'app.kubernetes.io/component': std.split(name, '-')[0],
    'app.kubernetes.io/part-of': c.app,
    'app.kubernetes.io/version': c.image.tag,
    'app.kubernetes.io/managed-by': 'tanka',
    'example.com/stage': c.stage,
    'example.com/cluster': c.cluster,
  },

  annotations(c, name):: {
    'example.com/owner': '%s@example.com' % c.app,
    'example.com/runbook': 'https://runbooks.example.com/%s/%s#%s' % [c.app, name, c.stage],
    'example.com/source': 'https://git.example.com/platform/environments',
  },

  // What every object of a component has in common.
  common(kind, c, name)::
    kind.metadata.withNamespace(c.namespace)
    + kind.metadata.withLabelsMixin($.labels(c, name))
    + kind.metadata.withAnnotationsMixin($.annotations(c, name)),

  image(c):: '%(registry)s/%(repository)s:%(tag)s' % c.image,

  probes(path, seconds)::
    container.readinessProbe.httpGet.withPath(path)
    + container.readinessProbe.httpGet.withPort('http')
    + container.readinessProbe.withInitialDelaySeconds(seconds)
    + container.readinessProbe.withPeriodSeconds(seconds * 2)
    + container.readinessProbe.withTimeoutSeconds(1)
    + container.livenessProbe.httpGet.withPath(path + '/live')
    + container.livenessProbe.httpGet.withPort('http')
    + container.livenessProbe.withInitialDelaySeconds(seconds * 3)
    + container.livenessProbe.withFailureThreshold(3)
    + container.startupProbe.httpGet.withPath(path + '/started')
    + container.startupProbe.httpGet.withPort('http')
    + container.startupProbe.withFailureThreshold(30),

  confined::
    container.securityContext.withAllowPrivilegeEscalation(false)
    + container.securityContext.capabilities.withDrop(['ALL'])
    + container.securityContext.withReadOnlyRootFilesystem(true)
    + container.securityContext.withRunAsNonRoot(true)
    + container.securityContext.withRunAsUser(1000)
    + container.securityContext.seccompProfile.withType('RuntimeDefault'),

  withBudget(cpu, memory):: deployment.mapContainers(function(c) c + (
    container.resources.withRequestsMixin({ cpu: '%dm' % cpu, memory: memory })
    + container.resources.withLimitsMixin({ memory: memory })
  )),

  fromField(name, path)::
    envVar.withName(name)
    + envVar.valueFrom.fieldRef.withFieldPath(path),

  container(c, name, env)::
    container.new(name, $.image(c))
    + container.withImagePullPolicy('IfNotPresent')
    + container.withPorts([
      containerPort.new('http', c.port),
      containerPort.new('metrics', c.port + 1000),
    ])
    + container.withArgs(['--%s=%s' % [key, env[key]] for key in std.objectFields(env)])
    + container.withEnvMap({ NAMESPACE: c.namespace, CLUSTER: c.cluster, STAGE: c.stage } + env)
    + container.withEnvMixin([
      $.fromField('POD_NAME', 'metadata.name'),
      $.fromField('POD_IP', 'status.podIP'),
      $.fromField('NODE_NAME', 'spec.nodeName'),
    ])
    + container.withEnvFrom([envFromSource.secretRef.withName(name) + envFromSource.secretRef.withOptional(true)])
    + container.withVolumeMounts([
      volumeMount.new('config', '/etc/' + name),
      volumeMount.new('scratch', '/tmp') + volumeMount.withReadOnly(false),
    ])
    + $.confined
    + $.probes('/healthz', 5),

  // Stands between a component and whoever calls it.
  proxy(c, name)::
    container.new('proxy', '%s/platform/proxy:v2.7.1' % c.image.registry)
    + container.withImagePullPolicy('IfNotPresent')
    + container.withPorts([containerPort.new('proxy', 15001), containerPort.new('proxy-admin', 15000)])
    + container.withArgs(['proxy', '--service-cluster', name, '--service-node', c.namespace, '--drain', '30s'])
    + container.withEnvMap({
      UPSTREAM: 'http://127.0.0.1:%d' % c.port,
      TRACING: std.toString(c.features.tracing),
      TRUST_DOMAIN: c.domain,
    })
    + container.lifecycle.preStop.exec.withCommand(['/bin/sh', '-c', 'sleep 5'])
    + container.readinessProbe.tcpSocket.withPort('proxy')
    + container.readinessProbe.withPeriodSeconds(5)
    + container.resources.withRequests({ cpu: '20m', memory: '64Mi' })
    + $.confined,

  // The settings of a component as it reads them.
  settings(c, name, env):: {
    server: { listen: '0.0.0.0:%d' % c.port, metrics: '0.0.0.0:%d' % (c.port + 1000), timeoutSeconds: 30 },
    logging: { level: c.logLevel, format: 'json', fields: { app: c.app, component: name, cluster: c.cluster } },
    upstreams: [
      { name: peer, url: 'http://%s.%s.svc:%d' % [peer, c.namespace, c.port], retries: 3, regions: c.features.regions }
      for peer in c.peers
    ],
    limits: { requestsPerSecond: 100 * c.replicas, bodyBytes: 1024 * 1024, connections: 64 * c.replicas },
    features: c.features,
    env: env,
  },

  config(c, name, env)::
    configMap.new(name, {
      'config.json': std.manifestJsonEx($.settings(c, name, env), '  '),
      'settings.ini': std.manifestIni({
        main: { port: c.port, stage: c.stage },
        sections: {
          limits: { connections: 64 * c.replicas, queue: 1000 },
          peers: { [peer]: '%s.%s' % [peer, c.namespace] for peer in c.peers },
        },
      }),
    })
    + $.common(configMap, c, name),

  deployment(c, name, env)::
    deployment.new(name, c.replicas, [$.container(c, name, env), $.proxy(c, name)], $.selector(c, name))
    + $.common(deployment, c, name)
    + deployment.metadata.withAnnotationsMixin({ 'example.com/library': $.revision })
    + deployment.spec.strategy.withType('RollingUpdate')
    + deployment.spec.strategy.rollingUpdate.withMaxSurge('25%')
    + deployment.spec.strategy.rollingUpdate.withMaxUnavailable(0)
    + deployment.spec.withRevisionHistoryLimit(10)
    + deployment.spec.withProgressDeadlineSeconds(600)
    + deployment.spec.template.metadata.withLabelsMixin($.labels(c, name))
    + deployment.spec.template.metadata.withAnnotationsMixin({
      'example.com/config': std.md5(std.manifestJson($.settings(c, name, env))),
      'prometheus.io/scrape': 'true',
      'prometheus.io/port': std.toString(c.port + 1000),
    })
    + deployment.spec.template.spec.withServiceAccountName(name)
    + deployment.spec.template.spec.withTerminationGracePeriodSeconds(30)
    + deployment.spec.template.spec.withNodeSelectorMixin({ pool: c.stage })
    + deployment.spec.template.spec.securityContext.withFsGroup(1000)
    + deployment.spec.template.spec.withTolerations([
      toleration.withKey('pool') + toleration.withOperator('Equal') + toleration.withValue(c.stage) + toleration.withEffect('NoSchedule'),
    ])
    + deployment.spec.template.spec.withTopologySpreadConstraints([{
      maxSkew: 1,
      topologyKey: 'topology.kubernetes.io/zone',
      whenUnsatisfiable: 'ScheduleAnyway',
      labelSelector: { matchLabels: $.selector(c, name) },
    }])
    + deployment.spec.template.spec.withVolumesMixin([
      volume.fromConfigMap('config', name),
      volume.withName('scratch') + volume.emptyDir.withSizeLimit('256Mi'),
    ])
    + deployment.spec.template.spec.affinity.podAntiAffinity.withPreferredDuringSchedulingIgnoredDuringExecutionMixin([{
      weight: 100,
      podAffinityTerm: { labelSelector: { matchLabels: $.selector(c, name) }, topologyKey: 'kubernetes.io/hostname' },
    }]),

  service(c, name)::
    service.new(name)
    + $.common(service, c, name)
    + service.spec.withPorts([servicePort.new('http', 80), servicePort.new('metrics', 9090)])
    + service.spec.withSelector($.selector(c, name))
    + service.spec.withType('ClusterIP'),

  ingress(c, name)::
    local hosts = ['%s.%s' % [name, c.domain], '%s.internal.%s' % [name, c.domain]];
    ingress.new(name)
    + $.common(ingress, c, name)
    + ingress.metadata.withAnnotationsMixin({
      'cert-manager.io/cluster-issuer': 'letsencrypt',
      'nginx.ingress.kubernetes.io/proxy-body-size': '8m',
    })
    + ingress.spec.withIngressClassName('nginx')
    + ingress.spec.withTls([{ hosts: hosts, secretName: name + '-tls' }])
    + ingress.spec.withRules([
      {
        host: host,
        http: { paths: [
          { path: path, pathType: 'Prefix', backend: { service: { name: name, port: { name: 'http' } } } }
          for path in ['/', '/api']
        ] },
      }
      for host in hosts
    ]),

  serviceAccount(c, name)::
    serviceAccount.new(name)
    + $.common(serviceAccount, c, name)
    + serviceAccount.withAutomountServiceAccountToken(false)
    + serviceAccount.withImagePullSecrets([{ name: 'registry' }]),

  role(c, name)::
    role.new(name)
    + $.common(role, c, name)
    + role.withRules([
      rule.withApiGroups(['']) + rule.withResources(['configmaps', 'secrets']) + rule.withVerbs(['get', 'list', 'watch']),
      rule.withApiGroups(['apps']) + rule.withResources(['deployments']) + rule.withVerbs(['get']),
      rule.withApiGroups(['coordination.k8s.io']) + rule.withResources(['leases']) + rule.withVerbs(['create', 'get', 'update']),
    ]),

  roleBinding(c, name)::
    roleBinding.new(name)
    + $.common(roleBinding, c, name)
    + roleBinding.roleRef.withApiGroup('rbac.authorization.k8s.io')
    + roleBinding.roleRef.withKind('Role')
    + roleBinding.roleRef.withName(name)
    + roleBinding.withSubjects([
      subject.withKind('ServiceAccount') + subject.withName(name) + subject.withNamespace(c.namespace),
    ]),

  scaler(c, name)::
    scaler.new(name)
    + $.common(scaler, c, name)
    + scaler.spec.withMinReplicas(c.replicas)
    + scaler.spec.withMaxReplicas(c.replicas * 3)
    + scaler.spec.scaleTargetRef.withApiVersion('apps/v1')
    + scaler.spec.scaleTargetRef.withKind('Deployment')
    + scaler.spec.scaleTargetRef.withName(name)
    + scaler.spec.withMetrics([
      { type: 'Resource', resource: { name: 'cpu', target: { type: 'Utilization', averageUtilization: 80 } } },
    ]),

  budget(c, name)::
    budget.new(name)
    + $.common(budget, c, name)
    + budget.spec.withMaxUnavailable('1')
    + budget.spec.selector.withMatchLabels($.selector(c, name)),

  // What may talk to what: everything of the application, and whoever collects measurements.
  boundary(c)::
    policy.new(c.app)
    + $.common(policy, c, c.app)
    + policy.spec.podSelector.withMatchLabels({ 'app.kubernetes.io/part-of': c.app })
    + policy.spec.withPolicyTypes(['Ingress'])
    + policy.spec.withIngress([
      { from: [{ podSelector: { matchLabels: { 'app.kubernetes.io/part-of': c.app } } }] },
      { from: [{ namespaceSelector: { matchLabels: { name: 'monitoring' } } }], ports: [{ port: 'metrics' }] },
    ]),

  component(c, name, env):: {
    config: $.config(c, name, env),
    deployment: $.deployment(c, name, env),
    service: $.service(c, name),
    ingress: $.ingress(c, name),
    serviceAccount: $.serviceAccount(c, name),
    role: $.role(c, name),
    roleBinding: $.roleBinding(c, name),
  } + (if c.stage == 'prod' then {
         scaler: $.scaler(c, name),
         budget: $.budget(c, name),
       } else {}),
}
