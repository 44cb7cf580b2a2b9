/**
 * Kernels and modules as apt delivers them, for architectures and releases that need not be those
 * of this system: with an apt configuration of their own in the cache folder, from the mirror that
 * the system's own sources name, and with Debian's keys.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import type { Machine } from './machines.js';

const KEYRING = '/usr/share/keyrings/debian-archive-keyring.gpg';

/** A download that is impossible, a package that is not as expected: what to tell the user. */
export class PackageError extends Error {}

/** Where downloads stay from run to run. */
export function cacheFolder(): string {
  const base = process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache');
  return process.env['ELFTRACE_BOOT_CACHE'] ?? join(base, 'elftrace', 'boot');
}

/** What a tool prints; throws PackageError when it fails. */
export function output(command: string, args: readonly string[], cwd?: string): string {
  const result = spawnSync(command, [...args], {
    encoding: 'utf8',
    maxBuffer: 1 << 28,
    env: { ...process.env, LC_ALL: 'C' },
    ...(cwd === undefined ? {} : { cwd }),
  });
  if (result.error) throw new PackageError(`${command}: ${result.error.message}`);
  if (result.status !== 0) {
    throw new PackageError(
      `${command} ${args.join(' ')}: exit ${String(result.status)}\n${result.stderr.trim().split('\n').slice(-5).join('\n')}`,
    );
  }
  return result.stdout;
}

/** The mirror of Debian's main archive that the system's sources name. */
function mirror(): string {
  const format = '$(REPO_URI) $(RELEASE) $(COMPONENT)';
  const rows = output('apt-get', ['indextargets', '--format', format, 'Created-By: Packages'])
    .split('\n')
    .map((line) => line.split(' '));
  const isMain = ([uri = '', release = '', component]: readonly string[]): boolean =>
    component === 'main' && /\/debian\/?$/.test(uri) && !release.includes('-');
  const uri = rows.find(isMain)?.[0];
  if (uri === undefined) throw new PackageError("apt's sources of this system name no mirror of Debian's main archive");
  return uri;
}

/**
 * A configuration for one architecture and suite, read after the system's own, whose proxies stay.
 */
export function configure(machine: Pick<Machine, 'architecture' | 'suite'>, cache = cacheFolder()): string {
  const folder = join(cache, 'apt', `${machine.architecture}-${machine.suite}`);
  const at = (name: string): string => join(folder, name);
  for (const each of ['lists/partial', 'archives/partial', 'parts']) mkdirSync(at(each), { recursive: true });
  if (!existsSync(KEYRING)) throw new PackageError(`${KEYRING} is missing: install debian-archive-keyring`);
  writeFileSync(at('sources.list'), `deb [signed-by=${KEYRING}] ${mirror()} ${machine.suite} main\n`);
  writeFileSync(at('status'), '');
  const values: readonly (readonly [string, string])[] = [
    ['APT::Architecture', machine.architecture],
    ['Dir::State::lists', at('lists')],
    ['Dir::State::status', at('status')],
    ['Dir::Cache', folder],
    ['Dir::Cache::archives', at('archives')],
    ['Dir::Etc::sourcelist', at('sources.list')],
    ['Dir::Etc::sourceparts', at('parts')],
    ['Dir::Etc::preferences', '-'],
    ['Dir::Etc::preferencesparts', at('parts')],
    ['Acquire::Languages', 'none'],
    // The cache folder may be closed to apt's own user.
    ['APT::Sandbox::User', ''],
  ];
  const lines = [
    '#clear APT::Architectures;',
    '#clear APT::Update;',
    `APT::Architectures { "${machine.architecture}"; };`,
    ...values.map(([key, value]) => `${key} "${value}";`),
  ];
  const path = at('apt.conf');
  writeFileSync(path, `${lines.join('\n')}\n`);
  return path;
}

/** What a machine boots: paths of unpacked files. */
export interface Kernel {
  /** Package and version, as `linux-image-6.1.0-50-arm64 6.1.176-1`. */
  readonly version: string;
  /** The kernel as it is booted on real machines. */
  readonly image: string;
  /** Folder below which the modules are. */
  readonly modules: string;
  /** A vmlinux with symbols, or null where none was asked for. */
  readonly vmlinux: string | null;
}

interface Wanted {
  readonly name: string;
  readonly version: string;
}

/** The package that the meta package depends on, after the lists were brought up to date. */
function resolve(config: string, metaPackage: string): Wanted {
  const text = output('apt-cache', ['-c', config, 'show', '--no-all-versions', metaPackage]);
  const depends = /^Depends:.*?(linux-image-\S+) \(= ([^)]+)\)/m.exec(text);
  if (depends === null) throw new PackageError(`${metaPackage} depends on no kernel:\n${text}`);
  return { name: depends[1]!, version: depends[2]! };
}

/** Downloads a package and unpacks what the patterns of tar select; the package is not kept. */
function unpack(config: string, { name, version }: Wanted, into: string, patterns: readonly string[]): void {
  if (existsSync(into)) return;
  const folder = `${into}.new`;
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  output('apt-get', ['-q', '-c', config, 'download', `${name}=${version}`], folder);
  const file = readdirSync(folder).find((each) => each.endsWith('.deb'));
  if (file === undefined) throw new PackageError(`apt-get download ${name}: no file`);
  const pipe = 'set -o pipefail; deb=$1; shift; dpkg-deb --fsys-tarfile "$deb" | tar -x --wildcards "$@"';
  output('bash', ['-c', pipe, 'unpack', file, ...patterns], folder);
  rmSync(join(folder, file));
  renameSync(folder, into);
}

/** All files below a folder. */
export function filesBelow(folder: string): readonly string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((each) => each.isFile())
    .map((each) => join(each.parentPath, each.name));
}

/** The one file below a folder whose path the pattern matches. */
function theFile(folder: string, pattern: RegExp): string {
  const found = filesBelow(folder).filter((each) => pattern.test(each.slice(folder.length)));
  if (found.length !== 1) throw new PackageError(`${folder}: ${String(found.length)} files match ${String(pattern)}`);
  return found[0]!;
}

/** What the cache holds already, newest first. */
function cachedVersions(folder: string): readonly Wanted[] {
  if (!existsSync(folder)) return [];
  return readdirSync(folder)
    .filter((each) => each.includes('=') && !each.endsWith('.new') && !each.endsWith('.dbg'))
    .map((each) => ({ each, time: statSync(join(folder, each)).mtimeMs }))
    .sort((one, other) => other.time - one.time)
    .map(({ each }) => ({ name: each.slice(0, each.indexOf('=')), version: each.slice(each.indexOf('=') + 1) }));
}

/**
 * The kernel of a machine, its modules with these names, and with `debug` a vmlinux with symbols;
 * downloaded, or as the cache holds it where no mirror answers (which is said).
 */
export function kernelOf(machine: Machine, modules: readonly string[], debug: boolean): Kernel {
  const config = configure(machine);
  const folder = join(cacheFolder(), machine.name);
  let wanted: Wanted;
  try {
    output('apt-get', ['-q', '-c', config, '-o', 'APT::Update::Error-Mode=any', 'update']);
    wanted = resolve(config, machine.metaPackage);
  } catch (error) {
    const cached = cachedVersions(folder)[0];
    if (cached === undefined || !(error instanceof PackageError)) throw error;
    console.error(`${machine.name}: no news from the mirror, ${cached.name} of the cache is used: ${error.message}`);
    wanted = cached;
  }
  const into = join(folder, `${wanted.name}=${wanted.version}`);
  unpack(config, wanted, into, ['./boot/vmlinu*', ...modules.map((name) => `*/kernel/*/${name}.ko*`)]);
  const image = theFile(into, /^\/boot\/vmlinu[xz]-/);
  const paths = { version: `${wanted.name} ${wanted.version}`, image, modules: into };
  if (machine.vmlinuxFrom === 'package') return { ...paths, vmlinux: image };
  if (!debug) return { ...paths, vmlinux: null };
  unpack(config, { ...wanted, name: `${wanted.name}-dbg` }, `${into}.dbg`, ['./usr/lib/debug/boot/vmlinux-*']);
  return { ...paths, vmlinux: theFile(`${into}.dbg`, /\/vmlinux-/) };
}

/** The file of a module, packed as it is delivered. */
export function moduleFile(kernel: Kernel, name: string): string {
  return theFile(kernel.modules, new RegExp(`/kernel/.*/${name}\\.ko(\\.xz|\\.zst|\\.gz)?$`));
}
