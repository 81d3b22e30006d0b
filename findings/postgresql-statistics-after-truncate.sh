#!/usr/bin/env bash
# PostgreSQL 15.18 shows values of a table after all its rows were deleted, vacuumed and analyzed, and also after
# TRUNCATE. The statistics for the planner hold up to 100 values of each column, here paths with names of people, and
# everybody who may read the table reads them in `pg_stats`. ANALYZE skips a table without rows, so these values stay
# until it runs after a new row. Who erases a person's memory has to remember the statistics too, and backups by
# pg_basebackup have them.
#
# Guess: ANALYZE replaces the statistics of a column, and TRUNCATE removes them.
# Behavior: both leave them. The first ANALYZE with a row in the table replaces them.
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
    local paths
    paths=$(ask "SELECT cardinality(string_to_array(histogram_bounds::text, ',')) FROM pg_stats
        WHERE tablename = 'memory' AND attname = 'path'")
    echo "$1: $(ask 'SELECT count(*) FROM memory') rows, ${paths:-0} paths in pg_stats"
}

ask "CREATE TABLE memory (path text PRIMARY KEY, content text)"
ask "INSERT INTO memory SELECT '/memories/people/person-' || n || '.md', 'text' FROM generate_series(1, 500) AS n"
{
    ask "ANALYZE memory" && look "filled"
    ask "DELETE FROM memory" && ask "VACUUM (FULL, ANALYZE) memory" && look "deleted"
    ask "ANALYZE memory" && look "analyzed again"
    ask "TRUNCATE memory" && ask "ANALYZE memory" && look "truncated"
    ask "SELECT (histogram_bounds::text::text[])[2] FROM pg_stats WHERE tablename = 'memory' AND attname = 'path'"
    ask "INSERT INTO memory VALUES ('/memories/a.md', '')" && ask "ANALYZE memory" && look "one row"
} | tee found
diff found - <<'TEXT'
filled: 500 rows, 101 paths in pg_stats
deleted: 0 rows, 101 paths in pg_stats
analyzed again: 0 rows, 101 paths in pg_stats
truncated: 0 rows, 101 paths in pg_stats
/memories/people/person-102.md
one row: 1 rows, 0 paths in pg_stats
TEXT
