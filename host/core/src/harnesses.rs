//! Harnesses that this Core may use: the declarations of its plugins, in the order of rank (SLC-009, S-HAR-1). A reload of the
//! plugins replaces them; what was admitted under an earlier one keeps it.

use std::sync::{Arc, PoisonError, RwLock};

use domain::invalid::{Invalid, Path, is_echoable};
use domain::run::{HarnessDeclaration, HarnessId};

/// The enabled declarations. Admission reads them and nothing else about a harness.
#[derive(Debug, Default)]
pub(crate) struct Harnesses {
    enabled: Option<Vec<String>>,
    named_default: Option<String>,
    known: RwLock<Arc<Known>>,
}

/// The declarations of one load.
#[derive(Debug, Default)]
pub(crate) struct Known {
    declarations: Vec<Arc<HarnessDeclaration>>,
    default: Option<HarnessId>,
}

/// Settings name a harness that no plugin declares, or the default one is not enabled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no enabled harness '{0}'")]
pub struct UnknownHarness(pub String);

impl Harnesses {
    /// Takes the declarations that are enabled; the default is the named one, or the one of the lowest rank.
    pub(crate) fn new(
        declarations: Vec<HarnessDeclaration>,
        enabled: Option<&[String]>,
        default: Option<&str>,
    ) -> Result<Self, UnknownHarness> {
        let harnesses = Self {
            enabled: enabled.map(<[String]>::to_vec),
            named_default: default.map(str::to_owned),
            known: RwLock::default(),
        };
        let known = harnesses.judge(declarations)?;
        harnesses.replace(known);
        Ok(harnesses)
    }

    /// The declarations as they would be taken; nothing is changed.
    pub(crate) fn judge(
        &self,
        mut declarations: Vec<HarnessDeclaration>,
    ) -> Result<Known, UnknownHarness> {
        let declared = |name: &str, declarations: &[HarnessDeclaration]| {
            declarations
                .iter()
                .any(|declaration| declaration.id.as_str() == name)
        };
        if let Some(enabled) = &self.enabled {
            if let Some(name) = enabled.iter().find(|name| !declared(name, &declarations)) {
                return Err(UnknownHarness(name.clone()));
            }
            declarations
                .retain(|declaration| enabled.iter().any(|name| name == declaration.id.as_str()));
        }
        declarations.sort_by(|a, b| (a.rank, &a.id).cmp(&(b.rank, &b.id)));
        let default = match &self.named_default {
            None => declarations.first(),
            Some(name) => {
                let found = declarations
                    .iter()
                    .find(|declaration| declaration.id.as_str() == name);
                Some(found.ok_or_else(|| UnknownHarness(name.clone()))?)
            }
        };
        Ok(Known {
            default: default.map(|declaration| declaration.id.clone()),
            declarations: declarations.into_iter().map(Arc::new).collect(),
        })
    }

    /// Takes judged declarations for everything that is admitted from now on.
    pub(crate) fn replace(&self, known: Known) {
        *self.known.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(known);
    }

    fn known(&self) -> Arc<Known> {
        Arc::clone(&self.known.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// An enabled harness by its public name.
    pub(crate) fn find(&self, name: &str) -> Option<Arc<HarnessDeclaration>> {
        self.known().find(name)
    }

    /// A harness that a request names (SLC-002, SLC-005).
    pub(crate) fn select(
        &self,
        name: &str,
        path: &Path,
    ) -> Result<Arc<HarnessDeclaration>, Invalid> {
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
    pub(crate) fn default(&self) -> Option<Arc<HarnessDeclaration>> {
        let known = self.known();
        known
            .default
            .as_ref()
            .and_then(|id| known.find(id.as_str()))
    }

    /// Every enabled declaration, by rank.
    pub(crate) fn all(&self) -> Vec<Arc<HarnessDeclaration>> {
        self.known().declarations.clone()
    }
}

impl Known {
    fn find(&self, name: &str) -> Option<Arc<HarnessDeclaration>> {
        let found = |declaration: &&Arc<HarnessDeclaration>| declaration.id.as_str() == name;
        self.declarations.iter().find(found).cloned()
    }
}
