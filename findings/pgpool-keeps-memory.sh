#!/usr/bin/env bash
# pgpool-II 4.3.5 leaves its System V shared memory, 137 MB with defaults, when it is killed (`kill -9`, or the system's
# killer of processes without memory). The memory has no process, and stays until someone removes it or the system
# restarts. The next pgpool with the same configuration and pid file allocates as much again. PostgreSQL removes the
# segment of its predecessor when it starts.
#
# Guess: a start removes the segment of the predecessor in the pid file, or uses an anonymous mapping.
# Behavior: 3 killed poolers leave 3 segments. A container or test that ends with SIGKILL fills the memory of the host.
# Fails if this changes. Needs root, and the package pgpool2 of Debian 12. Removes the segments again.
set -euo pipefail
[ "$(dpkg-query -W -f '${Version}' pgpool2)" = 4.3.5-1+deb12u1 ] || { echo "another version of pgpool2" && exit 1; }
place=$(mktemp -d)
chown postgres "$place"
cd "$place"
cat >pgpool.conf <<CONF
backend_clustering_mode = 'raw'
listen_addresses = '127.0.0.1'
port = 15433
pcp_port = 15434
socket_dir = '$place'
pcp_socket_dir = '$place'
pid_file_name = '$place/pgpool.pid'
logdir = '$place'
work_dir = '$place'
backend_hostname0 = '127.0.0.1'
backend_port0 = 15431
CONF
ids=()
trap 'for id in "${ids[@]}"; do ipcrm -m "$id"; done; rm -rf "$place"' EXIT
for _ in 1 2 3; do
    setsid setpriv --reuid=postgres --regid=postgres --clear-groups pgpool -n -D -f pgpool.conf >>log 2>&1 &
    pid=$!
    id=""
    until [ -n "$id" ]; do # of this process, and in use
        id=$(awk -v pid=$pid '$5 == pid && $4 > 1000000 && $7 > 1 { print $2 }' /proc/sysvipc/shm)
        sleep 0.1
    done
    kill -9 -- -$pid
    wait $pid 2>/dev/null || true
    ids+=("$id")
    rm -f .s.PGSQL.15433 .s.PGSQL.15434
    sleep 1
done
for id in "${ids[@]}"; do awk -v id="$id" '$2 == id { print "segment of " $4 " bytes, used by " $7 }' /proc/sysvipc/shm; done | tee found
diff found - <<'TEXT'
segment of 136981824 bytes, used by 0
segment of 136981824 bytes, used by 0
segment of 136981824 bytes, used by 0
TEXT
