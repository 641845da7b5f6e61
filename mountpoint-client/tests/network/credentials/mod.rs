//! Credentials: each source, their renewal, and their end.

mod chain;
mod expiry;
mod metadata;
mod sso;
