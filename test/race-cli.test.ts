/**
 * `elftrace race` on the command line: verdicts and exit codes, demos, bounds, interruption, JSON
 * and the page.
 */
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { cliPath, elftrace as ownProcess, warmElftrace as elftrace } from './support/cli.js';
import { readPage } from './support/page.js';
import { builtSamples } from './support/pipeline.js';

const folder = mkdtempSync(join(tmpdir(), 'race-'));
const arm = join(builtSamples, 'arm64/program-patchable-4-2');
const x86 = join(builtSamples, 'x86-64/program-fentry');

/** A race that takes long on any machine. */
const long = ['race', x86, '--site', 'recurse', '--call', 'recurse(9)', '--cpus', '3'];

interface RaceJson {
  readonly verdict: string;
  readonly title: string;
  readonly bounds: readonly { readonly kind: string; readonly limit: number; readonly text: string }[];
  readonly counts: Readonly<Record<string, unknown>>;
  readonly demo?: { readonly hazard: string; readonly safe: boolean };
  readonly schedule: {
    readonly shortest: boolean;
    readonly rule: string;
    readonly events: readonly { readonly actor: string; readonly text: string; readonly registers?: readonly object[] }[];
  } | null;
} // prettier-ignore
const racesOf = (stdout: string): readonly RaceJson[] => (JSON.parse(stdout) as { races: readonly RaceJson[] }).races;

describe('images', () => {
  test('exit 0: it holds; what was stored, how many orders there are', () => {
    const { status, stdout, stderr } = elftrace(['race', arm, '--site', 'leaf']);
    expect([status, stderr]).toEqual([0, '']);
    expect(stdout).toMatch(/^leaf: nop to elftrace_counter: holds in every order\n/);
    expect(stdout).toMatch(/orders: [\d,.e]+ of all events \(CPU 0 \d+, patcher \d+, CPU 0 fetches \d+\)/);
    expect(stdout).toMatch(/outcome: elftrace_counter: \d/);
    expect(stdout).toMatch(/store leaf-0x8: [0-9a-f ]+\n[^]*store leaf\+0x4: [0-9a-f ]+ {2}bl #0x/);
  });

  test('exit 1: the shortest schedule, step by step, with disassembly and registers; the page draws it', () => {
    const page = join(folder, 'torn.html');
    const args = ['race', x86, '--site', 'leaf', '--variant', 'no-breakpoint', '--no-stale-fetch', '--html', page];
    const { status, stdout } = elftrace(args);
    expect(status).toBe(1);
    expect(stdout).toMatch(/VIOLATED\n {2}torn-instruction: e8 1f 44 00 00 at 0x4001d0/);
    expect(stdout).toMatch(/shortest schedule, 21 events:/);
    expect(stdout).toMatch(/20 patcher {2}step 20 {2}store leaf: 0f -> e8/);
    expect(stdout).toMatch(/21 CPU 0 {4}leaf {5}call 0x4045f4/);
    const { html, head } = readPage(readFileSync(page, 'utf8'));
    // One file: nothing is fetched, linked or embedded.
    expect(html.replace(/<script>[^]*/, '')).not.toMatch(/src=|href=|url\(|@import/);
    expect([head.files, head.races.length]).toEqual([[], 1]);
    const [race] = head.races;
    expect(race).toMatchObject({ title: 'leaf: nop to elftrace_counter, no-breakpoint', verdict: 'violated' });
    expect(race!.violation).toMatch(/^torn-instruction: e8 1f 44 00 00 at 0x4001d0/);
    expect(Object.fromEntries(race!.facts)).toMatchObject({
      Function: 'leaf',
      Change: 'nop to call',
      'Left out of the sequence': 'no-breakpoint',
    });
    const { events, actors, watch, before } = race!.schedule!;
    expect([events.length, watch, before, race!.schedule!.shortest]).toEqual([21, 'leaf', '0f 1f 44 00 00', true]);
    expect(events.at(-2)).toMatchObject({
      kind: 'step',
      place: 'step 20',
      text: expect.stringMatching(/^store leaf: 0f -> e8/),
      watched: 'e8 1f 44 00 00',
    });
    expect(events.at(-1)).toMatchObject({ kind: 'instruction', place: 'leaf', text: 'call 0x4045f4' });
    expect(actors).toEqual([
      { name: 'patcher', kind: 'patcher' },
      { name: 'CPU 0', kind: 'thread' },
    ]);
    // What the text says of each event is there.
    const rows = stdout.split('\n').flatMap((line) => /^ +(\d+) (CPU 0|patcher) +(.*)$/.exec(line) ?? []);
    expect(rows.length / 4).toBe(21);
    events.forEach(({ actor, place, text }, i) => {
      const [number, name, rest] = rows.slice(4 * i + 1, 4 * i + 4);
      expect([number, name]).toEqual([String(i + 1), actors[actor]!.name]);
      expect(rest).toBe(`${place.padEnd(rest!.length - text.length)}${text}`);
    });
  });

  test('T-KP-31: --probe: a probe comes, becomes a jump and goes; as text, JSON and a page', () => {
    const args = ['race', arm, '--probe', 'leaf+12', '--to', 'jump,none', '--no-stale-fetch'];
    const good = elftrace(args);
    expect([good.status, good.stderr]).toEqual([0, '']);
    expect(good.stdout).toMatch(/^probe leaf\+0xc: none to jump to none: holds in every order\n/);
    expect(good.stdout).toMatch(/the handler: hits of leaf\+0xc go on at elftrace_slots\+0x10\n[^]*wait until every thread/);
    const page = join(folder, 'probe.html');
    const bad = elftrace([...args, '--variant', 'no-wait', '--json', '--html', page]);
    const [race] = racesOf(bad.stdout);
    expect([bad.status, race!.schedule!.rule]).toEqual([1, 'freed-memory']);
    expect(race).toMatchObject({ request: { function: 'leaf', probe: 'leaf+12', version: 'modern', from: 'none', to: 'jump,none' } });
    const { races } = readPage(readFileSync(page, 'utf8')).head;
    expect(races[0]!.schedule!.events.at(-1)).toMatchObject({ kind: 'instruction', place: expect.stringMatching(/^elftrace_slots/) });
    // The verb for pages makes the same of the same JSON.
    const [stored, again] = [join(folder, 'probe.json'), join(folder, 'again.html')];
    writeFileSync(stored, bad.stdout);
    const other = elftrace(['html', '--race', stored, '-o', again]);
    expect([other.status, other.stdout]).toEqual([0, expect.stringMatching(/again\.html: 1 race, \d+ bytes\n$/)]);
    expect(readFileSync(again, 'utf8')).toBe(readFileSync(page, 'utf8'));
    for (const wrong of [['--site', 'leaf', '--probe', 'leaf+12'], [], ['--probe', 'leaf+12', '--variant', 'stopped']])
      expect(elftrace(['race', arm, ...wrong]).status).toBe(2);
  }); // prettier-ignore

  test('registers and stores of each instruction', () => {
    const args = [
      'race',
      x86,
      '--site',
      'leaf',
      '--from',
      'call',
      '--variant',
      'no-wait',
      '--to',
      'nop',
      '--no-stale-fetch',
      '--json',
    ];
    const { status, stdout } = elftrace(args);
    const [race] = racesOf(stdout);
    expect([status, race!.schedule!.rule]).toEqual([1, 'stopped']);
    const changed = race!.schedule!.events.flatMap(({ registers }) => registers ?? []);
    expect(changed).toContainEqual({
      name: 'rsp',
      before: expect.stringMatching(/^0x/),
      after: expect.stringMatching(/^0x/),
    });
  });

  test('bounds are stated; a search that was cut before it found anything fails', () => {
    const args = ['race', x86, '--site', 'leaf'];
    const cut = elftrace([...args, '--max-schedules', '10']);
    expect([cut.status, cut.stderr]).toEqual([1, 'leaf: nop to elftrace_counter: undecided\n']);
    expect(cut.stdout).toMatch(/undecided: .*\n[^]*bound: the search ended after 10 schedules\n/);
    const steps = racesOf(elftrace([...args, '--max-steps', '5', '--json']).stdout)[0]!;
    expect([steps.verdict, steps.bounds[0]]).toMatchObject(['undecided', { kind: 'max-steps', limit: 5 }]);
    const seconds = racesOf(elftrace([...long, '--max-seconds', '0.5', '--json']).stdout)[0]!;
    expect(seconds.bounds).toEqual([{ kind: 'seconds', limit: 0.5, text: 'the search ended after 0.5 seconds' }]);
  });

  test('a search that has no memory left ends, and says so', () => {
    const { status, stdout } = ownProcess([...long, '--json'], { env: { NODE_OPTIONS: '--max-old-space-size=160' } });
    const [race] = racesOf(stdout);
    expect([status, race!.verdict, race!.bounds[0]!.kind]).toEqual([1, 'undecided', 'memory']);
    expect(race!.bounds[0]!.text).toMatch(/^the search ended when \d+ MiB of memory were nearly used up$/);
  }, 60_000);

  test('Ctrl-C: what was found so far', async () => {
    const child = spawn(process.execPath, [cliPath, ...long, '--json'], {
      env: { ...process.env, NODE_OPTIONS: '' },
    });
    let stdout = '';
    child.stdout.on('data', (chunk: Buffer) => {
      stdout += chunk.toString();
    });
    const ended = new Promise<number | null>((resolve) => {
      child.on('close', resolve);
    });
    // The handler is there when the search has begun.
    const again = setInterval(() => child.kill('SIGINT'), 2500);
    const status = await ended;
    clearInterval(again);
    expect(status).toBe(130);
    const [race] = racesOf(stdout);
    expect(race!.bounds).toEqual([{ kind: 'interrupted', limit: 0, text: 'the search was interrupted' }]);
    expect(race!.verdict).toBe('undecided');
    expect(Number(race!.counts['states'])).toBeGreaterThan(10);
  }, 30_000);

  test('exit 2 and 4: wrong use, files that cannot be raced', () => {
    const usage = (...args: string[]): readonly [number | null, string] => {
      const { status, stderr } = elftrace(['race', ...args]);
      return [status, stderr];
    };
    expect(usage()).toEqual([2, expect.stringMatching(/name an image and --site F or --probe F\+4, or ask for --demo/)]);
    expect(usage(arm)).toEqual([2, expect.stringMatching(/say which function/)]);
    expect(usage(arm, '--site', 'leaf', '--variant', 'upside-down')).toEqual([2, expect.stringMatching(/no-sync/)]);
    expect(usage(arm, '--site', 'leaf', '--call', 'other(1)')).toEqual([2, expect.stringMatching(/--call calls other/)]);
    expect(usage(arm, '--site', 'leaf', '--max-steps', '0')).toEqual([2, expect.stringMatching(/--max-steps takes/)]);
    expect(usage(arm, '--site', 'leaf', '--demo', 'H1')).toEqual([2, expect.stringMatching(/programs of its own/)]);
    expect(usage('--demo', 'H15')).toEqual([2, expect.stringMatching(/there are H1 \(x86-write\)/)]);
    expect(usage(arm, '--site', 'program')).toEqual([4, expect.stringMatching(/only functions that return by themselves/)]);
  }); // prettier-ignore
});

describe('demos', () => {
  test('H1 to H14: each form is what it says; a page of all of them', () => {
    const page = join(folder, 'demos.html');
    const { status, stdout, stderr } = elftrace(['race', '--demo', '--json', '--html', page]);
    expect([status, stderr]).toEqual([0, '']);
    const races = racesOf(stdout);
    expect(new Set(races.map(({ demo }) => demo!.hazard)).size).toBe(14);
    for (const { title, demo, verdict, bounds, schedule } of races) {
      expect([title, verdict, bounds]).toEqual([title, demo!.safe ? 'holds' : 'violated', []]);
      expect([title, schedule?.shortest ?? null]).toEqual([title, demo!.safe ? null : true]);
    }
    const { head } = readPage(readFileSync(page, 'utf8'));
    expect(head.races.map(({ title }) => title)).toEqual(races.map(({ title }) => title));
    expect(head.races.filter(({ schedule }) => schedule !== null).length).toBe(
      races.filter(({ demo }) => !demo!.safe).length,
    );
  });

  test('one of them, by number or name, the same each time', () => {
    const { status, stdout } = elftrace(['race', '--demo', 'h3']);
    expect(status).toBe(0);
    expect(stdout).toMatch(/^H3 ppc64-toc: PowerPC 64/);
    expect(stdout).toMatch(/corrupted-register: r2 is 0x11040 after the call, not 0x11000/);
    expect(stdout).toMatch(/b8: b \+8 over the restore, which stays: holds in every order/);
    expect(elftrace(['race', '--demo', 'ppc64-toc']).stdout).toBe(stdout);
  });

  test('every order: with what is impossible, all there are', () => {
    const [race] = racesOf(elftrace(['race', '--demo', 'H2', '--full', '--json']).stdout);
    const { total, explored, impossible } = race!.counts;
    expect([total, explored, impossible]).toEqual(['28', '28', '0']);
  });
});
