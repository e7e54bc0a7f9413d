//! What an operator can set. Flags over environment over file over defaults; an unknown key is an
//! error that names file, line, key and the nearest known key.

mod settings;

pub use settings::{
    ChannelSettings, Config, DataSettings, Grants, HookScheme, HookSettings, LimitSettings, ModelSettings,
    PostTo, ProviderSettings, RepositorySettings, ServerSettings, SlackSettings, TelegramMode,
    TelegramSettings,
};
