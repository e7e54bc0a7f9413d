// What the generated library lacks.
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
