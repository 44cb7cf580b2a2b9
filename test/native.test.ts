/**
 * Programs that write their own trace, natively: what they record are the calls of an independent
 * log; they do what they did before; their files are accepted by the system's tools and come back.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { CONFIG, HEADER, HEADER_BYTES, MODES, NAME_BYTES, RECORD } from '../src/native/layout.js';
import { isWhole, times } from './support/long.js';
import { checkCsmith, csmithSeeds } from './support/native-csmith.js';
import { nativePrograms, SAME_CALLS } from './support/native-programs.js';
import {
  COMPILER, compile, countsOf, describeNatively, FORMS, oneName, patched, report, traced, truth,
} from './support/native-run.js'; // prettier-ignore
import { root } from './support/pipeline.js';
import { describeWith, run } from './support/tools.js';

describeWith([COMPILER], 'facts for the compiler', () => {
  test('RT-26: layout.ts says what native.h and native.c say', () => {
    const header = readFileSync(join(root, 'src/runtime/native.h'), 'utf8');
    const defined = Object.fromEntries(
      [...header.matchAll(/^#define (\w+) (\d+)$/gm)].map(([, name, value]) => [name, Number(value)]),
    );
    expect(defined).toMatchObject({
      HEADER_BYTES,
      NAME_BYTES,
      MODE_FUNCTION: MODES.function,
      MODE_GRAPH: MODES.function_graph,
      MODE_COUNTER: MODES.counter,
      MODE_NO_CLOCK: MODES.noClock,
      TAG_CALL: RECORD.tagCall,
      TAG_CONTROL: RECORD.tagControl,
      CLOCK_BITS: RECORD.clockBits,
      CLOCK_SHIFT: RECORD.clockShift,
      STACK_BITS: RECORD.stackBits,
      STACK_SHIFT: RECORD.stackShift,
      STACK_UNIT: RECORD.stackUnit,
      SITE_SHIFT: RECORD.siteShift,
      CONTROL_EPOCH: RECORD.controlEpoch,
      CONTROL_STACK: RECORD.controlStack,
      CONTROL_RETURN: RECORD.controlReturn,
      CONTROL_VALUES: RECORD.controlValues,
      VALUES_BITS: RECORD.valuesBits,
      NEAR_BITS: RECORD.nearBits,
    });
    const structures = /\/\* Filled in when the runtime is laid in[^]*?(?=\/\* Of values of one event)/.exec(
      readFileSync(join(root, 'src/runtime/native.c'), 'utf8'),
    )![0];
    const fields: readonly (readonly [string, string, number])[] = [
      ...(
        [
          'version',
          'mode',
          'process',
          'thread',
          'parent',
          'sequence',
          'bias',
          'pairs',
          'pair',
          'realtime',
          'dropped',
          'id',
          'name',
        ] as const
      ).map((field) => ['header', field, HEADER[field]] as const),
      ['header', 'dropped_elsewhere', HEADER.droppedElsewhere],
      ['header', 'thread_name', HEADER.threadName],
      ['header', 'dropped_returns', HEADER.droppedReturns],
      ['header', 'overwritten', HEADER.overwritten],
      ['header', 'overwritten_returns', HEADER.overwrittenReturns],
      ['header', 'block', HEADER.block],
      ['header', 'turns', HEADER.turns],
      ['header', 'counters', HEADER.counters],
      ['header', 'dropped_early', HEADER.droppedEarly],
      ...(['address', 'id', 'slot', 'name', 'mode', 'counters', 'library'] as const).map(
        (field) => ['config', field, CONFIG[field]] as const,
      ),
    ];
    const checks = fields.map(
      ([type, field, at]) => `_Static_assert(__builtin_offsetof(struct ${type}, ${field}) == ${at}, "${field}");`,
    );
    const text = `${header}\ntypedef unsigned char u8; typedef unsigned long u64; typedef unsigned int u32;\n${structures}\n${checks.join('\n')}`;
    run(COMPILER, ['-fsyntax-only', '-x', 'c', '-'], text);
  });
});

describeNatively('programs that write their own trace', () => {
  describe('RT-20, RT-22, RT-24: the calls recorded are those of the log, and the program does what it did', () => {
    test.each(nativePrograms.map((program, i) => [program.name, program, FORMS[(i + 9) % FORMS.length]!] as const))(
      '%s',
      (_, program, form) => {
        const expected = truth(program);
        const plain = compile(program.source, [...SAME_CALLS, ...(program.flags ?? []), ...form], program.language);
        const ran = traced(patched(plain));
        expect([ran.status, ran.stdout]).toEqual([expected.status, expected.stdout]);
        const found = report(ran.dir);
        expect([found.dropped, found.damaged, found.unknown]).toEqual([0, 0, 0]);
        const counts = Object.entries(countsOf(found)).map(([name, count]) => [oneName(name), count] as const);
        expect(Object.fromEntries(counts.sort())).toEqual(expected.counts);
      },
    );
  });

  // With the programs above, sixty and more; each form with both tracers.
  test.each(csmithSeeds(times(53, 4, 1)).map((seed) => [seed, FORMS[seed % FORMS.length]!] as const))(
    'RT-20: csmith %i, %j',
    (seed, form) => {
      checkCsmith(seed, form);
      if (isWhole) checkCsmith(seed, form, ['--tracer', 'function_graph']);
    },
  );
});
