//! Inheritance for all inputs: narrowing only, idempotent, order-free where the rule says so.

use proptest::prelude::*;

use super::super::{Access, Packages, PackagesPatch, SetupCommand, Variables};
use super::*;
use crate::invalid::Path;
use crate::json::Json;

fn network() -> impl Strategy<Value = Network> {
    let hosts = proptest::collection::vec("[a-c]\\.x", 1..4);
    prop_oneof![
        Just(Access::Enabled).prop_map(|access| Network {
            access,
            allowed_domains: Vec::new()
        }),
        Just(Access::Disabled).prop_map(|access| Network {
            access,
            allowed_domains: Vec::new()
        }),
        hosts.prop_map(|allowed_domains| Network {
            access: Access::Restricted,
            allowed_domains
        }),
    ]
}

fn field<T: Clone + std::fmt::Debug + 'static>(
    value: impl Strategy<Value = T> + 'static,
) -> impl Strategy<Value = Field<T>> {
    prop_oneof![
        Just(Field::Omitted),
        Just(Field::Null),
        value.prop_map(Field::Value)
    ]
}

fn names() -> impl Strategy<Value = Vec<String>> {
    proptest::collection::vec("[a-c]", 0..3)
}

fn variables() -> impl Strategy<Value = Variables> {
    proptest::collection::btree_map("[A-C]", "[x-z]", 0..3).prop_map(|map| {
        let text = serde_json::to_string(&map).unwrap();
        Variables::parse(Json::new(&text), &Path::root()).unwrap()
    })
}

fn commands() -> impl Strategy<Value = Vec<SetupCommand>> {
    let command = "[a-c]".prop_map(|command| SetupCommand { command, cwd: None });
    proptest::collection::vec(command, 0..3)
}

fn template() -> impl Strategy<Value = (Preparation, Confidential)> {
    (
        network(),
        names(),
        names(),
        names(),
        variables(),
        commands(),
    )
        .prop_map(
            |(network, capability_directories, npm, python, env, setup_commands)| {
                let whole = Preparation {
                    capability_directories,
                    network,
                    packages: Packages { npm, python },
                    ..Preparation::default()
                };
                (
                    whole,
                    Confidential {
                        env,
                        setup_commands,
                    },
                )
            },
        )
}

fn own() -> impl Strategy<Value = PreparationPatch<BlobRef>> {
    let packages =
        (field(names()), field(names())).prop_map(|(npm, python)| PackagesPatch { npm, python });
    (
        field(network()),
        field(names()),
        field(packages),
        field(variables()),
        field(commands()),
    )
        .prop_map(
            |(network, capability_directories, packages, env, setup_commands)| PreparationPatch {
                network,
                capability_directories,
                packages,
                env,
                setup_commands,
                ..PreparationPatch::default()
            },
        )
}

/// What a policy allows, as a set over the three hosts and "anything else".
fn reach(network: &Network) -> Vec<bool> {
    ["a.x", "b.x", "c.x", "else"]
        .iter()
        .map(|host| match network.access {
            Access::Enabled => true,
            Access::Disabled => false,
            Access::Restricted => network
                .allowed_domains
                .iter()
                .any(|allowed| allowed == host),
        })
        .collect()
}

proptest! {
    #[test]
    fn the_network_only_narrows(template in template(), own in own()) {
        // ENV-453: by what can be reached, not by how it is written.
        let wide = reach(&template.0.network);
        let asked = match &own.network {
            Field::Value(network) => reach(network),
            Field::Omitted | Field::Null => wide.clone(),
        };
        let is_within = asked.iter().zip(&wide).all(|(asked, wide)| !asked || *wide);
        match Preparation::inherit(Some(template), own) {
            Ok((whole, _)) => {
                prop_assert!(is_within);
                prop_assert_eq!(reach(&whole.network), asked);
            }
            Err(Widening) => prop_assert!(!is_within),
        }
    }

    #[test]
    fn applying_twice_is_applying_once(template in template(), own in own()) {
        // ENV-451: the result is a fixed point of the same request.
        if let Ok(once) = Preparation::inherit(Some(template), own.clone()) {
            prop_assert_eq!(Preparation::inherit(Some(once.clone()), own), Ok(once));
        }
    }

    #[test]
    fn silence_inherits_everything(template in template()) {
        // ENV-453 to ENV-458: omitted and null alike.
        let silent = PreparationPatch::default();
        prop_assert_eq!(Preparation::inherit(Some(template.clone()), silent), Ok(template.clone()));
        let null = PreparationPatch {
            capability_directories: Field::Null,
            env: Field::Null,
            files: Field::Null,
            network: Field::Null,
            packages: Field::Null,
            plugins: Field::Null,
            setup_commands: Field::Null,
            skills: Field::Null,
        };
        prop_assert_eq!(Preparation::inherit(Some(template.clone()), null), Ok(template));
    }

    #[test]
    fn each_member_is_decided_by_itself(template in template(), own in own()) {
        // ENV-454 to ENV-458: members in any order, or one at a time, give one result.
        let Ok(together) = Preparation::inherit(Some(template.clone()), own.clone()) else { return Ok(()) };
        let single = [
            PreparationPatch { env: own.env.clone(), ..PreparationPatch::default() },
            PreparationPatch { packages: own.packages.clone(), ..PreparationPatch::default() },
            PreparationPatch { setup_commands: own.setup_commands.clone(), ..PreparationPatch::default() },
            PreparationPatch { network: own.network.clone(), ..PreparationPatch::default() },
            PreparationPatch { capability_directories: own.capability_directories.clone(), ..PreparationPatch::default() },
        ];
        for order in [[0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [2, 0, 4, 1, 3]] {
            let mut state = template.clone();
            for index in order {
                state = Preparation::inherit(Some(state), single[index].clone()).unwrap();
            }
            prop_assert_eq!(&state, &together);
        }
    }

    #[test]
    fn variables_overlay_name_by_name(template in template(), own in variables()) {
        // ENV-454
        let base = template.1.env.clone();
        let patch = PreparationPatch { env: Field::Value(own.clone()), ..PreparationPatch::default() };
        let (_, Confidential { env, .. }) = Preparation::inherit(Some(template), patch).unwrap();
        let value = |variables: &Variables, name: &str| {
            variables.pairs().find_map(|(key, value)| (key == name).then(|| value.to_owned()))
        };
        for name in ["A", "B", "C"] {
            prop_assert_eq!(value(&env, name), value(&own, name).or_else(|| value(&base, name)));
        }
    }
}

#[test]
fn without_a_template_the_network_is_open_unless_said() {
    // ENV-459
    let (whole, _) = Preparation::inherit(None, PreparationPatch::default()).unwrap();
    assert_eq!(whole.network, Network::default());
    let closed = Network {
        access: Access::Disabled,
        allowed_domains: Vec::new(),
    };
    let own = PreparationPatch {
        network: Field::Value(closed.clone()),
        ..PreparationPatch::default()
    };
    assert_eq!(Preparation::inherit(None, own).unwrap().0.network, closed);
}
