"""The page in Chromium, over TLS of the server and of each proxy that ends it."""

import json
import os
import subprocess
import tempfile

import proxies
from programs import ROOT, from_npm

PAGE, NOUN = "docs/proxies.md", "TLS by, with Chromium"
CHROMIUM = ["debian:chromium", "debian:openssl", "program:npm"]
SUBJECTS = {"serve": CHROMIUM, **{name: [*CHROMIUM, *needs] for name, needs in proxies.SUBJECTS.items() if name != "Varnish"}}


def checks(name):
    pins = json.loads((ROOT / "testing/servers/browser/package.json").read_text("utf-8"))["dependencies"]
    packages = from_npm("browser", [f"{name}@{version}" for name, version in pins.items()])
    with proxies.behind(name) as client, tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        for memory in ["alice", *(f"m{number}" for number in range(1, 9))]:
            assert client.tool(memory, "/memories/a", "text")[0] == 200
        words = ["node", ROOT / ".ci/world/browser.mjs", packages, client.token, str(client.port)]
        printed = subprocess.run(words, text=True, check=True, stdout=subprocess.PIPE, env={**os.environ, "TMPDIR": folder}).stdout
        yield from json.loads(printed.splitlines()[-1]).items()
