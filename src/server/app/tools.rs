//! The parts of a server that need no store: they are made while the store is opened.

use super::{Host, StartError, setup};
use crate::base::config::Config;
use crate::base::http_client;
use crate::base::redact::Redactor;
use crate::engine::agent::context::check_room;
use crate::interfaces::provider::{self, Providers};
use crate::interfaces::tool::{self, ToolServices, Toolbox};
use crate::rendering::bundler::{Fetch, NetworkFetcher, OfflineFetcher};
use crate::rendering::compare::Comparer;
use crate::rendering::helm::{ChartRepositories, Helm};
use crate::rendering::tanka::{Evaluate, LazyEvaluator};
use crate::state::workspace::DeniedFiles;
use std::sync::Arc;

/// The parts of a server that need no store.
pub(super) struct Tools {
    pub(super) client: reqwest::Client,
    pub(super) providers: Providers,
    pub(super) toolbox: Toolbox,
    pub(super) comparer: Arc<Comparer>,
    pub(super) redactor: Arc<Redactor>,
    pub(super) denied: Arc<DeniedFiles>,
}

impl Tools {
    /// Makes the parts, and reads the system's certificates.
    pub(super) fn new(config: &Config, host: Host) -> Result<Self, StartError> {
        let client = http_client::api_client().map_err(setup)?;
        let redactor = Arc::new(Redactor::new(config.secrets()));
        // Sandbox workers are started only when the first evaluation is requested.
        let evaluator: Arc<dyn Evaluate> =
            Arc::new(LazyEvaluator::new((host.program)(), config.sandbox.clone()));
        let mask_key = (host.random)().to_vec();
        let comparer = Comparer::new(Arc::clone(&evaluator), Arc::clone(&redactor), mask_key);
        let comparer = Arc::new(comparer.with_spool_directory(&config.sandbox.programs.scratch));
        Ok(Self {
            providers: provider::build(&config.providers, client.clone(), config.model.answer_mode),
            toolbox: toolbox(config, client.clone(), evaluator, Arc::clone(&comparer), host)?,
            denied: Arc::new(DeniedFiles::from_config(&config.sandbox.secrets_denied)),
            client,
            comparer,
            redactor,
        })
    }
}

/// Builds the toolbox with every tool.
fn toolbox(
    config: &Config,
    client: reqwest::Client,
    evaluator: Arc<dyn Evaluate>,
    comparer: Arc<Comparer>,
    host: Host,
) -> Result<Toolbox, StartError> {
    let settings = &config.sandbox.programs;
    // If no host is allowed, no download client is built.
    let client = match settings.hosts_allowed.is_empty() && config.bundler.hosts_allowed.is_empty() {
        true => client,
        false => http_client::download_client().map_err(setup)?,
    };
    let runtime = tokio::runtime::Handle::current();
    let mut charts = ChartRepositories::new(&settings.hosts_allowed, client.clone(), runtime, host.now);
    for (name, address) in host.host_overrides {
        charts = charts.with_host_override(name, address).map_err(setup)?;
    }
    let helm = Helm::configured((host.program)(), settings).map(|helm| helm.with_repositories(charts));
    let services = ToolServices {
        packages: packages(config, client, host.host_overrides)?,
        evaluator,
        comparer,
        helm: helm.map(Arc::new),
    };
    let toolbox = Toolbox::new(tool::all(&services)).map_err(setup)?;
    check_room(config, &toolbox)?;
    Ok(toolbox)
}

/// Returns the source of Jsonnet packages: the network, or an offline source if no host is allowed.
fn packages(
    config: &Config,
    client: reqwest::Client,
    host_overrides: &[(&str, &str)],
) -> Result<Arc<dyn Fetch>, StartError> {
    let hosts = &config.bundler.hosts_allowed;
    if hosts.is_empty() {
        return Ok(Arc::new(OfflineFetcher));
    }
    let runtime = tokio::runtime::Handle::current();
    let scratch = config.data.directory.join("scratch");
    let kept = config.data.directory.join("packages");
    let network = NetworkFetcher::new(hosts, client, runtime, scratch);
    let mut network = network.with_package_cache(kept, config.bundler.kept_bytes_max);
    for (host, address) in host_overrides {
        network = network.with_host_override(host, address).map_err(setup)?;
    }
    Ok(Arc::new(network))
}
