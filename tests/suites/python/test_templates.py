"""Environment Templates, through the official SDK (environments 10 to 14)."""

import base64
import pathlib

import openai
import pytest

from test_skills import folder, manifest, zipped


def inline(name, data):
    return {"type": "inline", "name": name, "description": f"About {name}.", "source": {"type": "base64", "media_type": "application/zip", "data": base64.b64encode(data).decode()}}


def test_the_template_of_the_base_is_kept_and_shows_no_secret(core, client):
    # ENV-436, ENV-438, ENV-447, ENV-498, ENV-515, ENV-523
    templates = client.beta.agents.environments.templates
    file = client.files.create(file=("a.txt", b"x"), purpose="user_data")
    skill = client.skills.create(files=folder("one"))
    made = templates.create(
        name="Python workspace",
        network={"access": "enabled"},
        env={"APP_MODE": "canary-analysis"},
        packages={"python": ["packaging==26.0"]},
        setup_commands=[{"command": "mkdir -p /workspace/outputs # canary-command"}],
        files=[{"type": "inline", "data": base64.b64encode(b"canary-content").decode(), "path": "/workspace/a"}, {"type": "file_id", "file_id": file.id, "path": "/workspace/b"}],
        skills=[{"type": "skill_reference", "skill_id": skill.id}, inline("s", zipped(("s/SKILL.md", manifest("s"), 0o100644)))],
        capability_directories=["/workspace/tools"],
    )
    assert (made.object, made.name, made.network.access, made.packages.python, made.packages.system) == ("agent.environment.template", "Python workspace", "enabled", ["packaging==26.0"], [])
    assert [(one.type, one.path) for one in made.files] == [("inline", "/workspace/a"), ("file_id", "/workspace/b")]
    assert made.files[0].size_bytes == len(b"canary-content")
    assert [one.type for one in made.skills] == ["skill_reference", "inline"] and made.skills[0].version is None
    assert templates.retrieve(made.id) == made
    assert made.id in [listed.id for listed in templates.list()]
    assert "canary" not in made.to_json()
    for path in pathlib.Path(core.folder).rglob("*"):
        if path.is_file() and "harnesses" not in path.parts:
            assert b"canary-" not in path.read_bytes().replace(b"sk-canary-", b""), path

    # ENV-441, ENV-442: omitted stays, supplied replaces, null clears.
    changed = templates.update(made.id, name=None, packages={"npm": ["left-pad"]})
    assert (changed.name, changed.packages.npm, changed.packages.python, changed.files) == (None, ["left-pad"], [], made.files)
    # The sources may go; the Template keeps its references (SKL-044).
    client.files.delete(file.id)
    client.skills.delete(skill.id)
    assert templates.update(made.id, env=None).skills == made.skills
    deleted = templates.delete(made.id)
    assert (deleted.id, deleted.deleted, deleted.object) == (made.id, True, "agent.environment.template.deleted")
    with pytest.raises(openai.NotFoundError):
        templates.retrieve(made.id)


@pytest.mark.parametrize(
    "fields, param",
    [
        ({"env": {"PATH": "x"}}, "env.PATH"),
        ({"env": {"CODEX_HOME": "x"}}, "env.CODEX_HOME"),
        ({"packages": {"system": []}}, "packages.system"),
        ({"packages": {"system": None}}, "packages.system"),
        ({"files": [{"type": "inline", "data": "", "path": "/etc/passwd"}]}, "files[0].path"),
        ({"network": {"access": "restricted", "allowed_domains": ["*.example.com"]}}, None),
        ({"setup_commands": [{"command": "x", "cwd": "/"}]}, "setup_commands[0].cwd"),
    ],
)
def test_no_wrong_template_is_ever_stored(core, client, fields, param):
    # ENV-324, ENV-471, ENV-482a
    before = core.raw("GET", "/v1/agents/environments/templates?limit=1")[2]["first_id"]
    with pytest.raises(openai.BadRequestError) as refused:
        client.beta.agents.environments.templates.create(**fields)
    assert refused.value.param == param
    assert core.raw("GET", "/v1/agents/environments/templates?limit=1")[2]["first_id"] == before


def test_references_must_name_something(client):
    # W-ID-4
    templates = client.beta.agents.environments.templates
    for fields in (
        {"files": [{"type": "file_id", "file_id": "file-0", "path": "/workspace/a"}]},
        {"skills": [{"type": "skill_reference", "skill_id": "skill_0"}]},
    ):
        with pytest.raises(openai.NotFoundError):
            templates.create(**fields)
