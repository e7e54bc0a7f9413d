//! The models of a session, and the switch to another one.

use super::{PROFILE_KEY, PROVIDER_KEY, PROVIDER_VARIABLE, Terminal};
use crate::base::config::Config;
use crate::base::http_client;
use crate::cli::CliError;
use crate::engine::agent::ModelChain;
use crate::engine::agent::context::check_room;
use crate::interfaces::provider;

/// A model that a session can ask, with its settings.
pub(super) struct SessionModel {
    /// The configuration, whose default model it is.
    pub(super) config: Config,
    /// The model and its fallbacks.
    pub(super) models: ModelChain,
}

impl Terminal {
    /// Uses another model for the rest of the session. The conversation goes on; an error changes nothing.
    pub(in crate::cli) fn switch_model(&mut self, name: &str) -> Result<(), CliError> {
        let model = self.find_model(name)?;
        self.use_model(&model);
        Ok(())
    }

    /// Finds a model with its key and its address. Its keys are removed from every text from now on.
    pub(super) fn find_model(&self, name: &str) -> Result<SessionModel, CliError> {
        let mut sources = self.global.model_sources()?;
        // A name with a provider of its own wins, so the provider of the command line is set by a weaker layer.
        sources.flags.retain(|(key, _)| key != PROVIDER_KEY);
        if let Some(provider) = &self.provider {
            let variable = PROVIDER_VARIABLE.to_owned();
            sources.environment.insert(variable, provider.clone());
        }
        let profile = self.profile.clone().map(|name| (PROFILE_KEY.to_owned(), name));
        sources.flags.extend(profile);
        sources.flags.push(("model.default".to_owned(), name.to_owned()));
        let config = Config::for_terminal(sources).map_err(CliError::config)?;
        let client = http_client::api_client().map_err(CliError::failed)?;
        let providers = provider::build(&config.providers, client, config.model.answer_mode);
        check_room(&config, &self.toolbox).map_err(CliError::config)?;
        let models = ModelChain::resolve(&config, &providers).map_err(CliError::config)?;
        for secret in config.secrets() {
            let found = self.redactor.secrets_in_entry("api_key", secret.expose());
            self.redactor.learn(&found);
        }
        Ok(SessionModel { config, models })
    }

    /// Uses a model from now on.
    pub(super) fn use_model(&mut self, model: &SessionModel) {
        self.models = model.models.clone();
        self.answered_by = None;
        self.config.model = model.config.model.clone();
        self.config.providers = model.config.providers.clone();
    }
}
