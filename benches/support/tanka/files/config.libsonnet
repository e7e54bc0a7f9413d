// What environments set, and what it is where they do not.
{
  _config+:: {
    app: error 'app must be given',
    namespace: error 'namespace must be given',
    cluster: error 'cluster must be given',
    stage: 'dev',
    port: 8080,
    replicas: 1,
    peers: ['auth', 'billing', 'search'],
    logLevel: if self.stage == 'prod' then 'warn' else 'debug',
    image: { registry: 'registry.example.com', repository: 'team/app', tag: 'latest' },
    domain: '%s.%s.example.com' % [self.stage, self.cluster],
    features: { rollout: 0, tracing: true, regions: ['eu', 'us'] },
  },
}
