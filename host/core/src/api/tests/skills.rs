//! Skills over the API: uploads, versions, the default, downloads (SKL-001 to SKL-044).

use std::io::{Cursor, Read, Write};

use serde_json::Value;
use store::testing::TestDatabase;
use zip::write::SimpleFileOptions;
use zip::{ZipArchive, ZipWriter};

use super::fixture::{Answered, Fixture, Part};

fn manifest(name: &str) -> String {
    format!("---\nname: {name}\ndescription: About {name}.\n---\nText")
}

fn zipped(files: &[(&str, &[u8], u32)]) -> Vec<u8> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes, mode) in files {
        let options = SimpleFileOptions::default().unix_permissions(*mode);
        // The writer takes permissions of a mode only; a link has an entry of its own.
        if mode & 0o170_000 == 0o120_000 {
            writer.add_symlink(*name, "/etc/passwd", options).unwrap();
            continue;
        }
        writer.start_file(*name, options).unwrap();
        writer.write_all(bytes).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

/// Name, content and mode of every entry.
fn unzipped(bytes: &[u8]) -> Vec<(String, Vec<u8>, u32)> {
    let mut archive = ZipArchive::new(Cursor::new(bytes)).unwrap();
    (0..archive.len())
        .map(|index| {
            let mut entry = archive.by_index(index).unwrap();
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).unwrap();
            let mode = entry.unix_mode().unwrap() & 0o777;
            (entry.name().unwrap().into_owned(), bytes, mode)
        })
        .collect()
}

async fn upload(fixture: &Fixture, path: &str, parts: &[Part]) -> Answered {
    fixture.form(path, Some(&fixture.key), parts).await
}

async fn version(fixture: &Fixture, skill: &str, name: &str, default: Option<&str>) -> Value {
    let text = manifest(name);
    let mut parts = vec![Part::file("files[]", "s/SKILL.md", text.as_bytes())];
    parts.extend(default.map(|value| Part::field("default", value)));
    let made = upload(fixture, &format!("/v1/skills/{skill}/versions"), &parts).await;
    assert_eq!(made.status, 200, "{}", made.body);
    made.json()
}

async fn delete(fixture: &Fixture, path: &str) -> Answered {
    fixture.send("DELETE", path, Some(&fixture.key), None).await
}

both!(a_folder_and_a_zip_become_bundles);
async fn a_folder_and_a_zip_become_bundles(database: TestDatabase) {
    // SKL-001, SKL-006, SKL-010, SKL-018
    let fixture = Fixture::on(database).await;
    let text = manifest("report");
    let parts = [
        Part::file("files[]", "r/SKILL.md", text.as_bytes()),
        Part::file("files[]", "r/lib/x.py", b"print()"),
    ];
    let made = upload(&fixture, "/v1/skills", &parts).await;
    assert_eq!(made.status, 200, "{}", made.body);
    let json = made.json();
    let (id, at) = (json["id"].as_str().unwrap(), &json["created_at"]);
    assert!(id.starts_with("skill_"));
    assert_eq!(
        made.body,
        format!(
            r#"{{"id":"{id}","object":"skill","created_at":{at},"name":"report","description":"About report.","default_version":"1","latest_version":"1"}}"#
        )
    );
    assert_eq!(
        fixture.get(&format!("/v1/skills/{id}")).await.body,
        made.body
    );
    for path in ["content", "versions/1/content"] {
        let content = fixture.get(&format!("/v1/skills/{id}/{path}")).await;
        assert_eq!(content.header("content-type"), Some("application/zip"));
        assert_eq!(
            content.header("content-disposition"),
            Some(r#"attachment; filename="report.zip""#)
        );
        assert_eq!(
            unzipped(&content.bytes),
            [
                ("r/SKILL.md".to_owned(), text.clone().into_bytes(), 0o644),
                ("r/lib/x.py".to_owned(), b"print()".to_vec(), 0o644),
            ]
        );
    }
    let zip = zipped(&[
        ("z/SKILL.md", text.as_bytes(), 0o644),
        ("z/run", b"#!", 0o755),
    ]);
    let made = upload(
        &fixture,
        "/v1/skills",
        &[Part::file("files", "z.zip", &zip)],
    )
    .await;
    let id = made.json()["id"].as_str().unwrap().to_owned();
    let content = fixture.get(&format!("/v1/skills/{id}/content")).await;
    let modes: Vec<_> = unzipped(&content.bytes)
        .into_iter()
        .map(|(name, _, mode)| (name, mode))
        .collect();
    assert_eq!(
        modes,
        [
            ("z/SKILL.md".to_owned(), 0o644),
            ("z/run".to_owned(), 0o755)
        ]
    );
}

both!(versions_are_numbered_once_and_the_default_moves);
async fn versions_are_numbered_once_and_the_default_moves(database: TestDatabase) {
    // SKL-002, SKL-004, SKL-020 to SKL-022, SKL-040 to SKL-043
    let fixture = Fixture::on(database).await;
    let skill = fixture.skill(&manifest("one")).await;
    let base = format!("/v1/skills/{skill}");
    let two = version(&fixture, &skill, "two", None).await;
    assert_eq!(
        (&two["version"], &two["object"]),
        (&"2".into(), &"skill.version".into())
    );
    assert!(two["id"].as_str().unwrap().starts_with("skillver_"));
    let shown = |json: &Value| {
        ["name", "default_version", "latest_version"]
            .map(|member| json[member].as_str().unwrap().to_owned())
    };
    assert_eq!(shown(&fixture.get(&base).await.json()), ["one", "1", "2"]);
    version(&fixture, &skill, "three", Some("true")).await;
    version(&fixture, &skill, "four", Some("false")).await;
    assert_eq!(shown(&fixture.get(&base).await.json()), ["three", "3", "4"]);
    let moved = fixture.post(&base, r#"{"default_version":"2"}"#).await;
    assert_eq!(shown(&moved.json()), ["two", "2", "4"]);
    // The default stays while others exist.
    let refused = delete(&fixture, &format!("{base}/versions/2")).await;
    assert_eq!(
        (refused.status, refused.body.as_str()),
        (
            400,
            r#"{"error":{"message":"Cannot delete the default skill version.","type":"invalid_request_error","code":"invalid_value","param":"version"}}"#
        )
    );
    let gone = delete(&fixture, &format!("{base}/versions/4")).await;
    assert_eq!(gone.status, 200, "{}", gone.body);
    assert_eq!(shown(&fixture.get(&base).await.json()), ["two", "2", "3"]);
    // Never used again, even after the latest is gone.
    assert_eq!(
        version(&fixture, &skill, "five", None).await["version"],
        "5"
    );
    for number in ["1", "3", "5"] {
        assert_eq!(
            delete(&fixture, &format!("{base}/versions/{number}"))
                .await
                .status,
            200
        );
    }
    let last = delete(&fixture, &format!("{base}/versions/2")).await;
    assert_eq!(
        last.body,
        format!(
            r#"{{"id":{},"object":"skill.version.deleted","deleted":true,"version":"2"}}"#,
            two["id"]
        )
    );
    assert_eq!(
        fixture.get(&base).await.status,
        404,
        "the Skill goes with its only version"
    );
    for number in ["1", "0", "01", "x", "99999999999999999999"] {
        let answer = delete(&fixture, &format!("{base}/versions/{number}")).await;
        assert_eq!(answer.status, 404, "{number}");
    }
}

both!(lists_and_their_cursors);
async fn lists_and_their_cursors(database: TestDatabase) {
    // SKL-007, wire.md 9: `limit=0`, and each wrong cursor with its own answer.
    let fixture = Fixture::on(database).await;
    let (one, other) = (
        fixture.skill(&manifest("one")).await,
        fixture.skill(&manifest("other")).await,
    );
    for name in ["b", "c"] {
        version(&fixture, &one, name, None).await;
    }
    let foreign = version(&fixture, &other, "x", None).await["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let list = fixture.get("/v1/skills?limit=0").await;
    assert_eq!(
        list.body,
        r#"{"object":"list","data":[],"has_more":true,"first_id":null,"last_id":null}"#
    );
    let path = format!("/v1/skills/{one}/versions");
    let numbers = |json: Value| -> Vec<String> {
        json["data"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["version"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(numbers(fixture.get(&path).await.json()), ["3", "2", "1"]);
    let first = fixture
        .get(&format!("{path}?limit=1&order=asc"))
        .await
        .json();
    let after = first["last_id"].as_str().unwrap().to_owned();
    assert_eq!(
        numbers(
            fixture
                .get(&format!("{path}?order=asc&after={after}"))
                .await
                .json()
        ),
        ["2", "3"]
    );
    for (after, status, code, message) in [
        (
            "2",
            400,
            Some("invalid_value"),
            "Invalid 'after': '2'. Expected an ID that begins with 'skillver'.",
        ),
        (
            foreign.as_str(),
            400,
            Some("invalid_value"),
            "Skill version cursor does not match this skill.",
        ),
        ("skillver_x", 404, None, "Resource not found."),
        (
            "skillver_ffffffffffffffffffffffffffffffff",
            404,
            None,
            "Resource not found.",
        ),
    ] {
        let answer = fixture.get(&format!("{path}?after={after}")).await;
        let error = &answer.json()["error"];
        assert_eq!(
            (
                answer.status,
                error["code"].as_str(),
                error["message"].as_str()
            ),
            (status, code, Some(message)),
            "{after}"
        );
    }
    assert_eq!(fixture.get("/v1/skills?after=x").await.status, 404);
    assert_eq!(
        fixture
            .get(&format!("/v1/skills/{other}x/versions?after=2"))
            .await
            .status,
        404,
        "the parent comes first"
    );
}

both!(a_refused_bundle_stores_nothing);
async fn a_refused_bundle_stores_nothing(database: TestDatabase) {
    // SKL-010 to SKL-017, F29
    let fixture = Fixture::on(database).await;
    let skill = fixture.skill(&manifest("one")).await;
    let before = fixture.dump().await;
    let text = manifest("a");
    let good = || Part::file("files[]", "s/SKILL.md", text.as_bytes());
    let zip = |files: &[(&str, &[u8], u32)]| Part::file("files", "a.zip", &zipped(files));
    let big = vec![0; 21 << 20];
    // Nothing that compresses: a folder is measured as the ZIP that it becomes.
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let noise: Vec<u8> = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    })
    .take(6 << 20)
    .collect();
    let cases: Vec<(&str, Vec<Part>, u16)> = vec![
        ("nothing", vec![], 400),
        ("unknown part", vec![good(), Part::field("x", "y")], 400),
        ("no manifest", vec![Part::file("files[]", "s/x", b"")], 400),
        (
            "bad manifest",
            vec![Part::file("files[]", "s/SKILL.md", b"text")],
            400,
        ),
        (
            "hooks",
            vec![Part::file(
                "files[]",
                "s/SKILL.md",
                b"---\nname: a\ndescription: b\nhooks: {}\n---",
            )],
            400,
        ),
        (
            "a zero byte by an escape",
            vec![Part::file(
                "files[]",
                "s/SKILL.md",
                b"---\nname: a\ndescription: \"a\\0b\"\n---",
            )],
            400,
        ),
        (
            "no folder",
            vec![Part::file("files[]", "SKILL.md", text.as_bytes())],
            400,
        ),
        (
            "two folders",
            vec![good(), Part::file("files[]", "t/x", b"")],
            400,
        ),
        (
            "traversal",
            vec![good(), Part::file("files[]", "s/../../x", b"")],
            400,
        ),
        (
            "absolute",
            vec![good(), Part::file("files[]", "/s/x", b"")],
            400,
        ),
        (
            "by case",
            vec![good(), Part::file("files[]", "s/skill.MD", b"")],
            400,
        ),
        ("twice", vec![good(), good()], 400),
        (
            "both forms",
            vec![good(), zip(&[("s/SKILL.md", text.as_bytes(), 0o644)])],
            400,
        ),
        ("no zip", vec![Part::file("files", "a.zip", b"PK")], 400),
        (
            "link",
            vec![zip(&[("s/SKILL.md", text.as_bytes(), 0o120_777)])],
            400,
        ),
        (
            "bomb",
            vec![zip(&[
                ("s/SKILL.md", text.as_bytes(), 0o644),
                ("s/b", &big, 0o644),
            ])],
            400,
        ),
        ("long zip", vec![Part::file("files", "a.zip", &noise)], 413),
        (
            "long folder",
            vec![good(), Part::file("files[]", "s/noise", &noise)],
            413,
        ),
        (
            "wide folder",
            vec![good(), Part::file("files[]", "s/b", &big[..(20 << 20) + 1])],
            400,
        ),
        ("default", vec![good(), Part::field("default", "yes")], 400),
    ];
    for (what, parts, status) in cases {
        for path in [
            "/v1/skills".to_owned(),
            format!("/v1/skills/{skill}/versions"),
        ] {
            let answer = upload(&fixture, &path, &parts).await;
            assert_eq!(answer.status, status, "{what}: {}", answer.body);
        }
    }
    // What the official client sends for a single file (api-surface 1.7).
    let json = fixture.post("/v1/skills", "{}").await;
    assert_eq!(
        (json.status, json.json()["error"]["param"].as_str()),
        (400, Some("files"))
    );
    for body in [
        "",
        "[]",
        "{",
        "{}",
        r#"{"default_version":1}"#,
        r#"{"default_version":"0"}"#,
        r#"{"name":"x"}"#,
    ] {
        let answer = fixture.post(&format!("/v1/skills/{skill}"), body).await;
        assert_eq!(answer.status, 400, "{body}: {}", answer.body);
    }
    assert_eq!(
        fixture
            .post(&format!("/v1/skills/{skill}"), r#"{"default_version":"2"}"#)
            .await
            .status,
        404
    );
    assert_eq!(fixture.dump().await, before);
}
