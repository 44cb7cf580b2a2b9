/**
 * Probes in images of `load`: of the core and of modules, which lie out of the reach of everything
 * else, and of modules that go and come again. What a probe does is seen by calling its function.
 */
import { describe, expect, test } from '@jest/globals';
import { archOf } from '../src/arches.js';
import type { ConventionName } from '../src/machine/conventions.js';
import type { TargetId } from '../src/targets.js';
import { ByteView } from '../src/bytes.js';
import { readElf } from '../src/elf/read.js';
import { callFunction, startProcess } from '../src/guest/index.js';
import { applyPlan } from '../src/patch/apply.js';
import { revert } from '../src/patch/revert.js';
import { unpatched } from '../src/patch/undo.js';
import { readRecord } from '../src/record/journal.js';
import { withRuntime } from '../src/tracing/inject.js';
import { entryPoint } from '../src/program/entry-points.js';
import { loadIntoSession, recordedSessions, replaySessions, unloadFromSession } from '../src/tracing/session-parts.js';
import { sessionOptions } from '../src/tracing/session-plan.js';
import { findSites } from '../src/sites/sites.js';
import {
  explainProbe,
  FLAGS,
  planProbes,
  probeRoomFor,
  ProbeRun,
  probeServer,
  ProbeText,
} from '../src/kprobes/index.js';
import { whyNotFtrace } from '../src/kprobes/explain.js';
import { loadImages, type Source } from '../src/program/loader.js';
import { load } from '../src/program/program.js';
import { runtimeObject } from '../src/runtime/index.js';
import { sha256 } from '../src/sha256.js';
import { readRing } from '../src/trace/index.js';
import { covering, sampled } from './support/long.js';
import { openBytes, readSample } from './support/pipeline.js';

type Version = '2009' | 'modern';
const cases: readonly {
  readonly target: TargetId;
  readonly flavour: ConventionName;
  readonly ending: string;
  readonly base: 'user' | 'kernel';
  readonly version: Version;
  /** The entry of `two_wide` is a site whose entry passes registers. */
  readonly site?: true;
}[] = [
  { target: 'x86-64', flavour: 'modern', ending: '', base: 'user', version: 'modern', site: true },
  { target: 'x86-64', flavour: 'mcount', ending: '-mcount', base: 'user', version: '2009' },
  { target: 'ppc32', flavour: 'pg', ending: '', base: 'user', version: '2009' },
  { target: 'ppc64-elfv1', flavour: 'pg', ending: '', base: 'user', version: 'modern' },
  { target: 'ppc64-elfv1', flavour: 'regs', ending: '-mprofile', base: 'kernel', version: 'modern' },
  { target: 'ppc64-elfv2-be', flavour: 'regs', ending: '', base: 'user', version: '2009' },
  { target: 'ppc64-elfv2-le', flavour: 'regs', ending: '', base: 'user', version: 'modern', site: true },
  { target: 'riscv64', flavour: 'g2', ending: '', base: 'user', version: 'modern', site: true },
  { target: 'arm64', flavour: 'callops', ending: '', base: 'user', version: '2009' },
];

const yaml = (steps: readonly object[]): string => JSON.stringify({ version: 1, steps });

/** One of each instruction set, version and place in memory. */
const taken = covering(
  cases,
  ({ target }) => target.replace(/-.*/, ''),
  ({ version }) => version,
  ({ base }) => base,
);

describe.each(sampled(taken, 3))(
  '$target $flavour $base, kprobes of $version',
  ({ target, flavour, ending, base, version, site }) => {
    const source = (name: string, file: string): Source => ({ name, image: readElf(readSample(`${target}/${file}`)) });
    const core = source('core', `core${ending}.o`);
    const one = source('far_one', `far-one${ending}.ko`);
    const two = source('far_two', `far-two${ending}.ko`);
    const arch = archOf(core.image.header);
    const { bytes: image } = loadImages(
      {
        core,
        modules: [one],
        base,
        runtime: { name: 'runtime', image: readElf(runtimeObject(target, flavour, true)!) },
        options: { probeRoom: probeRoomFor(8) },
      },
      arch,
    );
    const request = (bytes: Uint8Array) => {
      const read = readElf(bytes);
      return { image: read, record: readRecord(read)!, hash: sha256, probes: probeServer(arch).hosts };
    };
    const probe = (define: string): object => ({ probe: { define, optimize: true, version } });
    const patch = (bytes: Uint8Array, steps: readonly object[]): Uint8Array => {
      const now = readElf(bytes);
      const record = readRecord(now);
      const earlier = record === null ? [] : recordedSessions(record);
      const file = record === null ? now : readElf(unpatched(now, null, sha256));
      const session = [...earlier, { name: 'new', text: yaml(steps) }];
      const { plan } = planProbes(file, arch, session, record === null ? {} : sessionOptions(record, arch));
      const kept = { gone: record?.gone ?? [], forms: {}, brought: [] };
      return applyPlan(file, plan, { hash: sha256, session: session.map(({ text }) => text), ...kept }).bytes;
    };
    /** The sessions of a file, performed once more. */
    const replay = (bytes: Uint8Array) => {
      const server = probeServer(arch);
      const read = readElf(bytes);
      const record = readRecord(read);
      if (record === null) return null;
      replaySessions(read, record, arch, sha256, { probes: server.hosts });
      return server.session;
    };
    const listed = (bytes: Uint8Array): string[] =>
      (replay(bytes)?.probes() ?? []).map(
        ({ state, gone, events }) =>
          `${events.map(({ definition }) => definition.event).join(' ')} ${gone ? 'gone' : state.text}`,
      );
    /** Calls a function of an image; its result, and the events that were recorded. */
    const call = (bytes: Uint8Array, name: string, argument: bigint) => {
      const { image: file, program } = openBytes(bytes);
      const { emulation, abi } = arch;
      if (emulation.kind !== 'ir') throw new Error('not executed');
      const guest = startProcess({ image: file, abi, emulation });
      const { machine } = guest;
      for (const [register, value] of Object.entries(program.loadMap!.registers)) machine.setRegister(register, value);
      const session = replay(bytes);
      const run = session && new ProbeRun({ session, program, machine, comm: 'test' });
      const address = program.symbols.value[program.symbols.find(name)]!;
      const outcome = callFunction(
      guest,
      { abi, emulation, target: { kind: arch.target.abiName === 'elfv1' ? 'descriptor' : 'code', address }, args: [argument] },
      () => {
        let stop = machine.run({ budget: 100_000 });
        while ((stop.kind === 'trap' || stop.kind === 'fault') && run?.serve(stop)) stop = machine.run({ budget: 100_000 });
        return stop;
      },
    ); // prettier-ignore
      if (outcome.kind !== 'returned') throw new Error(`${name}: ${outcome.stop.kind}`);
      const { wordBytes, dataEndian } = arch.target;
      const ring = entryPoint(program, 'elftrace_ring')!.identity;
      const at = new ByteView(machine.memory.read(ring, wordBytes)!, dataEndian, 'ring').word(0, wordBytes);
      const { records } = readRing((from, size) => machine.memory.read(from, size), at, dataEndian);
      const events = records.flatMap(({ kind, parent, words = [] }) =>
        kind === 'probe' ? [session!.recorded(Number(parent), words, 'test')!.event.definition.event] : [],
      );
      return { result: outcome.result, events, traps: run?.traps ?? 0 };
    };
    /** The first place behind the entry of a function where a jump can be. */
    const placeIn = (bytes: Uint8Array, name: string): string => {
      const program = load(readElf(bytes.slice()), arch);
      const text = new ProbeText(program, findSites(program));
      const size = Number(program.symbols.size[program.symbols.find(name)]!);
      for (let offset = 1; offset < size; offset++) {
        const { place, jump } = explainProbe(text, { kind: 'symbol', module: null, name, offset: BigInt(offset) });
        if (place.kind === 'valid' && place.site === null && jump?.kind === 'window')
          return `${name}+0x${offset.toString(16)}`;
      }
      throw new Error(`no place in ${name}`);
    };

    test('T-KP-1, K-ADDR-1, F-4: functions of the core and of a module have jumps, each with its buffer in the reach of its part', () => {
      const places = ['core_round', 'one_data'].map((name) => placeIn(image, name));
      const patched = patch(
        image,
        places.map((place, i) => probe(`p:e${i} ${place}`)),
      );
      expect(listed(patched)).toEqual(['e0 jump', 'e1 jump']);
      const { program } = openBytes(patched);
      const homes = replay(patched)!
        .probes()
        .map(({ state }) => program.partOf(state.part!.slot)!.name);
      expect(homes).toEqual(['runtime', 'far_one']);
      for (const [i, name] of ['core_round', 'one_data'].entries()) {
        const { result, events, traps } = call(patched, name, 3n);
        expect([result, traps]).toEqual([call(image, name, 3n).result, 0]);
        expect(events).toContain(`e${i}`);
      }
      expect(revert(readElf(patched))).toEqual(image);
      // A return goes through the runtime and back into the module, with the module's TOC.
      if (flavour === 'pg' || flavour === 'mcount' || site) {
        const returns = call(patch(image, [probe('r:back one_data')]), 'one_data', 3n);
        expect([returns.result, returns.events]).toEqual([call(image, 'one_data', 3n).result, ['back']]);
      }
      // Unregistered, nothing of it is left (F-3).
      const nothing = patch(image, []);
      const without = patch(image, [
        ...places.map((place, i) => probe(`p:e${i} ${place}`)),
        { 'no-probe': 'e0' },
        { 'no-probe': 'e1' },
      ]);
      expect(Buffer.compare(unrecorded(without), unrecorded(nothing))).toBe(0);
    });

    test('K-OPT-8, C-MOD-2: a module with probes goes, and they are gone; it comes again and can be probed anew', () => {
      const both = loadIntoSession({ ...request(patch(image, [])) }, [two], arch, {}, null).bytes;
      const inside = placeIn(both, 'two_wide');
      const entry = site === true && version === 'modern' ? ['p:entry two_wide'] : [];
      const patched = patch(both, [`p:old ${inside}`, ...entry, `p:kept ${placeIn(image, 'one_data')}`].map(probe));
      expect(listed(patched).sort()).toEqual(['kept jump', 'old jump', ...entry.map(() => 'entry ftrace')].sort());
      expect(call(patched, 'two_wide', 3n).events.sort()).toEqual(['old', ...entry.map(() => 'entry')].sort());
      const plain = call(both, 'two_wide', 3n).result;

      const went = unloadFromSession(request(patched), 'far_two', arch).bytes;
      expect(listed(went).sort()).toEqual(['kept jump', 'old gone', ...entry.map(() => 'entry gone')].sort());
      expect(revert(readElf(went))).toEqual(image);
      expect(call(went, 'one_data', 3n).events).toEqual(['kept']);
      // The ops of ftrace has no filter with addresses that mean nothing (an empty one would be
      // everything).
      if (entry.length > 0) expect(openBytes(went).sites.totals().byState).not.toHaveProperty('call');

      const again = loadIntoSession(request(went), [two], arch, {}, null).bytes;
      expect(listed(again)).toEqual(listed(went));
      expect(call(again, 'two_wide', 3n)).toEqual({ result: plain, events: [], traps: 0 });
      const anew = patch(again, [`p:new ${inside}`, ...entry.map(() => 'p:entry2 two_wide')].map(probe));
      // An object of 2009 that has lost its jump gets none again.
      const form = version === '2009' ? 'breakpoint' : 'jump';
      expect(listed(anew).sort()).toEqual(
        [`new ${form}`, 'kept jump', 'old gone', ...entry.flatMap(() => ['entry gone', 'entry2 ftrace'])].sort(),
      );
      const called = call(anew, 'two_wide', 3n);
      expect([called.result, called.events.sort()]).toEqual([plain, ['new', ...entry.map(() => 'entry2')].sort()]);
      expect(revert(readElf(anew))).toEqual(revert(readElf(again)));
      // And once more, with what was set in both lives.
      const twice = unloadFromSession(request(anew), 'far_two', arch).bytes;
      expect(listed(twice).every((each) => /gone|kept jump/.test(each))).toBe(true);
      expect(readRecord(readElf(twice))!.gone.flatMap(({ probes }) => probes).length).toBe(2 + 2 * entry.length);
      expect(revert(readElf(twice))).toEqual(image);
    });

    // What it shows is no machine's: both versions, breakpoints of one byte and of four.
    if (!['x86-64', 'arm64'].includes(target)) return;
    test('K-OPT-8: the steps unload and load, with the code left in the image: it is not written, and comes as it was', () => {
      const both = loadIntoSession({ ...request(patch(image, [])) }, [two], arch, {}, null).bytes;
      const inside = placeIn(both, 'two_wide');
      const at = (bytes: Uint8Array): string => {
        const { image: file } = openBytes(bytes);
        const { address } = replay(bytes)!.probes()[0]!;
        const offset = file.fileOffsetOf(address);
        return Buffer.from(file.bytes.subarray(offset, offset + 8)).toString('hex');
      };
      const patched = patch(both, [probe(`p:old ${inside}`)]);
      const unloaded = patch(patched, [{ unload: 'far_two' }]);
      expect([listed(unloaded), at(unloaded)]).toEqual([['old gone'], at(patched)]);
      expect(replay(unloaded)!.probes()[0]!.state.flags & FLAGS.GONE).toBe(FLAGS.GONE);
      const back = patch(unloaded, [{ load: { module: 'far_two' } }]);
      expect(listed(back)).toEqual(['old gone']);
      expect(call(back, 'two_wide', 3n)).toEqual({ ...call(both, 'two_wide', 3n), events: [] });
      expect(listed(patch(unloaded, [{ 'no-probe': 'old' }]))).toEqual([]);
      const busy = patch(both, [probe(`p:reader ${placeIn(image, 'one_data')} x=@two_wide`)]);
      expect(() => unloadFromSession(request(busy), 'far_two', arch)).toThrow(
        /the probe kprobes\/reader reads \(EBUSY\)/,
      );
      expect(() => patch(busy, [{ unload: 'far_two' }])).toThrow(/far_two has data .* reads \(EBUSY\)/);
      // A module that is not there has neither symbols nor text.
      const set = (define: string) => () => patch(unloaded, [probe(define)]);
      expect(set(`p:new ${inside}`)).toThrow(
        /two_wide is in module far_two, which is not loaded \(no-symbol, ENOENT\)/,
      );
      const { address } = replay(patched)!.probes()[0]!;
      expect(set(`p:new 0x${address.toString(16)}`)).toThrow(/\(not-text, EINVAL\) \[K-ADDR-2\]/);
    });
  },
);

/** Without the record, which says what was asked, and the ELF header, which says where it ends. */
const unrecorded = (bytes: Uint8Array): Uint8Array => {
  const image = readElf(bytes);
  return bytes.slice(64, image.section('.note.elftrace')!.offset);
};

describe('K-ADDR-7: sites whose entry passes no registers', () => {
  // As they are, and as patch would lay them out with the entry that does it.
  test.each([
    ['arm64/program-patchable-4-2', 'callops', 'regs', '--a64-era=regs'],
    ['arm64/program-patchable-4-2', 'args', 'regs', '--a64-era=regs'],
    ['riscv64/program-patchable-8-4-aligned', 'g3c', 'g2', '--riscv-site=g2'],
    ['riscv64/program-patchable-4', 'g2-merged', 'g2', '--riscv-site=g2'],
    ['riscv64/program-patchable-4', 'g2-plain', 'g2', '--riscv-site=g2'],
  ] as const)('%s with the entry %s: EINVAL, and explain names %s', (name, flavour, other, option) => {
    const opened = openBytes(readSample(name));
    const { arch, sites } = opened;
    const laid = (entry: ConventionName) => withRuntime(sites, undefined, undefined, entry, {}, probeRoomFor(1));
    const where = { kind: 'symbol', module: null, name: 'recurse', offset: 0n } as const;
    const explained = (entry: ConventionName) => {
      const program = load(laid(entry), arch);
      return explainProbe(new ProbeText(program, findSites(program)), where);
    };
    const plan = (entry: ConventionName) => () =>
      planProbes(laid(entry), arch, [{ name: 's', text: yaml([{ probe: { define: 'p recurse' } }]) }]);
    const { place } = explained(flavour);
    expect(place).toMatchObject({ errno: 'EINVAL', code: 'no-ftrace-support', rule: 'K-ADDR-7' });
    const reason = (place as { reason: string }).reason;
    expect(reason).toMatch(new RegExp(`^the entry ${flavour} passes no registers, .* would$`));
    expect(reason).toContain(`${other} (${option})`);
    expect(plan(flavour)).toThrow(reason);
    expect(explained(other).place).toMatchObject({ kind: 'valid' });
    expect(plan(other)().probes!.probes()).toMatchObject([{ state: { text: 'ftrace' } }]);
  });

  test('-pg on arm64 has a site behind the prologue and no entry with registers', () => {
    const { program, sites } = openBytes(readSample('arm64/program-mcount'));
    const index = [...Array(sites.count).keys()].find(
      (i) => program.symbolName(sites.functionSymbol(i)) === 'recurse',
    )!;
    const reason = whyNotFtrace(sites, index);
    expect(reason).toMatchObject({
      code: 'no-ftrace-support',
      reason: 'the entry pg passes no registers, and none that serves the site does',
    });
  });
});
