//! HMAC signatures over raw bytes, compared in constant time.
