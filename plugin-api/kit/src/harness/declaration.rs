//! What an adapter says about itself.

use std::collections::BTreeSet;

use contract::HarnessAdapter;
use contract::common::Pair;
use contract::harness_declaration::{Ability, Declaration, Support};
use contract::manifest::Manifest;

use crate::{Result, broken, ensure};
use contract::catalogue::{ABILITIES, EVERY_SESSION};

/// All rules about declarations, against the plugin's own manifest.
///
/// # Errors
/// The first rule that is broken.
pub fn check(adapter: &dyn HarnessAdapter, settings: &[Pair], manifest: &Manifest) -> Result {
    let describe = || match adapter.describe(settings) {
        Ok(declarations) => Ok(declarations),
        Err(failure) => broken("CAP-005", format!("describe failed with {}", failure.code)),
    };
    let declarations = describe()?;
    ensure(declarations == describe()?, "CAP-005", || {
        "two calls differ".into()
    })?;
    ensure(!declarations.is_empty(), "CAP-005", || "no harness".into())?;
    let mut ids = BTreeSet::new();
    for declaration in &declarations {
        let id = declaration.id.as_str();
        ensure(ids.insert(id), "CAP-005", || {
            format!("{id} is declared twice")
        })?;
        one(declaration)?;
        ensure(
            manifest
                .harnesses
                .iter()
                .any(|x| x.id == declaration.install),
            "HAR-001",
            || format!("{id} has no install entry {:?}", declaration.install),
        )?;
        let verdict = adapter.interpret_probe(id, &[]);
        ensure(
            verdict.version.is_none() && verdict.problem.is_some(),
            "HAR-004",
            || format!("{id} is usable although no probe ran"),
        )?;
    }
    Ok(())
}

fn one(declaration: &Declaration) -> Result {
    let id = declaration.id.as_str();
    let valid = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
    ensure(
        (1..=32).contains(&id.len()) && id.bytes().all(valid),
        "SLC-001",
        || format!("{id:?} is no harness id"),
    )?;
    abilities(declaration)?;
    ensure(
        declaration.cancellation.settles_within_ms <= 8_000,
        "TRN-007",
        || format!("{id} settles a cancel too late"),
    )?;
    ensure(!declaration.models.protocols.is_empty(), "MDL-001", || {
        format!("{id} speaks no model protocol")
    })?;
    let schema: serde_json::Value = serde_json::from_str(&declaration.parameters_schema)
        .or_else(|_| broken("NAT-008", format!("{id}: the parameters schema is no JSON")))?;
    ensure(
        schema["required"].as_array().is_none_or(Vec::is_empty),
        "NAT-006",
        || format!("{id} does not take empty parameters"),
    )
}

fn abilities(declaration: &Declaration) -> Result {
    let id = declaration.id.as_str();
    let mut listed = BTreeSet::new();
    for ability in &declaration.abilities {
        ensure(listed.insert(ability.name.as_str()), "RP-7.1", || {
            format!("{id} lists {} twice", ability.name)
        })?;
    }
    let catalogue: BTreeSet<&str> = ABILITIES.iter().copied().collect();
    ensure(listed == catalogue, "RP-7.1", || {
        let difference: Vec<_> = listed.symmetric_difference(&catalogue).collect();
        format!("{id} does not list exactly the catalogue: {difference:?}")
    })?;
    let offered = |name: &str| {
        declaration
            .abilities
            .iter()
            .any(|x| x.name == name && [x.none, x.hosted, x.self_hosted] != [Support::Refused; 3])
    };
    let placements: [fn(&Ability) -> Support; 3] = [|x| x.none, |x| x.hosted, |x| x.self_hosted];
    let useful = placements.iter().any(|level| {
        let needed = |x: &&Ability| EVERY_SESSION.contains(&x.name.as_str());
        let mut needed = declaration.abilities.iter().filter(needed);
        needed.all(|x| level(x) != Support::Refused)
    });
    ensure(useful, "RP-7.3", || {
        format!("no Session can use {id}: in no placement does it offer all of {EVERY_SESSION:?}")
    })?;
    let images = !declaration.messages.images.is_empty();
    ensure(images == offered("message_images"), "CAP-005", || {
        format!("{id}: picture types and message_images disagree")
    })?;
    let verbose = !declaration.models.verbosities.is_empty();
    ensure(verbose == offered("text_verbosity"), "CAP-005", || {
        format!("{id}: verbosities and text_verbosity disagree")
    })?;
    for conflict in &declaration.conflicts {
        for name in conflict.excludes.iter().chain([&conflict.ability]) {
            ensure(catalogue.contains(name.as_str()), "CAP-001", || {
                format!("{id}: a conflict names {name:?}")
            })?;
        }
    }
    Ok(())
}
