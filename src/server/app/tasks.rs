//! The long-running tasks of a server, by name. An endless task must not end before the server does; the first one
//! that does is reported to the caller of [`Tasks::wait_for_failure`].

use super::ServerFailure;
use std::collections::HashMap;
use std::future::Future;
use tokio::task::{Id, JoinError, JoinSet};

/// The expected lifetime of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TaskLifetime {
    /// The task runs as long as the server does.
    Endless,
    /// The task ends when its work is done.
    Finite,
}

/// The running tasks.
#[derive(Default)]
pub(super) struct Tasks {
    running: JoinSet<()>,
    names: HashMap<Id, (String, TaskLifetime)>,
}

impl Tasks {
    pub(super) fn spawn(
        &mut self,
        name: impl Into<String>,
        lifetime: TaskLifetime,
        task: impl Future<Output = ()> + Send + 'static,
    ) {
        let id = self.running.spawn(task).id();
        self.names.insert(id, (name.into(), lifetime));
    }

    /// Waits until a task panics or an endless task ends. Cancel-safe.
    pub(super) async fn wait_for_failure(&mut self) -> ServerFailure {
        loop {
            let (id, how) = match self.running.join_next_with_id().await {
                Some(Ok((id, ()))) => (id, None),
                Some(Err(error)) => (error.id(), Some(how(&error))),
                None => return std::future::pending().await,
            };
            let (task, lifetime) = self
                .names
                .remove(&id)
                .unwrap_or_else(|| ("a task".to_owned(), TaskLifetime::Endless));
            let how = match (how, lifetime) {
                (Some(how), _) => how,
                (None, TaskLifetime::Endless) => "ended",
                (None, TaskLifetime::Finite) => continue,
            };
            return ServerFailure::Task { task, how };
        }
    }

    /// Waits until all tasks have ended.
    pub(super) async fn wait_all(&mut self) {
        while self.running.join_next().await.is_some() {}
    }

    /// Aborts the running tasks.
    pub(super) async fn shutdown(&mut self) {
        self.running.shutdown().await;
    }
}

fn how(error: &JoinError) -> &'static str {
    match error.is_panic() {
        true => "panicked",
        false => "was aborted",
    }
}

#[cfg(test)]
#[allow(clippy::panic)]
mod tests {
    use super::{TaskLifetime, Tasks};

    async fn failure_text(task: impl Future<Output = ()> + Send + 'static, lifetime: TaskLifetime) -> String {
        let mut tasks = Tasks::default();
        tasks.spawn("loading", TaskLifetime::Finite, async {});
        tasks.spawn("accepting", TaskLifetime::Endless, std::future::pending());
        tasks.spawn("delivering", lifetime, task);
        tasks.wait_for_failure().await.to_string()
    }

    #[tokio::test]
    async fn a_task_that_ends_before_its_server_is_named() {
        let ended = failure_text(async {}, TaskLifetime::Endless).await;
        assert!(ended.starts_with("delivering ended;"), "{ended}");
        for lifetime in [TaskLifetime::Endless, TaskLifetime::Finite] {
            let ended = failure_text(async { panic!("a defect") }, lifetime).await;
            assert!(ended.starts_with("delivering panicked;"), "{ended}");
        }
    }
}
