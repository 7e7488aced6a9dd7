//! Harnesses that this Core may use: the declarations of its plugins, in the order of rank (SLC-009, S-HAR-1).

use domain::invalid::{Invalid, Path, is_echoable};
use domain::run::{HarnessDeclaration, HarnessId};

/// The enabled declarations. Admission reads them and nothing else about a harness.
#[derive(Debug, Default)]
pub(crate) struct Harnesses {
    declarations: Vec<HarnessDeclaration>,
    default: Option<HarnessId>,
}

/// Settings name a harness that no plugin declares, or the default one is not enabled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no enabled harness '{0}'")]
pub struct UnknownHarness(pub String);

impl Harnesses {
    /// Takes the declarations that are enabled; the default is the named one, or the one of the lowest rank.
    pub(crate) fn new(
        mut declarations: Vec<HarnessDeclaration>,
        enabled: Option<&[String]>,
        default: Option<&str>,
    ) -> Result<Self, UnknownHarness> {
        let exists = |name: &str| {
            declarations
                .iter()
                .any(|declaration| declaration.id.as_str() == name)
        };
        if let Some(name) = enabled
            .unwrap_or_default()
            .iter()
            .find(|name| !exists(name))
        {
            return Err(UnknownHarness(name.clone()));
        }
        if let Some(enabled) = enabled {
            declarations
                .retain(|declaration| enabled.iter().any(|name| name == declaration.id.as_str()));
        }
        declarations.sort_by(|a, b| (a.rank, &a.id).cmp(&(b.rank, &b.id)));
        let default = match default {
            None => declarations
                .first()
                .map(|declaration| declaration.id.clone()),
            Some(name) => {
                let found = declarations
                    .iter()
                    .find(|declaration| declaration.id.as_str() == name);
                Some(
                    found
                        .ok_or_else(|| UnknownHarness(name.to_owned()))?
                        .id
                        .clone(),
                )
            }
        };
        Ok(Self {
            declarations,
            default,
        })
    }

    /// An enabled harness by its public name.
    pub(crate) fn find(&self, name: &str) -> Option<&HarnessDeclaration> {
        self.declarations
            .iter()
            .find(|declaration| declaration.id.as_str() == name)
    }

    /// A harness that a request names (SLC-002, SLC-005).
    pub(crate) fn select(&self, name: &str, path: &Path) -> Result<&HarnessDeclaration, Invalid> {
        self.find(name).ok_or_else(|| {
            let named = if is_echoable(name) {
                format!(" '{name}'")
            } else {
                String::new()
            };
            Invalid::unsupported(
                path.echo(),
                format!("The harness{named} is not available on this service."),
            )
        })
    }

    /// The harness of requests that choose none (SLC-003).
    pub(crate) fn default(&self) -> Option<&HarnessDeclaration> {
        self.default.as_ref().and_then(|id| self.find(id.as_str()))
    }

    /// Every enabled declaration, by rank.
    pub(crate) fn all(&self) -> &[HarnessDeclaration] {
        &self.declarations
    }
}
