//! A value that must not be shown: no `Debug`, no `Display`, no `Serialize`, no `==`.

use zeroize::Zeroize;

/// A token, key or signing secret. Only [`Secret::expose`] gives it away, so every use can be found
/// by name. Compare secrets with a constant-time function; `==` does not compile.
///
/// ```compile_fail
/// let secret = drydock::model::Secret::new("s".to_owned());
/// let _ = secret == secret;
/// ```
///
/// ```compile_fail
/// println!("{:?}", drydock::model::Secret::new("s".to_owned()));
/// ```
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    /// Wraps a value.
    pub fn new(value: String) -> Self {
        Self(value)
    }

    /// The value itself.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}
