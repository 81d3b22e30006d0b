#!/usr/bin/env bash
# PouchDB 9.0.0 shows the first text of a note after the note was deleted, on both devices. One device edited it a
# thousand times between two synchronizations, and the other one never. PouchDB remembers the last 1000 versions of a
# document by default, so the newest one no longer reaches back to the version of the other device. That version becomes
# a conflict with its own successor, on both devices, and no error is reported. A read takes the longer branch, so all
# looks well. `remove` ends this branch only, and reports success. Then the first version is the only one that is not
# deleted, and the next read has it. With 999 edits, the note is gone.
#
# Guess: edits on one device are no conflict, and a deleted note is not found.
# Behavior: a conflict with the past, and the oldest text after the deletion.
# Seen with pouchdb-core, pouchdb-adapter-memory and pouchdb-replication 9.0.0 of npm. Fails if this changes. Needs
# Node.js with npm, and npm.
set -euo pipefail
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cd "$place"
npm init -y >/dev/null
npm install --silent --no-audit --no-fund pouchdb-core@9.0.0 pouchdb-adapter-memory@9.0.0 pouchdb-replication@9.0.0
cat >try.cjs <<'JS'
const PouchDB = require('pouchdb-core')
  .plugin(require('pouchdb-adapter-memory'))
  .plugin(require('pouchdb-replication'));

async function show(name, database) {
  const found = await database.get('notes.md', { conflicts: true }).catch((error) => ({ text: error.reason }));
  console.log(` ${name}: ${found.text}, ${found._conflicts?.length ?? 0} conflicts`);
}

async function synchronize(one, other) {
  const { push, pull } = await one.sync(other);
  const errors = [...push.errors, ...pull.errors].length;
  console.log(` synchronized, ${push.docs_written} sent, ${pull.docs_written} received, ${errors} errors`);
  await show('laptop', one);
  await show('phone', other);
}

async function compare(edits) {
  console.log(`${edits} edits on the laptop`);
  const laptop = new PouchDB(`laptop ${edits}`, { adapter: 'memory' });
  const phone = new PouchDB(`phone ${edits}`, { adapter: 'memory' });
  let { rev } = await laptop.put({ _id: 'notes.md', text: 'the first text' });
  await synchronize(laptop, phone);
  for (let edit = 1; edit <= edits; edit++) {
    ({ rev } = await laptop.put({ _id: 'notes.md', _rev: rev, text: `edit ${edit}` }));
  }
  await synchronize(laptop, phone);
  const { ok } = await laptop.remove('notes.md', rev);
  console.log(` deleted on the laptop: ${ok}`);
  await synchronize(laptop, phone);
}

compare(999).then(() => compare(1000));
JS
node try.cjs | tee found
diff found - <<'TEXT'
999 edits on the laptop
 synchronized, 1 sent, 0 received, 0 errors
 laptop: the first text, 0 conflicts
 phone: the first text, 0 conflicts
 synchronized, 1 sent, 0 received, 0 errors
 laptop: edit 999, 0 conflicts
 phone: edit 999, 0 conflicts
 deleted on the laptop: true
 synchronized, 1 sent, 0 received, 0 errors
 laptop: deleted, 0 conflicts
 phone: deleted, 0 conflicts
1000 edits on the laptop
 synchronized, 1 sent, 0 received, 0 errors
 laptop: the first text, 0 conflicts
 phone: the first text, 0 conflicts
 synchronized, 1 sent, 1 received, 0 errors
 laptop: edit 1000, 1 conflicts
 phone: edit 1000, 1 conflicts
 deleted on the laptop: true
 synchronized, 1 sent, 0 received, 0 errors
 laptop: the first text, 0 conflicts
 phone: the first text, 0 conflicts
TEXT
