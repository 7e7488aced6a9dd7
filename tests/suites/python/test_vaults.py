"""Vaults and Credentials, through the official SDK (files-skills-vaults 3)."""

import pathlib

import openai
import pytest

SERVER = "https://mcp.example.com/mcp?tenant=1"


def test_a_vault_lives_and_dies(client):
    vaults = client.beta.agents.vaults
    vault = vaults.create(name=" team ", metadata={"a": "b"})
    assert (vault.object, vault.name, vault.metadata) == ("vault", "team", {"a": "b"})
    assert vaults.retrieve(vault.id) == vault
    assert vault.id in [listed.id for listed in vaults.list()]
    assert vault.id in [listed.id for listed in vaults.list(status=["active", "archived"])]
    assert vault.id not in [listed.id for listed in vaults.list(status="archived")]
    vaults.credentials.create(vault.id, name="c", auth={"type": "static_bearer", "mcp_server_url": SERVER, "token": "t"})
    deleted = vaults.delete(vault.id)
    assert (deleted.id, deleted.deleted, deleted.object) == (vault.id, True, "vault.deleted")
    for gone in (vaults.retrieve, vaults.delete, lambda one: vaults.credentials.list(one)):
        with pytest.raises(openai.NotFoundError):
            gone(vault.id)


def test_a_bearer_is_replaced_and_never_shown(core, client):
    credentials, vault = client.beta.agents.vaults.credentials, client.beta.agents.vaults.create().id
    made = credentials.create(vault, name="mcp", auth={"type": "static_bearer", "mcp_server_url": SERVER, "token": "canary-bearer-1"})
    assert (made.object, made.vault_id, made.name, made.auth.type, made.auth.mcp_server_url) == ("vault.credential", vault, "mcp", "static_bearer", SERVER)
    replaced = credentials.update(made.id, vault_id=vault, auth={"type": "static_bearer", "token": "canary-bearer-2"})
    assert (replaced.id, replaced.auth, replaced.created_at) == (made.id, made.auth, made.created_at)
    assert credentials.retrieve(made.id, vault_id=vault) == replaced
    assert [one.id for one in credentials.list(vault)] == [made.id]
    for path in pathlib.Path(core.folder).rglob("*"):
        if path.is_file() and "harnesses" not in path.parts:
            assert b"canary-bearer" not in path.read_bytes(), path
    gone = credentials.delete(made.id, vault_id=vault)
    assert (gone.id, gone.deleted, gone.object) == (made.id, True, "vault.credential.deleted")


def test_a_grant_is_patched(client):
    credentials, vault = client.beta.agents.vaults.credentials, client.beta.agents.vaults.create().id
    refresh = {"client_id": "c", "refresh_token": "r", "token_endpoint": "https://issuer.example.com/token", "token_endpoint_auth": {"type": "client_secret_basic", "client_secret": "s"}, "scope": "all"}
    made = credentials.create(vault, name="o", auth={"type": "mcp_oauth", "mcp_server_url": SERVER, "access_token": "a", "expires_at": "2031-01-01T00:00:00Z", "refresh": refresh})
    assert made.auth.refresh.token_endpoint_auth.type == "client_secret_basic" and made.auth.refresh.resource is None
    patched = credentials.update(made.id, vault_id=vault, auth={"type": "mcp_oauth", "access_token": "b"})
    assert patched.auth.expires_at is None and patched.auth.refresh.scope == "all"
    patched = credentials.update(made.id, vault_id=vault, auth={"type": "mcp_oauth", "refresh": {"scope": None}})
    assert patched.auth.refresh.scope is None
    for wrong in (
        {"type": "static_bearer", "token": "t"},
        {"type": "mcp_oauth"},
        {"type": "mcp_oauth", "refresh": {"token_endpoint_auth": {"type": "client_secret_post", "client_secret": "x"}}},
    ):
        with pytest.raises(openai.BadRequestError):
            credentials.update(made.id, vault_id=vault, auth=wrong)


@pytest.mark.parametrize("url", ["http://h", "https://u:p@h", "https://h/#f", "h", ""])
def test_servers_are_https(client, url):
    vault = client.beta.agents.vaults.create().id
    with pytest.raises(openai.BadRequestError) as refused:
        client.beta.agents.vaults.credentials.create(vault, name="n", auth={"type": "static_bearer", "mcp_server_url": url, "token": "t"})
    assert refused.value.param == "auth.mcp_server_url"
