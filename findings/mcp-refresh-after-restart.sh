#!/usr/bin/env bash
# The official Python SDK of MCP keeps a refresh token in the storage of its user, but does not use it after a restart. Its
# storage has no field for the time at which the access token ends, so a new process takes a stored token for valid. The
# server answers with 401, and the SDK then asks the person to sign in again, although the refresh token would give a new
# token. Agents without a person stop after the first hour. The process that got the token refreshes it without a person.
#
# Guess: with a refresh token in the storage, 401 leads to a refresh, and to a sign-in only if that fails.
# Behavior: each process that starts after the end of the access token asks for a sign-in; none refreshes.
# Seen with mcp 2.3.0 of PyPI. Fails if this changes. Needs Python with venv, and PyPI.
set -euo pipefail
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cd "$place"
python3 -m venv venv
venv/bin/pip install -q --disable-pip-version-check --only-binary=:all: mcp==2.3.0
cat >try.py <<'PYTHON'
import asyncio
import time
from urllib.parse import parse_qs

import httpx2
from mcp.client.auth import OAuthClientProvider, TokenStorage
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken

SERVER = "https://memory.example"
METADATA = {
    "issuer": SERVER,
    "authorization_endpoint": f"{SERVER}/authorize",
    "token_endpoint": f"{SERVER}/token",
    "response_types_supported": ["code"],
    "code_challenge_methods_supported": ["S256"],
}


class Storage(TokenStorage):
    """A file or a keyring, with all that the SDK gives to it."""

    tokens = None
    client = None

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens):
        self.tokens = tokens

    async def get_client_info(self):
        return self.client

    async def set_client_info(self, client):
        self.client = client


def server(seen):
    """A server whose access tokens end, and whose refresh token is valid."""

    def answer(request):
        path = request.url.path
        if path == "/token":
            grant = parse_qs(request.content.decode())["grant_type"][0]
            seen.append(f"grant {grant}")
            token = {"access_token": "new", "token_type": "Bearer", "expires_in": 3600, "refresh_token": "next"}
            return httpx2.Response(200, json=token)
        if path.startswith("/.well-known/oauth-authorization-server"):
            return httpx2.Response(200, json=METADATA)
        if path.startswith("/.well-known/"):
            return httpx2.Response(404)
        if request.headers.get("authorization") == "Bearer new":
            return httpx2.Response(200)
        seen.append("401")
        return httpx2.Response(401)

    return httpx2.MockTransport(answer)


class Asked(Exception):
    """The SDK opened the page for the sign-in."""


async def ask(address):
    raise Asked


async def nobody():
    raise Asked


async def process(storage, ends_in_process):
    """What a process does whose access token has ended."""
    redirect = ["http://127.0.0.1:1/callback"]
    metadata = OAuthClientMetadata(redirect_uris=redirect, grant_types=["authorization_code", "refresh_token"])
    provider = OAuthClientProvider(f"{SERVER}/mcp", metadata, storage, redirect_handler=ask, callback_handler=nobody)
    if ends_in_process:
        await provider._initialize()
        provider.context.token_expiry_time = time.time() - 1  # as it is an hour after this process got the token
    seen = []
    async with httpx2.AsyncClient(transport=server(seen), auth=provider) as client:
        try:
            seen.append(str((await client.get(f"{SERVER}/mcp")).status_code))
        except Asked:
            seen.append("asks for a sign-in")
    return ", ".join(seen)


async def main():
    for name, ends_in_process in [("same process", True), ("after a restart", False)]:
        storage = Storage()
        storage.tokens = OAuthToken(access_token="old", token_type="Bearer", expires_in=3600, refresh_token="valid")
        storage.client = OAuthClientInformationFull(client_id="agent", redirect_uris=["http://127.0.0.1:1/callback"])
        print(f"{name}: {await process(storage, ends_in_process)}")


asyncio.run(main())
PYTHON
venv/bin/python try.py 2>log | tee found
diff found - <<'TEXT'
same process: grant refresh_token, 200
after a restart: 401, asks for a sign-in
TEXT
