//! The operator's configuration. Flags override the environment, which overrides the file, which overrides the
//! defaults. An unknown key is an error with file, line, key and the nearest known key.

mod budgets;
mod channels;
mod edit;
mod entries;
mod error;
mod hooks;
mod key_lookup;
mod keys;
mod layers;
mod load;
mod model_choice;
mod model_facts;
mod models;
mod profiles;
mod provider_keys;
mod pipelines;
mod reader;
mod repositories;
mod sandbox;
mod schedules;
mod secret_pair;
mod secrets;
mod services;
mod settings;
mod sources;
mod url;
mod value;
mod variables;

pub use crate::base::webhook::{Grants, HookChange, HookScheme, HookSettings, PostTo};
pub use budgets::BudgetSettings;
// Each kind of channel exports its settings there.
pub use channels::*;
pub use edit::{ConfigEdit, EditError, NewKeys, NewValue, SecretReference};
pub use error::{ConfigError, Problem};
pub use keys::{ConfigKey, KEYS, UnsetRule, ValueKind};
pub use model_facts::{ModelFacts, ModelTable};
pub use models::{KNOWN_PROVIDERS, KnownProvider, ProviderId, WireFormat, known_provider, usual_model};
pub use pipelines::{PipelineOperatorSettings, PipelineSettings};
pub use profiles::{DEFAULT_PROFILE, ProfileAccess, ProfileSettings, READONLY_PROFILE};
pub use provider_keys::{KeyOrigin, ProviderKey};
pub use schedules::ScheduleSettings;
pub use secrets::credential_name;
pub use secrets::{checked_key, key_of_file};
pub use services::ServiceSettings;
pub use settings::{
    AnswerMode, BundlerSettings, Config, DataSettings, LimitSettings, MessageSettings, ModelSettings,
    OperatorSettings, ProgramSettings, ProviderSettings, RepositorySettings, RetentionSettings,
    SandboxSettings, ServerSettings,
};
pub use sources::{ConfigSources, SourceFile};
pub use url::checked_url;
pub use variables::ignored_variables;

#[cfg(test)]
mod tests;
