/**
 * `npm run test:mutation -- ROOM [COUNT] [SEED]`: changes one operator, condition, number or call
 * in the built code of a room at a time and runs the tests of the room. The score is the part of
 * the changes that a test notices; a change that hangs is noticed. Which changes are made follows
 * from the seed and the code, so two runs on one commit make the same. Unlike the breakages of
 * `sabotage.ts` nobody chose them: some change nothing that anyone could see.
 */
import { spawnSync } from 'node:child_process';
import {
  cpSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';

/** The tests that look at a room first of all, the quick ones in front. */
const roomTests: Readonly<Record<string, readonly string[]>> = {
  ftrace: ['core-words', 'core-outcomes', 'core-rules', 'core-model'],
  sites: ['filter', 'table-sort', 'tables', 'sites', 'overlaps', 'verdicts', 'mcount-table', 'complete-table'],
  patch: ['store-ledger', 'journal', 'plan-file', 'plan-apply', 'untrace', 'repair-table', 'fixtures'],
  record: ['journal', 'fixtures', 'inputs-fuzz'],
  elf: ['elf-read', 'elf-write', 'elf-functions', 'elf-crel', 'elf-malformed', 'elf-containers', 'wrapped', 'diff'],
};

/** The tests that look at a file first of all, where their names are not the file's. */
const fileTests: Readonly<Record<string, readonly string[]>> = {
  'sites/direct-table.js': ['verdicts'],
  'sites/table-lint.js': ['complete-table'],
  'sites/chain.js': ['explain'],
  'sites/site-stubs.js': ['out-of-line'],
  'sites/sleds.js': ['xray'],
  'patch/sleds.js': ['xray'],
  'sites/compilers.js': ['verdicts'],
  'sites/filter-names.js': ['filter'],
  'sites/indirect-entries.js': ['landing-pads'],
  'patch/apply.js': ['plan-apply', 'journal'],
  'patch/undo.js': ['journal', 'plan-apply'],
  'patch/empty-slots.js': ['untrace-linked'],
  'patch/kept-relocations.js': ['plan-apply', 'untrace-linked', 'kprobes-relocations'],
  'patch/objections.js': ['plan-apply'],
  'patch/plan.js': ['plan-apply'],
  'patch/record-table.js': ['mcount-table'],
  'patch/shrink-table.js': ['untrace', 'untrace-linked'],
  'patch/routes.js': ['ppc-tracing'],
  'patch/hazards.js': ['arm64-enable', 'riscv-enable'],
  'patch/site-steps.js': ['plan-apply'],
  'elf/functions.js': ['elf-functions'],
  'elf/write.js': ['elf-write', 'journal'],
  'elf/archive.js': ['elf-containers'],
  'elf/packages.js': ['packages'],
  'elf/landing-pads.js': ['landing-pads'],
  'elf/dwarf.js': ['diff'],
};

/** Tests that most likely notice a change of a file, in front of those of its room. */
function testsFor(room: string, file: string): readonly string[] {
  const name = file.replace(/\.js$/, '');
  const own = fileTests[`${room}/${file}`] ?? [name];
  return own.filter((each) => existsSync(join(copy, 'build', 'test', `${each}.test.js`)));
}

/**
 * How many times longer than without a change tests may take: a change that makes a loop endless
 * takes longer.
 */
const LIMIT_TIMES = 8;
let limitMs = 3_600_000;

interface Mutant {
  readonly file: string;
  readonly start: number;
  readonly end: number;
  readonly text: string;
}

const operators: Readonly<Record<string, string>> = {
  '===': '!==',
  '!==': '===',
  '<': '<=',
  '<=': '<',
  '>': '>=',
  '>=': '>',
  '&&': '||',
  '||': '&&',
  '??': '&&',
  '+': '-',
  '-': '+',
  '&': '|',
  '|': '&',
};

/** What may stand in a node's place: null for nodes that are left alone. */
function changed(node: ts.Node, source: ts.SourceFile): { readonly of: ts.Node; readonly text: string } | null {
  if (ts.isBinaryExpression(node)) {
    const text = operators[node.operatorToken.getText(source)];
    return text === undefined ? null : { of: node.operatorToken, text };
  }
  if (ts.isPrefixUnaryExpression(node) && node.operator === ts.SyntaxKind.ExclamationToken) {
    return { of: node, text: node.operand.getText(source) };
  }
  if (ts.isConditionalExpression(node)) {
    const [condition, yes, no] = [node.condition, node.whenTrue, node.whenFalse].map((each) => each.getText(source));
    return { of: node, text: `${condition!} ? ${no!} : ${yes!}` };
  }
  if (node.kind === ts.SyntaxKind.TrueKeyword) return { of: node, text: 'false' };
  if (node.kind === ts.SyntaxKind.FalseKeyword) return { of: node, text: 'true' };
  if (ts.isNumericLiteral(node)) return { of: node, text: String(Number(node.text) + 1) };
  if (ts.isIfStatement(node)) return { of: node.expression, text: 'false' };
  if (ts.isExpressionStatement(node) && ts.isCallExpression(node.expression)) {
    return node.expression.expression.kind === ts.SyntaxKind.SuperKeyword ? null : { of: node, text: ';' };
  }
  return null;
}

/** All changes of the files of a room, in the order of the code. */
function mutantsOf(folder: string): Mutant[] {
  const found: Mutant[] = [];
  for (const file of readdirSync(folder)
    .filter((name) => name.endsWith('.js'))
    .sort()) {
    const source = ts.createSourceFile(file, readFileSync(join(folder, file), 'utf8'), ts.ScriptTarget.ESNext, true);
    const visit = (node: ts.Node): void => {
      // Texts of errors are for people.
      if (ts.isThrowStatement(node) || ts.isImportDeclaration(node)) return;
      const change = changed(node, source);
      if (change) found.push({ file, start: change.of.getStart(source), end: change.of.getEnd(), text: change.text });
      ts.forEachChild(node, visit);
    };
    visit(source);
  }
  return found;
}

/** As many of a list as wanted, evenly mixed by a seed. */
function sample<T>(all: readonly T[], count: number, seed: number): T[] {
  let state = seed;
  const random = (below: number): number => (state = Math.imul(state, 48271) & 0x7fff_ffff || 1) % below;
  const mixed = [...all];
  for (let i = mixed.length - 1; i > 0; i--) {
    const other = random(i + 1);
    [mixed[i], mixed[other]] = [mixed[other]!, mixed[i]!];
  }
  return mixed.slice(0, count);
}

const root = join(dirname(fileURLToPath(import.meta.url)), '..', '..');
const copy = mkdtempSync(join(tmpdir(), 'elftrace-mutation-'));

function result(tests: readonly string[]): 'green' | 'red' {
  if (tests.length === 0) return 'green';
  const { status } = spawnSync(
    process.execPath,
    [
      '--single-threaded-gc',
      join(copy, 'node_modules', 'jest', 'bin', 'jest.js'),
      '--bail',
      '--maxWorkers=1',
      ...tests.map((test) => join('build', 'test', `${test}.test.js`)),
    ],
    { cwd: copy, encoding: 'utf8', timeout: limitMs, maxBuffer: 1 << 28 },
  );
  return status === 0 ? 'green' : 'red';
}

/** The score of a room; -1 where its tests are red without a change. */
function scoreOf(room: string, count: number, seed: number): void {
  const folder = join(copy, 'build', 'src', room);
  const all = mutantsOf(folder);
  const begin = performance.now();
  if (result(roomTests[room]!) === 'red') throw new Error(`the tests of ${room} are red without a change`);
  limitMs = Math.ceil(LIMIT_TIMES * (performance.now() - begin));
  const chosen = sample(all, count, seed);
  let killed = 0;
  for (const { file, start, end, text } of chosen) {
    const path = join(folder, file);
    const good = readFileSync(path, 'utf8');
    writeFileSync(path, good.slice(0, start) + text + good.slice(end));
    const first = testsFor(room, file);
    const rest = roomTests[room]!.filter((each) => !first.includes(each));
    const noticed = result(first) === 'red' || result(rest) === 'red';
    writeFileSync(path, good);
    if (noticed) killed++;
    const line = good.slice(0, start).split('\n').length;
    const was = good.slice(start, end).replace(/\s+/g, ' ').slice(0, 60);
    console.log(
      `${noticed ? 'noticed ' : 'SURVIVED'} ${room}/${file}:${String(line)}: ${was} -> ${text.replace(/\s+/g, ' ').slice(0, 60)}`,
    );
  }
  const percent = ((100 * killed) / chosen.length).toFixed(0);
  console.log(
    `${room}: ${String(killed)} of ${String(chosen.length)} noticed (${percent} %), of ${String(all.length)} changes, seed ${String(seed)}`,
  );
}

const [room = '', count = '25', seed = '1'] = process.argv.slice(2);
if (roomTests[room] === undefined) {
  console.error(`name a room: ${Object.keys(roomTests).join(', ')}`);
  process.exitCode = 2;
} else {
  try {
    const linked = [
      'package.json',
      'jest.config.js',
      'jest.sequencer.js',
      'jest.reporter.js',
      'samples',
      'schemas',
      'docs',
    ];
    for (const entry of [...linked, 'README.md', 'dist', 'src', 'test', 'node_modules']) {
      symlinkSync(join(root, entry), join(copy, entry));
    }
    cpSync(join(root, 'build'), join(copy, 'build'), { recursive: true });
    scoreOf(room, Number(count), Number(seed));
  } finally {
    rmSync(copy, { recursive: true, force: true });
  }
}
