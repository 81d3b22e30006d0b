#!/usr/bin/env bash
# Apache 2.4.71 refuses the ETag that it has just given out. A store over WebDAV edits by GET, and PUT with If-Match.
# In the first second after a change, the ETag of a file is weak, and If-Match never matches a weak one. So the second
# of two edits in a row gets 412, although nobody else writes, and so does each retry that reads the ETag again, until
# the file is a second old. The same bytes between the quotes are accepted without the `W/`, also in that second.
#
# Guess: If-Match with the ETag of the newest GET succeeds unless somebody has changed the file in between.
# Behavior: 412 for a second after each change.
# Fails if this changes. Needs the package apache2-bin of Debian 12, and curl.
set -euo pipefail
apache2 -v | grep -q 'Apache/2\.4\.71 ' || { echo "another version of Apache" && exit 1; }
place=$(mktemp -d)
chmod 755 "$place"
cd "$place"
end() {
    kill "$server" 2>/dev/null || true
    wait
    rm -rf "$place"
}
trap end EXIT
mkdir -m 777 files locks
port=$(python3 -c 'import socket; s = socket.create_server(("127.0.0.1", 0)); print(s.getsockname()[1])')
cat >httpd.conf <<CONF
ServerRoot $place
ServerName localhost
Listen 127.0.0.1:$port
PidFile $place/pid
ErrorLog $place/log
LoadModule mpm_event_module /usr/lib/apache2/modules/mod_mpm_event.so
LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so
LoadModule dav_module /usr/lib/apache2/modules/mod_dav.so
LoadModule dav_fs_module /usr/lib/apache2/modules/mod_dav_fs.so
User nobody
Group nogroup
DAVLockDB $place/locks/db
DocumentRoot $place/files
<Directory $place/files>
    Dav On
    Require all granted
</Directory>
CONF
apache2 -f "$place/httpd.conf" -D FOREGROUND &
server=$!
file=http://127.0.0.1:$port/notes.md
until curl -s -o /dev/null "http://127.0.0.1:$port/"; do sleep 0.1; done
etag() { curl -s -I "$file" | tr -d '\r' | sed -n 's/^ETag: //p'; }
put() { curl -s -o /dev/null -w '%{http_code}' -X PUT --data-binary "$1" "${@:2}" "$file"; }
edit() { # NAME TEXT
    local etag
    etag=$(etag)
    echo "$1: ETag ${etag%%\"*}\"...\", $(put "$2" -H "if-match: $etag")"
}

{
    echo "created: $(put one -H 'if-none-match: *')"
    edit "edited at once" two
    sleep 2
    edit "after two seconds" two
    edit "edited again at once" three
    newest=$(etag)
    echo "the same without W/: $(put three -H "if-match: ${newest#W/}")"
    echo "content: $(curl -s "$file")"
} | tee found
diff found - <<'TEXT'
created: 201
edited at once: ETag W/"...", 412
after two seconds: ETag "...", 204
edited again at once: ETag W/"...", 412
the same without W/: 412
content: two
TEXT
