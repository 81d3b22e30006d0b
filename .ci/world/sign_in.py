"""Clients of MCP that sign in at an identity provider by their own OAuth code, from nothing but the link.

The provider is oidc-provider. Its access tokens live 3 seconds, so that clients renew them in a session.
"""

import re
import subprocess
import tempfile
from pathlib import Path

from programs import PATIENCE, PROGRAM, Running, free_port, from_npm, from_pypi, wait_for
from results import attempt, unless

PAGE, NOUN = "docs/mcp.md", "client"
CLIENTS = {"Python SDK": "mcp==2.3.0", "TypeScript SDK": "@modelcontextprotocol/sdk@1.32.2"}
SUBJECTS = {name: ["program:npm"] for name in CLIENTS}
PROVIDER = "oidc-provider@9.13.3"
HERE = Path(__file__).parent
FILES = 4
SETTINGS = """
store = "sqlite:FOLDER/memory.db"
tokens = "FOLDER/tokens.json"
listen = "127.0.0.1:PORT"
public_url = "http://127.0.0.1:PORT"
[issuer]
url = "http://127.0.0.1:PROVIDER"
[[issuer.access]]
claim = "scope"
value = "memory"
memory = "users/{sub}"
rights = ["tool"]
create = true
"""


def version(name):
    return re.split("==|@(?=[0-9])", CLIENTS[name])[1]


def files_of(name, url, person):
    """Signs in as a person, creates files while the tokens end, and returns the names of all files that it sees."""
    if name == "Python SDK":
        words = [from_pypi("sign_in/mcp", [CLIENTS[name]]), HERE / "sign_in_client.py"]
    else:
        words = ["node", HERE / "sign_in_client.mjs", from_npm("sign_in/sdk", [CLIENTS[name]])]
    ran = subprocess.run([*words, url, person, str(FILES)], capture_output=True, text=True, timeout=PATIENCE)
    assert ran.returncode == 0, ran.stderr[-2000:]
    return re.findall(r"/memories/(\w+)\.md", ran.stdout)


def checks(name):
    provider = from_npm("sign_in/provider", [PROVIDER])
    with tempfile.TemporaryDirectory() as folder:
        port, of_provider = free_port(), free_port()
        settings = SETTINGS.replace("FOLDER", folder).replace("PORT", str(port)).replace("PROVIDER", str(of_provider))
        (Path(folder) / "server.toml").write_text(settings, "utf-8")
        url, logs = f"http://127.0.0.1:{port}/mcp", [Path(folder) / log for log in ("provider", "server")]
        words = ["node", HERE / "sign_in_provider.mjs", provider, of_provider, url, 3]
        with Running(words, logs[0]), Running([PROGRAM, "serve", "--config", f"{folder}/server.toml"], logs[1]):
            wait_for(of_provider)
            wait_for(port)
            for person in ("alice", "bob"):
                wanted = [f"{person}{number}" for number in range(FILES)]
                yield f"sign-in of {person}", attempt(lambda: unless(files_of(name, url, person), wanted))
