//! What a sealed value is bound to: its purpose and its owner.

/// The kinds of secret; a ciphertext of one purpose never opens as another (KEY-006).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// A Vault credential (KEY-001).
    VaultCredential,
    /// The bytes of a Skill version.
    SkillBundle,
    /// The model provider frozen with a Session (MDL-029).
    SessionProvider,
    /// The model provider of a saved Agent (MDL-028).
    AgentProvider,
    /// The deployment's default model provider of a harness (DEF-001).
    DeploymentDefault,
    /// Environment variables of a hosted Environment.
    EnvironmentVariables,
    /// Setup commands of a hosted Environment.
    EnvironmentSetup,
    /// Initial files of a hosted Environment.
    EnvironmentFiles,
    /// A content-addressed blob (Artifacts).
    Blob,
    /// An uploaded File.
    File,
    /// State that a sandbox provider keeps about an allocation.
    ProviderState,
    /// The secret of a device credential that the server itself must present again.
    DeviceCredential,
    /// The installation's own keys (the fingerprint key).
    Installation,
}

impl Purpose {
    /// The label that enters the associated data. Labels never change: old values name them.
    pub const fn label(self) -> &'static str {
        match self {
            Self::VaultCredential => "vault-credential",
            Self::SkillBundle => "skill-bundle",
            Self::SessionProvider => "session-provider",
            Self::AgentProvider => "agent-provider",
            Self::DeploymentDefault => "deployment-default",
            Self::EnvironmentVariables => "environment-variables",
            Self::EnvironmentSetup => "environment-setup",
            Self::EnvironmentFiles => "environment-files",
            Self::Blob => "blob",
            Self::File => "file",
            Self::ProviderState => "provider-state",
            Self::DeviceCredential => "device-credential",
            Self::Installation => "installation",
        }
    }
}

/// Purpose and owner of one value. The owner is a list of ids, outermost first
/// (for a credential: Project, Vault, Credential, auth type, server URL).
#[derive(Debug, Clone, Copy)]
pub struct Binding<'a> {
    /// What the value is.
    pub purpose: Purpose,
    /// Whose it is.
    pub owner: &'a [&'a str],
}

impl<'a> Binding<'a> {
    /// A binding to `owner` for `purpose`.
    pub const fn new(purpose: Purpose, owner: &'a [&'a str]) -> Self {
        Self { purpose, owner }
    }

    /// Unambiguous bytes: every part is preceded by its length, so that no two owners share an encoding.
    pub(crate) fn associated_data(&self) -> Vec<u8> {
        let mut data = b"berth.seal.1".to_vec();
        for part in std::iter::once(self.purpose.label()).chain(self.owner.iter().copied()) {
            data.extend_from_slice(&(part.len() as u64).to_be_bytes());
            data.extend_from_slice(part.as_bytes());
        }
        data
    }
}
