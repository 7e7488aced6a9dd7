"""A fuzzer driven by `/openapi.json`: no answer that the document does not declare, and none that says the server failed."""

import os
import pathlib
import subprocess
import sys

import pytest

import berth

# What it looks for. Positive data may still be refused (an id that names nothing, a schema that is none): that is no failure.
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
# Seconds for all operations together; what is left after the examples is shared by the fuzzing.
BUDGET = 75


@pytest.fixture
def core(tmp_path, start_core):
    """A Core of its own: what the fuzzer sends is in no ledger."""
    server = start_core(harnesses=berth.scripted_harness(tmp_path / "h"))
    server.ledger.others_send = True
    return server


def test_no_described_request_meets_an_undeclared_answer(core, tmp_path):
    program = pathlib.Path(sys.executable).with_name("schemathesis")
    if not program.exists():
        pytest.skip("schemathesis is not installed beside Python; `cargo xtask test` installs it")
    command = [program, "run", core.url + "/openapi.json", "--url", core.url + "/v1"]
    command += ["--header", f"Authorization: Bearer {core.api_key}", "--header", "OpenAI-Beta: agents=v1"]
    command += ["--checks", CHECKS, "--phases", "examples,fuzzing", "--max-examples", "25", "--seed", "7", "--max-time", str(BUDGET)]
    # An event stream never ends by itself.
    command += ["--exclude-path-regex", "/events$", "--request-timeout", "20", "--no-color"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=BUDGET + 45, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})
    assert done.returncode == 0, done.stdout[-12000:] + done.stderr[-2000:]
