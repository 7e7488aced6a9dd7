//! Shapes, limits and updates of Templates.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use uuid::Uuid;

use super::*;
use crate::archive::{Archive, ArchiveFile, Limits};
use crate::blob::{BlobOwner, BlobScope};
use crate::preparation::{Access, Network};
use crate::{ContentId, ProjectId};

fn parse(value: serde_json::Value) -> Result<TemplatePatch, Invalid> {
    TemplatePatch::parse(Json::new(&value.to_string()))
}

fn zip(name: &str, files: &[(&str, &str)]) -> String {
    let file = |(path, text): &(&str, &str)| ArchiveFile {
        path: (*path).to_owned(),
        bytes: text.as_bytes().to_vec(),
        executable: false,
    };
    let archive = Archive {
        root: name.to_owned(),
        files: files.iter().map(file).collect(),
    };
    STANDARD.encode(archive.pack(&Limits::BUNDLE).unwrap())
}

fn skill(name: &str, data: &str) -> serde_json::Value {
    json!({"type": "inline", "name": name, "description": "d", "source": {"type": "base64", "media_type": "application/zip", "data": data}})
}

fn refused(value: serde_json::Value) -> String {
    parse(value.clone())
        .expect_err(&value.to_string())
        .param
        .unwrap_or_default()
}

#[test]
fn the_whole_shape_is_read() {
    // ENV-436, ENV-447, ENV-490, ENV-514, ENV-518, ENV-524
    let manifest = zip("a", &[("SKILL.md", "---\nname: a\ndescription: d\n---")]);
    let plugin = zip(
        "p",
        &[(
            ".codex-plugin/plugin.json",
            r#"{"name":"p","description":"d","skills":"skills"}"#,
        )],
    );
    let patch = parse(json!({
        "name": " Python workspace ",
        "network": {"access": "enabled"},
        "env": {"APP_MODE": "analysis"},
        "packages": {"python": ["packaging==26.0"], "npm": null},
        "setup_commands": [{"command": "mkdir -p /workspace/outputs"}, {"command": "x", "cwd": null}, {"command": "x", "cwd": "/workspace/a"}],
        "files": [
            {"type": "inline", "data": STANDARD.encode("bytes"), "path": "/workspace/a/b"},
            {"type": "file_id", "file_id": "file-x", "path": "/workspace/c"}
        ],
        "skills": [{"type": "skill_reference", "skill_id": "s"}, {"type": "skill_reference", "skill_id": "s", "version": "latest"}, skill("a", &manifest)],
        "plugins": [skill("p", &plugin)],
        "capability_directories": ["/workspace", "/workspace/tools"]
    }))
    .unwrap();
    assert_eq!(patch.name, Field::Value(" Python workspace ".to_owned()));
    assert_eq!(patch.preparation.contents().len(), 3);
    // A retry identity holds no bytes, and differs with them.
    let identity = serde_json::to_string(&patch).unwrap();
    assert!(!identity.contains(&STANDARD.encode("bytes")));
    assert!(!format!("{patch:?}").contains("analysis"));
    for empty in [
        json!({}),
        json!({"name": null, "env": null, "files": null, "network": null, "packages": null, "plugins": null, "setup_commands": null, "skills": null, "capability_directories": null}),
    ] {
        parse(empty).unwrap();
    }
}

#[test]
fn every_wrong_member_is_named() {
    // ENV-324, ENV-436, ENV-471, ENV-481 to ENV-482a, ENV-491 to ENV-496, ENV-514, ENV-519, ENV-521, ENV-527
    let manifest = zip("a", &[("SKILL.md", "---\nname: a\ndescription: d\n---")]);
    let bare = zip("a", &[("x", "y")]);
    let data = |bytes: usize| STANDARD.encode(vec![0; bytes]);
    let file = |path: &str| json!({"type": "inline", "data": "", "path": path});
    let mib = 1 << 20;
    let many: Vec<_> = (0..51).map(|n| file(&format!("/workspace/{n}"))).collect();
    let together: Vec<_> = vec![5 * mib, 5 * mib, 1]
        .into_iter()
        .enumerate()
        .map(|(n, size)| json!({"type": "inline", "data": data(size), "path": format!("/workspace/{n}")}))
        .collect();
    for (value, param) in [
        (json!({"x": 1}), "x"),
        (json!({"metadata": {}}), "metadata"),
        (json!({"name": ""}), "name"),
        (json!({"name": "é".repeat(257)}), "name"),
        (json!({"packages": {"system": null}}), "packages.system"),
        (
            json!({"packages": {"system": [], "npm": 5}}),
            "packages.system",
        ),
        (json!({"packages": {"apt": []}}), "packages.apt"),
        (
            json!({"packages": {"python": ["--index-url=http://x"]}}),
            "packages.python[0]",
        ),
        (json!({"packages": {"npm": ["a", ""]}}), "packages.npm[1]"),
        (json!({"env": {"PATH": "x"}}), "env.PATH"),
        (
            json!({"env": {"OPENAI_API_KEY": "x"}}),
            "env.OPENAI_API_KEY",
        ),
        (json!({"env": {"CODEX_HOME": "x"}}), "env.CODEX_HOME"),
        (json!({"env": {"OAC_X": "x"}}), "env.OAC_X"),
        (json!({"env": {"1A": "x"}}), "env.1A"),
        (json!({"env": {"A-B": "x"}}), "env.A-B"),
        (json!({"env": {"": "x"}}), "env."),
        (json!({"env": {"A": 1}}), "env.A"),
        (json!({"env": []}), "env"),
        (
            json!({"setup_commands": [{"command": " "}]}),
            "setup_commands[0].command",
        ),
        (json!({"setup_commands": [{}]}), "setup_commands[0].command"),
        (
            json!({"setup_commands": [{"command": "x", "cwd": "/tmp"}]}),
            "setup_commands[0].cwd",
        ),
        (json!({"files": [file("/etc/x")]}), "files[0].path"),
        (
            json!({"files": [file("/workspace/a"), file("/workspace/a")]}),
            "files[1].path",
        ),
        (
            json!({"files": [file("/workspace/a/b"), file("/workspace/a")]}),
            "files[1].path",
        ),
        (
            json!({"files": [{"type": "inline", "data": "?", "path": "/workspace/a"}]}),
            "files[0].data",
        ),
        (
            json!({"files": [{"type": "inline", "data": "YQ", "path": "/workspace/a"}]}),
            "files[0].data",
        ),
        (
            json!({"files": [{"type": "inline", "data": data(5 * mib + 1), "path": "/workspace/a"}]}),
            "files[0].data",
        ),
        (
            json!({"files": [{"type": "inline", "path": "/workspace/a"}]}),
            "files[0].data",
        ),
        (
            json!({"files": [{"type": "inline", "data": "", "file_id": "x", "path": "/workspace/a"}]}),
            "files[0].file_id",
        ),
        (
            json!({"files": [{"type": "url", "path": "/workspace/a"}]}),
            "files[0].type",
        ),
        (json!({"files": many}), "files"),
        (json!({"files": together}), "files"),
        (
            json!({"skills": [{"type": "skill_reference", "skill_id": "s", "version": "0"}]}),
            "skills[0].version",
        ),
        (
            json!({"skills": [{"type": "skill_reference"}]}),
            "skills[0].skill_id",
        ),
        (json!({"skills": [skill("b", &manifest)]}), "skills[0].name"),
        (
            json!({"skills": [skill("a", &bare)]}),
            "skills[0].source.data",
        ),
        (
            json!({"skills": [skill("a", "UEs=")]}),
            "skills[0].source.data",
        ),
        (
            json!({"plugins": [skill("a", &manifest)]}),
            "plugins[0].source.data",
        ),
        (
            json!({"plugins": [{"type": "skill_reference", "skill_id": "s"}]}),
            "plugins[0].type",
        ),
        (
            json!({"capability_directories": ["/etc"]}),
            "capability_directories[0]",
        ),
        (
            json!({"capability_directories": ["/workspace/a/"]}),
            "capability_directories[0]",
        ),
    ] {
        assert_eq!(refused(value), param);
    }
    // ENV-492: exactly the limit fits.
    parse(json!({"files": [{"type": "inline", "data": data(5 * mib), "path": "/workspace/a"}]}))
        .unwrap();
}

#[test]
fn updates_replace_what_they_name() {
    // ENV-441, ENV-442, W-TIME-2
    let scope = BlobScope {
        project: ProjectId::new(Uuid::from_u128(1)),
        owner: BlobOwner::Inline {
            id: ContentId::new(Uuid::from_u128(2)),
        },
    };
    let stored = |value| {
        parse(value)
            .map(|patch| TemplatePatch {
                name: patch.name,
                preparation: patch.preparation.with(|content: Content| {
                    scope.stored(
                        crate::Digest::of(content.bytes()),
                        content.bytes().len() as u64,
                    )
                }),
            })
            .unwrap()
    };
    let mut template = Template {
        id: TemplateId::new(Uuid::from_u128(3)),
        created_at: Timestamp::from_millis(1),
        updated_at: Timestamp::from_millis(1),
        name: None,
        preparation: Preparation::default(),
    };
    let mut confidential = Confidential::default();
    let full = stored(json!({
        "name": "n", "env": {"A": "1"}, "packages": {"npm": ["a"], "python": ["b"]}, "network": {"access": "disabled"},
        "files": [{"type": "inline", "data": "YQ==", "path": "/workspace/a"}], "setup_commands": [{"command": "x"}],
        "capability_directories": ["/workspace"], "skills": [{"type": "skill_reference", "skill_id": "s"}]
    }));
    template.update(&mut confidential, full, Timestamp::from_millis(2));
    assert_eq!(template.preparation.inline().count(), 1);
    let (before, hidden) = (template.clone(), confidential.clone());
    template.update(
        &mut confidential,
        stored(json!({})),
        Timestamp::from_millis(3),
    );
    assert_eq!(
        template,
        Template {
            updated_at: Timestamp::from_millis(3),
            ..before
        }
    );
    assert_eq!(confidential, hidden);
    // A supplied field replaces as a whole.
    template.update(
        &mut confidential,
        stored(json!({"packages": {"npm": ["c"]}, "env": {"B": "2"}})),
        Timestamp::from_millis(4),
    );
    assert_eq!(
        (
            template.preparation.packages.npm.len(),
            template.preparation.packages.python.len()
        ),
        (1, 0)
    );
    assert_eq!(confidential.env.pairs().collect::<Vec<_>>(), [("B", "2")]);
    let nulls = json!({"name": null, "env": null, "files": null, "network": null, "packages": null, "plugins": null, "setup_commands": null, "skills": null, "capability_directories": null});
    template.update(&mut confidential, stored(nulls), Timestamp::from_millis(5));
    assert_eq!(
        (template.name.clone(), template.preparation.clone()),
        (None, Preparation::default())
    );
    assert_eq!(
        template.preparation.network,
        Network {
            access: Access::Enabled,
            allowed_domains: Vec::new()
        }
    );
    assert_eq!(confidential, Confidential::default());
}
