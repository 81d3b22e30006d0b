#!/usr/bin/env bash
# write-file-atomic 8.0.0 leaves a mixture of two texts when two containers write one file of a shared volume, and the
# writer of the second text gets success. The name of the temporary file is made of the path of the package, the process
# ID, and the number of the write in this process. Two containers of one image have the same path, often the process ID
# 1, and both count from one. Both open the same temporary file, without O_EXCL. The faster one renames it, and the
# slower one then writes over the beginning of the file under its final name. The slower one gets ENOENT for its rename,
# as if its text had not been stored. With different process IDs, one of the two texts is there, and whole.
#
# Guess: a temporary file belongs to one writer, so a reader finds one text or the other.
# Behavior: the beginning of one text, with the end of the other.
# Fails if this changes. Needs strace, to slow one write down as a busy network disk does, root, for two sets of process
# IDs, Node.js with npm, and npm.
set -euo pipefail
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cd "$place"
npm init -y >/dev/null
npm install --silent --no-audit --no-fund node@24.21.0 write-file-atomic@8.0.0
cat >write.cjs <<'JS'
const writeFileAtomic = require('write-file-atomic');

const [, , name, text] = process.argv;
writeFileAtomic('notes.md', text).then(
  () => console.log(`${name}: process ${process.pid}, success`),
  (error) => console.log(`${name}: process ${process.pid}, ${error.code}`),
);
JS
node=node_modules/node/bin/node
slowly=(strace -D -f -qq -o trace -e trace=pwrite64 -e inject=pwrite64:delay_enter=3000000)
contain() { unshare --pid --fork "$@"; }
try() { # COMMAND of the faster writer
    rm -f notes.md
    contain "${slowly[@]}" $node write.cjs slower "- tea" >output &
    local slower=$!
    until compgen -G 'notes.md.*' >/dev/null; do sleep 0.1; done
    contain "$@" faster "- milk and honey"
    wait $slower
    cat output
    echo "notes.md: $(cat notes.md)"
}
{
    try $node write.cjs
    try bash -c '"$@" & wait $!' bash $node write.cjs
} | tee found
diff found - <<'TEXT'
faster: process 1, success
slower: process 1, ENOENT
notes.md: - teak and honey
faster: process 2, success
slower: process 1, success
notes.md: - tea
TEXT
