//! Plain data that every kind of plugin shares. No functions live here.
//!
//! Written by `cargo xtask contract`; edit the WIT instead.

use serde::{Deserialize, Serialize};
#[cfg(feature = "component")]
use wasmtime::component::{ComponentType, Lift, Lower};

/// One name and its value; names are unique within one list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct Pair {
    /// 1..128 bytes.
    pub name: String,
    /// At most 16 KiB; never a secret.
    pub value: String,
}

/// The escape hatch: what this contract version has no field or case for yet. Unknown kinds are ignored and counted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct Extra {
    /// `[a-z0-9_.-]{1,64}`; a third party puts its plugin id and a dot in front.
    pub kind: String,
    /// One JSON value, at most 64 KiB.
    pub json: String,
}

/// What is known about the outside world after something failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Copy, Hash)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(enum)
)]
#[repr(u8)]
pub enum Effect {
    /// Certainly nothing was created, sent, changed or submitted.
    #[cfg_attr(feature = "component", component(name = "none"))]
    None,
    /// It may have happened; it is observed, never repeated.
    #[cfg_attr(feature = "component", component(name = "unknown"))]
    Unknown,
}

#[cfg(target_arch = "wasm32")]
impl Effect {
    /// From its number on the component boundary.
    ///
    /// # Safety
    /// None; the bindings expect the keyword.
    #[doc(hidden)]
    pub unsafe fn _lift(number: u8) -> Self {
        match number {
            0 => Self::None,
            _ => Self::Unknown,
        }
    }
}

/// Why something could not be done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct Failure {
    /// `[a-z0-9_]{1,64}` from the catalogue of the operation; decisions are made on this alone (RP-10.12, S-DIA-5).
    pub code: String,
    /// For the log only, at most 1 KiB, no secret, no user content; never public (SP-3.7, S-TURN-3).
    pub detail: String,
    /// Whether the world may have changed.
    pub effect: Effect,
}

/// An inline picture (S-MSG-5).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(record)
)]
pub struct Image {
    /// `image/png` or `image/jpeg`.
    #[cfg_attr(feature = "component", component(name = "media-type"))]
    pub media_type: String,
    /// The decoded bytes, as the caller sent them.
    #[serde(with = "serde_bytes")]
    pub data: Vec<u8>,
}

/// One part of a message or of a function result; order, boundaries and bytes are kept (RP-12.5).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(variant)
)]
pub enum ContentPart {
    /// Text, never trimmed, may be empty beside another part (S-MSG-4).
    #[cfg_attr(feature = "component", component(name = "text"))]
    Text(String),
    /// A picture.
    #[cfg_attr(feature = "component", component(name = "image"))]
    Image(Image),
    /// A later kind of part; an adapter that does not know it rejects the input.
    #[cfg_attr(feature = "component", component(name = "other"))]
    Other(Extra),
}

/// How a filled-in value is written where it lands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Copy, Hash)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "component",
    derive(ComponentType, Lift, Lower),
    component(enum)
)]
#[repr(u8)]
pub enum Encoding {
    /// As it is.
    #[cfg_attr(feature = "component", component(name = "raw"))]
    Raw,
    /// Escaped for the inside of a JSON or TOML basic string, without the quotes.
    #[cfg_attr(feature = "component", component(name = "json-string"))]
    JsonString,
    /// Standard Base64 with padding.
    #[cfg_attr(feature = "component", component(name = "base64"))]
    Base64,
    /// Percent-encoded for a URL path segment or query value.
    #[cfg_attr(feature = "component", component(name = "percent"))]
    Percent,
}

#[cfg(target_arch = "wasm32")]
impl Encoding {
    /// From its number on the component boundary.
    ///
    /// # Safety
    /// None; the bindings expect the keyword.
    #[doc(hidden)]
    pub unsafe fn _lift(number: u8) -> Self {
        match number {
            0 => Self::Raw,
            1 => Self::JsonString,
            2 => Self::Base64,
            _ => Self::Percent,
        }
    }
}
