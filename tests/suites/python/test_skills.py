"""Skills and their versions, through the official SDK (files-skills-vaults 2)."""

import io
import zipfile

import openai
import pytest


def manifest(name):
    return f"---\nname: {name}\ndescription: About {name}.\n---".encode()


def folder(name, *more):
    return [("skill/SKILL.md", manifest(name), "text/markdown"), *more]


def names(content):
    return sorted(zipfile.ZipFile(io.BytesIO(content)).namelist())


def test_the_upload_example_of_the_base_works(client):
    # ENV-513a: one file in a list is a directory upload.
    skill = client.skills.create(files=[("report/SKILL.md", manifest("report"), "text/markdown")])
    assert (skill.object, skill.name, skill.description) == ("skill", "report", "About report.")
    assert (skill.default_version, skill.latest_version) == ("1", "1")
    assert client.skills.retrieve(skill.id) == skill
    assert skill.id in [listed.id for listed in client.skills.list()]
    assert names(client.skills.content.retrieve(skill.id).read()) == ["report/SKILL.md"]
    deleted = client.skills.delete(skill.id)
    assert (deleted.id, deleted.deleted, deleted.object) == (skill.id, True, "skill.deleted")
    with pytest.raises(openai.NotFoundError):
        client.skills.retrieve(skill.id)


def test_versions_live_and_die(client):
    skill = client.skills.create(files=folder("one"))
    two = client.skills.versions.create(skill.id, files=folder("two", ("skill/lib/x.py", b"print()", "text/x-python")))
    three = client.skills.versions.create(skill.id, files=folder("three"), default=True)
    assert (two.object, two.version, two.skill_id, three.version) == ("skill.version", "2", skill.id, "3")
    assert client.skills.retrieve(skill.id).name == "three"
    assert client.skills.versions.retrieve("2", skill_id=skill.id) == two
    assert names(client.skills.versions.content.retrieve("2", skill_id=skill.id).read()) == ["skill/SKILL.md", "skill/lib/x.py"]
    assert [version.version for version in client.skills.versions.list(skill.id, limit=1, order="asc")] == ["1", "2", "3"]
    assert client.skills.update(skill.id, default_version="2").name == "two"
    with pytest.raises(openai.BadRequestError) as refused:
        client.skills.versions.delete("2", skill_id=skill.id)
    assert (refused.value.code, refused.value.param) == ("invalid_value", "version")
    gone = client.skills.versions.delete("3", skill_id=skill.id)
    assert (gone.id, gone.version, gone.deleted, gone.object) == (three.id, "3", True, "skill.version.deleted")
    assert client.skills.retrieve(skill.id).latest_version == "2"
    assert client.skills.versions.create(skill.id, files=folder("four")).version == "4"
    client.skills.delete(skill.id)


def test_a_single_file_gets_a_clear_answer(client):
    # The pinned client drops it and sends `{}` (ENV-512); the newest may send it, and it is no ZIP.
    with pytest.raises(openai.BadRequestError) as refused:
        client.skills.create(files=("SKILL.md", manifest("a"), "text/markdown"))
    assert refused.value.param == "files"


def zipped(*entries):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data, mode in entries:
            info = zipfile.ZipInfo(name)
            info.external_attr = mode << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, data)
    return buffer.getvalue()


def post_zip(core, data):
    body = b'--xyz\r\ncontent-disposition: form-data; name="files"; filename="a.zip"\r\n\r\n' + data + b"\r\n--xyz--\r\n"
    return core.raw("POST", "/v1/skills", body, headers={"content-type": "multipart/form-data; boundary=xyz"})


def test_zips_of_strangers(core, client):
    """F29: one archive per trick, each refused; a good one keeps its executable bit."""
    good = ("s/SKILL.md", manifest("s"), 0o100644)
    status, _, made = post_zip(core, zipped(good, ("s/run", b"#!", 0o100755)))
    assert status == 200, made
    archive = zipfile.ZipFile(io.BytesIO(client.skills.content.retrieve(made["id"]).read()))
    assert {info.filename: (info.external_attr >> 16) & 0o777 for info in archive.infolist()} == {"s/SKILL.md": 0o644, "s/run": 0o755}
    client.skills.delete(made["id"])
    before = core.raw("GET", "/v1/skills?limit=1")[2]["first_id"]
    for trick in (
        [good, ("s/../../x", b"", 0o100644)],
        [good, ("/x", b"", 0o100644)],
        [good, ("C:\\x", b"", 0o100644)],
        [good, ("s\\..\\..\\x", b"", 0o100644)],
        [good, ("s/link", b"/etc", 0o120777), ("s/link/passwd", b"x", 0o100644)],
        [good, ("s/a", b"", 0o100644), ("s/A", b"", 0o100644)],
        [good, ("s/\u00e9", b"", 0o100644), ("s/e\u0301", b"", 0o100644)],
        [good, ("s/a", b"", 0o100644), ("s/a/b", b"", 0o100644)],
        [good, ("s/dev", b"", 0o020644)],
        [good, ("s/bomb", bytes(21 << 20), 0o100644)],
        [good, *((f"s/{number}", b"", 0o100644) for number in range(1100))],
        [("SKILL.md", manifest("s"), 0o100644)],
    ):
        status, _, answer = post_zip(core, zipped(*trick))
        assert status == 400 and answer["error"]["param"] == "files", (trick[-1][0], answer)
    assert post_zip(core, zipped(good) * 2)[0] == 400
    assert core.raw("GET", "/v1/skills?limit=1")[2]["first_id"] == before
