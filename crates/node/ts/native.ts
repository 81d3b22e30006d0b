// Loads the native module: the one that `build.mjs` built, or the one in the package of this platform.

import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type * as generated from './generated.js'; // `build.mjs` generates it

interface Manifest {
  readonly name?: string;
  /** The packages of the platforms. A clone has none. */
  readonly optionalDependencies?: Readonly<Record<string, string>>;
}

/** The name of this platform, as in `platforms.mjs`. */
function thisPlatform(): string {
  const { platform, arch } = process;
  if (platform === 'win32') return `win32-${arch}-msvc`;
  return platform === 'linux' ? `linux-${arch}-${isGlibc() ? 'gnu' : 'musl'}` : `${platform}-${arch}`;
}

function isGlibc(): boolean {
  const report = process.report as typeof process.report & { excludeNetwork?: boolean };
  report.excludeNetwork = true; // the names of peers may take seconds
  return (report.getReport() as { header?: { glibcVersionRuntime?: string } }).header?.glibcVersionRuntime !== undefined;
}

function load(): typeof generated {
  const url = import.meta.url as string | undefined; // undefined in bundles of CommonJS
  const require = createRequire(url ?? join(process.cwd(), 'bundle.cjs'));
  const manifest = url === undefined ? {} : readManifest(require);
  if (url === undefined || manifest.name !== 'memory-tool') {
    const bundle = url === undefined ? 'a bundle' : fileURLToPath(url);
    throw new Error(`a bundler copied memory-tool into ${bundle}: mark it as external, see "Bundlers" in its README`);
  }
  const platform = thisPlatform();
  const built = join(dirname(fileURLToPath(url)), `memory-tool.${platform}.node`);
  const file = existsSync(built) ? built : findPackage(require, platform, Object.keys(manifest.optionalDependencies ?? {}));
  try {
    return require(file) as typeof generated;
  } catch (cause) {
    throw new Error(`cannot load ${file} on ${platform}: ${(cause as Error).message}`, { cause });
  }
}

function readManifest(require: NodeJS.Require): Manifest {
  try {
    return require('../package.json') as Manifest;
  } catch {
    return {};
  }
}

/** The module in the package of the platform. The error names the reason why there is none. */
function findPackage(require: NodeJS.Require, platform: string, packages: readonly string[]): string {
  const name = `memory-tool-${platform}`;
  try {
    return require.resolve(name);
  } catch (cause) {
    const other = packages.find((candidate) => isInstalled(require, candidate));
    let reason = `the package ${name} is not installed: run npm install without --omit=optional and --no-optional. If ` +
      'package-lock.json was written on another platform, remove it and node_modules first';
    if (packages.length === 0) {
      reason = 'memory-tool is not built: run "npm run prepare" in its folder, which needs a Rust toolchain';
    } else if (!packages.includes(name)) {
      reason = `memory-tool has no package for ${platform}: see "Other platforms" in its README`;
    } else if (other !== undefined) {
      reason = `node_modules has ${other}, but this is ${platform}: remove node_modules, and run npm install here`;
    }
    throw new Error(reason, { cause });
  }
}

function isInstalled(require: NodeJS.Require, name: string): boolean {
  try {
    require.resolve(name);
    return true;
  } catch {
    return false;
  }
}

export const native = load();
export type * from './generated.js';
