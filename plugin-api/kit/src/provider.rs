//! Sandbox providers.
