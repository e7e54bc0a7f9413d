//! An evaluator that is created only when the first environment is rendered, because a program run may never need
//! one.

use super::renderer::Evaluate;
use crate::base::config::SandboxSettings;
use crate::rendering::jsonnet::{EvalError, EvalRequest, Evaluation, Evaluator};
use crate::rendering::sandbox::ProgramPath;
use async_trait::async_trait;
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;

/// An [`Evaluator`] that is created on first use.
#[derive(Debug)]
pub struct LazyEvaluator {
    program: ProgramPath,
    settings: SandboxSettings,
    evaluator: OnceCell<Evaluator>,
}

impl LazyEvaluator {
    /// Stores the settings and starts nothing. `program` is the executable to run in the sandbox, which is this
    /// program.
    pub fn new(program: ProgramPath, settings: SandboxSettings) -> Self {
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
impl Evaluate for LazyEvaluator {
    async fn evaluate(
        &self,
        request: EvalRequest,
        cancel: &CancellationToken,
    ) -> Result<Evaluation, EvalError> {
        self.evaluator().await?.evaluate(request, cancel).await
    }

    async fn evaluate_all(
        &self,
        requests: Vec<EvalRequest>,
        done: &(dyn Fn() + Send + Sync),
        cancel: &CancellationToken,
    ) -> Vec<Result<Evaluation, EvalError>> {
        match self.evaluator().await {
            Ok(evaluator) => evaluator.evaluate_with_progress(requests, done, cancel).await,
            Err(error) => requests.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    async fn evaluate_in_background(
        &self,
        requests: Vec<EvalRequest>,
        cancel: &CancellationToken,
    ) -> Vec<Result<Evaluation, EvalError>> {
        match self.evaluator().await {
            Ok(evaluator) => evaluator.evaluate_in_background(requests, cancel).await,
            Err(error) => requests.iter().map(|_| Err(error.clone())).collect(),
        }
    }
}

#[async_trait]
impl Evaluate for Evaluator {
    async fn evaluate(
        &self,
        request: EvalRequest,
        cancel: &CancellationToken,
    ) -> Result<Evaluation, EvalError> {
        Self::evaluate(self, request, cancel).await
    }

    async fn evaluate_all(
        &self,
        requests: Vec<EvalRequest>,
        done: &(dyn Fn() + Send + Sync),
        cancel: &CancellationToken,
    ) -> Vec<Result<Evaluation, EvalError>> {
        self.evaluate_with_progress(requests, done, cancel).await
    }

    async fn evaluate_in_background(
        &self,
        requests: Vec<EvalRequest>,
        cancel: &CancellationToken,
    ) -> Vec<Result<Evaluation, EvalError>> {
        Self::evaluate_in_background(self, requests, cancel).await
    }
}
