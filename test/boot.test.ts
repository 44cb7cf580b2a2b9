/**
 * What `npm run test:boot` calls wrong: a console's text as a healthy boot prints it, and the same
 * with one thing changed. The boots themselves need kernels, qemu-system and minutes.
 */
import { describe, expect, test } from '@jest/globals';
import { planOf, readReport } from '../scripts/boot/guest.js';
import { problemsOf, selects } from '../scripts/boot/judge.js';
import { MODULES, type ModuleRow, type Phase, variantIn } from '../scripts/boot/machines.js';
import { type WhyLists, whyProblems } from '../scripts/boot/why.js';

const GLOBS = ['vfs_*'];
const HASH = 'cbf29ce484222325';

/** Two functions of a module: one that its patterns select, one that they do not. */
function functionsOf({ part, prefixes }: ModuleRow): readonly [string, string] {
  return [part[0]!.replaceAll('*', 'x'), `${prefixes.at(-1)!}kept`];
}

/** What an init says that finds everything as it must be. */
function consoleOf(phases: readonly Phase[], isVmlinuxChanged: boolean): string[] {
  const rows = MODULES.filter(({ part }) => part.length > 0);
  const left = (phase: Phase, row: ModuleRow): readonly string[] =>
    ({ original: functionsOf(row), part: functionsOf(row).slice(1), whole: [] })[variantIn(phase, row)];
  const kernel = (label: string): string => `lines ${label} - ${isVmlinuxChanged ? '101 1' : '103 3'} ${HASH}`;
  const count = (phase: Phase, label: string): string[] => [
    kernel(label),
    ...rows
      .filter((row) => left(phase, row).length > 0)
      .map((row) => `lines ${label} ${row.name} ${String(left(phase, row).length)} 0 ${HASH}`),
  ];
  const calls = ['tun=0', 'attach=0', 'iso9660=22', 'ext4=22', 'minix=0', 'touch=0', 'umount=0', 'detach=0'];
  const trace = (phase: Phase, tracer: string): string[] => [
    ...calls.map((each) => `call ${each.replace('=', ' ')}`),
    ...rows.flatMap((row) =>
      left(phase, row).map((name) => `hit ${phase}.${tracer} ${tracer === 'function' ? '-' : row.name} ${name}`),
    ),
    `hit ${phase}.${tracer} - path_openat`,
    ...(isVmlinuxChanged ? [] : [`hit ${phase}.${tracer} - vfs_read`]),
    `traced ${phase}.${tracer} 5000 700`,
  ];
  const lines = phases.flatMap((phase) => [
    ...MODULES.map(({ name }) => `load /modules/${phase}/${name}.ko 0`),
    ...rows.flatMap((row) => left(phase, row).map((name) => `name ${phase} ${row.name} ${name}`)),
    ...count(phase, phase),
    ...trace(phase, 'function'),
    ...count(phase, `${phase}.loading`),
    ...trace(phase, 'function_graph'),
    ...MODULES.map(({ name }) => `unload ${name} 0`),
  ]);
  const selected = ['vfs_write', ...(isVmlinuxChanged ? [] : ['vfs_read', 'vfs_write'])].map(
    (each) => `name begin - ${each}`,
  );
  const log = ['log 4,200,1,-;tun: loading out-of-tree module taints kernel.', 'log 6,201,1,-;loop: module loaded'];
  return [...selected, kernel('begin'), ...lines, kernel('end'), ...log, 'end'].map((each) => `@@ ${each}`);
}

const ALL: readonly Phase[] = ['original', 'mixed', 'swapped'];
/** One of the two names of the kernel comes twice in its list, once for a body without a symbol. */
const symbols = new Map([
  ['vfs_read', 1],
  ['vfs_write', 1],
]);
const original = readReport(consoleOf(ALL, false).join('\r\n'));

/** Problems of a boot whose text was changed. */
function problems(change: (lines: string[]) => readonly string[], isVmlinuxChanged = false): readonly string[] {
  const phases = isVmlinuxChanged ? (['mixed'] as const) : ALL;
  const text = change(consoleOf(phases, isVmlinuxChanged)).join('\r\n');
  return problemsOf(
    { report: readReport(text), fault: null },
    { original, phases, globs: GLOBS, isVmlinuxChanged, symbols },
  );
}

const without = (pattern: RegExp) => (lines: string[]) => lines.filter((each) => !pattern.test(each));
const replaced = (from: RegExp | string, to: string) => (lines: string[]) =>
  lines.map((each) => each.replace(from, to));
const added = (line: string) => (lines: string[]) => [`@@ ${line}`, ...lines];

describe('boots', () => {
  test('a boot in which everything is as it must be has no problem', () => {
    expect(problems((lines) => lines)).toEqual([]);
    expect(problems((lines) => lines, true)).toEqual([]);
  });

  test.each([
    ['an untraced function is listed', added('name swapped tun tun_chr_x'), 'swapped: tun: 2 functions instead of 1: 0 missing (), 1 too many (tun_chr_x)'],
    ['a function that was not selected is gone', without(/name swapped ext4 __ext4_kept/), 'swapped: ext4: 0 functions instead of 1: 1 missing (__ext4_kept), 0 too many ()'],
    ['a module without a site has one', added('name swapped loop lo_x'), 'swapped: loop: 1 functions instead of 0: 0 missing (), 1 too many (lo_x)'],
    ['fewer functions while the tracer is on', replaced('lines swapped.loading minix 1', 'lines swapped.loading minix 0'), 'swapped: minix: swapped.loading: 0 lines instead of 1'],
    ['ftrace bug', added('log 4,250,1,-;------------[ ftrace bug ]------------'), 'log: ------------[ ftrace bug ]------------'],
    ['a warning', added('log 4,250,1,-;WARNING: CPU: 0 PID: 1 at kernel/trace/ftrace.c:2068 ftrace_bug+0x1'), 'log: WARNING: CPU: 0 PID: 1 at kernel/trace/ftrace.c:2068 ftrace_bug+0x1'],
    ['a module is refused', replaced('load /modules/swapped/tun.ko 0', 'load /modules/swapped/tun.ko 8'), 'load /modules/swapped/tun.ko: errno 8'],
    ['a tracer is refused', added('write /sys/kernel/tracing/current_tracer 19'), 'write /sys/kernel/tracing/current_tracer: errno 19'],
    ['a call fails', replaced('call touch 0', 'call touch 5'), 'call failed: touch=5'],
    ['an untraced function is recorded', added('hit swapped.function - tun_chr_x'), 'swapped: function: tun: untraced functions were recorded: tun_chr_x'],
    ['a function that stays is not recorded', without(/hit swapped.function_graph ext4/), 'swapped: function_graph: ext4: nothing recorded, __ext4_kept expected'],
    ['a tracer records nothing', replaced('traced mixed.function_graph 5000', 'traced mixed.function_graph 3'), 'mixed: function_graph: 3 events'],
    ['the tracer does not see the kernel', without(/hit original.function - path_openat/), 'original: function: no path_openat'],
    ['functions of modules that are gone', added(`lines end tun 3 0 ${HASH}`), 'end: functions of modules that are gone'],
    ['functions of the kernel vanish with the modules', replaced('lines end - 103', 'lines end - 102'), 'end: 102 functions of the kernel, 103 before'],
    ['the init does not end', without(/^@@ end$/), 'the init did not come to its end'],
  ] as const)('%s', (_, change, expected) => {
    expect(problems(change)).toContain(expected);
  }); // prettier-ignore

  test.each([
    ['a selected function is left', added('name begin - vfs_read'), 'selected functions of the kernel: 0 missing (), 1 too many (vfs_read)'],
    ['a body that nobody selected is gone', without(/name begin - vfs_write/), 'selected functions of the kernel: 1 missing (vfs_write), 0 too many ()'],
    ['one function too many is gone', replaced(/- 101 1/, '- 100 1'), '100 functions of the kernel instead of 101'],
    ['another function is gone', replaced(/(- 101 1) .*/, '$1 0123456789abcdef'), 'the functions that are left are not those that were not selected'],
    ['an untraced function is recorded', added('hit mixed.function_graph - vfs_read'), 'mixed: function_graph: untraced functions were recorded: vfs_read'],
  ] as const)('of a changed vmlinux: %s', (_, change, expected) => {
    expect(problems(change, true)).toContain(expected);
  }); // prettier-ignore

  test('qemu that did not end by itself', () => {
    const request = { original, phases: ALL, globs: GLOBS, isVmlinuxChanged: false, symbols };
    expect(problemsOf({ report: original, fault: 'not done after 300 s' }, request)).toEqual(['not done after 300 s']);
  });

  test('patterns select as set_ftrace_filter does', () => {
    expect(selects(['lo_*'], 'lo_open')).toBe(true);
    expect(selects(['lo_*'], 'loop_open')).toBe(false);
    expect(selects(['*_open', '!lo_open'], 'lo_open')).toBe(false);
    expect(selects(['*.isra.0'], 'lo_rw_aioxisra.0')).toBe(false);
    expect(selects(['a*b*c'], 'abbc')).toBe(true);
  });

  test('every step of a plan fits into what the init reads', () => {
    const plan = planOf(ALL, new Map(), Array(240).fill('a_function_of_some_length.constprop.0.isra.0.part.0.cold'));
    expect(plan.length).toBeLessThan(65536);
    expect(plan).toContain('write /sys/kernel/tracing/current_tracer function_graph\n');
    for (const line of plan.trimEnd().split('\n')) expect(line).toMatch(/^[a-z]+( \S+){0,2}$/);
  });
});

describe('what why says, against the lists of a kernel', () => {
  const aliases = ['init_module [tun]', 'tun_init [tun]'];
  const lists: WhyLists = {
    functions: ['vfs_read', 'vfs_read', aliases[0]!],
    blacklist: ['do_page_fault', 'do_trap.cold'],
    probes: new Map([
      ['kept', 'probe'],
      ['do_trap.cold', 'refused'],
      ['sched_clock', 'untraced'],
    ]),
    names: new Map<string, readonly string[]>([
      ...aliases.map((name) => [name, aliases] as const),
      ...['vfs_read', 'do_page_fault', 'kept'].map((name) => [name, [name]] as const),
    ]),
    leftovers: 1,
    modules: new Map([['tun', [aliases[0]!]]]),
  };
  const good = [
    'name original tun tun_init',
    'surplus /why/functions neighbour',
    'surplus /why/functions tun_init [tun]',
    'missing /why/functions init_module [tun]',
    'compare /why/functions 0',
    'surplus /why/blacklist label_of_assembly',
    'surplus /why/blacklist do_page_fault',
    'missing /why/blacklist do_trap.cold',
    'compare /why/blacklist 0',
    'probe kept 0',
    'probe do_trap.cold 22',
    'probe sched_clock 22',
    'log 4,249,1,-;trace_kprobe: Could not probe notrace function sched_clock',
    'log 4,250,1,-;trace_kprobe: Could not probe notrace function other.cold',
  ];
  const found = (lines: readonly string[], of = lists): readonly string[] =>
    whyProblems(readReport(lines.map((each) => `@@ ${each}`).join('\n')), of);

  test('two names of one function, bodies without a name and labels are no difference', () => {
    expect(found(good)).toEqual([]);
    expect(found(good, { ...lists, functions: null })).toEqual([]);
  });

  test.each([
    ['missing /why/functions vfs_read', 'why: traced, and the kernel does not list them: 1 (vfs_read)'],
    ['surplus /why/functions kept', 'why: 1 bodies without a name, and the kernel lists 2 (neighbour, kept) more'],
    ['name original tun tun_open', 'why: tun: not traced, and the kernel lists 1 (tun_open [tun])'],
    ['missing /why/blacklist do_page_fault', "why: no probe, and the kernel's list does not have them: 1 (do_page_fault)"],
    ['surplus /why/blacklist kept', "why: a probe, and the kernel's list has them: 1 (kept)"],
  ])('%s', (line, problem) => {
    expect(found([...good, line])).toEqual([problem]);
  }); // prettier-ignore

  test.each([
    [replaced('probe kept 0', 'probe kept 22'), 'why: a probe, and the kernel has errno 22 for kept'],
    [replaced('probe do_trap.cold 22', 'probe do_trap.cold 0'), 'why: no probe, and the kernel has errno 0 for do_trap.cold'],
    [replaced('function other.cold', 'function do_trap.cold'), 'why: no probe, and the kernel has errno 22 for do_trap.cold'],
    [(lines: string[]) => ['surplus /why/blacklist do_trap', ...replaced('other.cold', 'do_trap.cold')(lines)], null],
    [without(/^probe kept/), 'why: no probe was tried in kept'],
    [replaced('probe sched_clock 22', 'probe sched_clock 0'), 'why: no site, and the kernel has errno 0 for sched_clock'],
    [without(/^probe sched_clock/), 'why: no probe was tried in sched_clock'],
    [without(/function sched_clock/), 'why: no site, and the kernel has errno 22 for sched_clock'],
  ])('a probe that is tried: %#', (change, problem) => {
    expect(found(change([...good]))).toEqual(problem === null ? [] : [problem]);
  }); // prettier-ignore

  test('lists that were not compared', () => {
    expect(found(good.filter((each) => !each.includes('/why/')))).toEqual([
      'why: the functions of the kernel were not compared',
      'why: the list of functions without probes was not compared',
    ]);
  });

  test('are compared while the originals are loaded', () => {
    const plan = planOf(['original', 'mixed'], new Map([['/why/blacklist', []]]));
    const tried = planOf(['original'], new Map(), ['f', 'g.cold']);
    expect(tried).toContain('\nprobe f\nprobe g.cold\nwrite /sys/kernel/tracing/kprobe_events\n');
    expect(plan.match(/^compare .*$/gm)).toEqual(['compare /why/blacklist /sys/kernel/debug/kprobes/blacklist']);
    expect(plan.indexOf('\ncompare ')).toBeLessThan(plan.indexOf('\nunload '));
  });
});
