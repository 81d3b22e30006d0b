// The commands of the README in a new project. It builds the package again, so no other test must run.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { text, use, withMessagesApi } from './messages_api.js';
import { newPlace, root, runShell } from './support.js';

const SDK = '@anthropic-ai/sdk';

for (const installed of ['the folder', 'the archive']) {
  test(`the commands of the README work with ${installed}`, async () => {
    const readme = readFileSync(join(root, 'README.md'), 'utf8');
    const commands = /```sh\n(npm install [^]*?)```/.exec(readme)?.[1] ?? '';
    assert.equal(commands.trim().split('\n').length, 3, commands);
    const project = newPlace();
    let script = commands.replaceAll('"$CLONE/crates/node"', '"$PACKAGE"').replace(SDK, `${SDK}@${sdkVersion()}`);
    let location = root;
    if (installed === 'the archive') {
      const packed = execFileSync('npm', ['pack', '--ignore-scripts', '--pack-destination', project], { cwd: root });
      location = join(project, packed.toString().trim().split('\n').at(-1) as string);
    }
    const create = use('t1', { command: 'create', path: '/memories/tea.txt', file_text: 'No milk.' });
    const wrong = use('t2', { command: 'view', path: '/etc' });
    await withMessagesApi([[create, wrong], [text('Noted.')]], async (api) => {
      const env = { ...process.env, CLONE: dirname(dirname(root)), PACKAGE: location, ANTHROPIC_BASE_URL: api.url };
      script = script.replace('ANTHROPIC_API_KEY=...', 'ANTHROPIC_API_KEY=none');
      const done = await runShell(script, { cwd: project, env });
      assert.match(done.stdout, /Noted\.\n$/, done.stdout + done.stderr);
      assert.equal(api.results()['t2']?.['content'], 'Error: Path must start with /memories, got: /etc');
    });
  });
}

function sdkVersion(): string {
  const { devDependencies } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
    devDependencies: Record<string, string>;
  };
  return devDependencies[SDK] as string;
}
