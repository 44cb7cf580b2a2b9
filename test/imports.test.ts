/**
 * Who may import whom (docs/design.md, section "Who may import whom"): read from the import lines
 * of the sources, so that the rule is executable. A room is a folder of src, or a file that stands
 * in src itself.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from '@jest/globals';

const root = join(dirname(fileURLToPath(import.meta.url)), '..', '..');
const src = join(root, 'src');

/** What everybody may import: files, and the room of limits. */
const vocabulary = new Set(['errors', 'units', 'bits', 'bytes', 'version', 'visible', 'limits']);

interface Rule {
  /** Rooms whose values and types may be imported. */
  readonly values: readonly string[];
  /** Rooms of which only types may be imported. */
  readonly types?: readonly string[];
}

const rules: Readonly<Record<string, Rule>> = {
  index: { values: ['*'] },
  cli: { values: ['*'] },
  native: {
    values: [
      'record',
      'patch',
      'sites',
      'program',
      'relocs',
      'elf',
      'runtime',
      'machine',
      'sha256',
      'trace',
      'demangle',
    ],
  },
  pipeline: {
    values: [
      'prove',
      'kprobes',
      'tracing',
      'record',
      'patch',
      'sites',
      'program',
      'elf',
      'sha256',
      'machine',
      'targets',
      'runtime',
    ],
    types: ['isa'],
  },
  running: {
    values: [
      'kprobes',
      'trace',
      'record',
      'guest',
      'emulator',
      'runtime',
      'sites',
      'program',
      'relocs',
      'elf',
      'sha256',
      'targets',
      'machine',
    ],
  },
  livepatch: { values: ['sites', 'program', 'relocs', 'elf', 'machine'] },
  report: {
    values: ['demangle', 'why', 'sha256'],
    types: [
      'sites',
      'record',
      'patch',
      'tracing',
      'kprobes',
      'trace',
      'race',
      'guest',
      'elf',
      'program',
      'machine',
      'diff',
      'why',
      'cost',
      'running',
    ],
  },
  page: {
    values: ['report', 'tracing', 'trace', 'sites', 'isa', 'demangle'],
    types: ['diff', 'record', 'program', 'machine'],
  },
  cost: {
    values: ['tracing', 'patch', 'sites', 'runtime', 'guest', 'emulator', 'program', 'elf', 'sha256'],
    types: ['machine', 'ftrace'],
  },
  why: { values: ['kprobes', 'diff', 'sites', 'program', 'elf'] },
  diff: { values: ['sites', 'program', 'elf', 'demangle'] },
  race: {
    values: [
      'kprobes',
      'tracing',
      'patch',
      'ftrace',
      'sites',
      'runtime',
      'guest',
      'emulator',
      'program',
      'elf',
      'arches',
      'machine',
    ],
    types: ['isa'],
  },
  prove: {
    values: [
      'kprobes',
      'tracing',
      'record',
      'patch',
      'sites',
      'runtime',
      'emulator',
      'program',
      'elf',
      'sha256',
      'machine',
    ],
    types: ['isa'],
  },
  kprobes: {
    values: [
      'tracing',
      'record',
      'patch',
      'ftrace',
      'sites',
      'program',
      'relocs',
      'elf',
      'isa',
      'sha256',
      'runtime',
      'machine',
    ],
  },
  tracing: {
    values: ['record', 'patch', 'ftrace', 'sites', 'program', 'relocs', 'elf', 'isa', 'sha256', 'runtime', 'machine'],
  },
  patch: { values: ['record', 'sites', 'program', 'relocs', 'elf', 'isa', 'sha256', 'runtime', 'machine'] },
  ftrace: { values: ['sites', 'runtime'], types: ['machine'] },
  sites: { values: ['record', 'program', 'relocs', 'elf', 'isa', 'runtime', 'demangle'], types: ['machine'] },
  record: { values: ['elf'] },
  guest: { values: ['emulator', 'elf', 'machine'] },
  emulator: { values: ['machine'], types: ['isa'] },
  trace: { values: ['elf', 'program'], types: ['emulator'] },
  runtime: { values: [], types: ['machine'] },
  program: { values: ['elf', 'relocs', 'isa', 'sha256', 'machine'] },
  arches: {
    values: ['targets', 'arch-x86', 'arch-ppc', 'arch-riscv', 'arch-arm64', 'arch-s390x', 'arch-loongarch'],
    types: ['machine', 'elf'],
  },
  targets: {
    values: ['arch-x86', 'arch-ppc', 'arch-riscv', 'arch-arm64', 'arch-s390x', 'arch-loongarch', 'elf'],
    types: ['machine'],
  },
  'arch-x86': { values: ['isa', 'elf', 'machine', 'float'], types: ['relocs'] },
  'arch-ppc': { values: ['isa', 'elf', 'machine', 'float'], types: ['relocs'] },
  'arch-riscv': { values: ['isa', 'elf', 'machine', 'float'], types: ['relocs'] },
  'arch-arm64': { values: ['isa', 'elf', 'machine', 'float'], types: ['relocs'] },
  'arch-loongarch': { values: ['isa', 'elf', 'machine'], types: ['relocs'] },
  'arch-s390x': { values: ['isa', 'elf', 'machine'], types: ['relocs'] },
  machine: { values: ['isa'], types: ['elf', 'relocs'] },
  relocs: { values: ['elf'], types: ['isa'] },
  isa: { values: [] },
  elf: { values: ['sha256'] },
  float: { values: [] },
  demangle: { values: [] },
  sha256: { values: [] },
  output: { values: [], types: ['guest'] },
};

/** Packages and who may import them; everything else that is no path is forbidden. */
const packages: Readonly<Record<string, readonly string[]>> = {
  elfy: ['elf/elfy'],
  'capstone-wasm': ['isa/disassembler'],
  'keystone-wasm': ['isa/assembler'],
  'xz-decompress': ['elf/compressed'],
  fzstd: ['elf/compressed'],
  protobufjs: ['native/perfetto'],
  re2js: ['cli/patterns'],
  '@noble/hashes': ['sha256'],
  yargs: ['cli/ask-yargs', 'cli/declared', 'cli/describe', 'cli/options', 'cli/verbs-run'],
  yaml: ['tracing/session-file'],
  '@tanstack/virtual-core': ['page/client/table'],
};

interface Import {
  readonly file: string;
  readonly room: string;
  readonly specifier: string;
  readonly typeOnly: boolean;
}

function sources(folder: string): string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith('.ts') && !entry.name.endsWith('.d.ts'))
    .map((entry) => join(entry.parentPath, entry.name));
}

function roomOf(file: string): string {
  const path = relative(src, file).replace(/\.ts$/, '');
  const slash = path.indexOf('/');
  return slash < 0 ? path : path.slice(0, slash);
}

function importsOf(file: string): Import[] {
  const text = readFileSync(file, 'utf8');
  const found: Import[] = [];
  const pattern =
    /(?:^|\n)\s*(import|export)\s+(type\s+)?([^;'"]*?)from\s+['"]([^'"]+)['"]|import\(\s*['"]([^'"]+)['"]\s*\)/g;
  for (const match of text.matchAll(pattern)) {
    const names = match[3] ?? '';
    const list = /\{([^}]*)\}/.exec(names)?.[1];
    const allTypes =
      match[2] !== undefined ||
      (list !== undefined &&
        !/^\s*\w+\s*,/.test(names) &&
        list
          .split(',')
          .map((each) => each.trim())
          .filter((each) => each !== '')
          .every((each) => each.startsWith('type ')));
    found.push({ file: relative(src, file), room: roomOf(file), specifier: match[4] ?? match[5]!, typeOnly: allTypes });
  }
  return found;
}

const all = sources(src).flatMap(importsOf);

/** Which files each file imports. */
function graphOf(imports: readonly Import[]): Map<string, string[]> {
  const graph = new Map<string, string[]>();
  for (const { file, specifier } of imports) {
    if (!specifier.startsWith('.')) continue;
    const target = relative(src, resolve(dirname(join(src, file)), specifier)).replace(/\.js$/, '.ts');
    graph.set(file, [...(graph.get(file) ?? []), target]);
  }
  return graph;
}

/**
 * Files that reach each other, one list a circle, sorted (strongly connected components, Tarjan
 * 1972).
 */
function circles(graph: ReadonlyMap<string, readonly string[]>): string[][] {
  const order = new Map<string, number>();
  const lowest = new Map<string, number>();
  const stack: string[] = [];
  const found: string[][] = [];
  const visit = (file: string): void => {
    order.set(file, order.size);
    lowest.set(file, order.get(file)!);
    stack.push(file);
    for (const next of graph.get(file) ?? []) {
      if (!order.has(next)) visit(next);
      if (stack.includes(next)) lowest.set(file, Math.min(lowest.get(file)!, lowest.get(next)!));
    }
    if (lowest.get(file) !== order.get(file)) return;
    const members = stack.splice(stack.indexOf(file)).sort();
    if (members.length > 1 || graph.get(file)?.includes(file) === true) found.push(members);
  };
  for (const file of graph.keys()) if (!order.has(file)) visit(file);
  return found.sort((a, b) => (a[0]! < b[0]! ? -1 : 1));
}

describe('imports', () => {
  test('every room of src has a rule', () => {
    const rooms = new Set(sources(src).map(roomOf));
    for (const room of rooms) expect([...Object.keys(rules), ...vocabulary]).toContain(room);
    expect(all.length).toBeGreaterThan(50);
  });

  test('rooms import only what their rule allows', () => {
    const broken: string[] = [];
    for (const each of all) {
      if (!each.specifier.startsWith('.')) continue;
      const target = roomOf(resolve(dirname(join(src, each.file)), each.specifier).replace(/\.js$/, '.ts'));
      if (target === each.room) continue;
      if (vocabulary.has(target)) {
        continue;
      }
      const rule = rules[each.room];
      const allowed =
        rule !== undefined &&
        (rule.values.includes('*') ||
          rule.values.includes(target) ||
          (each.typeOnly && rule.types?.includes(target) === true));
      if (!allowed) broken.push(`${each.file} -> ${each.specifier}${each.typeOnly ? ' (types)' : ''}`);
    }
    expect(broken).toEqual([]);
  });

  test('the vocabulary imports nothing but itself', () => {
    for (const each of all.filter((one) => vocabulary.has(one.room))) {
      expect(vocabulary).toContain(
        roomOf(resolve(dirname(join(src, each.file)), each.specifier).replace(/\.js$/, '.ts')),
      );
    }
  });

  test('only cli, output and the module that reads the prebuilt objects import node:, and each package has one home', () => {
    // The bundle replaces that module by one that reads them all from one file beside the code.
    const readsObjects = 'runtime/object-bytes.ts';
    const broken: string[] = [];
    for (const each of all) {
      if (each.specifier.startsWith('.')) continue;
      if (each.specifier.startsWith('node:')) {
        const mayImport = each.room === 'cli' || each.room === 'output' || each.file === readsObjects;
        if (!mayImport) broken.push(`${each.file} -> ${each.specifier}`);
        continue;
      }
      const parts = each.specifier.split('/');
      const name = each.specifier.startsWith('@') ? parts.slice(0, 2).join('/') : parts[0]!;
      if (!packages[name]?.includes(each.file.replace(/\.ts$/, ''))) broken.push(`${each.file} -> ${each.specifier}`);
    }
    expect(broken).toEqual([]);
  });

  test('only output/ changes files, and only cli/write-all.ts and cli/progress.ts print', () => {
    const writers =
      /\b(?:writeFile|appendFile|rename|rm|rmdir|unlink|mkdir|mkdtemp|copyFile|cp|truncate|ftruncate|chmod|fchmod|chown|fchown|utimes|futimes|link|symlink|write|writev)Sync\b|\b(?:createWriteStream|writeFile)\b|\bO_(?:WRONLY|RDWR|CREAT|TRUNC|APPEND)\b|openSync\([^)]*['"](?:w|a|r\+)/;
    const printers = /\bconsole\.|process\.(?:stdout|stderr)\.(?:write|end|pipe)\b/;
    const broken: string[] = [];
    for (const file of sources(src)) {
      const name = relative(src, file);
      // Comments are not code.
      const code = readFileSync(file, 'utf8').replace(/\/\*[\s\S]*?\*\/|^\s*\/\/.*$/gm, '');
      const writes = /^cli\/(?:write-all|progress)\.ts$/.test(name) ? code.replaceAll('writeSync', '') : code;
      // Without Node's modules (the flags of a guest's open) nothing is written.
      if (roomOf(file) !== 'output' && code.includes('node:') && writers.test(writes))
        broken.push(`${name} writes: ${writers.exec(writes)![0]}`);
      if (printers.test(code)) broken.push(`${name} prints: ${printers.exec(code)![0]}`);
    }
    expect(broken).toEqual([]);
    // What it looks for is found where it is allowed.
    expect(writers.test(readFileSync(join(src, 'output', 'commit.ts'), 'utf8'))).toBe(true);
    expect(printers.test('process.stderr.write(text)')).toBe(true);
  });

  test('rooms stand above each other: none reaches itself through what it imports, types included', () => {
    const rooms = new Map<string, string[]>();
    for (const each of all.filter(({ specifier }) => specifier.startsWith('.'))) {
      const target = roomOf(resolve(dirname(join(src, each.file)), each.specifier).replace(/\.js$/, '.ts'));
      if (target !== each.room) rooms.set(each.room, [...(rooms.get(each.room) ?? []), target]);
    }
    expect(circles(rooms)).toEqual([]);
  });

  test('no files import each other in a circle, types included', () => {
    expect(circles(graphOf(all))).toEqual([]);
    // A circle is seen where there is one: of two files, of three, and of a file with itself.
    const graph = new Map([
      ['a', ['b']],
      ['b', ['c', 'd']],
      ['c', ['a']],
      ['d', ['e']],
      ['e', ['d']],
      ['f', ['f', 'a']],
    ]);
    expect(circles(graph)).toEqual([['a', 'b', 'c'], ['d', 'e'], ['f']]);
  });

  test('no arch folder imports another, and only arches.ts and targets.ts name one', () => {
    const broken = all.filter((each) => {
      const target = /(arch-\w+)/.exec(each.specifier)?.[1];
      return target !== undefined && target !== each.room && each.room !== 'arches' && each.room !== 'targets';
    });
    expect(broken).toEqual([]);
  });
});
