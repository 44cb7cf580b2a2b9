/**
 * Outside the folders `arch-*`, only `arches.ts`, `targets.ts` and the command line name a machine:
 * this searches the code (identifiers and strings, not comments, which may name machines as
 * examples) for the words by which a room could know one.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from '@jest/globals';
import ts from 'typescript';
import { arches } from '../src/arches.js';

const src = join(dirname(fileURLToPath(import.meta.url)), '..', '..', 'src');

/** Where machines are named, and why. A file without such a word any more has no place here. */
const exempt: Readonly<Record<string, string>> = {
  'elf/constants.ts': 'names of e_machine and e_flags, as the ELF specifications have them',
  'elf/wrapped.ts': 'formats around ELF files, some of one machine',
  'elf/xz-filters.ts': 'filters of a format that names machines',
  'isa/assembler.ts': 'the engine is asked by machine, and its faults are those of one',
  'isa/disassembler.ts': 'the engine is asked by machine, and its faults are those of one',
  'isa/instruction.ts': 'which engine prints',
  'machine/calls.ts': 'riscv_flush_icache is the name of a system call',
  'race/hazards.ts': 'demonstrations in machine code, each on one machine',
  'race/programs.ts': 'the programs of these demonstrations',
  'runtime/objects.ts': 'made by a script: paths of prebuilt objects',
};

/**
 * Conventions whose names are words of the field as well: they are only looked for beside a
 * convention.
 */
const common = new Set(['regs', 'args', 'modern', 'mcount']);

const ids = arches.map(({ target }) => target.id);
const names = arches.flatMap(({ conventions, options }) => [
  ...conventions.map(({ name }) => name),
  ...options.map(({ name }) => name),
]);
const words = new Set([...ids, ...names.filter((name) => !common.has(name))]);
const machines = /x86|amd64|i[36]86|aarch|arm64|\ba64|riscv|risc-v|\brv(32|64)|ppc|power_?pc/i;
/** Ids of rules say where a behaviour comes from. */
const rule = /\b[A-Z]+-(X86|A64|RV|PPC)-\d+/g;

const isText = (node: ts.Node): node is ts.LiteralLikeNode =>
  ts.isStringLiteralLike(node) ||
  ts.isRegularExpressionLiteral(node) ||
  node.kind === ts.SyntaxKind.TemplateHead ||
  node.kind === ts.SyntaxKind.TemplateMiddle ||
  node.kind === ts.SyntaxKind.TemplateTail;

/** `x.startsWith('ppc')`, and shorter beginnings of a name. */
function isBeginning({ parent }: ts.Node, text: string): boolean {
  if (text === '' || !ts.isCallExpression(parent) || !/\.startsWith$/.test(parent.expression.getText())) return false;
  return [...words].some((word) => word.startsWith(text));
}

/** A common word that is compared with a convention, or looked for among several. */
function isBesideConvention({ parent }: ts.Node, text: string): boolean {
  if (!common.has(text)) return false;
  const other = ts.isBinaryExpression(parent)
    ? `${parent.left.getText()} ${parent.right.getText()}`
    : ts.isCaseClause(parent)
      ? parent.parent.parent.expression.getText()
      : ts.isCallExpression(parent)
        ? parent.expression.getText()
        : '';
  return /convention|flavour|entries\w*(\(.*\))?\.(kind|serves)/i.test(other);
}

/** Words in a source text that name a machine, with their lines. */
function found(text: string): string[] {
  const file = ts.createSourceFile('source.ts', text, ts.ScriptTarget.Latest, true);
  const list: string[] = [];
  const visit = (node: ts.Node): void => {
    const named =
      (ts.isIdentifier(node) && machines.test(node.text)) ||
      (isText(node) &&
        (words.has(node.text) ||
          machines.test(node.text.replace(rule, '')) ||
          isBeginning(node, node.text) ||
          isBesideConvention(node, node.text)));
    if (named) list.push(`${file.getLineAndCharacterOfPosition(node.getStart()).line + 1}: ${node.getText()}`);
    ts.forEachChild(node, visit);
  };
  visit(file);
  return list;
}

const files = readdirSync(src, { recursive: true, encoding: 'utf8' }).filter(
  (each) =>
    each.endsWith('.ts') && !each.endsWith('.d.ts') && !/^(arch-\w+\/|(?:arches|targets)\.ts$|cli\/)/.test(each),
);

describe('words of single machines', () => {
  test.each([
    ["if (target.id === 'arm64') x();", 1],
    ["const isPower = id.startsWith('ppc');", 1],
    ["if (kind.startsWith('g')) y();", 1],
    ["return kind === 'callops' || kind === `g3c`;", 2],
    ["if (convention === 'regs') z();", 1],
    ["switch (entries.kind) { case 'modern': return 1; }", 1],
    ["const serves = entries.serves.includes('args');", 1],
    ['const RISCV_SLOTS = { t1: 48 };', 1],
    ["const option = options['x86-tramp'];", 1],
    ['throw new Error(`only ${n} of aarch64`);', 1],
    ["// as arm64 does\nconst template: 'plain' | 'regs' = 'regs';", 0],
    ["const rule = 'T-A64-13'; const state = callee === 'mcount';", 0],
  ])('%s', (text, count) => {
    expect(found(text)).toHaveLength(count);
  });

  test('only arch-*, arches.ts, targets.ts and the command line have them', () => {
    const broken = files.flatMap((each) =>
      each in exempt ? [] : found(readFileSync(join(src, each), 'utf8')).map((word) => `${each}:${word}`),
    );
    expect(files.length).toBeGreaterThan(150);
    expect(broken).toEqual([]);
  });

  test.each(Object.keys(exempt))('%s still names one', (each) => {
    expect(found(readFileSync(join(src, each), 'utf8'))).not.toEqual([]);
  });
});
