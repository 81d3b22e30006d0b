#!/usr/bin/env bash
# Git merges the change of one entry into another one, without a conflict. The entries of a file begin with equal lines,
# and have their names at the end. One writer adds Cy before Ann, and another one changes Ann's second line. There are
# several shortest differences: Cy's whole entry was added, or the end of Cy's with the beginning of Ann's. The merges
# of Git, GNU diff3 and node-diff3 take the second one. So Ann's first lines become Cy's, and the change with them.
# `git diff` shows the first one. It moves such blocks to where people expect them, and no algorithm of `git merge`
# does. merge3 of PyPI is right, and so is `patch`, which uses the lines around a change. `updateText` of Automerge,
# made for texts that were edited elsewhere, is wrong too. If one writer removes Cy instead, it makes a name that nobody
# wrote, because it compares characters. Git and the others report that one as a conflict.
#
# Guess: Ann is changed, or there is a conflict; and the difference that `git diff` shows is the one that is merged.
# Behavior: Cy has the change, Ann does not, and the status is 0.
# Seen with Git 2.47.3, diff3 and patch of Debian 12, merge3 1.0.0 of PyPI, and node-diff3 3.2.1 and Automerge 3.5.0 of
# npm. Fails if this changes. Needs Git, the packages diffutils and patch, Python with venv, PyPI, and Node.js with npm.
set -euo pipefail
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cd "$place"
python3 -m venv venv
venv/bin/pip install -q --disable-pip-version-check --only-binary=:all: merge3==1.0.0
npm init -y >/dev/null
npm install --silent --no-audit --no-fund node-diff3@3.2.1 @automerge/automerge@3.5.0
cat >try.py <<'PYTHON'
import sys

from merge3 import Merge3

base, ours, theirs = (open(name).readlines() for name in ["base", "ours", "theirs"])
merge = Merge3(base, ours, theirs)
if any(group[0] == "conflict" for group in merge.merge_groups()):
    sys.exit(1)
print("".join(merge.merge_lines()), end="")
PYTHON
cat >try.mjs <<'JS'
import { readFileSync } from 'node:fs';
import * as Automerge from '@automerge/automerge';
import { diff3Merge } from 'node-diff3';

const [base, ours, theirs] = ['base', 'ours', 'theirs'].map((name) => readFileSync(name, 'utf8'));
if (process.argv[2] === 'node-diff3') {
  const parts = diff3Merge(...[ours, base, theirs].map((text) => text.split('\n')));
  if (parts.some((part) => part.conflict)) process.exit(1);
  process.stdout.write(parts.flatMap((part) => part.ok).join('\n'));
} else {
  const start = Automerge.from({ text: base });
  const edit = (text) => Automerge.change(Automerge.clone(start), (it) => Automerge.updateText(it, ['text'], text));
  process.stdout.write(Automerge.merge(edit(ours), edit(theirs)).text);
}
JS

title() { printf '# People\n\nThe newest first.\n\n'; }
person() { printf '## Person\n- active: %s\n- team: blue\n- name: %s\n\n' "$1" "$2"; }
in_git() { # COMMAND that merges
    rm -rf repository
    git init -q -b main repository
    (
        cd repository
        git config user.name test
        git config user.email test@example.org
        cp ../base notes.md
        git add notes.md
        git commit -q -m base
        git checkout -q -b theirs
        cp ../theirs notes.md
        git commit -q -a -m theirs
        git checkout -q main
        cp ../ours notes.md
        git commit -q -a -m ours
        "$@" >&2 && cat notes.md
    )
}
patched() {
    cp ours patched
    { diff -u base theirs || true; } | patch -s patched && cat patched
}
show() { # NAME, COMMAND that prints the merged file
    local name=$1
    shift
    if "$@" >merged 2>>log; then
        awk '/active:/ { active = $3 } /name:/ { printf "%s %s %s", comma, $3, active; comma = "," }' merged >line
        echo " $name:$(cat line)"
    else
        echo " $name: refused"
    fi
}
try() {
    show "git merge" in_git git merge -q -m merge theirs
    show "git merge, patience" in_git git merge -q -m merge -X patience theirs
    show "git cherry-pick" in_git git cherry-pick theirs
    show "git rebase" in_git git rebase -q theirs
    show diff3 diff3 -m ours base theirs
    show node-diff3 node try.mjs node-diff3
    show Automerge node try.mjs Automerge
    show merge3 venv/bin/python try.py
    show patch patched
}

{
    { title && person yes Ann && person yes Bob; } >base
    { title && person yes Cy && person yes Ann && person yes Bob; } >ours
    { title && person no Ann && person yes Bob; } >theirs
    echo "ours adds Cy, theirs changes Ann"
    try
    mv base without-cy
    mv ours base
    mv without-cy ours
    { title && person yes Cy && person no Ann && person yes Bob; } >theirs
    echo "ours removes Cy, theirs changes Ann"
    try
} | tee found
diff found - <<'TEXT'
ours adds Cy, theirs changes Ann
 git merge: Cy no, Ann yes, Bob yes
 git merge, patience: Cy no, Ann yes, Bob yes
 git cherry-pick: Cy no, Ann yes, Bob yes
 git rebase: Cy no, Ann yes, Bob yes
 diff3: Cy no, Ann yes, Bob yes
 node-diff3: Cy no, Ann yes, Bob yes
 Automerge: Cy no, Ann yes, Bob yes
 merge3: Cy yes, Ann no, Bob yes
 patch: Cy yes, Ann no, Bob yes
ours removes Cy, theirs changes Ann
 git merge: refused
 git merge, patience: refused
 git cherry-pick: refused
 git rebase: refused
 diff3: refused
 node-diff3: refused
 Automerge: noAnn yes, Bob yes
 merge3: Ann no, Bob yes
 patch: Ann no, Bob yes
TEXT
