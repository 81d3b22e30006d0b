"""Signs in with the Python SDK, and creates files. Usage: python sign_in_client.py URL PERSON FILES"""

import asyncio
import re
import sys
from urllib.parse import parse_qsl, urljoin, urlsplit

import httpx2
from mcp import ClientSession
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider, TokenStorage
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientMetadata

URL, PERSON, FILES = sys.argv[1:]
CALLBACK = "http://127.0.0.1:9/callback"
METADATA = OAuthClientMetadata(
    client_name="test",
    redirect_uris=[CALLBACK],
    grant_types=["authorization_code", "refresh_token"],
    response_types=["code"],
    scope="openid offline_access memory",
)


class Storage(TokenStorage):
    tokens = client = None

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens):
        self.tokens = tokens

    async def get_client_info(self):
        return self.client

    async def set_client_info(self, client_info):
        self.client = client_info


class Person:
    """What a person does in a browser: signs in, and consents."""

    reply = None

    async def visit(self, address):
        async with httpx2.AsyncClient() as browser:
            page = await browser.get(address)
            while not (at := urljoin(str(page.url), page.headers.get("location", ""))).startswith(CALLBACK):
                if page.is_redirect:
                    page = await browser.get(at)
                    continue
                prompt = re.search(r'name="prompt" value="(\w+)"', page.text).group(1)
                action = re.search(r'action="([^"]+)"', page.text).group(1)
                data = {"prompt": prompt, "login": PERSON, "password": "x"}
                page = await browser.post(urljoin(at, action), data=data)
            self.reply = dict(parse_qsl(urlsplit(at).query))

    async def answer(self):
        return AuthorizationCodeResult(code=self.reply["code"], state=self.reply["state"], iss=self.reply["iss"])


async def main():
    person = Person()
    auth = OAuthClientProvider(URL, METADATA, Storage(), redirect_handler=person.visit, callback_handler=person.answer)
    async with httpx2.AsyncClient(auth=auth, timeout=60) as http, streamable_http_client(URL, http_client=http) as streams:
        async with ClientSession(*streams[:2]) as session:
            await session.initialize()
            for number in range(int(FILES)):
                path = f"/memories/{PERSON}{number}.md"
                await session.call_tool("memory", {"command": "create", "path": path, "file_text": ""})
                await asyncio.sleep(2)
            print((await session.call_tool("memory", {"command": "view", "path": "/memories"})).content[0].text)


asyncio.run(main())
