"""W-ROUTE-1: our routes are those of the installed SDK, none missing and none extra, by the server's own description."""

import ast
import json
import pathlib
import urllib.request

import openai
import pytest

from conftest import STRICT

# Operations of the SDK that are not there yet, each with why. It only ever shrinks.
EXPECTED_MISSING = {
    ("POST", "/agents/environments/{}/files"): "live files come with the Environments that can serve them",
    ("GET", "/agents/environments/{}/files"): "live files come with the Environments that can serve them",
}
VERBS = {"_get": "GET", "_get_api_list": "GET", "_post": "POST", "_delete": "DELETE"}
RESOURCES = ("files.py", "skills", "beta/agents")


def plain(path):
    """Parameters have no names here."""
    return "/".join("{}" if part.startswith("{") else part for part in path.split("/"))


def sdk_operations():
    """Method and path of every request that the resource classes make."""
    root = pathlib.Path(openai.__file__).parent / "resources"
    files = [path for name in RESOURCES for path in ([root / name] if name.endswith(".py") else (root / name).rglob("*.py"))]
    found = set()
    for file in files:
        for call in ast.walk(ast.parse(file.read_text())):
            if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in VERBS and call.args):
                continue
            path = call.args[0]
            if isinstance(path, ast.Call):
                path = path.args[0]
            assert isinstance(path, ast.Constant), f"{file.name}:{call.lineno} builds its path in another way"
            found.add((VERBS[call.func.attr], plain(path.value)))
    return found


@pytest.fixture(scope="module")
def described(core):
    with urllib.request.urlopen(core.url + "/openapi.json", timeout=10) as answer:
        return json.load(answer)


def test_the_routes_are_those_of_the_sdk(described):
    ours = {(method.upper(), plain(path)) for path, methods in described["paths"].items() for method in methods}
    theirs = sdk_operations()
    if STRICT:
        assert len(theirs) == 58
        assert ours - theirs == set()
        assert theirs - ours == set(EXPECTED_MISSING)
    else:
        # The newest client knows more than the pinned contract; what the pinned one has must still be among it.
        assert ours - theirs == set()


def test_every_described_operation_is_served(core, described):
    """The description is of this server: each operation exists, whatever it says to a request without a key."""
    for path, methods in described["paths"].items():
        for method in methods:
            request = urllib.request.Request(core.url + "/v1" + path.replace("{", "").replace("}", ""), method=method.upper(), headers={"openai-beta": "agents=v1"})
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(request, timeout=10)
            assert refused.value.code == 401, (method, path)


def test_the_page_is_readable(core):
    with urllib.request.urlopen(core.url + "/docs", timeout=10) as answer:
        text = answer.read().decode()
    assert answer.headers["content-type"].startswith("text/html") and "POST /v1/agents/sessions" in text
