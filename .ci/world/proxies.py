#!/usr/bin/env python3
"""Usage: proxies.py PROGRAM [NAME...]. Runs the configurations in examples/deploy/proxies with the real proxies in front
of the program, and prints a table. Free ports replace the ports in the files, and a certificate of the test replaces the
others.
"""

import http.client
import json
import pathlib
import re
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse

PROGRAM, *NAMES = sys.argv[1:]
ROOT = pathlib.Path(__file__).resolve().parent.parent
CONFIGURATIONS = ROOT / "examples/deploy/proxies"
HOST = "memory.example"
MIB = 1024 * 1024
PATIENCE = 60


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def wait_for(port):
    end = time.monotonic() + PATIENCE
    while True:
        try:
            with socket.socket(socket.AF_UNIX if isinstance(port, str) else socket.AF_INET) as stream:
                return stream.connect(port if isinstance(port, str) else ("127.0.0.1", port))
        except OSError:
            assert time.monotonic() < end, f"nothing listens at {port}"
            time.sleep(0.05)


class Running:
    """A program until the end of a block. Its output is shown if it fails."""

    def __init__(self, words, log):
        self.words, self.log = [str(word) for word in words], log

    def __enter__(self):
        self.process = subprocess.Popen(self.words, stdout=self.log.open("wb"), stderr=subprocess.STDOUT)
        return self

    def __exit__(self, kind, *_):
        self.process.terminate()
        self.process.wait(30)
        if kind:
            print(self.log.read_text("utf-8", "replace")[-3000:], file=sys.stderr)


def configuration(name, port, upstream, place):
    """The configuration of a proxy, with the ports and files of the test."""
    block = (CONFIGURATIONS / FILES[name]).read_text("utf-8")
    block = block.replace("/etc/ssl/memory.example", str(place / "certificate"))
    return re.sub(r"(?<![0-9])443\b", str(port), block.replace("8809", str(upstream)))


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


PROXIES = {
    "nginx": nginx,
    "nginx, socket": socket_of_nginx,
    "caddy": caddy,
    "haproxy": haproxy,
    "apache": apache,
    "lighttpd": lighttpd,
    "varnish": varnish,
}
FILES = {
    "nginx": "nginx.conf",
    "nginx, socket": "nginx.conf",
    "caddy": "Caddyfile",
    "haproxy": "haproxy.cfg",
    "apache": "apache.conf",
    "lighttpd": "lighttpd.conf",
    "varnish": "varnish.vcl",
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

    def first_line(self, path, headers, wanted, cause):
        """The seconds from a change to the line of a stream that reports it."""
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
            end = time.monotonic() + 20
            while time.monotonic() < end and (line := reply.readline()):
                if wanted in line:
                    return time.monotonic() - started[0] if started else "too early"
            return f"never: {reply.status}"
        except OSError as error:
            return repr(error)
        finally:
            changing.join()
            connection.close()


def error_of(reply, status):
    """Whether the reply is an error of the server itself."""
    try:
        return reply[0] == status and json.loads(reply[2])["type"] == "error"
    except ValueError:
        return False


def seconds(found, most):
    return (f"{found:.1f} s", found <= most) if isinstance(found, float) else (found, False)


def of(count, tries):
    return f"{count} of {tries}", count == tries


def sends_large(client):
    call = json.dumps({"command": "view", "path": "/memories", "padding": " " * (15 * MIB)}).encode()
    path = "/v1/memory_stores/alice/tool"
    found = [client.send("POST", path, call, chunked=chunked)[0] for chunked in [False, True]]
    return ("ok" if found == [200, 200] else str(found)), found == [200, 200]


def too_large(client):
    path, body = "/v1/memory_stores/alice/tool", b" " * (17 * MIB)
    return of(sum(error_of(client.send("POST", path, body), 413) for _ in range(6)), 6)


def wrong_token(client):
    path, body = "/v1/memory_stores/alice/tool", b" " * (5 * MIB)
    headers = {"x-api-key": "memtok_0"}
    return of(sum(error_of(client.send("POST", path, body, headers), 401) for _ in range(6)), 6)


def signs_in(client):
    status, headers, _ = client.sign_in()
    cookie = headers.get("set-cookie", "")
    is_right = status == 303 and cookie.startswith("__Host-") and "; Secure" in cookie
    return ("ok" if is_right else f"{status} {cookie}"), is_right


def of_other_site(client):
    form = urllib.parse.urlencode({"token": client.token})
    found = client.send("POST", "/sign-in", form, {"origin": "https://evil.example"}, key=False)[0]
    return str(found), found == 403


def is_cached(client):
    path = "/v1/memory_stores/alice/memories?view=full"
    for url in [path, "/v1/memory_stores", "/metrics"]:
        assert client.send("GET", url)[0] == 200
    found = [client.send("GET", url, key=False)[0] for url in [path, "/v1/memory_stores", "/metrics"]]
    return ("no" if found == [401] * 3 else str(found)), found == [401] * 3


def with_slash(client):
    found = client.tool("user/42", "/memories/a", "x")[0]
    return ("ok" if found == 200 else str(found)), found == 200


def with_basic(client):
    found = client.send("GET", "/v1/memory_stores", headers={"authorization": "Basic dXNlcjpwYXNz"})[0]
    return ("ok" if found == 200 else str(found)), found == 200


def with_long_name(client):
    path = urllib.parse.quote("/memories" + ("/" + "\u05d0" * 120) * 4)
    found = client.send("GET", f"/memory/alice?path={path}", key=False)[0]
    return ("ok" if found == 303 else str(found)), found == 303


def session(client):
    return {"cookie": client.sign_in()[1]["set-cookie"].split(";")[0]}


def live(client):
    change = lambda: client.tool("alice", f"/memories/{time.time()}", "x")
    return seconds(client.first_line("/memory/alice/live", session(client), b"event: change", change), 1)


def mcp(client):
    accept = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
    key = {"x-api-key": client.of_one}
    _, headers, _ = client.send("POST", "/mcp", json.dumps(message), accept | key)
    of_session = {"mcp-session-id": headers.get("mcp-session-id", ""), **key}
    message = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    client.send("POST", "/mcp", json.dumps(message), accept | of_session)
    message = {"jsonrpc": "2.0", "id": 2, "method": "resources/list"}
    client.send("POST", "/mcp", json.dumps(message), accept | of_session)
    change = lambda: client.tool("alice", f"/memories/{time.time()}", "x")
    return seconds(client.first_line("/mcp", of_session, b"list_changed", change), 1)


def left_streams(client):
    """Visitors who leave do not use up the streams of a token."""
    headers = {"host": HOST, **client.extra, **session(client)}
    for _ in range(40):
        connection = client.open(5)
        connection.request("GET", "/memory/alice/live", headers=headers)
        connection.sock.settimeout(0.2)
        try:
            connection.sock.recv(1)
        except OSError:
            pass
        connection.close()
    return live(client)


CHECKS = {
    "sign-in, cookie `Secure`": signs_in,
    "form of another site": of_other_site,
    "`GET` with a token is cached": is_cached,
    "`Basic` beside `x-api-key`": with_basic,
    "name `user/42`": with_slash,
    "15 MiB, also chunked": sends_large,
    "17 MiB: 413 of the server": too_large,
    "wrong token, 5 MiB: 401": wrong_token,
    "long name, signed out": with_long_name,
    "live event after": live,
    "MCP notification after": mcp,
    "live event after 40 left streams": left_streams,
}


def version_of(name):
    words = {"apache": ["apache2", "-v"], "haproxy": ["haproxy", "-v"], "caddy": ["caddy", "version"]}
    name = name.split(",")[0]
    words = words.get(name, [{"varnish": "varnishd"}.get(name, name), "-V" if name == "varnish" else "-v"])
    printed = subprocess.run(words, capture_output=True, text=True, check=True)
    return re.search(r"\d+\.\d+(\.\d+)?", printed.stdout + printed.stderr)[0]


def certify(place):
    certificate, key = place / "certificate.pem", place / "certificate.key"
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={HOST}"]
    words += ["-addext", f"subjectAltName=DNS:{HOST}", "-keyout", key, "-out", certificate]
    subprocess.run(words, check=True, capture_output=True)
    (place / "certificate.both.pem").write_text(certificate.read_text() + key.read_text())


def new_token(tokens, *options):
    words = [PROGRAM, "token", "new", "--tokens", tokens, "--actor", "ops", *options]
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.split()[-1]


def run(name, place):
    place.chmod(0o755)
    certify(place)
    upstream, port, tokens = free_port(), free_port(), place / "tokens.json"
    token = new_token(tokens, "--admin", "--create")
    of_one = new_token(tokens, "--memory", "alice", "--right", "tool")
    has_socket = name.endswith("socket")
    settings = {"store": f"sqlite:{place}/memory.db", "tokens": str(tokens), "allow_hosts": [HOST]}
    settings["listen"] = f"unix:{place}/socket" if has_socket else f"127.0.0.1:{upstream}"
    settings |= {"socket_mode": "0666"} if has_socket else {}
    (place / "server.toml").write_text("".join(f"{name} = {json.dumps(value)}\n" for name, value in settings.items()))
    serve = [PROGRAM, "serve", "--config", place / "server.toml"]
    block = configuration(name, port, upstream, place)
    with Running(serve, place / "server.log"):
        wait_for(f"{place}/socket" if has_socket else upstream)
        with Running(PROXIES[name](block, port, place), place / "proxy.log"):
            wait_for(port)
            client = Client(port, name != "varnish", token)
            client.of_one = of_one
            assert client.tool("alice", "/memories/a", "secret tea")[0] == 200
            results = {}
            for check, run_check in CHECKS.items():
                start = time.monotonic()
                results[check] = run_check(client)
                print(f"{name}: {check}: {results[check][0]} ({time.monotonic() - start:.1f} s)", file=sys.stderr)
            check_metrics(client)
            return results


def check_metrics(client):
    """promtool reports nothing."""
    text = client.send("GET", "/metrics")[2]
    found = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True)
    assert found.returncode == 0, found.stderr.decode()


def main():
    names = NAMES or list(PROXIES)
    results = {}
    for name in names:
        place = pathlib.Path(tempfile.mkdtemp(prefix="proxies-"))
        try:
            results[name] = run(name, place)
        finally:
            shutil.rmtree(place, ignore_errors=True)
    print("| | " + " | ".join(f"{name} {version_of(name)}" for name in names) + " |")
    print("|---" * (len(names) + 1) + "|")
    for check in CHECKS:
        print(f"| {check} | " + " | ".join(results[name][check][0] for name in names) + " |")
    failed = [(name, check) for name in names for check in CHECKS if not results[name][check][1]]
    assert not failed, failed


main()
