//! The routes of the listener, in one table, and the service that answers every request by it.
//!
//! axum selects the handler; the answer of a handler reaches the client unchanged. The deadlines, the bounds and the limits
//! of connections are those of the [socket](super::connection), below the router.

use super::answer::{self, Answer, HttpResponse};
use super::bounds::ListenerBounds;
use super::event::event;
use super::{Ingress, openapi, personal, runs};
use axum::Router;
use axum::extract::State;
use axum::routing::{MethodRouter, get, post};
use futures_util::FutureExt;
use http::Request;
use hyper::body::Incoming;
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use tracing::error;

/// The state that all handlers share.
pub(super) struct RouteState {
    pub(super) bounds: ListenerBounds,
    pub(super) ingress: Arc<dyn Ingress>,
    /// Fires when nothing is accepted any more. Answers that go on end then.
    pub(super) cancel: CancellationToken,
}

/// A route: its methods, its path, and the handlers of its path.
type ListedRoute = (
    &'static [&'static str],
    &'static str,
    MethodRouter<Arc<RouteState>>,
);

/// Returns every route. Those of GET include HEAD. Paths are compared as they were sent: a slash at the end or an encoded
/// character makes another path.
pub(super) fn listed() -> [ListedRoute; 14] {
    [
        reading("/healthz", get(alive)),
        reading("/livez", get(alive)),
        reading("/readyz", get(ready)),
        // A name is everything below `/in/`. A wildcard matches no empty name.
        writing("/in/", post(event)),
        writing("/in/{*name}", post(event)),
        reading(openapi::PATH, get(openapi::description)),
        writing("/api/login", post(personal::log_in)),
        writing("/api/logout", post(personal::log_out)),
        reading("/api/changes/{number}", get(personal::change)),
        (
            &["GET", "POST"],
            "/api/runs",
            get(runs::list).post(runs::start).fallback(get_or_post),
        ),
        reading("/api/runs/{number}", get(runs::show)),
        reading("/api/runs/{number}/events", get(runs::watch)),
        writing("/api/runs/{number}/cancel", post(runs::cancel)),
        writing("/api/runs/{number}/retry", post(runs::retry)),
    ]
}

fn reading(path: &'static str, handlers: MethodRouter<Arc<RouteState>>) -> ListedRoute {
    (&["GET"], path, handlers.fallback(get_only))
}

fn writing(path: &'static str, handlers: MethodRouter<Arc<RouteState>>) -> ListedRoute {
    (&["POST"], path, handlers.fallback(post_only))
}

fn router() -> Router<Arc<RouteState>> {
    let routes = listed().into_iter();
    let all = routes.fold(Router::new(), |all, (_, path, handlers)| {
        all.route(path, handlers)
    });
    all.fallback(not_found)
}

async fn alive() -> Answer {
    answer::alive()
}

async fn ready(State(state): State<Arc<RouteState>>) -> Answer {
    answer::ready(&state.ingress.ready())
}

async fn get_only() -> Answer {
    answer::method_not_allowed("GET, HEAD")
}

async fn post_only() -> Answer {
    answer::method_not_allowed("POST")
}

async fn get_or_post() -> Answer {
    answer::method_not_allowed("GET, HEAD, POST")
}

async fn not_found() -> Answer {
    answer::not_found()
}

/// The routes with their state, which all connections share.
pub(super) struct HttpRoutes {
    pub(super) bounds: ListenerBounds,
    router: TowerToHyperService<Router>,
}

impl HttpRoutes {
    pub(super) fn new(bounds: ListenerBounds, ingress: Arc<dyn Ingress>, cancel: CancellationToken) -> Self {
        let state = RouteState {
            bounds: bounds.clone(),
            ingress,
            cancel,
        };
        Self {
            bounds,
            router: TowerToHyperService::new(router().with_state(Arc::new(state))),
        }
    }

    /// Answers one request. A panic is answered as well and does not affect other requests.
    pub(super) async fn answer(&self, request: Request<Incoming>) -> HttpResponse {
        match AssertUnwindSafe(self.router.call(request)).catch_unwind().await {
            Ok(Ok(routed)) => Answer::of(routed),
            Ok(Err(never)) => match never {},
            Err(_panic) => {
                error!("a request handler panicked");
                answer::failed().into()
            }
        }
    }
}
