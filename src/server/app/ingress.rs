//! Connects the HTTP listener to the engine: finds the webhook of a name and stores its events.

use super::clocks::ClockMonitor;
use super::refusals::Refusals;
use crate::base::config::{ChannelSettings, Config};
use crate::base::health::{Health, HealthSeverity};
use crate::base::model::{ChangeNumber, Inbound, Installation, RunId};
use crate::base::webhook::{SecretPairs, Webhook, hook_webhook};
use crate::engine::admin::Installations;
use crate::engine::gateway::{
    self, Gateway, HandoverAnswer, LoadObserver, RunFilter, RunStartRequest, RunWatch,
};
use crate::interfaces::channel;
use crate::server::http::{Ingress, IngressResult, PersonalApi, Readiness, Route, RunRequests, Unavailable};
use async_trait::async_trait;
use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// The webhooks by name, and the repositories that are not ready yet.
pub(super) struct IngressRoutes {
    webhooks: RwLock<BTreeMap<String, Arc<dyn Webhook>>>,
    installations: RwLock<BTreeMap<String, Installation>>,
    connecting: Mutex<BTreeSet<String>>,
    /// Webhooks that verify requests of channels that are not connected yet.
    unconnected: BTreeMap<String, Arc<dyn Webhook>>,
    secret_pairs: SecretPairs,
    /// Repositories that are not loaded yet, with the reason if loading has failed.
    loading: Mutex<BTreeMap<String, Option<String>>>,
    health: Health,
}

impl IngressRoutes {
    pub(super) fn new(config: &Config, secret_pairs: SecretPairs, health: Health) -> Self {
        let hooks = config.hooks.iter();
        let webhooks =
            hooks.map(|(name, settings)| (name.clone(), hook_webhook(name, settings, &secret_pairs)));
        let webhooks = RwLock::new(webhooks.collect());
        let channels = config.channels.iter();
        let unconnected = channels.filter_map(|(name, settings)| {
            let webhook = channel::unconnected_webhook(name, settings, &secret_pairs)?;
            Some((name.clone(), webhook))
        });
        let unconnected = unconnected.collect();
        Self {
            secret_pairs,
            unconnected,
            webhooks,
            installations: RwLock::default(),
            connecting: Mutex::new(config.channels.keys().cloned().collect()),
            loading: Mutex::new(
                config
                    .repositories
                    .keys()
                    .map(|name| (name.clone(), None))
                    .collect(),
            ),
            health,
        }
    }

    /// Opens the webhook of a channel whose installation is known.
    pub(super) fn add_channel(&self, name: &str, settings: &ChannelSettings, installation: &Installation) {
        if let Some(webhook) = channel::webhook(name, settings, installation, &self.secret_pairs) {
            let mut webhooks = self.webhooks.write().unwrap_or_else(PoisonError::into_inner);
            webhooks.insert(name.to_owned(), webhook);
        }
        let mut installations = self.installations.write().unwrap_or_else(PoisonError::into_inner);
        installations.insert(name.to_owned(), installation.clone());
        self.connecting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(name);
    }

    fn readiness(&self) -> Readiness {
        let connecting = self
            .connecting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let loading = self
            .loading
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let connecting = connecting.iter().map(|name| format!("connecting channel {name}"));
        let loading = loading.iter().map(|(name, why)| match why {
            Some(why) => format!("loading repository {name}: {why}"),
            None => format!("loading repository {name}"),
        });
        let mut reasons: Vec<String> = connecting.chain(loading).collect();
        reasons.extend(self.health.reason_lines(HealthSeverity::Unready));
        Readiness {
            waiting_for: reasons,
            degraded: self.health.reason_lines(HealthSeverity::Degraded),
        }
    }
}

impl Installations for IngressRoutes {
    fn installations(&self) -> Vec<(String, Installation)> {
        let installations = self.installations.read().unwrap_or_else(PoisonError::into_inner);
        installations
            .iter()
            .map(|(name, installation)| (name.clone(), installation.clone()))
            .collect()
    }

    fn waiting_for(&self) -> Vec<String> {
        self.readiness().waiting_for
    }

    fn degraded(&self) -> Vec<String> {
        self.readiness().degraded
    }
}

impl LoadObserver for IngressRoutes {
    fn loaded(&self, repository: &str) {
        self.loading
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(repository);
    }

    fn failed(&self, repository: &str, why: &str) {
        let mut loading = self.loading.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(reason) = loading.get_mut(repository) {
            *reason = Some(why.to_owned());
        }
    }
}

/// The engine with a clock, as the HTTP side uses it.
pub(super) struct GatewayIngress {
    pub(super) gateway: Arc<Gateway>,
    pub(super) routes: Arc<IngressRoutes>,
    pub(super) clock_monitor: ClockMonitor,
    pub(super) refusals: Refusals,
    pub(super) now: fn() -> Timestamp,
}

#[async_trait]
impl PersonalApi for GatewayIngress {
    async fn log_in(&self, code: &str, at: Timestamp) -> HandoverAnswer {
        self.gateway.handover.log_in(code, at).await
    }

    async fn log_out(&self, token: &str, at: Timestamp) -> HandoverAnswer {
        self.gateway.handover.log_out(token, at).await
    }

    async fn change(&self, token: &str, number: ChangeNumber, at: Timestamp) -> HandoverAnswer {
        self.gateway.handover.change(token, number, at).await
    }
}

#[async_trait]
impl RunRequests for GatewayIngress {
    async fn start_run(&self, token: &str, request: RunStartRequest, at: Timestamp) -> HandoverAnswer {
        self.gateway.run_api.start(token, &request, at).await
    }

    async fn list_runs(&self, token: &str, filter: RunFilter, at: Timestamp) -> HandoverAnswer {
        self.gateway.run_api.list(token, filter, at).await
    }

    async fn show_run(&self, token: &str, id: RunId, at: Timestamp) -> HandoverAnswer {
        self.gateway.run_api.show(token, id, at).await
    }

    async fn cancel_run(&self, token: &str, id: RunId, at: Timestamp) -> HandoverAnswer {
        self.gateway.run_api.cancel(token, id, at).await
    }

    async fn retry_run(&self, token: &str, id: RunId, key: Option<&str>, at: Timestamp) -> HandoverAnswer {
        self.gateway.run_api.retry(token, id, key, at).await
    }

    async fn watch_run(
        &self,
        token: &str,
        id: RunId,
        at: Timestamp,
    ) -> Result<Box<RunWatch>, HandoverAnswer> {
        self.gateway.run_api.watch(token, id, at).await.map(Box::new)
    }
}

#[async_trait]
impl Ingress for GatewayIngress {
    async fn accept(&self, inbound: Inbound, at: Timestamp) -> Result<IngressResult, Unavailable> {
        match self.gateway.receive(inbound, at).await.map_err(|_| Unavailable)? {
            Ok(gateway::ReceiveOutcome::New) => Ok(IngressResult::New),
            Ok(gateway::ReceiveOutcome::Duplicate) => Ok(IngressResult::Duplicate),
            Ok(gateway::ReceiveOutcome::Refused) => Ok(IngressResult::Refused),
            Ok(gateway::ReceiveOutcome::Full) => Err(Unavailable),
            Err(error) => {
                tracing::error!(%error, "an inbound could not be stored; its sender will deliver it again");
                Err(Unavailable)
            }
        }
    }

    fn webhook(&self, name: &str) -> Route {
        let webhooks = self
            .routes
            .webhooks
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(webhook) = webhooks.get(name) {
            return Route::Webhook(Arc::clone(webhook));
        }
        match self.routes.unconnected.get(name) {
            Some(webhook) => Route::Connecting(Arc::clone(webhook)),
            None => Route::Unknown,
        }
    }

    fn rejected(&self, name: &str, reason: &'static str, at: Timestamp) {
        self.gateway.audit.rejected(name, reason, at);
    }

    fn unauthenticated(&self, name: &str, reason: &'static str, at: Timestamp) {
        self.refusals.record_refused(name, reason, at);
    }

    fn authentic(&self, name: &str) {
        self.clock_monitor.record_fresh(name);
        self.refusals.record_authentic(name);
    }

    fn stale(&self, name: &str, seconds: i64) {
        self.clock_monitor.record_stale(name, seconds);
        self.refusals.record_authentic(name);
    }

    fn ignored(&self, name: &str, reason: &'static str, at: Timestamp) {
        self.gateway.audit.ignored(name, reason, at);
    }

    fn ready(&self) -> Readiness {
        let mut readiness = self.routes.readiness();
        readiness.degraded.extend(self.gateway.problems(self.now()));
        readiness
    }

    fn now(&self) -> Timestamp {
        (self.now)()
    }
}
