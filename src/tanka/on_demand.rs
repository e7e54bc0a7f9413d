//! The evaluator of a program that may never need one: it is made when the first environment is
//! rendered.

use super::renderer::Evaluate;
use crate::config::SandboxSettings;
use crate::jsonnet::{EvalError, Evaluated, Evaluator, Request};
use crate::sandbox::Program;
use async_trait::async_trait;
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;

/// An [`Evaluator`] that is made at its first use.
#[derive(Debug)]
pub struct OnDemand {
    program: Program,
    settings: SandboxSettings,
    evaluator: OnceCell<Evaluator>,
}

impl OnDemand {
    /// Remembers the settings and starts nothing. `program` is what runs in the jail: this one.
    pub fn new(program: Program, settings: SandboxSettings) -> Self {
        Self {
            program,
            settings,
            evaluator: OnceCell::new(),
        }
    }

    async fn evaluator(&self) -> Result<&Evaluator, EvalError> {
        let make = || async { Evaluator::configured(self.program.clone(), &self.settings) };
        self.evaluator.get_or_try_init(make).await
    }
}

#[async_trait]
impl Evaluate for OnDemand {
    async fn evaluate(&self, request: Request, cancel: &CancellationToken) -> Result<Evaluated, EvalError> {
        self.evaluator().await?.evaluate(request, cancel).await
    }

    async fn evaluate_all(
        &self,
        requests: Vec<Request>,
        done: &(dyn Fn() + Send + Sync),
        cancel: &CancellationToken,
    ) -> Vec<Result<Evaluated, EvalError>> {
        match self.evaluator().await {
            Ok(evaluator) => evaluator.evaluate_watched(requests, done, cancel).await,
            Err(error) => requests.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    async fn evaluate_aside(
        &self,
        requests: Vec<Request>,
        cancel: &CancellationToken,
    ) -> Vec<Result<Evaluated, EvalError>> {
        match self.evaluator().await {
            Ok(evaluator) => evaluator.evaluate_aside(requests, cancel).await,
            Err(error) => requests.iter().map(|_| Err(error.clone())).collect(),
        }
    }
}

#[async_trait]
impl Evaluate for Evaluator {
    async fn evaluate(&self, request: Request, cancel: &CancellationToken) -> Result<Evaluated, EvalError> {
        Self::evaluate(self, request, cancel).await
    }

    async fn evaluate_all(
        &self,
        requests: Vec<Request>,
        done: &(dyn Fn() + Send + Sync),
        cancel: &CancellationToken,
    ) -> Vec<Result<Evaluated, EvalError>> {
        self.evaluate_watched(requests, done, cancel).await
    }

    async fn evaluate_aside(
        &self,
        requests: Vec<Request>,
        cancel: &CancellationToken,
    ) -> Vec<Result<Evaluated, EvalError>> {
        Self::evaluate_aside(self, requests, cancel).await
    }
}
