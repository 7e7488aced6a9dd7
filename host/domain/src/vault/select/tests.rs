//! Selection for all tools and Credentials: the rule's cases, and what no order or bystander may change.

use proptest::prelude::*;

use super::*;
use crate::agent::tools::{ConnectionOrigin, Mcp};
use crate::json::Opaque;
use crate::vault::AuthView;
use crate::{Timestamp, VaultId};

fn server(url: &str, named: Option<&str>) -> Tool {
    Tool::Mcp(Box::new(Mcp {
        server_label: "l".to_owned(),
        transport: Transport::Http {
            server_url: url.to_owned(),
            headers: Opaque::empty_object(),
        },
        allowed_tools: None,
        connection_origin: ConnectionOrigin::Service,
        credential_id: named.map(str::to_owned),
        request_metadata: Opaque::empty_object(),
        required: false,
    }))
}

fn credential(number: u8, url: &str, grant: bool) -> Credential {
    let mcp_server_url = url.to_owned();
    Credential {
        id: CredentialId::new(uuid::Uuid::from_bytes([number; 16])),
        vault: VaultId::NEVER,
        name: "n".to_owned(),
        auth: match grant {
            true => AuthView::McpOauth {
                mcp_server_url,
                expires_at: None,
                refresh: None,
            },
            false => AuthView::StaticBearer { mcp_server_url },
        },
        created_at: Timestamp::from_millis(0),
        updated_at: Timestamp::from_millis(0),
    }
}

fn selected(tool: &Tool) -> Option<&str> {
    match tool {
        Tool::Mcp(mcp) => mcp.credential_id.as_deref(),
        _ => None,
    }
}

fn refused(tool: Tool, attached: Option<&[Credential]>) -> String {
    match select(&mut [tool], attached).unwrap_err() {
        SelectFault::Invalid(invalid) => {
            assert_eq!(invalid.param, None);
            invalid.message
        }
        SelectFault::Several(url) => format!("several {url}"),
    }
}

#[test]
fn cases_of_the_rule() {
    // SEL-003, SEL-004, SEL-010 to SEL-013, SEL-015, SEL-016, SEL-018
    let one = credential(1, "https://a", false);
    let id = one.id.to_string();
    let attached = [one, credential(2, "https://b", true)];
    let mut tools = [
        server("https://a", None),
        server("https://c", None),
        server("https://a", Some(&id.to_uppercase())),
    ];
    select(&mut tools, Some(&attached)).unwrap();
    assert_eq!(
        tools.each_ref().map(selected),
        [Some(id.as_str()), None, Some(id.to_uppercase().as_str())]
    );
    assert_eq!(
        refused(server("https://a", Some(&id)), None),
        "MCP credential_id requires an attached vault"
    );
    for missing in [
        "x",
        "ffffffff-ffff-ffff-ffff-ffffffffffff",
        "03030303-0303-4303-8303-030303030303",
    ] {
        assert_eq!(
            refused(server("https://a", Some(missing)), Some(&attached)),
            format!("MCP credential_id {missing} was not found in an attached vault")
        );
    }
    assert_eq!(
        refused(server("https://a/", Some(&id)), Some(&attached)),
        format!("MCP credential_id {id} does not match server_url https://a/")
    );
    assert_eq!(
        refused(server("https://a", Some(&"x".repeat(257))), Some(&[])),
        "MCP credential_id was not found in an attached vault"
    );
    // No type is preferred.
    let twice = [
        credential(1, "https://a", false),
        credential(2, "https://a", true),
    ];
    assert_eq!(
        refused(server("https://a", None), Some(&twice)),
        "several https://a"
    );
}

const URLS: [&str; 3] = ["https://a", "https://b", "https://b/"];

fn vault() -> impl Strategy<Value = Vec<Credential>> {
    proptest::collection::btree_map(0_u8..6, (0_usize..3, any::<bool>()), 0..5).prop_map(|map| {
        map.into_iter()
            .map(|(number, (url, grant))| credential(number, URLS[url], grant))
            .collect()
    })
}

fn tools() -> impl Strategy<Value = Vec<Tool>> {
    let tool = (0_usize..3, proptest::option::of(0_u8..8)).prop_map(|(url, named)| {
        let named =
            named.map(|number| CredentialId::new(uuid::Uuid::from_bytes([number; 16])).to_string());
        server(URLS[url], named.as_deref())
    });
    proptest::collection::vec(tool, 0..4)
}

proptest! {
    #[test]
    fn only_matching_credentials_are_selected(mut tools in tools(), vault in vault()) {
        let before = tools.clone();
        match select(&mut tools, Some(&vault)) {
            Err(_) => prop_assert_eq!(tools, before),
            Ok(()) => for tool in &tools {
                let Tool::Mcp(mcp) = tool else { continue };
                let Transport::Http { server_url, .. } = &mcp.transport else { continue };
                let fits = vault.iter().filter(|one| one.auth.server_url() == server_url);
                match &mcp.credential_id {
                    Some(id) => prop_assert!(fits.clone().any(|one| one.id.to_string() == *id)),
                    None => prop_assert_eq!(fits.count(), 0),
                }
            },
        }
    }

    #[test]
    fn neither_order_nor_repetition_matters(tools in tools(), vault in vault()) {
        let (mut forward, mut backward) = (tools.clone(), tools);
        let reversed: Vec<_> = vault.iter().rev().cloned().collect();
        prop_assert_eq!(select(&mut forward, Some(&vault)), select(&mut backward, Some(&reversed)));
        prop_assert_eq!(&forward, &backward);
        if select(&mut backward, Some(&vault)).is_ok() {
            prop_assert_eq!(forward, backward, "what was selected stays selected");
        }
    }
}
