#!/usr/bin/env bash
# PostgreSQL 15.18 whose synchronous standby is gone: no timeout of the server ends a statement that waits for it, and a
# waiting statement that is canceled reports success, with a warning that drivers drop. The change is then visible, and
# only on this server: if the standby takes over, an acknowledged memory is lost. Other writers of the row do time out.
#
# Guess: statement_timeout bounds each statement, and a canceled statement fails and changes nothing.
# Behavior: the timer is switched off before the commit. A cancellation ends the wait, not the commit.
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
    -o "-k $place -c listen_addresses= -c fsync=off" start >/dev/null
ask() { psql -XqAt -h "$place" -U postgres -d postgres "$@"; }
waiting() { ask -c "SELECT $1 FROM pg_stat_activity WHERE wait_event = 'SyncRep'"; }

ask -c "CREATE TABLE memory (path text, content text); INSERT INTO memory VALUES ('/memories/a.md', 'old')"
ask -c "ALTER SYSTEM SET synchronous_standby_names = 'standby'" -c "SELECT pg_reload_conf()" >/dev/null
sleep 1
change() { # TEXT
    ask -c "SET statement_timeout = '1s'; SET lock_timeout = '500ms'; SET idle_in_transaction_session_timeout = '1s'" \
        -c "UPDATE memory SET content = '$1'" 2>&1
}
(
    change new
    echo "status of the client: $?"
) >client &
sleep 5
{
    echo "still waiting after 4 seconds: $(waiting "now() - query_start > '4s'")"
    echo "readers see: $(ask -c 'SELECT content FROM memory')"
    { change other || true; } | head -1
    echo "canceled: $(waiting 'pg_cancel_backend(pid)')"
    sleep 1
    cat client
    echo "readers see: $(ask -c 'SELECT content FROM memory')"
} | tee found
diff found - <<'TEXT'
still waiting after 4 seconds: t
readers see: old
ERROR:  canceling statement due to lock timeout
canceled: t
WARNING:  canceling wait for synchronous replication due to user request
DETAIL:  The transaction has already committed locally, but might not have been replicated to the standby.
status of the client: 0
readers see: new
TEXT
