//! The profiles `default` and `readonly` in the configuration file of this user. `readonly` has no model of its own, so it
//! follows every change of `default`.

use crate::base::config::{
    Config, ConfigEdit, ConfigSources, DEFAULT_PROFILE, NewValue, READONLY_PROFILE, SourceFile, usual_model,
};
use crate::cli::CliError;
use crate::cli::global::personal_directory;
use std::path::PathBuf;

/// The name of the file, if none is named.
const NAME: &str = "drydock.toml";
/// The first line of a new file.
const COMMENT: &str = "# Written by `drydock auth login`. `config/drydock.toml` describes every key.\n";
/// The kind of the sections.
const PROFILES: &str = "profiles";

/// The planned change of the file.
pub(super) struct ProfileEdit {
    /// The path of the file.
    pub(super) file: PathBuf,
    /// The model of `default`, as `provider/model`.
    pub(super) model: String,
    edit: ConfigEdit,
    is_new: bool,
    before: String,
}

impl ProfileEdit {
    /// Plans the profiles for a provider. A model in use stays if it is of this provider and no other one is named.
    pub(super) fn plan(
        sources: &ConfigSources,
        provider: &str,
        model: Option<&str>,
    ) -> Result<Self, CliError> {
        let (file, mut edit) = match &sources.file {
            Some(source) => (source.path.clone(), ConfigEdit::new(source)?),
            None => {
                let directory = personal_directory().ok_or_else(|| {
                    CliError::failed(
                        "there is no place for profiles: neither XDG_CONFIG_HOME nor HOME is set",
                    )
                })?;
                let file = directory.join(NAME);
                (file.clone(), ConfigEdit::create(&file, COMMENT))
            }
        };
        let before = edit.text();
        let model = match model {
            Some(model) => model
                .strip_prefix(&format!("{provider}/"))
                .unwrap_or(model)
                .to_owned(),
            None => model_in_use(sources, provider)
                .or_else(|| usual_model(provider).map(str::to_owned))
                .ok_or_else(|| {
                    CliError::usage(format!("{provider} has no known default model; add --model NAME"))
                })?,
        };
        let text = |text: &str| NewValue::Text(text.to_owned());
        let chosen = [("provider", text(provider)), ("model", text(&model))];
        edit.set_keys(PROFILES, DEFAULT_PROFILE, &chosen)?;
        if !edit.has_section(PROFILES, READONLY_PROFILE) {
            edit.add_section(PROFILES, READONLY_PROFILE, &[("access", text("read"))])?;
        }
        Ok(Self {
            file,
            model: format!("{provider}/{model}"),
            edit,
            is_new: sources.file.is_none(),
            before,
        })
    }

    /// Returns the sources with the changed file, in which the profile `default` answers.
    pub(super) fn changed(&self, sources: &ConfigSources) -> ConfigSources {
        let mut changed = ConfigSources {
            file: Some(SourceFile {
                path: self.file.clone(),
                text: self.edit.text(),
            }),
            ..sources.clone()
        };
        // A variable or an option may choose another model now.
        let (provider, model) = self.model.split_once('/').unwrap_or_default();
        let chosen = [
            ("profile", DEFAULT_PROFILE),
            ("model.provider", provider),
            ("model.default", model),
            ("model.fallbacks", "[]"),
        ];
        let chosen = chosen.map(|(key, value)| (key.to_owned(), value.to_owned()));
        changed.flags.extend(chosen);
        changed
    }

    /// Writes the file, if it changes.
    pub(super) fn save(self, sources: &ConfigSources) -> Result<(), CliError> {
        match (self.edit.text() == self.before, self.is_new) {
            (true, _) => {}
            (false, true) => self.edit.save_new(sources)?,
            (false, false) => self.edit.save(sources)?,
        }
        Ok(())
    }
}

/// Returns the name of the model that answers now, if it is of this provider.
fn model_in_use(sources: &ConfigSources, provider: &str) -> Option<String> {
    let config = Config::for_terminal(sources.clone()).ok()?;
    let (of, model) = config.model.default.split_once('/')?;
    (of == provider).then(|| model.to_owned())
}
