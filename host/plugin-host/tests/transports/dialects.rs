//! Plugins of the contract's former step run on this host, and those of a later one are refused (architecture 5).

use std::path::Path;

use kit::provider::{Case, suite};
use plugin_host::contract::mcp_types::{
    Authority, DeclaredHttp, DeclaredServer, DeclaredStdio, DeclaredTransport, HttpBinding,
    McpBinding, Origin, Refusal, ResolveRequest, Transport,
};
use plugin_host::load::section;
use plugin_host::{Driver, Plugin};

use crate::refused::replaced;

fn server(label: &str, transport: DeclaredTransport) -> DeclaredServer {
    DeclaredServer {
        label: label.to_owned(),
        transport,
        origin: Origin::Service,
        allowed_tools: None,
        required: false,
    }
}

fn http(label: &str) -> DeclaredServer {
    let declared = DeclaredHttp {
        url: "https://a.test/".to_owned(),
        credential: None,
    };
    server(label, DeclaredTransport::Http(declared))
}

fn request(declared: Vec<DeclaredServer>) -> ResolveRequest {
    ResolveRequest {
        declared,
        plugins: Vec::new(),
        origins: vec![Origin::Service],
        variables: Vec::new(),
        credentials: Vec::new(),
        abilities: Vec::new(),
        host_features: Vec::new(),
    }
}

/// A component as an author of the former step would have built it.
fn as_of_0_1(id: &str) -> Plugin {
    let [component, _] = crate::files(id);
    let bytes = replaced(&std::fs::read(component).unwrap(), "@0.2.0", "@0.1.0");
    let manifest = section::manifest(&bytes).unwrap();
    let former = manifest.replace("contract = \"0.2.0\"", "contract = \"0.1.0\"");
    assert_ne!(former, manifest);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("former.wasm");
    std::fs::write(&path, section::with_manifest(&bytes, &former)).unwrap();
    crate::load(&path)
}

// The file was built against 0.1, before 0.2 was there; `resolver-0.1.rs` beside it is its source.
#[test]
fn a_resolver_that_was_built_for_0_1_answers_in_todays_shapes() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/released/resolver-0.1.wasm");
    let plugin = crate::load(&path);
    assert_eq!(plugin.manifest.contract, "0.1.0");
    let Driver::Resolver(resolver) = &plugin.driver else {
        panic!("{plugin:?}");
    };
    assert_eq!(resolver.features(), ["of-0.1"]);
    let bound = resolver.resolve(&request(vec![http("one"), http("two")]));
    let binding = |label: &str| McpBinding {
        label: label.to_owned(),
        plugin: None,
        origin: Origin::Service,
        transport: Transport::Http(HttpBinding {
            url: "https://a.test/".to_owned(),
            headers: Vec::new(),
            authority: Authority::Anonymous,
        }),
        allowed_tools: None,
        required: false,
    };
    assert_eq!(bound, Ok(vec![binding("one"), binding("two")]));
    let stdio = DeclaredStdio {
        command: "x".to_owned(),
        args: Vec::new(),
        variables: Vec::new(),
    };
    let refused = resolver.resolve(&request(vec![
        http("one"),
        server("two", DeclaredTransport::Stdio(stdio)),
    ]));
    // The shape that has changed.
    let refusal = Refusal {
        code: "transport_unsupported".to_owned(),
        label: Some("two".to_owned()),
        plugin: None,
        detail: None,
    };
    assert_eq!(refused, Err(refusal));
}

#[test]
fn adapters_and_providers_of_0_1_keep_the_contract_on_this_host() {
    let codex = as_of_0_1("harness-codex");
    let Driver::Harness(adapter) = &codex.driver else {
        panic!("{codex:?}");
    };
    assert_eq!(
        kit::harness::suite(&**adapter, &[], &codex.manifest),
        Ok(())
    );
    // Its imports are those of the former step, too.
    let local = as_of_0_1("local");
    let Driver::Sandbox(provider) = &local.driver else {
        panic!("{local:?}");
    };
    assert_eq!(suite(&**provider, &Case::plain(Vec::new())), Ok(()));
}

// A resolver whose refusal has today's shape cannot call itself one of 0.1.
#[test]
fn a_shape_of_another_step_is_refused_when_it_is_loaded() {
    let [component, _] = crate::files("faulty-resolver");
    let bytes = std::fs::read(component).unwrap();
    let renamed = replaced(&bytes, "mcp-resolver@0.2.0", "mcp-resolver@0.1.0");
    let said = crate::refused::of_bytes("a.wasm", &renamed);
    assert!(said.contains("shape"), "{said}");
}
