"""The configurations in examples/deploy/proxies, with the real proxies in front of the server. Free ports replace the ports
in the files, and a certificate of the test replaces the others.
"""

import contextlib
import http.client
import json
import pathlib
import re
import socket
import ssl
import subprocess
import tempfile
import threading
import time
import urllib.parse

from programs import PATIENCE, PROGRAM, ROOT, Running, free_port, new_token, wait_for
from results import attempt, unless

PAGE, NOUN = "docs/proxies.md", "proxy"
HOST = "memory.example"
MIB = 1024 * 1024


def nginx(block, port, place):
    path = place / "nginx.conf"
    path.write_text(
        f"daemon off; pid {place}/nginx.pid; error_log stderr; events {{}}\n"
        f"http {{ access_log off; client_body_temp_path {place}/body; proxy_temp_path {place}/proxy;\n{block}\n}}"
    )
    return ["nginx", "-e", "stderr", "-c", path]


def caddy(block, port, place):
    path = place / "Caddyfile"
    options = f"admin off\nauto_https disable_redirects\nhttps_port {port}\nstorage file_system {place}/caddy"
    path.write_text(f"{{\n{options}\n}}\n{block}")
    return ["caddy", "run", "--adapter", "caddyfile", "--config", path]


def haproxy(block, port, place):
    path = place / "haproxy.cfg"
    path.write_text("global\n    maxconn 1000\n\n" + block)
    return ["haproxy", "-db", "-f", path]


def apache(block, port, place):
    modules = ["mpm_event", "authz_core", "headers", "proxy", "proxy_http", "ssl", "socache_shmcb"]
    lines = [f"LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so" for name in modules]
    lines += [f"ServerRoot {place}", f"PidFile {place}/apache.pid", f"DefaultRuntimeDir {place}"]
    lines += ["ErrorLog /dev/stderr"]
    path = place / "apache.conf"
    path.write_text("\n".join([*lines, "User nobody", f"Listen {port}", block]))
    return ["apache2", "-DFOREGROUND", "-f", path]


def lighttpd(block, port, place):
    path = place / "lighttpd.conf"
    uploads = place / "uploads"
    uploads.mkdir()
    plain = f'server.port = {free_port()}\nserver.bind = "127.0.0.1"\n'
    path.write_text(f'server.document-root = "{place}"\nserver.upload-dirs = ("{uploads}")\n{plain}{block}')
    return ["lighttpd", "-D", "-f", path]


def varnish(block, port, place):
    path = place / "default.vcl"
    path.write_text(block)
    return ["varnishd", "-F", "-n", place / "varnish", "-a", f"127.0.0.1:{port}", "-f", path, "-s", "malloc,64m"]


def socket_of_nginx(block, port, place):
    """The workers of nginx have another user than the server."""
    return nginx(re.sub(r"http://127\.0\.0\.1:\d+", f"http://unix:{place}/socket:", block), port, place)


# The functions that start them, their files, and their packages. The first package has the version.
PROXIES = {
    "nginx": (nginx, "nginx.conf", ["nginx"]),
    "nginx, socket": (socket_of_nginx, "nginx.conf", ["nginx"]),
    "Caddy": (caddy, "Caddyfile", ["caddy"]),
    "HAProxy": (haproxy, "haproxy.cfg", ["haproxy"]),
    "Apache": (apache, "apache.conf", ["apache2"]),
    "lighttpd": (lighttpd, "lighttpd.conf", ["lighttpd", "lighttpd-mod-openssl"]),
    "Varnish": (varnish, "varnish.vcl", ["varnish"]),
}


class Client:
    """A client of the proxy, as a browser at the usual port sends its requests."""

    def __init__(self, port, has_tls, token):
        self.port, self.has_tls, self.token = port, has_tls, token
        # Varnish gets it from the program that ends TLS.
        self.extra = {} if has_tls else {"x-forwarded-proto": "https"}

    def open(self, timeout=PATIENCE):
        stream = socket.create_connection(("127.0.0.1", self.port), timeout)
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self.has_tls:
            context = ssl._create_unverified_context()
            context.set_alpn_protocols(["http/1.1"])
            stream = context.wrap_socket(stream, server_hostname=HOST)
        connection = http.client.HTTPConnection(HOST, timeout=timeout)
        connection.sock = stream
        return connection

    def send(self, method, path, body=None, headers=None, key=True, chunked=False):
        """The status, headers and body of a response, or the reason that there is none."""
        connection = self.open()
        given = {**self.extra, **({"x-api-key": self.token} if key else {}), **(headers or {})}
        parts = (body[at : at + 65536] for at in range(0, len(body), 65536)) if chunked else body
        try:
            connection.request(method, path, parts, {"host": HOST, **given}, encode_chunked=chunked)
        except OSError:
            pass  # the response may have come before the end of the body
        try:
            reply = connection.getresponse()
            return reply.status, reply.headers, reply.read()
        except (OSError, http.client.HTTPException) as error:
            return repr(error), {}, b""
        finally:
            connection.close()

    def tool(self, memory, path, text):
        call = json.dumps({"command": "create", "path": path, "file_text": text})
        return self.send("POST", f"/v1/memory_stores/{urllib.parse.quote(memory, safe='')}/tool", call)

    def sign_in(self):
        form = urllib.parse.urlencode({"token": self.token})
        headers = {"origin": f"https://{HOST}", "content-type": "application/x-www-form-urlencoded"}
        return self.send("POST", "/sign-in", form, headers, key=False)

    def event(self, path, headers, wanted, cause):
        """Waits for the line of a stream that reports a change. The server sends the next line, which could flush a
        buffer, 10 seconds later.
        """
        connection = self.open(20)
        given = {"host": HOST, "accept": "text/event-stream", **self.extra, **headers}
        connection.request("GET", path, headers=given)
        started = []

        def change():
            time.sleep(2)
            started.append(time.monotonic())
            cause()

        changing = threading.Thread(target=change)
        changing.start()
        try:
            reply = connection.getresponse()
            while line := reply.readline():
                if wanted in line:
                    return None if started and time.monotonic() - started[0] < 9 else "at another time"
            return f"the stream ends, status {reply.status}"
        except OSError as error:
            return f"never: {error!r}"
        finally:
            changing.join()
            connection.close()


def is_error(reply, status):
    """Whether the reply is an error of the server itself."""
    try:
        return reply[0] == status and json.loads(reply[2])["type"] == "error"
    except ValueError:
        return False


def sends_large(client):
    call = json.dumps({"command": "view", "path": "/memories", "padding": " " * (15 * MIB)}).encode()
    path = "/v1/memory_stores/alice/tool"
    return unless([client.send("POST", path, call, chunked=chunked)[0] for chunked in [False, True]], [200, 200])


def too_large(client):
    path, body = "/v1/memory_stores/alice/tool", b" " * (17 * MIB)
    return unless([is_error(client.send("POST", path, body), 413) for _ in range(6)], [True] * 6)


def wrong_token(client):
    path, body = "/v1/memory_stores/alice/tool", b" " * (5 * MIB)
    headers = {"x-api-key": "memtok_0"}
    return unless([is_error(client.send("POST", path, body, headers), 401) for _ in range(6)], [True] * 6)


def signs_in(client):
    status, headers, _ = client.sign_in()
    cookie = headers.get("set-cookie", "")
    return None if status == 303 and cookie.startswith("__Host-") and "; Secure" in cookie else f"{status} {cookie}"


def of_other_site(client):
    form = urllib.parse.urlencode({"token": client.token})
    return unless(client.send("POST", "/sign-in", form, {"origin": "https://evil.example"}, key=False)[0], 403)


def is_not_cached(client):
    paths = ["/v1/memory_stores/alice/memories?view=full", "/v1/memory_stores", "/metrics"]
    found = [client.send("GET", path, key=key)[0] for key in [True, False] for path in paths]
    return unless(found, [200] * 3 + [401] * 3)


def with_slash(client):
    return unless(client.tool("user/42", "/memories/a", "x")[0], 200)


def with_basic(client):
    return unless(client.send("GET", "/v1/memory_stores", headers={"authorization": "Basic dXNlcjpwYXNz"})[0], 200)


def with_long_name(client):
    path = urllib.parse.quote("/memories" + ("/" + "\u05d0" * 120) * 4)
    return unless(client.send("GET", f"/memory/alice?path={path}", key=False)[0], 303)


def session(client):
    return {"cookie": client.sign_in()[1]["set-cookie"].split(";")[0]}


def live(client):
    change = lambda: client.tool("alice", f"/memories/{time.time()}", "x")
    return client.event("/memory/alice/live", session(client), b"event: change", change)


def mcp(client):
    accept = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
    key = {"x-api-key": client.of_one}
    _, headers, _ = client.send("POST", "/mcp", json.dumps(message), accept | key)
    of_session = {"mcp-session-id": headers.get("mcp-session-id", ""), **key}
    for message in [{"method": "notifications/initialized"}, {"id": 2, "method": "resources/list"}]:
        client.send("POST", "/mcp", json.dumps({"jsonrpc": "2.0"} | message), accept | of_session)
    change = lambda: client.tool("alice", f"/memories/{time.time()}", "x")
    return client.event("/mcp", of_session, b"list_changed", change)


def left_streams(client):
    """Visitors who leave do not use up the streams of a tenant: the next lines to them, after 10 seconds, end theirs."""
    headers = {"host": HOST, **client.extra, **session(client)}
    for _ in range(140):  # more than the streams of one tenant
        connection = client.open(5)
        connection.request("GET", "/memory/alice/live", headers=headers)
        connection.sock.settimeout(0.2)
        try:
            connection.sock.recv(1)
        except OSError:
            pass
        connection.close()
    found = live(client)
    for _ in range(10):
        if found and "429" in found:
            time.sleep(1)
            found = live(client)
    return found


def metrics(client):
    """promtool reports nothing."""
    found = subprocess.run(["promtool", "check", "metrics"], input=client.send("GET", "/metrics")[2], capture_output=True)
    return unless((found.returncode, found.stderr.decode()), (0, ""))


CHECKS = {
    "sign-in, cookie `Secure`": signs_in,
    "form of another site: 403": of_other_site,
    "`GET` with a token is not cached": is_not_cached,
    "`Basic` beside `x-api-key`": with_basic,
    "name `user/42`": with_slash,
    "15 MiB, also chunked": sends_large,
    "17 MiB: 413 of the server": too_large,
    "wrong token, 5 MiB: 401": wrong_token,
    "long name, signed out": with_long_name,
    "live event": live,
    "MCP notification": mcp,
    "live event after 140 left streams": left_streams,
    "metrics": metrics,
}
SUBJECTS = {name: [f"debian:{package}" for package in [*packages, "openssl", "prometheus"]] for name, (*_, packages) in PROXIES.items()}


def certify(place):
    certificate, key = place / "certificate.pem", place / "certificate.key"
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={HOST}"]
    words += ["-addext", f"subjectAltName=DNS:{HOST}", "-keyout", key, "-out", certificate]
    subprocess.run(words, check=True, capture_output=True)
    (place / "certificate.both.pem").write_text(certificate.read_text() + key.read_text())


@contextlib.contextmanager
def behind(name):
    """A client of a server behind the proxy, or of its own TLS."""
    with tempfile.TemporaryDirectory(prefix="world-") as folder:
        place = pathlib.Path(folder)
        place.chmod(0o755)
        certify(place)
        upstream, port, tokens = free_port(), free_port(), place / "tokens.json"
        client = Client(port, name != "Varnish", new_token(tokens, "--actor", "ops", "--admin", "--create"))
        client.of_one = new_token(tokens, "--actor", "ops", "--memory", "alice", "--right", "tool")
        listen = f"unix:{place}/socket" if name.endswith("socket") else f"127.0.0.1:{upstream if name in PROXIES else port}"
        settings = {"store": f"sqlite:{place}/memory.db", "tokens": str(tokens), "allow_hosts": [HOST], "listen": listen}
        settings |= {"socket_mode": "0666"} if name.endswith("socket") else {}
        text = "".join(f"{key} = {json.dumps(value)}\n" for key, value in settings.items())
        if name not in PROXIES:
            text += f'[tls]\ncertificate = "{place}/certificate.pem"\nkey = "{place}/certificate.key"\n'
        (place / "server.toml").write_text(text)
        with Running([PROGRAM, "serve", "--config", place / "server.toml"], place / "server.log"), contextlib.ExitStack() as stack:
            wait_for(listen.removeprefix("unix:") if "unix:" in listen else int(listen.split(":")[1]))
            if name in PROXIES:
                start, file, _ = PROXIES[name]
                block = (ROOT / "examples/deploy/proxies" / file).read_text("utf-8")
                block = block.replace("/etc/ssl/memory.example", str(place / "certificate")).replace("8809", str(upstream))
                words = start(re.sub(r"(?<![0-9])443\b", str(port), block), port, place)
                stack.enter_context(Running(words, place / "proxy.log"))
                wait_for(port)
            yield client


def checks(name):
    with behind(name) as client:
        assert client.tool("alice", "/memories/a", "secret tea")[0] == 200
        for check, run in CHECKS.items():
            yield check, attempt(run, client)
