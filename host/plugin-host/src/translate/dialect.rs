//! Versions of the contract that this host speaks: the present one, and the step before it (architecture 5). What a former
//! version says otherwise is written here and nowhere else.
//!
//! From 0.1 to 0.2: a resolver's `refusal` has a `detail`. Every other shape is the same.

use contract::mcp_types::Refusal;
use semver::Version;

/// One version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// That of [`contract::VERSION`].
    Present,
    /// 0.1, as `contract/released/0.1.0` has it.
    V0_1,
}

impl Dialect {
    /// All, the present one first.
    pub(crate) const ALL: [Self; 2] = [Self::Present, Self::V0_1];

    /// As it stands in the names of a component's interfaces.
    pub(crate) fn version(self) -> &'static str {
        match self {
            Self::Present => contract::VERSION,
            Self::V0_1 => "0.1.0",
        }
    }

    /// Major and minor; while the contract is 0.x, a minor step changes shapes.
    pub(crate) fn step(self) -> (u16, u16) {
        match self {
            Self::Present => contract::native::CONTRACT,
            Self::V0_1 => (0, 1),
        }
    }

    /// The one with these two numbers.
    pub(crate) fn at(step: (u64, u64)) -> Option<Self> {
        let same = |it: &Self| (u64::from(it.step().0), u64::from(it.step().1)) == step;
        Self::ALL.into_iter().find(same)
    }

    /// The one of a version as manifests and components write it.
    pub(crate) fn of(version: &str) -> Option<Self> {
        let version = Version::parse(version).ok()?;
        Self::at((version.major, version.minor))
    }
}

/// A resolver's refusal in 0.1.
#[cfg_attr(
    feature = "wasm",
    derive(wasmtime::component::ComponentType, wasmtime::component::Lift),
    component(record)
)]
#[derive(Debug)]
pub(crate) struct RefusalV0_1 {
    code: String,
    label: Option<String>,
    plugin: Option<String>,
}

impl From<RefusalV0_1> for Refusal {
    fn from(former: RefusalV0_1) -> Self {
        let RefusalV0_1 {
            code,
            label,
            plugin,
        } = former;
        Self {
            code,
            label,
            plugin,
            detail: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_spoken_or_not() {
        assert_eq!(Dialect::of(contract::VERSION), Some(Dialect::Present));
        assert_eq!(Dialect::of("0.2.7"), Some(Dialect::Present));
        assert_eq!(Dialect::of("0.1.0"), Some(Dialect::V0_1));
        for other in ["0.0.1", "0.3.0", "1.0.0", "1.2.0", "0.2", "", "x"] {
            assert_eq!(Dialect::of(other), None, "{other}");
        }
        for dialect in Dialect::ALL {
            assert_eq!(Dialect::of(dialect.version()), Some(dialect));
        }
    }
}
