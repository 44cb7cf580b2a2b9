/**
 * Licences of what a release brings along, by `npm sbom` (CycloneDX): every package that npm
 * installs with elftrace has a permissive licence that is known, optional ones are named, and
 * nothing of those is in dist/.
 *
 *   node build/scripts/release-check.js [NPM…]     with the npm that runs it, or with each that is
 *                                                  named (`npm`, `npx npm@10`)
 *
 * Exit 0: everything holds; 1: what does not is printed, one thing a line.
 */
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { spawnSync } from 'node:child_process';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = join(dirname(fileURLToPath(import.meta.url)), '..', '..');

const PERMISSIVE = new Set(['MIT', 'ISC', 'BSD-2-Clause', 'BSD-3-Clause', '0BSD', 'Apache-2.0', 'BlueOak-1.0.0']);

/**
 * A package that declares no licence: what it contains, by the evidence in THIRD-PARTY.md, for
 * these bytes only.
 */
interface Undeclared {
  readonly version: string;
  readonly licence: string;
  readonly file: string;
  readonly sha256: string;
}

const UNDECLARED: Readonly<Record<string, Undeclared>> = {
  'capstone-wasm': {
    version: '1.0.3',
    licence: 'BSD-3-Clause',
    file: 'dist/capstone.wasm',
    sha256: '6b3128c714c6e617457ad3d56105c4eaf0429bb5109bba39983537ad1b420771',
  },
  'keystone-wasm': {
    version: '1.0.4',
    licence: 'GPL-2.0',
    file: 'dist/keystone.wasm',
    sha256: 'cd19c262c8230b837ee306a2b95c20a624713974ce626df44c6e999ac2b6ccc5',
  },
};

/** As far as it is read: CycloneDX 1.5. */
export interface Sbom {
  readonly bomFormat: string;
  readonly specVersion: string;
  readonly metadata: { readonly component: Component };
  readonly components: readonly Component[];
}
export interface Component {
  readonly name: string;
  readonly version: string;
  readonly licenses?: readonly ({ license: { id?: string; name?: string } } | { expression: string })[];
}

export interface Package {
  readonly version: string;
  readonly license: string;
  readonly dependencies: Readonly<Record<string, string>>;
  readonly peerDependencies?: Readonly<Record<string, string>>;
  readonly peerDependenciesMeta?: Readonly<Record<string, { readonly optional?: boolean }>>;
}

/** What the release says of itself elsewhere. */
export interface Release {
  readonly package: Package;
  readonly thirdParty: string;
  /** Files of dist/ with their texts. */
  readonly dist: readonly (readonly [name: string, text: string])[];
  /** SHA-256 of a file of an installed package; null: it is not there. */
  sha256(name: string, file: string): string | null;
}

/** The licences that a component declares; empty: none. An alternative is declared as one text. */
function declared({ licenses }: Component): string[] {
  return (licenses ?? []).map((each) =>
    'expression' in each ? each.expression : (each.license.id ?? each.license.name ?? 'unknown'),
  );
}

function componentProblems(component: Component, release: Release): string[] {
  const name = `${component.name}@${component.version}`;
  const licences = declared(component);
  const undeclared = UNDECLARED[component.name];
  if (licences.length === 0 && undeclared) {
    const problems = undeclaredProblems(component.name, component.version, release);
    return PERMISSIVE.has(undeclared.licence)
      ? problems
      : [...problems, `${name}: ${undeclared.licence} is not permissive`];
  }
  if (licences.length === 0) return [`${name}: states no licence, and nothing is known of it`];
  return licences.filter((each) => !PERMISSIVE.has(each)).map((each) => `${name}: ${each} is not known as permissive`);
}

function undeclaredProblems(name: string, version: string, release: Release): string[] {
  const known = UNDECLARED[name];
  if (!known) return [`${name}: nothing is known of it`];
  if (version !== known.version) return [`${name}@${version}: what it contains is known of ${known.version} only`];
  const found = release.sha256(name, known.file);
  return found === known.sha256 ? [] : [`${name}@${version}: ${known.file} is ${found ?? 'absent'}, not what is known`];
}

/**
 * Packages that are installed by those who want them: named with their licence, absent from the
 * SBOM and from dist/.
 */
function optionalProblems(sbom: Sbom, release: Release): string[] {
  const problems: string[] = [];
  for (const [name, version] of Object.entries(release.package.peerDependencies ?? {})) {
    if (release.package.peerDependenciesMeta?.[name]?.optional !== true)
      problems.push(`${name}: a peer that is required`);
    problems.push(...undeclaredProblems(name, version, release));
    const licence = UNDECLARED[name]?.licence ?? '';
    const row = release.thirdParty.split('\n').find((line) => line.startsWith(`| ${name} | ${version} |`));
    if (row?.includes(licence) !== true)
      problems.push(`${name}: THIRD-PARTY.md does not name it with ${version} and ${licence}`);
    if (sbom.components.some((each) => each.name === name)) problems.push(`${name}: is installed with elftrace`);
    for (const [file, text] of release.dist) {
      const imports = text.replaceAll(`import("${name}")`, '').includes(`from"${name}"`);
      // The engine brings its wasm and its table of constants along.
      if (imports || /\bKS_MODE_\w+\s*[:=]\s*\d/.test(text) || file.endsWith('keystone.wasm')) {
        problems.push(`${name}: is bundled into dist/${file}`);
      }
    }
  }
  return problems;
}

/** What does not hold, one thing a line; empty: everything does. */
export function releaseProblems(sbom: Sbom, release: Release): string[] {
  const problems: string[] = [];
  if (sbom.bomFormat !== 'CycloneDX' || !/^1\.[5-9]/.test(sbom.specVersion))
    problems.push('no CycloneDX SBOM of 1.5 or later');
  const self = sbom.metadata.component;
  if (self.version !== release.package.version || !declared(self).includes(release.package.license)) {
    problems.push(`the SBOM is of version ${self.version} under ${declared(self).join() || 'no licence'}`);
  }
  for (const [name, version] of Object.entries(release.package.dependencies)) {
    if (!sbom.components.some((each) => each.name === name && each.version === version)) {
      problems.push(`${name}@${version}: a dependency that the SBOM does not list`);
    }
    if (!release.thirdParty.includes(`| ${name} |`)) problems.push(`${name}: THIRD-PARTY.md does not list it`);
  }
  for (const component of sbom.components) problems.push(...componentProblems(component, release));
  return [...problems, ...optionalProblems(sbom, release)];
}

/** Of this repository, as it is built. */
export function thisRelease(): Release {
  const text = (path: string): string => readFileSync(join(root, path), 'utf8');
  const dist = existsSync(join(root, 'dist')) ? readdirSync(join(root, 'dist')) : [];
  return {
    package: JSON.parse(text('package.json')) as Package,
    thirdParty: text('THIRD-PARTY.md'),
    dist: dist
      .filter((name) => /\.(js|wasm)$/.test(name))
      .map((name) => [name, name.endsWith('.js') ? text(`dist/${name}`) : '']),
    sha256(name, file) {
      const path = join(root, 'node_modules', name, file);
      return existsSync(path) ? createHash('sha256').update(readFileSync(path)).digest('hex') : null;
    },
  };
}

/** The SBOM of what a release brings along. @param npm  a command line that is npm */
export function sbomOf(npm: string): Sbom {
  const [program, ...args] = npm.split(' ');
  const result = spawnSync(
    program!,
    [...args, 'sbom', '--sbom-format', 'cyclonedx', '--sbom-type', 'library', '--omit', 'dev'],
    {
      cwd: root,
      encoding: 'utf8',
      maxBuffer: 1 << 26,
      env: { ...process.env, NODE_OPTIONS: '' },
    },
  );
  if (result.error ?? result.status !== 0) throw new Error(`${npm} sbom: ${result.error?.message ?? result.stderr}`);
  return JSON.parse(result.stdout) as Sbom;
}

function main(npms: readonly string[]): number {
  const release = thisRelease();
  if (release.dist.length === 0) throw new Error("dist is missing: run 'npm run build' first");
  let failed = false;
  for (const npm of npms) {
    const sbom = sbomOf(npm);
    const problems = releaseProblems(sbom, release);
    for (const problem of problems) console.log(`${npm}: ${problem}`);
    if (problems.length === 0) {
      const optional = Object.keys(release.package.peerDependencies ?? {}).map(
        (name) => `${name} (${UNDECLARED[name]?.licence ?? '?'})`,
      );
      console.log(
        `${npm}: ${sbom.components.length} packages, all permissive; optional, not installed: ${optional.join(', ')}`,
      );
    }
    failed ||= problems.length > 0;
  }
  return failed ? 1 : 0;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  process.exitCode = main(process.argv.length > 2 ? process.argv.slice(2) : ['npm']);
}
