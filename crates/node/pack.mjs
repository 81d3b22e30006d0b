// Packs what npm publishes: the package of a platform with its module, and `memory-tool`, which depends on all of these.
//
//     node pack.mjs FOLDER
//
// It builds first, with the variables of `build.mjs`. Version, license and address are those of Cargo.toml.

import { cpSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { here, module, run, target } from './build.mjs'; // builds it
import { PLATFORMS } from './platforms.mjs';

const folder = resolve(process.argv[2] ?? 'packages');
const metadata = JSON.parse(run('cargo', ['metadata', '--no-deps', '--format-version', '1']));
const { version, repository, license } = metadata.packages.find(({ name }) => name === 'memory-tool-node');
const { scripts, devDependencies, ...manifest } = JSON.parse(readFileSync(join(here, 'package.json'), 'utf8'));
if (manifest.version !== version) throw new Error(`package.json has version ${manifest.version}, Cargo.toml ${version}`);
if (manifest.license !== license) throw new Error(`package.json has license ${manifest.license}, Cargo.toml ${license}`);
const { description, engines } = manifest;
const origin = repository ? { repository: { type: 'git', url: `git+${repository}.git`, directory: 'crates/node' } } : {};

function pack(manifest, readme, copies) {
  const place = mkdtempSync(join(tmpdir(), 'memory-tool-'));
  const files = [...manifest.files, 'LICENSE-*']; // npm itself adds only files named `LICENSE`
  writeFileSync(join(place, 'package.json'), `${JSON.stringify({ ...manifest, files, ...origin }, null, 2)}\n`);
  writeFileSync(join(place, 'README.md'), readme);
  const root = join(here, '..', '..'); // `.ci/dist` adds the licenses of others
  for (const file of readdirSync(root).filter((name) => name.startsWith('LICENSE-'))) cpSync(join(root, file), join(place, file));
  for (const [from, options] of copies) cpSync(join(here, 'dist', from), join(place, options.to), { recursive: true, ...options });
  const shell = process.platform === 'win32'; // npm is a script there
  const packed = run('npm', ['pack', '--silent', '--pack-destination', folder], { cwd: place, shell });
  console.log(join(folder, packed.trim()));
  rmSync(place, { recursive: true });
}

mkdirSync(folder, { recursive: true });
const platform = PLATFORMS[target];
if (platform !== undefined) {
  const { platform: suffix, ...limits } = platform;
  const fields = Object.fromEntries(Object.entries(limits).map(([field, value]) => [field, [value]]));
  const name = `memory-tool-${suffix}`;
  const readme = `# ${name}\n\nThe module of [memory-tool](https://www.npmjs.com/package/memory-tool) for ${suffix}.\n`;
  pack({ name, version, description: `${description} (${suffix})`, license, engines, main: module, files: [module], ...fields }, readme, [
    [module, { to: module }],
  ]);
}
const packages = Object.values(PLATFORMS).map(({ platform }) => [`memory-tool-${platform}`, version]);
pack({ ...manifest, optionalDependencies: Object.fromEntries(packages) }, readFileSync(join(here, 'README.md')), [
  ['.', { to: 'dist', filter: (file) => !/\.(node|sha256)$/.test(file) }],
]);
