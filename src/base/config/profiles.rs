//! Profiles of terminal sessions: each has a model, and says whether the model may edit files. A profile without a model
//! has that of `default`, so a change of `default` changes it as well.

use crate::base::config::model_choice::{DEFAULT, FALLBACKS, PROVIDER};
use crate::base::config::reader::SettingsReader;

/// The profile of a session for which none is chosen, if it exists.
pub const DEFAULT_PROFILE: &str = "default";
/// The profile that has the model of [`DEFAULT_PROFILE`] and edits nothing.
pub const READONLY_PROFILE: &str = "readonly";

/// The section of all profiles.
const PROFILES: &str = "profiles";

/// The permission of a profile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProfileAccess {
    /// The model may edit files.
    #[default]
    Edit,
    /// The model may only read.
    Read,
}

impl ProfileAccess {
    /// The words of the configuration.
    pub const WORDS: &'static [&'static str] = &["edit", "read"];
}

/// The profile of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProfileSettings {
    /// The name; `None` without a profile.
    pub name: Option<String>,
    /// `access`, default `edit`; `read` for the profile `readonly`.
    pub access: ProfileAccess,
}

/// Returns the chosen profile, after its model has replaced that of the file.
pub(super) fn apply(reader: &mut SettingsReader<'_>) -> ProfileSettings {
    refuse_other_readonly(reader);
    let name = match reader.is_set("profile") {
        true => reader.reference("profile", PROFILES),
        false => Some(DEFAULT_PROFILE.to_owned()).filter(|name| reader.names(PROFILES).contains(name)),
    };
    let Some(name) = name else {
        return ProfileSettings::default();
    };
    let key = |profile: &str, key: &str| format!("{PROFILES}.{profile}.{key}");
    let candidates = [name.as_str(), DEFAULT_PROFILE];
    // A model and its provider belong together, so both come from one profile.
    let chooses = |profile: &&str| {
        ["model", "provider"]
            .iter()
            .any(|chosen| reader.is_set(&key(profile, chosen)))
    };
    let of_model = candidates.into_iter().find(chooses);
    let of_fallbacks = candidates
        .into_iter()
        .find(|profile| reader.is_set(&key(profile, "fallbacks")));
    if let Some(profile) = of_model {
        reader.replace_in_file(DEFAULT, &key(profile, "model"));
        reader.replace_in_file(PROVIDER, &key(profile, "provider"));
    }
    if let Some(profile) = of_fallbacks {
        reader.replace_in_file(FALLBACKS, &key(profile, "fallbacks"));
    }
    let words = [("edit", ProfileAccess::Edit), ("read", ProfileAccess::Read)];
    let access = reader.choice(&key(&name, "access"), &words);
    ProfileSettings {
        access: match name == READONLY_PROFILE {
            true => ProfileAccess::Read,
            false => access.unwrap_or_default(),
        },
        name: Some(name),
    }
}

/// Refuses keys with which the profile `readonly` would have another model than `default`, or would edit files.
fn refuse_other_readonly(reader: &mut SettingsReader<'_>) {
    for key in ["model", "provider"] {
        let path = format!("{PROFILES}.{READONLY_PROFILE}.{key}");
        if reader.is_set(&path) {
            let why =
                "this profile has the model of `default`; remove this key, or give the profile another name";
            reader.problem(&path, why);
        }
    }
    let path = format!("{PROFILES}.{READONLY_PROFILE}.access");
    if reader.text(&path).is_some_and(|access| access != "read") {
        let why = "this profile only reads; write \"read\", or give the profile another name";
        reader.problem(&path, why);
    }
}
