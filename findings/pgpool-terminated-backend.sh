#!/usr/bin/env bash
# pgpool-II 4.3.5 with a minimal configuration detaches a healthy primary after one pg_terminate_backend, and finds no
# primary until an operator attaches it. The configuration that is shipped with it and its documentation say that the
# default of failover_on_backend_shutdown is off. The program's default is on. With off, the primary is detached too as
# soon as pgpool writes to the ended connection, by failover_on_backend_error. Both must be off.
#
# Guess: the default in the program was not changed with the documentation.
# Fails if this behavior changes. Needs root, and the packages postgresql-15 and pgpool2 of Debian 12.
set -euo pipefail
[ "$(dpkg-query -W -f '${Version}' pgpool2)" = 4.3.5-1+deb12u1 ] || { echo "another version of pgpool2" && exit 1; }
programs=/usr/lib/postgresql/15/bin
place=$(mktemp -d)
chown postgres "$place"
cd "$place"
as() { setpriv --reuid=postgres --regid=postgres --clear-groups "$@"; }
end() {
    as pgpool -f "$place/pgpool.conf" -m immediate stop >/dev/null 2>&1 || true
    for data in standby primary; do as $programs/pg_ctl -D "$place/$data" -m immediate stop >/dev/null 2>&1 || true; done
    rm -rf "$place"
}
trap end EXIT
start() { # DATA PORT
    as $programs/pg_ctl -D "$place/$1" -w -l "$place/$1.log" \
        -o "-p $2 -k $place -c listen_addresses=127.0.0.1 -c fsync=off" start >/dev/null
}
ask() { psql -XqAt -h 127.0.0.1 -U postgres -p "$1" -d postgres -c "$2"; }

as $programs/initdb -A trust -U postgres -N -D "$place/primary" >/dev/null
start primary 15431
as $programs/pg_basebackup -R -c fast -U postgres -h 127.0.0.1 -p 15431 -D "$place/standby"
start standby 15432
cat >pgpool.conf <<CONF
backend_clustering_mode = 'streaming_replication'
listen_addresses = '127.0.0.1'
port = 15433
pcp_port = 15434
socket_dir = '$place'
pcp_socket_dir = '$place'
pid_file_name = '$place/pgpool.pid'
logdir = '$place'
work_dir = '$place'
sr_check_user = 'postgres'
sr_check_database = 'postgres'
search_primary_node_timeout = 3
backend_hostname0 = '127.0.0.1'
backend_port0 = 15431
backend_hostname1 = '127.0.0.1'
backend_port1 = 15432
CONF
as pgpool -D -f "$place/pgpool.conf" >/dev/null 2>&1
until ask 15433 'show pool_nodes' 2>/dev/null | grep -q '^0.*|primary|'; do sleep 0.1; done
grep '^#failover_on_backend_shutdown' /usr/share/doc/pgpool2/examples/pgpool.conf.sample
echo "the program: $(ask 15433 'pgpool show failover_on_backend_shutdown')"
(sleep 4; echo "SELECT 1;") | psql -Xq -h 127.0.0.1 -U postgres -p 15433 -d postgres >/dev/null 2>&1 & # idle
sleep 1
ask 15431 "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = 'postgres' AND pid <> pg_backend_pid()"
sleep 6
status=$(ask 15433 'show pool_nodes' | cut -d '|' -f 1,4,7)
echo "$status"
echo "the primary itself: $(ask 15431 'SELECT NOT pg_is_in_recovery()')"
[ "$(head -1 <<<"$status")" = "0|down|standby" ]
