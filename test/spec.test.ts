/** Ids of rules that sources, tests and pages cite, and docs/spec, which says what each demands. */
import { readdirSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { expect, test } from '@jest/globals';
import { definedIds } from '../scripts/rule-groups.js';
import { root } from './support/pipeline.js';

const spec = join(root, 'docs', 'spec');
const ID = /(?<![\w[-])((?:[ACFKLMPRSTX]-[A-Z][A-Z0-9]*|RT|PV|F|T|X)-\d+|H(?:1[0-4]|[1-9])\b)(?![\w-])/.source;
const LIST = new RegExp(`${ID}((?:(?: to |\\.\\.|, | and )\\d{1,2}(?![\\w.-]))*)`, 'g');
/** Names that only look like ids: made-up ones of a test about ids. */
const others = new Set(['test/rule-groups.test.ts', 'test/spec.test.ts']);

/** Ids of a text, with those of `T-RV-4, 5` and `T-X86-46 to 49`. */
function idsOf(text: string): string[] {
  return [...text.matchAll(LIST)].flatMap(([, id = '', more = '']) => {
    const prefix = id.replace(/\d+$/, '');
    const found = [id];
    let last = Number(id.slice(prefix.length));
    for (const [, sign, digits] of more.matchAll(/( to |\.\.|, | and )(\d+)/g)) {
      const next = Number(digits);
      if (next <= last) break;
      const first = sign === ', ' || sign === ' and ' ? next : last + 1;
      for (let number = first; number <= next; number++) found.push(`${prefix}${number}`);
      last = next;
    }
    return found;
  });
}

function filesBelow(folder: string): string[] {
  return readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => /\.(?:ts|md|c|h|S)$/.test(name))
    .map((name) => join(root, folder, name));
}

const defined = definedIds(spec);
const cited = new Map<string, string>();
for (const file of ['src', 'test', 'docs', 'scripts'].flatMap(filesBelow)) {
  const name = relative(root, file);
  if (file.startsWith(spec) || others.has(name)) continue;
  for (const id of idsOf(readFileSync(file, 'utf8'))) if (!cited.has(id)) cited.set(id, name);
}

test('lists and ranges of ids name each of them', () => {
  expect(idsOf('T-RV-4, 5; T-X86-46 to 48; M-SORT-1..3; P-ENC-1x, U-ABC-1')).toEqual([
    'T-RV-4',
    'T-RV-5',
    'T-X86-46',
    'T-X86-47',
    'T-X86-48',
    'M-SORT-1',
    'M-SORT-2',
    'M-SORT-3',
  ]);
});

test('each id that is cited is in docs/spec, once', () => {
  expect(cited.size).toBeGreaterThan(300);
  expect(defined.filter((id, index) => defined.indexOf(id) !== index)).toEqual([]);
  const known = new Set(defined);
  expect([...cited].filter(([id]) => !known.has(id))).toEqual([]);
});

test('each id of docs/spec is cited by sources, tests or pages', () => {
  expect(defined.filter((id) => !cited.has(id))).toEqual([]);
});

/**
 * Sections of documents that no clone holds. Sections of ELF files have numbers as
 * well; those of a manual are cited as `Volume I, 1.5`.
 */
const SECTION =
  /(?<!header )\bsections? \d+(?! \(\.?\w)|\b(?:00-core|05-runtime|10-x86|20-ppc|30-riscv|40-arm64|50-kprobes|60-mcount|80-prove|90-source)|\bA(?:10|[1-9])\.[1-6]\b/g;
const ofElf = /^(?:src\/elf\/|test\/elf-)/;

test('what is cited is a rule, not the section of a document', () => {
  expect('30-riscv 8; (section 4); A6.3, Volume I, 1.5; section 2 (the table)'.match(SECTION)).toEqual([
    '30-riscv',
    'section 4',
    'A6.3',
  ]);
  const found = ['src', 'test', 'docs', 'scripts', 'bench']
    .flatMap(filesBelow)
    .map((file) => relative(root, file))
    .filter((name) => !ofElf.test(name) && !others.has(name))
    .flatMap((name) => (readFileSync(join(root, name), 'utf8').match(SECTION) ?? []).map((each) => `${name}: ${each}`));
  expect(found).toEqual([]);
});
