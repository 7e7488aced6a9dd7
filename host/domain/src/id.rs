//! Identities. Every kind of id is its own type, so one cannot be passed where another belongs.
//!
//! All are random UUIDs chosen outside this crate (the domain draws no random values). `Display`, `FromStr` and serde use
//! the public spelling (W-ID-1): bare for most, with a fixed prefix for Environments, Items, Files and Skills.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use uuid::Uuid;

/// The text is not an id of the expected kind. Routes treat it exactly like an id that does not exist (W-ID-3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a valid {kind}")]
pub struct InvalidId {
    /// Name of the expected type.
    pub kind: &'static str,
}

/// Hands out ids inside one decision. The store passes a random source; tests pass a counter.
pub trait Ids {
    /// A UUID never given out before (version 4; never the all-ones UUID, W-ID-1).
    fn next(&mut self) -> Uuid;
}

impl<F: FnMut() -> Uuid> Ids for F {
    fn next(&mut self) -> Uuid {
        self()
    }
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident $(= $prefix:literal)?;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Uuid);

        impl $name {
            /// Prefix of the public spelling; empty for bare UUIDs.
            pub const PREFIX: &'static str = concat!($($prefix)?);
            /// The id that is never assigned; stands for malformed path ids (W-ID-3).
            pub const NEVER: Self = Self(Uuid::max());

            /// Wraps a UUID.
            pub const fn new(uuid: Uuid) -> Self {
                Self(uuid)
            }

            /// Takes the next id of the source.
            pub fn draw(ids: &mut dyn Ids) -> Self {
                Self(ids.next())
            }

            /// The UUID without prefix.
            pub const fn uuid(self) -> Uuid {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                if Self::PREFIX.is_empty() {
                    self.0.hyphenated().fmt(f)
                } else {
                    write!(f, "{}{}", Self::PREFIX, self.0.simple())
                }
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({self})", stringify!($name))
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;

            fn from_str(text: &str) -> Result<Self, InvalidId> {
                let invalid = InvalidId { kind: stringify!($name) };
                let rest = text.strip_prefix(Self::PREFIX).ok_or(invalid)?;
                let uuid = Uuid::try_parse(rest).map_err(|_| invalid)?;
                // Prefixed ids have one spelling; W-ID-2 is about bare UUIDs only.
                if !Self::PREFIX.is_empty() && rest != uuid.simple().to_string() {
                    return Err(invalid);
                }
                Ok(Self(uuid))
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
                text.parse().map_err(de::Error::custom)
            }
        }
    )*};
}

ids! {
    /// A tenant's Project.
    ProjectId;
    /// A Project API key.
    KeyId;
    /// An Agent, saved or inline.
    AgentId;
    /// A Session.
    SessionId;
    /// An Environment of a Session.
    EnvironmentId = "env_";
    /// An Environment template.
    TemplateId;
    /// A root or child Turn.
    TurnId;
    /// An Item of a Session's history.
    ItemId = "item_";
    /// A Subagent.
    SubagentId;
    /// A published event (random, not derived from its number: D29).
    EventId;
    /// A reservation of input before any Turn exists.
    ReservationId;
    /// One ordered, canonical batch of input.
    BatchId;
    /// The receipt of one admitted batch.
    ReceiptId;
    /// One message of a Turn, as delivered to a Run.
    InputId;
    /// One delivery of a function result.
    DeliveryId;
    /// A stored configuration snapshot.
    ConfigurationId;
    /// A Runtime identity.
    DeviceId;
    /// The binding of a Session to a device.
    BindingId;
    /// Compute that a provider holds for one Environment.
    AllocationId;
    /// One provider operation (suspend, resume) to be observed.
    OperationId;
    /// One native attempt of a Turn; never reused.
    RunId;
    /// One execution admission on one connection.
    PrepareId;
    /// A native resource of a Runtime.
    ExecutorId;
    /// One socket.
    ConnectionId;
    /// One daemon process.
    InstanceId;
    /// One Berth installation.
    InstallationId;
    /// One Core process that may own the execution lease.
    OwnerId;
    /// An executor credential of a self-hosted Environment.
    ExecutorKeyId;
    /// One write of an Environment file.
    FileWriteId;
    /// A published output file.
    ArtifactId;
    /// An uploaded file.
    FileId = "file-";
    /// Bytes that came inside a request.
    ContentId;
    /// A Skill.
    SkillId = "skill_";
    /// A version of a Skill.
    SkillVersionId = "skillver_";
    /// A Vault.
    VaultId;
    /// A Credential in a Vault.
    CredentialId;
    /// An HTTP request, as shown to the client.
    RequestId = "req_";
    /// A request between the peers of a link.
    FrameId;
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: &str = "3f2c8a51-9d0e-4b6f-8a17-0c5de92b7a44";

    #[test]
    fn bare_ids_take_every_spelling_of_a_uuid() {
        // W-ID-2
        let id: SessionId = UUID.parse().unwrap();
        for spelling in [
            UUID.to_uppercase(),
            format!("{{{UUID}}}"),
            format!("urn:uuid:{UUID}"),
            UUID.replace('-', ""),
        ] {
            assert_eq!(spelling.parse(), Ok(id), "{spelling}");
        }
        assert_eq!(id.to_string(), UUID);
    }

    #[test]
    fn prefixed_ids_have_one_spelling() {
        // W-ID-1
        let id = EnvironmentId::new(Uuid::try_parse(UUID).unwrap());
        assert_eq!(id.to_string(), "env_3f2c8a519d0e4b6f8a170c5de92b7a44");
        assert_eq!(id.to_string().parse(), Ok(id));
        for wrong in [
            UUID.to_owned(),
            format!("env_{UUID}"),
            id.to_string().to_uppercase(),
            "env_".into(),
            "item_".into(),
        ] {
            assert!(wrong.parse::<EnvironmentId>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn ids_travel_as_their_public_text() {
        let id = ItemId::new(Uuid::try_parse(UUID).unwrap());
        let json = serde_json::to_string(&id).unwrap();
        assert_eq!(json, "\"item_3f2c8a519d0e4b6f8a170c5de92b7a44\"");
        assert_eq!(serde_json::from_str::<ItemId>(&json).unwrap(), id);
        assert!(serde_json::from_str::<ItemId>("\"item_x\"").is_err());
    }
}
