#!/usr/bin/env bash
# Undo in Yjs 13.6.33 and Loro 1.17.1 leaves the new word of another device in the next line. One device deletes Ann's
# line by mistake, and takes that back with the UndoManager of the library. Another device replaces a word of this line,
# and has not even seen the deletion. A deleted character stays deleted, and undo inserts new ones, also for the word
# that was replaced. The new word was placed between the deleted characters, so it is not between the new ones. It comes
# after them, and begins Bob's line. Both devices have the same text, so no check finds it. If the devices synchronize
# before undo as well, Yjs has both words side by side. There is a third result in Yjs: `applyUpdate` has no origin in
# the examples of its README, and then undo takes the changes of others for its own, and removes the new word.
#
# Guess: after undo, the line is as if nobody had deleted it, with the new word.
# Behavior: the old word is back, and the new one is in the wrong line, beside the old one, or lost.
# Seen with yjs 13.6.33 and loro-crdt 1.17.1 of npm. Fails if this changes. Needs Node.js with npm, and npm.
set -euo pipefail
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cd "$place"
npm init -y >/dev/null
npm install --silent --no-audit --no-fund yjs@13.6.33 loro-crdt@1.17.1
cat >try.mjs <<'JS'
import { LoroDoc, UndoManager } from 'loro-crdt';
import * as Y from 'yjs';

const text = '- Ann drinks tea\n- Bob drinks coffee\n';
const line = text.indexOf('\n') + 1;
const word = text.indexOf('tea');

function yjs(origin) {
  return () => {
    const [one, other] = [1, 2].map((clientID) => Object.assign(new Y.Doc(), { clientID }));
    const send = (from, to) => Y.applyUpdate(to, Y.encodeStateAsUpdate(from), origin);
    one.getText('notes').insert(0, text);
    send(one, other);
    const manager = new Y.UndoManager(one.getText('notes'));
    return {
      remove: () => one.getText('notes').delete(0, line),
      undo: () => manager.undo(),
      replace() {
        other.getText('notes').delete(word, 3);
        other.getText('notes').insert(word, 'milk');
      },
      synchronize() {
        send(other, one);
        send(one, other);
      },
      texts: () => [one, other].map((document) => document.getText('notes').toString()),
    };
  };
}

function loro() {
  const [one, other] = ['1', '2'].map((peer) => {
    const document = new LoroDoc();
    document.setPeerId(peer);
    return document;
  });
  const send = (from, to) => to.import(from.export({ mode: 'update' }));
  one.getText('notes').insert(0, text);
  one.commit();
  send(one, other);
  const manager = new UndoManager(one, {});
  return {
    remove() {
      one.getText('notes').delete(0, line);
      one.commit();
    },
    undo: () => manager.undo(),
    replace() {
      other.getText('notes').delete(word, 3);
      other.getText('notes').insert(word, 'milk');
      other.commit();
    },
    synchronize() {
      send(other, one);
      send(one, other);
    },
    texts: () => [one, other].map((document) => document.getText('notes').toString()),
  };
}

const orders = [
  ['replace', 'synchronize'],
  ['remove', 'replace', 'undo', 'synchronize'],
  ['remove', 'replace', 'synchronize', 'undo', 'synchronize'],
];
for (const [name, start] of [['Yjs', yjs('network')], ['Yjs without an origin', yjs(undefined)], ['Loro', loro]]) {
  console.log(name);
  for (const order of orders) {
    const devices = start();
    order.forEach((step) => devices[step]());
    const [one, other] = devices.texts();
    console.log(` ${order.join(', ')}: ${one === other ? 'the same text' : 'two texts'}`);
    console.log(`  ${JSON.stringify(one)}`);
  }
}
JS
node try.mjs | tee found
diff found - <<'TEXT'
Yjs
 replace, synchronize: the same text
  "- Ann drinks milk\n- Bob drinks coffee\n"
 remove, replace, undo, synchronize: the same text
  "- Ann drinks tea\nmilk- Bob drinks coffee\n"
 remove, replace, synchronize, undo, synchronize: the same text
  "- Ann drinks teamilk\n- Bob drinks coffee\n"
Yjs without an origin
 replace, synchronize: the same text
  "- Ann drinks milk\n- Bob drinks coffee\n"
 remove, replace, undo, synchronize: the same text
  "- Ann drinks tea\nmilk- Bob drinks coffee\n"
 remove, replace, synchronize, undo, synchronize: the same text
  "- Ann drinks tea\n- Bob drinks coffee\n"
Loro
 replace, synchronize: the same text
  "- Ann drinks milk\n- Bob drinks coffee\n"
 remove, replace, undo, synchronize: the same text
  "- Ann drinks tea\nmilk- Bob drinks coffee\n"
 remove, replace, synchronize, undo, synchronize: the same text
  "- Ann drinks tea\nmilk- Bob drinks coffee\n"
TEXT
