#!/usr/bin/env bash
# PostgreSQL 15.18 leaves the bytes of a replaced row in the file of the table after VACUUM, also a second time with FREEZE,
# and after the page has another row. VACUUM only moves the remaining rows of a page together, so the end of a longer
# earlier row stays in the free space between, until a new row is written there. A memory whose text was replaced by a
# shorter one is such a row. Copies of the data directory, such as those of pg_basebackup, have it.
#
# Guess: once VACUUM has removed a dead row, its text is only in the write-ahead log and in backups.
# Behavior: it is in the table until the space is used, or VACUUM FULL writes the table again.
# Fails if this changes. Needs the package postgresql-15 of Debian 12, and root, because the server refuses it.
set -euo pipefail
programs=/usr/lib/postgresql/15/bin
"$programs/postgres" --version | grep -q ' 15\.18 ' || { echo "another version of PostgreSQL" && exit 1; }
place=$(mktemp -d)
chown nobody "$place"
cd "$place"
as() { setpriv --reuid=nobody --regid=nogroup --clear-groups "$@"; }
end() {
    as $programs/pg_ctl -D "$place/data" -m immediate stop >/dev/null 2>&1 || true
    rm -rf "$place"
}
trap end EXIT
as $programs/initdb -A trust -U postgres -N -D "$place/data" >/dev/null
as $programs/pg_ctl -D "$place/data" -w -l "$place/log" \
    -o "-k $place -c listen_addresses= -c fsync=off -c autovacuum=off" start >/dev/null
ask() { psql -XqAt -h "$place" -U postgres -d postgres -c "$1"; }
look() { # EVENT
    ask "CHECKPOINT" # writes the pages
    local found=gone
    if grep -q 0170-5551234 "data/$(ask "SELECT pg_relation_filepath('memory')")"; then found="in the file"; fi
    echo "$1: $found"
}

ask "CREATE TABLE memory (path text PRIMARY KEY, content text)"
ask "INSERT INTO memory VALUES ('/a.md', 'call 0170-5551234' || repeat(', and this is more text', 50))"
{
    look "written"
    ask "UPDATE memory SET content = 'call nobody'"
    look "replaced"
    ask "VACUUM memory" && look "vacuumed"
    ask "VACUUM (FREEZE, INDEX_CLEANUP ON) memory" && look "vacuumed again"
    ask "DELETE FROM memory" && ask "INSERT INTO memory VALUES ('/b.md', 'text')" && ask "VACUUM memory"
    look "another row in its place"
    ask "VACUUM FULL memory" && look "rewritten"
} | tee found
diff found - <<'TEXT'
written: in the file
replaced: in the file
vacuumed: in the file
vacuumed again: in the file
another row in its place: in the file
rewritten: gone
TEXT
