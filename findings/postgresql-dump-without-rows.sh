#!/usr/bin/env bash
# pg_dump 15.18 writes a table of 500 rows without any row, and reports success, if a migration or a reload of the table
# is under way when it starts. The table is empty in no committed state: one transaction changes the type of a column,
# or removes all rows by TRUNCATE and inserts them again. pg_dump takes its snapshot, and then waits for the lock of
# that transaction. After the commit, it reads the new file of the table, whose rows are all younger than the snapshot.
# The backup has the other tables, and no memory. With DELETE instead of TRUNCATE, and beside CLUSTER, which writes a
# new file too, the dump is complete. The documentation warns of such snapshots in its chapter on concurrency. Its page
# of pg_dump does not, and promises consistent backups while the database is in use.
#
# Guess: the dump has the old rows, or it waits and has the new ones.
# Behavior: it waits, and has neither. The status is 0, and nothing is printed.
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
ask() { psql -XqAt -h "$place" -U postgres -d postgres "$@"; }
waits() { [ "$(ask -c "SELECT count(*) FROM pg_stat_activity
    WHERE application_name = 'pg_dump' AND wait_event_type = 'Lock'")" = 1 ]; }
dump() {
    local status=0
    $programs/pg_dump -h "$place" -U postgres postgres >dump 2>&1 || status=$?
    echo "status $status, $(sed -n '/^COPY public.memory /,/^\\\.$/p' dump | grep -c '^/memories/') rows of 500," \
        "$(sed -n '/^COPY public.users /,/^\\\.$/p' dump | grep -c '^ann') of 1"
}
try() { # NAME SQL
    mkfifo commands
    ask <commands >/dev/null &
    local session=$!
    exec 3>commands
    echo "BEGIN; $2; CREATE TABLE changed ();" >&3
    until [ "$(ask -c "SELECT count(*) FROM pg_stat_activity
        WHERE state = 'idle in transaction' AND query ~ 'changed'")" = 1 ]; do sleep 0.1; done
    dump >result &
    local dump=$!
    local how="did not wait"
    while kill -0 $dump 2>/dev/null; do
        if waits; then
            how=waited
            break
        fi
        sleep 0.1
    done
    echo "DROP TABLE changed; COMMIT;" >&3
    exec 3>&-
    wait $session $dump
    rm commands
    echo "$1: $how, $(cat result); now $(ask -c 'SELECT count(*) FROM memory')"
}

ask -c "CREATE TABLE memory (path text PRIMARY KEY, version integer, content text)" \
    -c "INSERT INTO memory SELECT '/memories/' || n || '.md', n, 'text' FROM generate_series(1, 500) AS n" \
    -c "CREATE TABLE users (name text); INSERT INTO users VALUES ('ann')"
{
    try "nothing" "SELECT"
    try "new type" "ALTER TABLE memory ALTER COLUMN version TYPE bigint"
    try "TRUNCATE" "CREATE TEMPORARY TABLE copy AS TABLE memory; TRUNCATE memory; INSERT INTO memory TABLE copy"
    try "DELETE" "CREATE TEMPORARY TABLE copy AS TABLE memory; DELETE FROM memory; INSERT INTO memory TABLE copy"
    try "CLUSTER" "CLUSTER memory USING memory_pkey"
} | tee found
diff found - <<'TEXT'
nothing: did not wait, status 0, 500 rows of 500, 1 of 1; now 500
new type: waited, status 0, 0 rows of 500, 1 of 1; now 500
TRUNCATE: waited, status 0, 0 rows of 500, 1 of 1; now 500
DELETE: did not wait, status 0, 500 rows of 500, 1 of 1; now 500
CLUSTER: waited, status 0, 500 rows of 500, 1 of 1; now 500
TEXT
