(import 'k8s/main.libsonnet') + (import 'kausal.libsonnet')
