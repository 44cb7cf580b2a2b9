/**
 * Trees with the programs of a distribution: packages as apt delivers them for another
 * architecture, unpacked below one folder for each. They stay in the cache from run to run.
 */
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { cacheFolder, configure, output, PackageError } from '../boot/packages.js';

/** Debian's name of an architecture, and the first release that has it. */
export interface Distribution {
  readonly architecture: string;
  readonly suite: string;
}

/** What programs come from; their libraries come along. */
export interface Packages {
  /** Behind the name of the tree. */
  readonly suffix: string;
  readonly names: readonly string[];
}

/** Those of the census. */
const CENSUS: Packages = { suffix: '', names: [
  'coreutils', 'gzip', 'xz-utils', 'bc', 'lua5.4', 'sqlite3', 'perl-base', 'python3-minimal', 'busybox-static', 'openssl', 'dash', 'libstdc++6',
  'musl-dev', 'ripgrep', 'hexyl',
] }; // prettier-ignore

/** What a tree was made of: of others it is made anew. */
const PACKAGE_LIST = 'packages.txt';

/** Folders that are links since Debian merged them into /usr. */
const MERGED = ['bin', 'sbin', 'lib', 'lib64'] as const;

/** Where roots are kept. */
export function censusFolder(): string {
  return join(cacheFolder(), '..', 'census');
}

const folderOf = ({ architecture, suite }: Distribution, suffix: string): string =>
  join(censusFolder(), `${architecture}-${suite}${suffix}`);

/** Whether the cache has the tree. */
export function hasTree(distribution: Distribution, { suffix, names }: Packages = CENSUS): boolean {
  const list = join(folderOf(distribution, suffix), PACKAGE_LIST);
  return existsSync(list) && readFileSync(list, 'utf8') === names.join('\n');
}

/**
 * The tree of a distribution; downloaded when the cache has none.
 * @throws PackageError when a package cannot be had
 */
export function rootOf(distribution: Distribution, packages: Packages = CENSUS): string {
  const { suffix, names } = packages;
  const cache = censusFolder();
  const into = folderOf(distribution, suffix);
  if (hasTree(distribution, packages)) return into;
  rmSync(into, { recursive: true, force: true });
  mkdirSync(cache, { recursive: true });
  const config = configure(distribution, cache);
  const apt = (...args: readonly string[]): string => output('apt-get', ['-q', '-y', '-c', config, ...args]);
  apt('-o', 'APT::Update::Error-Mode=any', 'update');
  apt('install', '--download-only', '--no-install-recommends', ...names);
  const archives = join(cache, 'apt', `${distribution.architecture}-${distribution.suite}`, 'archives');
  const archived = readdirSync(archives).filter((name) => name.endsWith('.deb'));
  if (archived.length < names.length) throw new PackageError(`${archives}: ${archived.length} packages`);
  const folder = `${into}.new`;
  rmSync(folder, { recursive: true, force: true });
  for (const each of MERGED) {
    mkdirSync(join(folder, 'usr', each), { recursive: true });
    symlinkSync(join('usr', each), join(folder, each));
  }
  const pipe =
    'set -o pipefail; dpkg-deb --fsys-tarfile "$1" | tar -x --keep-directory-symlink --no-same-owner -C "$2"';
  for (const each of archived) output('bash', ['-c', pipe, 'unpack', join(archives, each), folder]);
  for (const each of ['tmp', 'dev', 'proc']) mkdirSync(join(folder, each), { recursive: true });
  writeFileSync(join(folder, PACKAGE_LIST), names.join('\n'));
  rmSync(archives, { recursive: true });
  // The user that programs are under the emulator.
  if (process.getuid?.() === 0) output('chown', ['-Rh', '1000:1000', folder]);
  renameSync(folder, into);
  return into;
}
