//! Files over the API: every rule of an upload, and that a refused one leaves nothing (SRC-001 to SRC-019).

use std::convert::Infallible;

use axum::body::{Body, Bytes};
use axum::http::Request;
use futures_util::stream;
use store::testing::TestDatabase;

use super::fixture::{Answered, Fixture, Part, read};
use crate::http::accept::Answer;

/// The stored objects: bytes on disk that a name leads to.
fn stored(fixture: &Fixture) -> usize {
    let folders = std::fs::read_dir(fixture.folder.path().join("content")).unwrap();
    folders
        .map(|folder| std::fs::read_dir(folder.unwrap().path()).unwrap().count())
        .sum()
}

async fn upload(fixture: &Fixture, parts: &[Part]) -> Answered {
    fixture.form("/v1/files", Some(&fixture.key), parts).await
}

both!(a_file_lives_and_dies);
async fn a_file_lives_and_dies(database: TestDatabase) {
    let fixture = Fixture::on(database).await;
    let parts = [
        Part::file("file", "../r\u{e9}port.txt", b"bytes"),
        Part::field("purpose", "user_data"),
    ];
    let made = upload(&fixture, &parts).await;
    assert_eq!(made.status, 200, "{}", made.body);
    let (id, at) = (made.json()["id"].clone(), made.json()["created_at"].clone());
    let (id, at) = (id.as_str().unwrap(), at.as_i64().unwrap());
    assert!(id.starts_with("file-"));
    // SRC-009, byte for byte.
    let shown = format!(
        r#"{{"id":"{id}","object":"file","bytes":5,"created_at":{at},"filename":"../réport.txt","purpose":"user_data","status":"processed","expires_at":null,"status_details":null}}"#
    );
    assert_eq!(made.body, shown);
    let path = format!("/v1/files/{id}");
    assert_eq!(fixture.get(&path).await.body, shown);
    let list = fixture.get("/v1/files").await;
    assert_eq!(
        list.body,
        format!(
            r#"{{"object":"list","data":[{shown}],"has_more":false,"first_id":"{id}","last_id":"{id}"}}"#
        )
    );
    // SRC-016
    let content = fixture.get(&format!("{path}/content")).await;
    assert_eq!(
        (content.status, content.body.as_str()),
        (
            400,
            r#"{"error":{"message":"Not allowed to download files of purpose: user_data","type":"invalid_request_error","code":null,"param":null}}"#
        )
    );
    let deleted = fixture
        .send("DELETE", &path, Some(&fixture.key), None)
        .await;
    assert_eq!(
        deleted.body,
        format!(r#"{{"id":"{id}","object":"file","deleted":true}}"#)
    );
    for path in [path.clone(), format!("{path}/content")] {
        assert_eq!(fixture.get(&path).await.status, 404);
    }
}

both!(equal_bytes_of_two_projects_are_two_objects);
async fn equal_bytes_of_two_projects_are_two_objects(database: TestDatabase) {
    // SRC-008, KEY-006
    let fixture = Fixture::on(database).await;
    fixture.file("a", b"same").await;
    fixture.file("b", b"same").await;
    assert_eq!(stored(&fixture), 2);
}

both!(a_refused_upload_stores_nothing);
async fn a_refused_upload_stores_nothing(database: TestDatabase) {
    // SRC-003, SRC-006, SRC-007
    let fixture = Fixture::on(database).await;
    let before = fixture.dump().await;
    let file = || Part::file("file", "a", b"bytes");
    let purpose = || Part::field("purpose", "user_data");
    let long = "x".repeat(1025);
    let cases: Vec<(Vec<Part>, Option<&str>)> = vec![
        (vec![], Some("purpose")),
        (vec![file()], Some("purpose")),
        (vec![purpose()], Some("file")),
        (vec![file(), purpose(), file()], Some("file")),
        (vec![purpose(), file(), purpose()], Some("purpose")),
        (vec![file(), purpose(), Part::field("x", "y")], None),
        (
            vec![file(), Part::field("purpose", "assistants")],
            Some("purpose"),
        ),
        (
            vec![file(), Part::field("purpose", "USER_DATA")],
            Some("purpose"),
        ),
        (
            vec![
                file(),
                purpose(),
                Part::field("expires_after[seconds]", "3600"),
            ],
            Some("expires_after"),
        ),
        (vec![Part::field("file", "bytes"), purpose()], Some("file")),
        (vec![Part::file("file", "", b"x"), purpose()], Some("file")),
        (
            vec![Part::file("file", &long, b"x"), purpose()],
            Some("file"),
        ),
        (
            vec![
                Part::raw(b"name=\"file\"; filename=\"\xff\"", b"x"),
                purpose(),
            ],
            Some("file"),
        ),
        (
            vec![
                Part::raw(
                    b"name=\"file\"; filename=\"a\"\r\ncontent-transfer-encoding: base64",
                    b"x",
                ),
                purpose(),
            ],
            None,
        ),
    ];
    for (number, (parts, param)) in cases.iter().enumerate() {
        let answer = upload(&fixture, parts).await;
        assert_eq!(
            (answer.status, answer.json()["error"]["param"].as_str()),
            (400, *param),
            "{number}: {}",
            answer.body
        );
    }
    let json = fixture.post("/v1/files", "{}").await;
    assert_eq!(json.status, 400, "{}", json.body);
    assert_eq!((fixture.dump().await, stored(&fixture)), (before, 0));
    assert_eq!(
        std::fs::read_dir(fixture.folder.path().join("staging"))
            .unwrap()
            .count(),
        0,
        "a dropped upload leaves nothing in the staging folder"
    );
}

/// A form whose file never ends before so many bytes.
fn endless(bytes: u64) -> Body {
    let head = Bytes::from_static(
        b"--xyz\r\ncontent-disposition: form-data; name=\"purpose\"\r\n\r\nuser_data\r\n--xyz\r\ncontent-disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\n",
    );
    let chunk = Bytes::from(vec![0; 1 << 20]);
    let chunks = (0..bytes >> 20).map(move |_| chunk.clone());
    let pieces = std::iter::once(head).chain(chunks);
    Body::from_stream(stream::iter(pieces.map(Ok::<_, Infallible>)))
}

async fn streamed(fixture: &Fixture, body: Body, length: Option<u64>) -> Answered {
    let mut request = Request::builder()
        .method("POST")
        .uri("/v1/files")
        .header("content-type", "multipart/form-data; boundary=xyz")
        .header("authorization", format!("Bearer {}", fixture.key));
    if let Some(length) = length {
        request = request.header("content-length", length);
    }
    let request = request.body(body).unwrap();
    read(fixture.api.clone().answer(request).await).await
}

both!(a_form_that_is_too_long_or_breaks_off_stores_nothing);
async fn a_form_that_is_too_long_or_breaks_off_stores_nothing(database: TestDatabase) {
    // SRC-004: what is announced too long is not even read; the suites send the bytes.
    let fixture = Fixture::on(database).await;
    let long = streamed(&fixture, endless(1 << 20), Some((512 << 20) + (1 << 20))).await;
    assert_eq!(
        (long.status, long.json()["error"]["code"].as_str()),
        (413, Some("request_too_large")),
        "{}",
        long.body
    );
    let cut = streamed(&fixture, endless(1 << 20), None).await;
    assert_eq!(cut.status, 400, "{}", cut.body);
    assert_eq!(stored(&fixture), 0);
}

both!(lists_filter_by_purpose_before_they_page);
async fn lists_filter_by_purpose_before_they_page(database: TestDatabase) {
    // SRC-012 to SRC-014, E400-49, E400-51, E404-02
    let fixture = Fixture::on(database).await;
    for name in ["a", "b", "c"] {
        fixture.file(name, name.as_bytes()).await;
    }
    let empty = r#"{"object":"list","data":[],"has_more":false,"first_id":null,"last_id":null}"#;
    assert_eq!(
        fixture.get("/v1/files?purpose=batch&limit=1").await.body,
        empty
    );
    for query in ["", "?purpose=", "?purpose=user_data"] {
        let list = fixture.get(&format!("/v1/files{query}")).await.json();
        assert_eq!(list["data"].as_array().unwrap().len(), 3, "{query}");
    }
    for (query, status, param, code) in [
        ("purpose=Batch", 400, Some("purpose"), None),
        ("purpose=x&after=file-x", 400, Some("purpose"), None),
        ("purpose=%ff", 400, Some("purpose"), None),
        ("after=file-x", 404, Some("after"), None),
        ("after=x", 404, Some("after"), None),
        ("limit=0", 400, None, None),
        ("limit=x", 400, None, Some("invalid_request")),
        ("limit=1&limit=2", 400, None, Some("unsupported_parameter")),
    ] {
        let answer = fixture.get(&format!("/v1/files?{query}")).await;
        let error = &answer.json()["error"];
        assert_eq!(
            (
                answer.status,
                error["param"].as_str(),
                error["code"].as_str()
            ),
            (status, param, code),
            "{query}"
        );
    }
    let delete = fixture
        .send("DELETE", "/v1/files/file-x", Some(&fixture.key), Some("{}"))
        .await;
    assert_eq!(
        (delete.status, delete.json()["error"]["code"].as_str()),
        (400, Some("unsupported_parameter"))
    );
}

both!(a_creation_that_makes_nothing_leaves_no_bytes);
async fn a_creation_that_makes_nothing_leaves_no_bytes(database: TestDatabase) {
    // W-IDEM-3: the same again is answered with the first, something else is refused; both have stored bytes before.
    let fixture = Fixture::on(database).await;
    let key = Some(fixture.key.as_str());
    let file = |bytes: &[u8]| {
        vec![
            Part::field("purpose", "user_data"),
            Part::file("file", "a", bytes),
        ]
    };
    let skill = |text: &str| {
        let manifest = format!("---\nname: a\ndescription: {text}\n---");
        vec![Part::file("files[]", "a/SKILL.md", manifest.as_bytes())]
    };
    let mut kept = 0;
    let mut paths = vec![("/v1/files".to_owned(), [file(b"one"), file(b"two")])];
    paths.push(("/v1/skills".to_owned(), [skill("one"), skill("two")]));
    while let Some((path, [one, two])) = paths.pop() {
        let header = [("idempotency-key", path.as_str())];
        let first = fixture.form_with(&path, key, &one, &header).await;
        kept += 1;
        let again = fixture.form_with(&path, key, &one, &header).await;
        assert_eq!((first.status, again.status), (200, 200), "{}", again.body);
        assert_eq!(first.json()["id"], again.json()["id"]);
        let other = fixture.form_with(&path, key, &two, &header).await;
        assert_eq!(other.status, 409, "{}", other.body);
        assert_eq!(stored(&fixture), kept, "{path}");
        if path == "/v1/skills" {
            let id = first.json()["id"].as_str().unwrap().to_owned();
            paths.push((
                format!("/v1/skills/{id}/versions"),
                [skill("three"), skill("four")],
            ));
        }
    }
    assert_eq!(kept, 3);
}
