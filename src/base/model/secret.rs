//! A value that must not be shown: it has no `Debug`, no `Display`, no `Serialize` and no `==`.

use zeroize::Zeroize;

/// A token, key or signing secret. Only [`Secret::expose`] returns its value, so every use can be found by name.
/// Compare secrets with a constant-time function; `==` does not compile.
///
/// ```compile_fail
/// let secret = drydock::base::model::Secret::new("s".to_owned());
/// let _ = secret == secret;
/// ```
///
/// ```compile_fail
/// println!("{:?}", drydock::base::model::Secret::new("s".to_owned()));
/// ```
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    /// Wraps a value.
    pub fn new(value: String) -> Self {
        Self(value)
    }

    /// Returns the value.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}
