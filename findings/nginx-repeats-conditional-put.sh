#!/usr/bin/env bash
# nginx 1.22.1 sends one conditional PUT twice, also to a single server. The server stores the object and ends the
# connection before its response, as it does when it restarts. nginx counts PUT as idempotent, even with If-None-Match
# or If-Match, and repeats it on a new connection. The client gets 412 for a change that is its own. A store that
# builds locks or compare-and-swap on such requests, and has switched off the retries of its client for this reason,
# takes its own change for another writer's. POST is not repeated. `proxy_next_upstream off` prevents it.
#
# Guess: a proxy of one server forwards a request at most once, or at least not one with a precondition.
# Behavior: the request is repeated if the connection was reused, which is the usual case with `keepalive`.
# Fails if this changes. Needs the package nginx of Debian 12, Python and curl.
set -euo pipefail
nginx -v 2>&1 | grep -q 'nginx/1\.22\.1' || { echo "another version of nginx" && exit 1; }
place=$(mktemp -d)
cd "$place"
end() {
    kill "$server" "$(cat proxy.pid)" 2>/dev/null || true
    rm -rf "$place"
}
trap end EXIT
cat >server.py <<'PYTHON'
import http.server


class Store(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    stored = {}
    lost = set()

    def do_PUT(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        exists = self.path in self.stored and self.headers.get("if-none-match") == "*"
        print(self.command, self.path, "exists" if exists else "stored", flush=True)
        if not exists:
            self.stored[self.path] = body
        if self.path.startswith("/lost") and self.path not in self.lost:
            self.lost.add(self.path)
            self.close_connection = True
            return
        self.answer(412 if exists else 201, b"")

    do_POST = do_PUT

    def do_GET(self):
        self.answer(200, self.stored.get(self.path, b""))

    def answer(self, status, body):
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Store)
with open("port", "w") as file:
    file.write(str(server.server_port))
server.serve_forever()
PYTHON
python3 server.py >requests &
server=$!
until [ -s port ]; do sleep 0.1; done
start() { # LINE
    cat >proxy.conf <<CONF
pid $place/proxy.pid;
error_log $place/log;
events {}
http {
    access_log off;
    client_body_temp_path $place/body;
    proxy_temp_path $place/proxy;
    fastcgi_temp_path $place/fastcgi;
    uwsgi_temp_path $place/uwsgi;
    scgi_temp_path $place/scgi;
    upstream store { server 127.0.0.1:$(cat port); keepalive 4; }
    server {
        listen unix:$place/socket;
        location / {
            proxy_pass http://store;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            $1
        }
    }
}
CONF
    nginx -c "$place/proxy.conf"
}
send() { curl -s -o /dev/null -w '%{http_code}' --unix-socket socket "$@"; }
create() { # METHOD PATH
    send http://store/ >/dev/null # leaves a connection for the next request
    echo "$1: $(send -X "$1" -H 'if-none-match: *' --data-binary mine "http://store$2")"
}

start ''
{
    create PUT /kept
    create PUT /lost
    create POST /lost-by-post
} | tee found
kill "$(cat proxy.pid)"
rm -f socket
sleep 1
start 'proxy_next_upstream off;'
create PUT /lost-and-not-repeated | tee -a found
cat requests >>found
diff found - <<'TEXT'
PUT: 201
PUT: 412
POST: 502
PUT: 502
PUT /kept stored
PUT /lost stored
PUT /lost exists
POST /lost-by-post stored
PUT /lost-and-not-repeated stored
TEXT
cat requests
