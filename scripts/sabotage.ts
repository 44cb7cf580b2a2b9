/**
 * `npm run test:sabotage`: breaks the built code one line at a time and runs the test that must notice. A breakage that no test
 * notices is a hole in the tests. Works on a copy of build/, so that an interrupted run leaves nothing broken behind.
 */
import { spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

interface Breakage {
  readonly name: string;
  /** File below build/src. */
  readonly file: string;
  readonly find: string | RegExp;
  readonly replace: string;
  /** Test file below build/test that must turn red. */
  readonly test: string;
}

/** In place of the runtime's bytes: the same with one instruction, given as PowerPC words of either byte order, made a nop. */
function withoutInstruction(...words: readonly number[]): string {
  return `((bytes) => {
      const view = new DataView(bytes.buffer);
      for (let at = 0; at + 4 <= bytes.length; at += 4) {
        for (const little of [false, true]) {
          if ([${words.join(', ')}].includes(view.getUint32(at, little))) view.setUint32(at, 0x60000000, little);
        }
      }
      return bytes;
    })(Uint8Array.from(atob(object.base64), (each) => each.charCodeAt(0)))`;
}
const runtimeBytes = 'Uint8Array.from(atob(object.base64), (each) => each.charCodeAt(0))';

const breakages: readonly Breakage[] = [
  {
    name: 'write before verifying: a step is applied whatever stands there',
    file: 'ftrace/apply.js',
    find: 'if (!holdsAt(bytes, step.fileOffset, step.before)) {',
    replace: 'if (false) {',
    test: 'plan-apply',
  },
  {
    name: 'the store hook is not asked',
    file: 'ftrace/apply.js',
    find: 'if (!options.mayStore(step.fileOffset, step.after)) {',
    replace: 'if (false) {',
    test: 'plan-apply',
  },
  {
    name: 'revert does not compare the hash of what it restored',
    file: 'ftrace/apply.js',
    find: 'if (actual !== record.sha256) {',
    replace: 'if (false) {',
    test: 'journal',
  },
  {
    name: 'revert does not compare the bytes with the record',
    file: 'ftrace/journal.js',
    find: 'if (!holdsAt(bytes, offset, after)) {',
    replace: 'if (false) {',
    test: 'journal',
  },
  {
    name: 'the relocations of a call are left alone',
    file: 'ftrace/plan.js',
    find: 'for (const delta of change.neutralise) {',
    replace: 'for (const delta of []) {',
    test: 'plan-apply',
  },
  {
    name: 'refusals are ignored',
    file: 'ftrace/plan.js',
    find: 'if (plan.refusals.length > 0 && !acceptance.partial) {',
    replace: 'if (false) {',
    test: 'plan-apply',
  },
  {
    name: 'the module signature is kept',
    file: 'ftrace/apply.js',
    find: 'const dropTrailing = signature !== null;',
    replace: 'const dropTrailing = false;',
    test: 'plan-apply',
  },
  {
    name: 'stale relocations win over the contents of a sorted table',
    file: 'ftrace/tables.js',
    find: 'if (value !== 0n)\n            fromContents++;\n        else if',
    replace: 'if',
    test: 'tables',
  },
  {
    name: 'RELATIVE addends are ignored',
    file: 'ftrace/tables.js',
    find: 'if (type[row] !== arch.relocationRoles.relative)',
    replace: 'if (true)',
    test: 'tables',
  },
  {
    name: "call padding is taken for ftrace's table",
    file: 'ftrace/sites.js',
    find: 'return tried > 0;',
    replace: 'return false;',
    test: 'sites',
  },
  {
    name: 'duplicates are not noticed',
    file: 'ftrace/verdicts.js',
    find: /if \(index > 0 && sites\.range\[index - 1\]/,
    replace: 'if (false && sites.range[index - 1]',
    test: 'verdicts',
  },
  {
    name: 'local entries are not looked at',
    file: 'ftrace/verdicts.js',
    find: 'const local = arch.abi.localEntryOffset(program.symbols.other[symbol]);',
    replace: 'const local = 0;',
    test: 'verdicts',
  },
  {
    name: 'branch targets are not judged',
    file: 'ftrace/verdicts.js',
    find: "if (program.callee(reading.target) !== 'other')",
    replace: 'if (true)',
    test: 'verdicts',
  },
  {
    name: 'HA is taken without its rounding',
    file: 'relocs/apply.js',
    find: '0x8000n',
    replace: '0n',
    test: 'relocs-apply',
  },
  {
    name: 'the addend is ignored',
    file: 'relocs/apply.js',
    find: 'const A = row.addendIgnored ? 0n : inputs.addend;',
    replace: 'const A = 0n;',
    test: 'relocs-apply',
  },
  {
    name: 'the low part of a RISC-V pair is not carried into the high part',
    file: 'arch-riscv/sites.js',
    find: '0x800n',
    replace: '0n',
    test: 'arch-riscv-sites',
  },
  {
    name: 'a nop of another tool passes for ours on x86-64',
    file: 'arch-x86/sites.js',
    find: 'const NOP5_LOW = 0x0044_1f0f;',
    replace: 'const NOP5_LOW = 0x0040_1f0f;',
    test: 'arch-x86-sites',
  },
  {
    name: 'GOT calls are recorded one byte too late',
    file: 'arch-x86/sites.js',
    find: '-2]',
    replace: '-1]',
    test: 'arch-x86-sites',
  },
  {
    name: 'the entries of the runtime do not give the condition register back',
    file: 'runtime/index.js',
    find: runtimeBytes,
    replace: withoutInstruction(0x7c8f_f120),
    test: 'runtime-registers',
  },
  {
    name: 'the entries of the runtime do not give the static chain back',
    file: 'runtime/index.js',
    find: runtimeBytes,
    replace: withoutInstruction(0x8161_0030, 0x8161_003c, 0xe961_00c8, 0xe961_0088),
    test: 'runtime-registers',
  },
  {
    name: 'return_to_handler returns to itself',
    file: 'runtime/index.js',
    find: runtimeBytes,
    replace: withoutInstruction(0x7c68_03a6),
    test: 'runtime-samples',
  },
  {
    name: 'one entry convention is given for the other',
    file: 'runtime/index.js',
    find: '${target}/${flavour}',
    replace: '${target}/pg',
    test: 'runtime-object',
  },
];

const root = join(dirname(fileURLToPath(import.meta.url)), '..', '..');
const copy = mkdtempSync(join(tmpdir(), 'elftrace-sabotage-'));
let survived = 0;
try {
  for (const entry of ['package.json', 'jest.config.js', 'samples', 'schemas', 'docs', 'README.md', 'src', 'test']) {
    symlinkSync(join(root, entry), join(copy, entry));
  }
  symlinkSync(join(root, 'node_modules'), join(copy, 'node_modules'));
  cpSync(join(root, 'build'), join(copy, 'build'), { recursive: true });
  const wanted = process.argv.slice(2);
  for (const each of breakages) {
    if (wanted.length > 0 && !wanted.some((word) => each.name.includes(word))) continue;
    const path = join(copy, 'build', 'src', each.file);
    const good = readFileSync(path, 'utf8');
    const bad = good.replace(each.find, each.replace);
    if (bad === good) {
      console.log(`NOT APPLIED  ${each.name} (${each.file})`);
      survived++;
      continue;
    }
    writeFileSync(path, bad);
    const result = spawnSync(
      process.execPath,
      [join(copy, 'node_modules', 'jest', 'bin', 'jest.js'), '--bail', join('build', 'test', `${each.test}.test.js`)],
      { cwd: copy, encoding: 'utf8', timeout: 180000 },
    );
    writeFileSync(path, good);
    if (result.status === 0) {
      console.log(`SURVIVED     ${each.name} (${each.test})`);
      survived++;
    } else console.log(`noticed      ${each.name}`);
  }
} finally {
  rmSync(copy, { recursive: true, force: true });
}
console.log(survived === 0 ? 'every breakage was noticed' : `${survived} breakages were not noticed`);
process.exitCode = survived === 0 ? 0 : 1;
