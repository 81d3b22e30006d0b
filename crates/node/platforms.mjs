// The platforms with a prebuilt module, by the target of Rust. Each has a package, such as `memory-tool-linux-x64-gnu`.

export const PLATFORMS = {
  'aarch64-apple-darwin': { platform: 'darwin-arm64', os: 'darwin', cpu: 'arm64' },
  'aarch64-unknown-linux-gnu': { platform: 'linux-arm64-gnu', os: 'linux', cpu: 'arm64', libc: 'glibc' },
  'aarch64-unknown-linux-musl': { platform: 'linux-arm64-musl', os: 'linux', cpu: 'arm64', libc: 'musl' },
  'x86_64-apple-darwin': { platform: 'darwin-x64', os: 'darwin', cpu: 'x64' },
  'x86_64-pc-windows-msvc': { platform: 'win32-x64-msvc', os: 'win32', cpu: 'x64' },
  'x86_64-unknown-linux-gnu': { platform: 'linux-x64-gnu', os: 'linux', cpu: 'x64', libc: 'glibc' },
  'x86_64-unknown-linux-musl': { platform: 'linux-x64-musl', os: 'linux', cpu: 'x64', libc: 'musl' },
};

/** The name of the platform of a target, as in the name of its module: `memory-tool.linux-x64-gnu.node`. */
export function platformOf(target) {
  const found = PLATFORMS[target];
  if (found !== undefined) return found.platform;
  const { platform, arch } = process; // a platform without a package, for which people build the module themselves
  if (platform === 'win32') return `win32-${arch}-msvc`;
  return platform === 'linux' ? `linux-${arch}-${target.includes('musl') ? 'musl' : 'gnu'}` : `${platform}-${arch}`;
}
