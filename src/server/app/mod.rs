//! Builds the server from its configuration, and starts and stops it.

mod channels;
mod clocks;
mod ingress;
mod refusals;
mod secret_pairs;
mod tasks;
mod tools;
mod watch;

use crate::base::config::Config;
use crate::base::health::Health;
use crate::crash_point;
use crate::engine::admin::{self, Admin, ServerFacts};
use crate::engine::agent::context::RoomError;
use crate::engine::gateway::{Gateway, MirrorBounds, Parts, Repositories, Retention, store_configured};
use crate::interfaces::channel;
use crate::rendering::sandbox::{ProgramPath, Scratch};
use crate::server::http;
use crate::state::access::{Access, AccessError};
use crate::state::store::{self, Condition, GroupAccess, OpenError, Store};
use clocks::ClockMonitor;
use ingress::{GatewayIngress, IngressRoutes};
use jiff::Timestamp;
use refusals::Refusals;
pub(crate) use refusals::secret_mismatches;
pub(crate) use secret_pairs::secret_pairs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tasks::{TaskLifetime, Tasks};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tools::Tools;
use tracing::{info, warn};

/// The longest time that a shutdown waits for running work.
const SHUTDOWN_MAX: Duration = Duration::from_secs(10);
/// The longest time that a shutdown then waits for each remaining part.
const LEFT_MAX: Duration = Duration::from_secs(2);

/// The inputs of the program that do not come from the configuration: time, randomness and its own path.
#[derive(Clone, Copy, Debug)]
pub struct Host {
    /// The clock.
    pub now: fn() -> Timestamp,
    /// Returns 32 unpredictable bytes.
    pub random: fn() -> [u8; 32],
    /// Returns the path of the program that is started again as a sandbox worker.
    pub program: fn() -> ProgramPath,
    /// Local servers that replace hosts, as pairs of host and address. Tests use them to try downloads without a
    /// network. The configuration cannot set them.
    pub host_overrides: &'static [(&'static str, &'static str)],
}

/// An error that keeps the server from starting, in one line that says what to do.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The database cannot be used.
    #[error(transparent)]
    Database(#[from] OpenError),
    /// A database access failed during the start.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The server cannot listen on its address: the address is in use or not of this machine.
    #[error("cannot listen on {address}: {why}; set `server.listen` to a free address")]
    Listen {
        /// The configured address.
        address: SocketAddr,
        /// The system's reason.
        why: std::io::Error,
    },
    /// The instructions and tools leave no room for a conversation with a configured model.
    #[error(transparent)]
    Room(#[from] RoomError),
    /// Another setting of the configuration does not work.
    #[error("{0}")]
    Setup(String),
}

/// The reason why the server ended without a shutdown, in one line.
#[derive(Debug, thiserror::Error)]
pub enum ServerFailure {
    /// The store is broken and accepts no more writes.
    #[error("the store is broken: {0}; the process ends, and the next start checks the data on the disk")]
    Store(String),
    /// A task that the server needs has ended.
    #[error("{task} {how}; the process ends, because it cannot work without this task")]
    Task {
        /// The name of the task.
        task: String,
        /// The way the task ended: `ended`, `panicked` or `was aborted`.
        how: &'static str,
    },
}

/// A running server.
pub struct App {
    /// The address the server listens on; the real port, also if the configuration has port 0.
    pub address: SocketAddr,
    /// The engine, for tests and the demo.
    pub gateway: Arc<Gateway>,
    /// The administrative requests that an operator can make.
    pub admin: Arc<Admin>,
    /// The register of current health problems.
    pub health: Health,
    condition: tokio::sync::watch::Receiver<Condition>,
    cancel: CancellationToken,
    accepting: CancellationToken,
    tasks: Tasks,
}

impl App {
    /// Starts a server. It accepts requests at once; channels connect and repositories load in the background, and
    /// `/readyz` reports when they are ready.
    pub async fn start(config: Config, host: Host) -> Result<Self, StartError> {
        // A change of the configuration that comes during the start counts as later.
        let started_at = (host.now)();
        let mut config = config;
        config.sandbox.programs.scratch = config.data.directory.join("scratch");
        let config = Arc::new(config);
        let directory = config.data.directory.clone();
        let group = GroupAccess::from_setting(config.data.group_access);
        let opening = tokio::task::spawn_blocking(move || {
            store::prepare_directory(&directory, group)?;
            Store::open(&directory)
        });
        let tools = Tools::new(&config, host);
        let store = opening.await.map_err(setup)??;
        let tools = tools?;
        clear_scratch(config.sandbox.programs.scratch.clone()).await;
        let retention = Arc::new(Retention::new(
            store.clone(),
            &config.data,
            config.retention.clone(),
            config.repositories.keys().cloned().collect(),
        ));
        retention.clear_unfinished().await;
        let repositories = Repositories::new(
            &config.repositories,
            config.data.directory.clone(),
            MirrorBounds::from(config.as_ref()),
            Arc::new(log_progress),
            host.now,
        );
        let listen = config.server.listen;
        let listener = TcpListener::bind(listen)
            .await
            .map_err(|why| StartError::Listen { address: listen, why })?;
        let address = listener
            .local_addr()
            .map_err(|why| StartError::Listen { address: listen, why })?;
        // Nothing is loaded for a server whose address is in use.
        repositories.begin_to_load();
        let access = Arc::new(Access::load(store.clone(), &config.limits).await?);
        store_configured(&store, &config.schedules, (host.now)())
            .await
            .map_err(AccessError::from)?;
        let health = Health::default();
        let client = tools.client;
        let parts = Parts {
            store: store.clone(),
            access: Arc::clone(&access),
            providers: tools.providers,
            toolbox: tools.toolbox,
            comparer: tools.comparer,
            repositories,
            redactor: tools.redactor,
            denied: tools.denied,
            launcher: (host.program)(),
            config: Arc::clone(&config),
            health: health.clone(),
            now: host.now,
            random: host.random,
        };
        let gateway = Gateway::new(parts).await?;
        let secret_pairs = secret_pairs(&config, &store).await.map_err(AccessError::from)?;
        let routes = Arc::new(IngressRoutes::new(&config, secret_pairs.clone(), health.clone()));
        let condition = store.condition();
        let facts = ServerFacts {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            process: std::process::id(),
            started_at,
            address,
            configuration: config.file.clone(),
        };
        let admin = Arc::new(Admin {
            store,
            access,
            data: config.data.directory.clone(),
            retention,
            channels: config.channels.keys().cloned().collect(),
            gateway: Some(Arc::clone(&gateway)),
            facts: Some(facts),
            installations: Arc::clone(&routes) as Arc<dyn admin::Installations>,
            secret_pairs,
            started_at: Some((host.now)()),
            now: host.now,
            random: host.random,
        });
        let mut app = Self {
            address,
            gateway,
            admin,
            health,
            condition,
            cancel: CancellationToken::new(),
            accepting: CancellationToken::new(),
            tasks: Tasks::default(),
        };
        app.spawn_all(listener, config, routes, client, host)?;
        info!(%address, "listening on http://{address}");
        Ok(app)
    }

    fn spawn_all(
        &mut self,
        listener: TcpListener,
        config: Arc<Config>,
        routes: Arc<IngressRoutes>,
        client: reqwest::Client,
        host: Host,
    ) -> Result<(), StartError> {
        let socket =
            admin::listen(&config.data.directory).map_err(|why| StartError::Setup(why.to_string()))?;
        let (store, health) = (self.admin.store.clone(), self.health.clone());
        let admin = admin::serve(socket, Arc::clone(&self.admin), self.cancel.clone());
        self.tasks.spawn("the admin socket", TaskLifetime::Endless, admin);
        let watching = watch::watch_store(store.clone(), health.clone(), host.now, self.cancel.clone());
        self.tasks
            .spawn("the watch of the store", TaskLifetime::Endless, watching);
        let checking = watch::check_store(store, health.clone(), self.cancel.clone());
        self.tasks
            .spawn("the check of the database", TaskLifetime::Finite, checking);
        let ingress = Arc::new(GatewayIngress {
            gateway: Arc::clone(&self.gateway),
            routes: Arc::clone(&routes),
            refusals: Refusals::new(&config, health.clone()),
            clock_monitor: ClockMonitor::new(health),
            now: host.now,
        });
        let serving = http::serve(listener, &config.server, ingress, self.accepting.clone());
        self.tasks
            .spawn("the listener", TaskLifetime::Endless, async move {
                let served = serving.await;
                if served.connections_cut > 0 {
                    warn!(
                        served.connections_cut,
                        "some requests were aborted at shutdown; their senders will send them again"
                    );
                }
            });
        for (name, settings) in &config.channels {
            let connecting = channels::ChannelConnector {
                name: name.clone(),
                settings: settings.clone(),
                server: channels::server_settings(&config.server, self.address),
                client: client.clone(),
                routes: Arc::clone(&routes),
                gateway: Arc::clone(&self.gateway),
                store: self.admin.store.clone(),
                now: host.now,
                cancel: self.cancel.clone(),
            };
            self.tasks
                .spawn(format!("channel {name}"), TaskLifetime::Endless, connecting.run());
        }
        self.start_comments(&config, &client);
        let turns = Arc::clone(&self.gateway).run(self.cancel.clone());
        self.tasks
            .spawn("the loop of turns", TaskLifetime::Endless, turns);
        let loading = self
            .gateway
            .housekeeping
            .clone()
            .load_repositories(routes, self.cancel.clone());
        self.tasks
            .spawn("the loading of repositories", TaskLifetime::Finite, loading);
        let dropping = self
            .gateway
            .housekeeping
            .clone()
            .drop_addresses(self.cancel.clone());
        self.tasks
            .spawn("the dropping of addresses", TaskLifetime::Endless, dropping);
        let deadlines = self.gateway.question_deadlines.clone().watch(self.cancel.clone());
        self.tasks
            .spawn("the deadlines of questions", TaskLifetime::Endless, deadlines);
        let schedules = Arc::clone(&self.gateway.schedules).watch(self.cancel.clone());
        self.tasks
            .spawn("the times of schedules", TaskLifetime::Endless, schedules);
        let following = Arc::clone(&self.gateway.schedules).follow_definitions(self.cancel.clone());
        self.tasks
            .spawn("the times of pipelines", TaskLifetime::Endless, following);
        let runs = Arc::clone(&self.gateway.runs).watch(self.cancel.clone());
        self.tasks
            .spawn("the runs of pipelines", TaskLifetime::Endless, runs);
        let traces = Arc::clone(&self.gateway.runs.tracer).watch(self.cancel.clone());
        self.tasks
            .spawn("the traces of runs", TaskLifetime::Endless, traces);
        let retention = Arc::clone(&self.admin.retention).run(host.now, self.cancel.clone());
        self.tasks.spawn("retention", TaskLifetime::Endless, retention);
        Ok(())
    }

    /// Starts the delivery of comments, one for each hook with a token for them.
    fn start_comments(&mut self, config: &Config, client: &reqwest::Client) {
        for (hook, settings) in &config.hooks {
            let Some(comments) = &settings.comments else {
                continue;
            };
            let connected = channel::connect_comments(hook, comments, &config.server, client);
            let (gateway, cancel) = (Arc::clone(&self.gateway), self.cancel.clone());
            let name = channel::comment_channel(hook);
            let task = format!("the comments of {name}");
            self.tasks.spawn(task, TaskLifetime::Endless, async move {
                gateway.outgoing.attach(&name, connected, cancel).await;
            });
        }
    }

    /// Waits until the server fails. Cancel-safe.
    pub async fn wait_for_failure(&mut self) -> ServerFailure {
        tokio::select! {
            biased;
            why = watch::wait_until_broken(&mut self.condition) => ServerFailure::Store(why),
            ended = self.tasks.wait_for_failure() => ended,
        }
    }

    /// Stops the server. It accepts no new requests, and running turns stop at their next await. Messages in the
    /// outbox stay there for the next start.
    pub async fn shutdown(mut self) {
        crash_point::before("B28");
        self.accepting.cancel();
        self.cancel.cancel();
        if tokio::time::timeout(SHUTDOWN_MAX, self.tasks.wait_all())
            .await
            .is_err()
        {
            warn!(
                "some tasks did not end in {} s; their effects are in the journal",
                SHUTDOWN_MAX.as_secs()
            );
            // A task that blocks cannot be stopped; it ends with the process.
            let _left = tokio::time::timeout(LEFT_MAX, self.tasks.shutdown()).await;
        }
        let _left = tokio::time::timeout(LEFT_MAX, self.gateway.finish_background()).await;
        if tokio::time::timeout(LEFT_MAX, self.gateway.end_work())
            .await
            .is_err()
        {
            warn!("the store did not answer; the next start treats this stop as a crash");
        }
        crash_point::after("B28");
    }
}

/// Removes the scratch files of a server that was killed. This is safe: the process that has opened the store is the
/// only user of the data directory, and no run has started yet.
async fn clear_scratch(scratch: PathBuf) {
    let cleared = tokio::task::spawn_blocking(move || Scratch::clear(&scratch)).await;
    if let Ok(Err(why)) = cleared {
        warn!("files of earlier runs remain in the data directory: {why}");
    }
}

fn setup(why: impl std::fmt::Display) -> StartError {
    StartError::Setup(why.to_string())
}

fn log_progress(repository: &str, text: &str) {
    info!(repository, "repository {repository}: {text}");
}
