/**
 * Several tracers in one trace: the function tracer beside the graph tracer. What really happened
 * is read from the execution log of qemu-user, in which every instruction of the original program
 * stands; calls and returns are told by objdump's reading of the code.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from '@jest/globals';
import { warmElftrace as elftrace } from './support/cli.js';
import { builtSamples, openBytes, readSample } from './support/pipeline.js';
import { spawnSync } from './support/spawn.js';
import { describeWith, run } from './support/tools.js';
import { sampled } from './support/long.js';

const folder = mkdtempSync(join(tmpdir(), 'elftrace-tracers-'));
afterAll(() => {
  rmSync(folder, { recursive: true });
});

/** An activation: name, and how many activations of traced functions are around it. */
type Call = readonly [name: string, depth: number];

interface Truth {
  /** In order of time; a return is `['', depth]`. */
  readonly events: readonly Call[];
  /** All stacks that were there, outermost first, joined by semicolons. */
  readonly stacks: ReadonlySet<string>;
}

interface Line {
  readonly mnemonic: string;
  /** Address of what stands behind it. */
  next: bigint;
}

/** Instructions and labels of a file, as objdump reads them. */
function disassembly(
  objdump: string,
  path: string,
): { readonly code: Map<bigint, Line>; readonly labels: Map<bigint, string> } {
  const code = new Map<bigint, Line>();
  const labels = new Map<bigint, string>();
  let last: Line | undefined;
  for (const line of run(objdump, ['-d', '--no-show-raw-insn', '-w', path]).toString().split('\n')) {
    const label = /^([0-9a-f]+) <\.?([^>]+)>:$/.exec(line);
    if (label) labels.set(BigInt(`0x${label[1]!}`), label[2]!);
    const found = /^ *([0-9a-f]+):\t(?:(?:bnd|notrack|cs|addr32|data16) )*(\S+)/.exec(line);
    if (!found) continue;
    const address = BigInt(`0x${found[1]!}`);
    if (last) last.next = address;
    last = { mnemonic: found[2]!, next: address };
    code.set(address, last);
  }
  return { code, labels };
}

/**
 * Every call that leaves a return address: `call`, `bl`, `bctrl`, `blr` of arm64, `jal` and `jalr`
 * with a link (objdump prints `j` and `jr` else).
 */
const isCall = (mnemonic: string): boolean => /^(callq?|bl|bctrl|blr|jal|jalr)$/.test(mnemonic);

/** What the log says. `traced`: functions with a site; others run and are nobody's. */
function truthOf(
  log: string,
  { code, labels }: ReturnType<typeof disassembly>,
  traced: ReadonlySet<string>,
  isPower: boolean,
): Truth {
  const stack: { readonly name: string; readonly back: bigint }[] = [];
  const events: Call[] = [];
  const stacks = new Set<string>();
  let before: Line | undefined;
  for (const [, text] of log.matchAll(/^Trace \d+: 0x[0-9a-f]+ \[[0-9a-f]+\/([0-9a-f]+)\//gm)) {
    const pc = BigInt(`0x${text!}`);
    const name = labels.get(pc);
    const called = before !== undefined && (isPower && before.mnemonic === 'blr' ? false : isCall(before.mnemonic));
    while (stack.length > 0 && stack.at(-1)!.back === pc && !called) {
      stack.pop();
      events.push(['', stack.length]);
    }
    // A jump to the start of another function is a tail call: it goes back to where its caller
    // would.
    if (name !== undefined && traced.has(name) && before !== undefined && (called || before.next !== pc)) {
      const back = called ? before.next : (stack.at(-1)?.back ?? 0n);
      const isLoop = !called && stack.at(-1)?.name === name;
      if (!isLoop) {
        events.push([name, stack.length]);
        stack.push({ name, back });
        stacks.add(stack.map((each) => each.name).join(';'));
      }
    }
    before = code.get(pc);
  }
  return { events, stacks };
}

const CASES = [
  { sample: 'x86-64/program-fentry', qemu: 'qemu-x86_64', objdump: 'objdump', isPower: false },
  { sample: 'x86-64/program-patchable-5', qemu: 'qemu-x86_64', objdump: 'objdump', isPower: false },
  { sample: 'ppc64-elfv1/program-mprofile', qemu: 'qemu-ppc64', objdump: 'powerpc64-linux-gnu-objdump', isPower: true },
  { sample: 'ppc64-elfv1/program-mcount', qemu: 'qemu-ppc64', objdump: 'powerpc64-linux-gnu-objdump', isPower: true },
  { sample: 'ppc32/program-mcount', qemu: 'qemu-ppc', objdump: 'powerpc-linux-gnu-objdump', isPower: true },
  { sample: 'riscv64/program-patchable-8', qemu: 'qemu-riscv64', objdump: 'riscv64-linux-gnu-objdump', isPower: false },
  { sample: 'arm64/program-patchable-2', qemu: 'qemu-aarch64', objdump: 'aarch64-linux-gnu-objdump', isPower: false },
] as const;

const FUNCTION = [{ ops: { name: 'f', call: 'elftrace_function_tracer' } }, { register: 'f' }];
const GRAPH = [{ graph: { name: 'g' } }];
/** Which tracer hears of a call first follows from the order. */
const ORDERS = { 'function, then graph': [...FUNCTION, ...GRAPH], 'graph, then function': [...GRAPH, ...FUNCTION] };

for (const { sample, qemu, objdump, isPower } of sampled(CASES, 3)) {
  describeWith([qemu, objdump], sample, () => {
    const path = join(builtSamples, sample);
    const { sites } = openBytes(readSample(sample));
    const traced = new Set(
      Array.from({ length: sites.count }, (_, i) =>
        sites.program.symbolName(sites.functionSymbol(i)).replace(/^\./, ''),
      ),
    );

    const truth = (): Truth => {
      const log = join(folder, 'log');
      const original = join(folder, 'original');
      writeFileSync(original, readSample(sample), { mode: 0o755 });
      spawnSync(qemu, ['-singlestep', '-d', 'exec,nochain', '-D', log, original]);
      return truthOf(readFileSync(log, 'utf8'), disassembly(objdump, path), traced, isPower);
    };

    test.each(Object.entries(ORDERS))('%s: depths and stacks are those of the execution log', (_order, steps) => {
      const { events, stacks } = truth();
      expect(events.length).toBeGreaterThan(80);
      const [session, image] = [join(folder, 'session.json'), join(folder, 'image')];
      writeFileSync(session, JSON.stringify({ version: 1, steps }));
      expect(elftrace(['patch', path, '--session', session, '-o', image]).status).toBe(0);
      const text = (format: string): string => {
        const file = join(folder, format);
        elftrace(['run', '--trace', file, '--format', format, image]);
        return readFileSync(file, 'utf8');
      };
      const plain = (name: string): string => name.replace(/^\./, '');
      const rows = text('ndjson').trimEnd().split('\n').slice(1).map((line) => JSON.parse(line) as {
        kind: string; function: string; depth: number; unwound?: true;
      }); // prettier-ignore
      const graphed = rows.filter(({ kind }) => kind !== 'call');
      expect(graphed.map(({ kind, function: name, depth }) => [kind === 'entry' ? plain(name) : '', depth])).toEqual(
        events,
      );
      expect(rows.filter(({ unwound }) => unwound)).toEqual([]);
      // The function tracer heard of every call once, at the depth that it has.
      const calls = rows.filter(({ kind }) => kind === 'call').map(({ function: name, depth }) => [plain(name), depth]);
      expect(calls).toEqual(events.filter(([name]) => name !== ''));
      const folded = text('folded')
        .trimEnd()
        .split('\n')
        .map((line) => line.replace(/ \d+$/, ''));
      expect(
        new Set(folded.filter((line) => line !== '[outside]').map((line) => line.split(';').map(plain).join(';'))),
      ).toEqual(stacks);
      // Indented by depth: openings and leaves are the calls, comments stand in front of them.
      const graph = text('graph')
        .split('\n')
        .filter((line) => line.includes('|'))
        .map((line) => line.slice(line.indexOf('|') + 3));
      const opened = graph
        .filter((line) => /^ *[\w.]+\(\)/.test(line))
        .map((line) => [plain(line.trim()).replace(/\(.*/, ''), line.search(/\S/) / 2]);
      expect(opened).toEqual(events.filter(([name]) => name !== ''));
      const comments = graph
        .map((line, i) => [line, graph[i + 1] ?? ''] as const)
        .filter(([line]) => line.includes('/* call: '));
      expect(comments.length).toBe(calls.length);
      for (const [line, next] of comments) {
        const [, indent, name] = /^( *)\/\* call: ([\w.]+)\+/.exec(line)!;
        expect(next.startsWith(`${indent!}${name!}()`)).toBe(true);
      }
      const chrome = JSON.parse(text('chrome')) as { traceEvents: { ph: string; name: string }[] };
      expect(
        chrome.traceEvents.flatMap(({ ph, name }) => (ph === 'B' ? [plain(name)] : ph === 'E' ? [''] : [])),
      ).toEqual(events.map(([name]) => name));
      expect(
        text('ftrace')
          .split('\n')
          .filter((line) => !line.startsWith('#') && /: [\w.]+ <-/.test(line)).length,
      ).toBe(calls.length);
    });
  });
}

test('names of ELFv1 functions are those of list, in every form', () => {
  const path = join(builtSamples, 'ppc64-elfv1/program-mprofile');
  const image = join(folder, 'elfv1');
  expect(elftrace(['patch', path, '--enable', '--tracer', 'function_graph', '-o', image]).status).toBe(0);
  const listed = new Set(elftrace(['list', image]).stdout.trimEnd().split('\n'));
  const file = join(folder, 'elfv1.ndjson');
  elftrace(['run', '--trace', file, image]);
  const named = readFileSync(file, 'utf8')
    .trimEnd()
    .split('\n')
    .slice(1)
    .map((line) => (JSON.parse(line) as { function: string }).function);
  expect(named.length).toBeGreaterThan(20);
  expect(named.filter((name) => !listed.has(name))).toEqual([]);
});
