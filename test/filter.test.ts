/**
 * The filter language: C-FILT-1..8, C-FILT-10, C-REC-1. Globs are held against RegExp and Python's
 * fnmatch.
 */
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { ElftraceError } from '../src/errors.js';
import {
  applyFilter,
  compilePattern,
  listedName,
  locateRecord,
  parseWord,
  select,
  splitWords,
  WorkingFilter,
} from '../src/sites/filter.js';
import { filterNames } from '../src/sites/filter-names.js';
import type { Sites } from '../src/sites/sites.js';
import type { FilterNames, FilterOptions, FilterResult } from '../src/sites/filter.js';
import { describeWith, run } from './support/tools.js';

const SEED = 20_240_611;

interface Row {
  readonly name: string;
  readonly module?: string;
  readonly disabled?: boolean;
  readonly offset?: bigint;
  readonly aliases?: readonly string[];
}

function namesOf(rows: readonly (string | Row)[], more: Partial<FilterNames> = {}): FilterNames {
  const list = rows.map((row): Row => (typeof row === 'string' ? { name: row } : row));
  const at = (index: number): Row => list[index]!;
  return {
    count: list.length,
    name: (index) => at(index).name,
    aliases: (index) => at(index).aliases ?? [],
    address: (index) => 0x1000n + 0x10n * BigInt(index),
    module: (index) => at(index).module ?? null,
    disabled: (index) => at(index).disabled ?? false,
    siteOffset: (index) => at(index).offset ?? 0n,
    ...more,
  };
}

function chosen(names: FilterNames, result: Pick<FilterResult, 'selection'>): string[] {
  const found: string[] = [];
  result.selection.forEach((bit, index) => {
    if (bit === 1) found.push(names.name(index));
  });
  return found;
}

function filter(names: FilterNames, words: string, options: FilterOptions = {}): string[] {
  return chosen(names, applyFilter(words, names, options));
}

function errorOf(action: () => unknown): ElftraceError {
  try {
    action();
  } catch (error) {
    if (error instanceof ElftraceError) return error;
    throw error;
  }
  throw new Error('nothing was thrown');
}

const CORE = namesOf([
  'schedule',
  'schedule_timeout',
  'preempt_schedule',
  'mutex_lock',
  'mutex_unlock',
  'mutex_unlock_slow',
  'spin_lock',
  'pin_to_lock',
  'Sys_read',
  'sys_write',
]);

describe('patterns', () => {
  test.each([
    ['schedule', 'full', 'schedule'],
    ['sched*', 'front', 'sched'],
    ['*sched', 'end', 'sched'],
    ['*sched*', 'middle', 'sched'],
    ['*', 'end', ''],
    ['**', 'middle', ''],
    ['sch*ule', 'glob', 'sch*ule'],
    ['*a*b*', 'glob', '*a*b*'],
    ['a*b*', 'glob', 'a*b*'],
    ['*a*b', 'glob', '*a*b'],
    ['***', 'glob', '***'],
    ['a?', 'glob', 'a?'],
    ['[ab]', 'glob', '[ab]'],
    ['a\\*', 'glob', 'a\\*'],
    ['a]', 'full', 'a]'],
    ['!x', 'full', '!x'],
    ['12', 'index', '12'],
  ])('C-FILT-1: %s is %s', (text, kind, part) => {
    expect(compilePattern(text)).toMatchObject({ kind, text: part });
  });

  test.each([
    ['a', 'a', true],
    ['a', 'A', false],
    ['a', 'ab', false],
    ['*', '', true],
    ['a?c', 'abc', true],
    ['a?c', 'ac', false],
    ['?', '', false],
    ['a*b?c', 'aXbXbYc', true],
    ['*ab*ab', 'abab', true],
    ['*ab*ab', 'abaab', true],
    ['*ab*ab', 'ab', false],
    ['x[a-c]', 'xb', true],
    ['x[a-c]', 'xd', false],
    ['x[c-a]', 'xb', false],
    ['x[!a-c]', 'xd', true],
    ['x[!a-c]', 'x', false],
    // `^` is an ordinary member
    ['x[^a]', 'x^', true],
    ['x[^a]', 'xa', true],
    ['x[^a]', 'xb', false],
    // `]` first is literal, also behind `!`
    ['x[]a]', 'x]', true],
    ['x[]a]', 'xa', true],
    ['x[!]a]', 'x]', false],
    ['x[!]a]', 'xb', true],
    // a trailing `-` is literal
    ['x[a-]', 'x-', true],
    ['x[a-]', 'xa', true],
    ['x[a-]', 'xb', false],
    ['x[-a]', 'x-', true],
    // `!` that is not first is a member
    ['x[a!]', 'x!', true],
    // unclosed
    ['x[ab', 'x[ab', true],
    ['x[ab', 'xa', false],
    ['x[', 'x[', true],
    ['x[a-', 'x[a-', true],
    ['x[]', 'x[]', true],
    ['x[!]', 'x[!]', true],
    // quoted
    ['x\\*y', 'x*y', true],
    ['x\\*y', 'xay', false],
    ['x\\?', 'xa', false],
    ['x\\[a]', 'x[a]', true],
    ['x\\a', 'xa', true],
    ['x\\\\', 'x\\', true],
    // a set knows no quoting
    ['x[\\]]', 'x\\]', true],
    // `/` and `.` are ordinary
    ['a*b', 'a/.b', true],
    ['?a', '.a', true],
    // anchored at both ends
    ['?b', 'abc', false],
    ['[b]c', 'abc', false],
  ])('C-FILT-1, C-FILT-10: glob %s on %s', (text, name, expected) => {
    expect(compilePattern(text).matches(name)).toBe(expected);
  });

  test('C-FILT-1: the kinds agree with their meaning as text (property)', () => {
    const part = fc.stringMatching(/^[a-c_]{0,4}$/);
    fc.assert(
      fc.property(part, fc.boolean(), fc.boolean(), fc.stringMatching(/^[a-c_]{0,9}$/), (text, front, back, name) => {
        const pattern = `${front ? '*' : ''}${text}${back ? '*' : ''}`;
        const escaped = `^${front ? '.*' : ''}${text}${back ? '.*' : ''}$`;
        expect(compilePattern(pattern).matches(name)).toBe(new RegExp(escaped).test(name));
      }),
      { seed: SEED, numRuns: 2000 },
    );
  });

  // Pieces of a glob with what they mean as a regular expression: the oracle never parses a glob.
  const piece = fc.oneof(
    fc.constantFrom('a', 'b', 'c', '-', '.', '_').map((text) => [text, `\\u${hex4(text)}`] as const),
    fc.constant(['?', '[^]'] as const),
    fc.constant(['*', '[^]*'] as const),
    fc.constantFrom('*', '?', '[', '\\', 'a', ']').map((text) => [`\\${text}`, `\\u${hex4(text)}`] as const),
    fc
      .tuple(
        fc.boolean(),
        fc.array(fc.tuple(fc.constantFrom('a', 'b', '^', '.', '+'), fc.constantFrom(...'abcd~')), {
          minLength: 1,
          maxLength: 3,
        }),
      )
      .map(([invert, ranges]) => {
        const glob = ranges.map(([low, high]) => (low <= high ? `${low}-${high}` : low)).join('');
        const set = ranges
          .map(([low, high]) => (low <= high ? `\\u${hex4(low)}-\\u${hex4(high)}` : `\\u${hex4(low)}`))
          .join('');
        return [`[${invert ? '!' : ''}${glob}]`, `[${invert ? '^' : ''}${set}]`] as const;
      }),
  );

  test('C-FILT-1: globs against regular expressions (property)', () => {
    let positive = 0;
    fc.assert(
      fc.property(
        fc.array(piece, { minLength: 1, maxLength: 7 }),
        fc.array(fc.stringMatching(/^[abc.\-_*?[\]\\^+]{0,8}$/), { minLength: 8, maxLength: 8 }),
        (pieces, names) => {
          // The `?` in front makes it a glob whatever the pieces are.
          const glob = compilePattern(`?${pieces.map(([text]) => text).join('')}`);
          const oracle = new RegExp(`^[^]${pieces.map(([, text]) => text).join('')}$`);
          for (const name of names) {
            const expected = oracle.test(name);
            if (expected) positive++;
            expect([name, glob.matches(name)]).toEqual([name, expected]);
          }
        },
      ),
      { seed: SEED, numRuns: 3000 },
    );
    expect(positive).toBeGreaterThan(300);
  });

  test('C-FILT-1: one level of backtracking is linear enough for hostile globs', () => {
    expect(compilePattern(`${'*a'.repeat(200)}b`).matches('a'.repeat(5000))).toBe(false);
  });

  describeWith(['python3'], "against Python's fnmatch", () => {
    test('C-FILT-1, C-FILT-10: the same verdicts as fnmatch.fnmatchcase, where the languages agree', () => {
      // No backslashes (fnmatch has none), no sets with more than one '-' (ambiguous in fnmatch
      // before 3.13).
      const patterns = fc.sample(
        fc.stringMatching(/^[abc*?[\]!^._]{1,8}$/).filter((text) => !text.startsWith('!')),
        { seed: SEED, numRuns: 3000 },
      );
      const names = fc.sample(fc.stringMatching(/^[abc[\]!^._]{0,7}$/), { seed: SEED + 1, numRuns: 30_000 });
      const script =
        'import fnmatch,json,sys\nfor p,n in json.load(sys.stdin): print(int(fnmatch.fnmatchcase(n,p)),end="")';
      const pairs = names.map((name, i) => [patterns[i % patterns.length]!, name] as const);
      const expected = run('python3', ['-c', script], JSON.stringify(pairs)).toString();
      const actual = pairs.map(([pattern, name]) => (compilePattern(pattern).matches(name) ? '1' : '0')).join('');
      expect(actual).toBe(expected);
      expect(expected.split('1').length).toBeGreaterThan(100);
    });
  });
});

function hex4(letter: string): string {
  return letter.charCodeAt(0).toString(16).padStart(4, '0');
}

describe('words', () => {
  test('C-FILT-1: words are split at white space only', () => {
    expect(splitWords(' a\tb\n\nc\r\n d:mod:x\v\f!e ')).toEqual(['a', 'b', 'c', 'd:mod:x', '!e']);
    expect(splitWords(' \n')).toEqual([]);
  });

  test.each([
    ['f', false, 'f', null],
    ['!f', true, 'f', null],
    ['!!f', true, '!f', null],
    ['f:mod:m', false, 'f', 'm'],
    ['!f:mod:!m', true, 'f', '!m'],
    [':mod:m', false, '', 'm'],
    ['!:mod:m', true, '', 'm'],
    ['f:mod:', false, 'f', ''],
    ['f:mod:a:b', false, 'f', 'a:b'],
    ['ns::f', false, 'ns::f', null],
    ['a::b::c*:mod:m', false, 'a::b::c*', 'm'],
  ])('C-FILT-1: %s is taken apart', (word, remove, func, module) => {
    expect(parseWord(word)).toEqual({ word, remove, func, module });
  });

  test.each(['', '!', 'f:traceon', 'f:traceon:3', 'f:', 'f:mod', 'f:MOD:x', '1x', '08', '0x', '1_0', '0b1', '1e3'])(
    'C-FILT-1: C-FILT-3: %j is refused as bad-pattern',
    (word) => {
      const error = errorOf(() => {
        new WorkingFilter(CORE).process(word);
      });
      expect(error.code).toBe('bad-pattern');
      expect(error.context.value).toBe(word);
    },
  );
});

describe('selecting', () => {
  test.each([
    ['schedule*', ['schedule', 'schedule_timeout']],
    ['*schedule', ['schedule', 'preempt_schedule']],
    ['*schedule*', ['schedule', 'schedule_timeout', 'preempt_schedule']],
    ['sch*ule', ['schedule']],
    ['*pin*lock', ['spin_lock', 'pin_to_lock']],
    ['mutex*unl*', ['mutex_unlock', 'mutex_unlock_slow']],
    ['[Ss]ys_*', ['Sys_read', 'sys_write']],
    ['sch?dule', ['schedule']],
    ['[!m]*lock', ['spin_lock', 'pin_to_lock']],
  ])('C-FILT-7: %s', (word, expected) => {
    expect(filter(CORE, word)).toEqual(expected);
  });

  test('C-FILT-8: words union, order matters only with !', () => {
    expect(filter(CORE, 'sys_write schedule\nmutex_lock')).toEqual(['schedule', 'mutex_lock', 'sys_write']);
    expect(filter(CORE, 'mutex_* !mutex_lock')).toEqual(['mutex_unlock', 'mutex_unlock_slow']);
    expect(filter(CORE, '!mutex_lock mutex_*')).toEqual(['mutex_lock', 'mutex_unlock', 'mutex_unlock_slow']);
  });

  test('C-FILT-2: removing what is not in the set is no error, a word that matches nothing is', () => {
    expect(filter(CORE, '!schedule')).toEqual([]);
    for (const word of ['nothing', '!nothing', 'no*', '!*nothing*', 'sch[x]']) {
      const error = errorOf(() => filter(CORE, word));
      expect(error.code).toBe('no-match');
      expect(error.context.value).toBe(word);
    }
  });

  test('C-FILT-2: words in front of a refused one stay processed', () => {
    const working = new WorkingFilter(CORE);
    working.process('schedule');
    expect(() => {
      working.process('nothing');
    }).toThrow(ElftraceError);
    expect(chosen(CORE, working.result())).toEqual(['schedule']);
    working.process('mutex_lock');
    expect(working.result().count).toBe(2);
  });

  test('C-FILT-11: a truncating write starts empty, an append from the current set', () => {
    const first = applyFilter('schedule mutex_lock', CORE);
    expect(filter(CORE, 'sys_write')).toEqual(['sys_write']);
    expect(filter(CORE, 'sys_write !schedule', { append: first.selection })).toEqual(['mutex_lock', 'sys_write']);
    // the given set is not touched
    expect(chosen(CORE, first)).toEqual(['schedule', 'mutex_lock']);
  });

  test('C-FILT-3: an index is 1-based, in C notation, and counts disabled records', () => {
    const names = namesOf(['a', { name: 'gone', disabled: true }, 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j']);
    expect(filter(names, '1')).toEqual(['a']);
    expect(filter(names, '3')).toEqual(['c']);
    expect(filter(names, '010')).toEqual(['h']);
    expect(filter(names, '0xA')).toEqual(['j']);
    expect(filter(names, '* !10 !1')).toEqual(['c', 'd', 'e', 'f', 'g', 'h', 'i']);
    for (const word of ['0', '11', '00', '2', '!2', '99999999999999999999', '0xffffffffffffffffff']) {
      expect(errorOf(() => filter(names, word)).code).toBe('no-match');
    }
  });

  test('C-FILT-3: an index with a module selects only inside it', () => {
    const names = namesOf(['a', { name: 'b', module: 'm' }]);
    expect(filter(names, '2:mod:m')).toEqual(['b']);
    expect(errorOf(() => filter(names, '1:mod:m')).code).toBe('no-match');
  });

  test('C-FILT-4: the dot of ELFv1 code symbols is ignored by patterns without one', () => {
    const names = namesOf(['.sys_read', 'plain', '.sys_write', '..odd'], { dotSymbols: true });
    expect(filter(names, 'sys_read')).toEqual(['.sys_read']);
    expect(filter(names, '.sys_read')).toEqual(['.sys_read']);
    expect(filter(names, 'sys_*')).toEqual(['.sys_read', '.sys_write']);
    expect(filter(names, '.sys_*')).toEqual(['.sys_read', '.sys_write']);
    expect(filter(names, '?ys_[rw]*')).toEqual(['.sys_read', '.sys_write']);
    expect(filter(names, '..odd')).toEqual(['..odd']);
    for (const word of ['.odd', 'odd']) expect(errorOf(() => filter(names, word)).code).toBe('no-match');
    expect(errorOf(() => filter(names, '.plain')).code).toBe('no-match');
    // many exact words take another path
    expect(filter(names, 'plain sys_read .sys_write')).toEqual(['.sys_read', 'plain', '.sys_write']);
    const elsewhere = namesOf(['.sys_read']);
    expect(errorOf(() => filter(elsewhere, 'sys_read')).code).toBe('no-match');
  });

  test('C-FILT-4: M-WEAK-1: a site too far behind its symbol never matches, keeps its index and is listed under a placeholder', () => {
    const names = namesOf(['a', { name: 'a', offset: 0x40n }, { name: 'b', offset: 4n }], { maxSiteOffset: 4n });
    expect(applyFilter('a', names).selection).toEqual(Uint8Array.of(1, 0, 0));
    expect(applyFilter('*', names).selection).toEqual(Uint8Array.of(1, 0, 1));
    expect(applyFilter('3', names).selection).toEqual(Uint8Array.of(0, 0, 1));
    expect(errorOf(() => filter(names, '2')).code).toBe('no-match');
    expect(listedName(names, 1)).toBe('__ftrace_invalid_address___64');
    expect(listedName(names, 2)).toBe('b');
    const free = namesOf([{ name: 'a', offset: 0x40n }], { maxSiteOffset: 'any' });
    expect(filter(free, 'a')).toEqual(['a']);
  });

  test('C-REC-2: disabled records match nothing, and the error says that they are the reason', () => {
    const names = namesOf([{ name: 'a', disabled: true }, 'b']);
    expect(filter(names, '*')).toEqual(['b']);
    expect(errorOf(() => filter(names, 'a')).message).toContain('disabled');
  });

  test('demangled names match as the mangled ones do', () => {
    const names = namesOf([
      { name: '_ZN2ns1fEv', aliases: ['ns::f()', 'ns::f'] },
      { name: '_ZN2ns1gEv', aliases: ['ns::g()', 'ns::g'] },
      'plain',
    ]);
    expect(filter(names, 'ns::*')).toEqual(['_ZN2ns1fEv', '_ZN2ns1gEv']);
    expect(filter(names, '_ZN2ns1gEv')).toEqual(['_ZN2ns1gEv']);
    expect(filter(names, 'ns::f plain ns::g')).toEqual(['_ZN2ns1fEv', '_ZN2ns1gEv', 'plain']);
  });

  test('C-FILT-8: a list of exact names selects what each alone selects (property)', () => {
    const letters = fc.constantFrom('a', '.a', 'b', '.b', 'ab', '..a');
    fc.assert(
      fc.property(fc.array(letters, { minLength: 1, maxLength: 8 }), fc.array(letters), (rows, words) => {
        const names = namesOf(rows, { dotSymbols: true });
        const known = words.filter((word) => {
          try {
            applyFilter(word, names);
            return true;
          } catch {
            return false;
          }
        });
        const union = new Uint8Array(rows.length);
        for (const word of known) applyFilter(word, names).selection.forEach((bit, i) => (union[i]! |= bit));
        expect(applyFilter(known.join(' '), names).selection).toEqual(union);
      }),
      { seed: SEED, numRuns: 500 },
    );
  });
});

describe('modules', () => {
  const NAMES = namesOf(
    [
      'open',
      'read',
      { name: 'open', module: 'ext4' },
      { name: 'sync', module: 'ext4' },
      { name: 'open', module: '8021q' },
      { name: 'sync', module: 'ext2' },
    ],
    { modules: ['empty'] },
  );
  const where = (words: string): string[] => {
    const { selection } = applyFilter(words, NAMES);
    const found: string[] = [];
    selection.forEach((bit, i) => {
      if (bit === 1) found.push(`${NAMES.module(i) ?? 'core'}/${NAMES.name(i)}`);
    });
    return found;
  };

  test.each([
    ['open:mod:ext4', ['ext4/open']],
    ['sync:mod:ext*', ['ext4/sync', 'ext2/sync']],
    ['s*:mod:ext?', ['ext4/sync', 'ext2/sync']],
    // blank FUNC: every function of the modules
    [':mod:ext4', ['ext4/open', 'ext4/sync']],
    ['*:mod:ext4', ['ext4/open', 'ext4/sync']],
    // blank MOD: in some module; with !: in the core image
    ['open:mod:', ['ext4/open', '8021q/open']],
    ['open:mod:*', ['ext4/open', '8021q/open']],
    ['open:mod:!', ['core/open']],
    ['open:mod:!*', ['core/open']],
    [':mod:!', ['core/open', 'core/read']],
    // every module except, and the core image
    ['open:mod:!ext4', ['core/open', '8021q/open']],
    ['*:mod:!ext*', ['core/open', 'core/read', '8021q/open']],
    // a module may begin with a digit
    [':mod:8021q', ['8021q/open']],
    [':mod:8*', ['8021q/open']],
    ['* !:mod:ext4', ['core/open', 'core/read', '8021q/open', 'ext2/sync']],
    ['open !open:mod:', ['core/open']],
  ])('C-FILT-5: %s', (words, expected) => {
    expect(where(words)).toEqual(expected);
  });

  test('C-FILT-6: a word for a module that is not loaded is queued verbatim and replayed for exactly that name', () => {
    const before = namesOf(['open']);
    const result = applyFilter('o*:mod:late :mod:late2 x:mod:la*', before);
    expect(result.queued).toEqual([
      { func: 'o*', module: 'late' },
      { func: '', module: 'late2' },
      { func: 'x', module: 'la*' },
    ]);
    expect(result.count).toBe(0);
    const after = namesOf(['open', { name: 'oops', module: 'late' }, { name: 'other', module: 'late3' }]);
    const working = new WorkingFilter(after, { queued: result.queued });
    working.replay('late');
    expect(chosen(after, working.result())).toEqual(['oops']);
    expect(working.result().queued.map(({ module }) => module)).toEqual(['late2', 'la*']);
    working.replay('late3');
    expect(chosen(after, working.result())).toEqual(['oops']);
  });

  test('C-FILT-6: a loaded module without a match is an error', () => {
    for (const word of ['none:mod:ext4', 'x:mod:empty', ':mod:empty']) {
      expect(errorOf(() => applyFilter(word, NAMES)).code).toBe('no-match');
    }
  });

  test('C-FILT-6: ! never queues; it deletes queued words of equal text, or all of them with *', () => {
    const names = namesOf(['open']);
    const { queued } = applyFilter('a:mod:m b:mod:m a:mod:n', names);
    const left = (word: string): string[] =>
      applyFilter(word, names, { queued }).queued.map(({ func, module }) => `${func}:${module}`);
    expect(left('!a:mod:m')).toEqual(['b:m', 'a:n']);
    expect(left('!*:mod:m')).toEqual(['a:n']);
    expect(left('!a:mod:n')).toEqual(['a:m', 'b:m']);
    for (const word of ['!c:mod:m', '!a:mod:o', '!b*:mod:m']) {
      expect(errorOf(() => left(word)).code).toBe('no-match');
    }
  });
});

describe('select', () => {
  const names = namesOf(['a', 'ab', 'b', { name: 'off', disabled: true }, { name: 'f', module: 'm' }]);
  const pick = (filterTexts: string[], notrace: string[] = []): string[] =>
    chosen(names, select(names, { filter: filterTexts, notrace }));

  test('C-HASH-1: no filter is everything, notrace is taken away', () => {
    expect(pick([])).toEqual(['a', 'ab', 'b', 'f']);
    expect(pick([], ['a*'])).toEqual(['b', 'f']);
    expect(pick(['a*', 'b'])).toEqual(['a', 'ab', 'b']);
    expect(pick(['a* !ab', 'f:mod:m'])).toEqual(['a', 'f']);
    expect(pick(['a*'], ['a'])).toEqual(['ab']);
  });

  test('a request that leaves nothing is refused', () => {
    for (const [filterTexts, notrace] of [
      [['!a'], []],
      [[], ['*']],
      [['a'], ['a']],
      [['x'], []],
      [['f:mod:late'], []],
    ] as const) {
      expect(errorOf(() => pick([...filterTexts], [...notrace])).code).toBe('no-match');
    }
    expect(select(namesOf([]), { filter: [], notrace: [] }).count).toBe(0);
  });

  test('C-FILT-6: words for absent modules are kept when asked', () => {
    const result = select(names, { filter: ['f:mod:late'], notrace: ['g:mod:late'], queue: true });
    expect(result.count).toBe(0);
    expect(result.queued).toEqual({
      filter: [{ func: 'f', module: 'late' }],
      notrace: [{ func: 'g', module: 'late' }],
    });
  });
});

describe('by address', () => {
  const sites = [0x1008n, 0x1020n, 0x1030n];
  const sizes = new Map([
    [0x1000n, 0x20n],
    [0x1020n, 8n],
    [0x1040n, 0x10n],
    [0x1010n, 0n],
  ]);
  const records = {
    count: sites.length,
    address: (index: number) => sites[index]!,
    siteBytes: 5,
    symbolSizeAt: (address: bigint) => sizes.get(address) ?? null,
  };

  test.each([
    [0x1008n, 0],
    [0x100cn, 0],
    [0x100dn, -1],
    [0x1007n, -1],
    // the start of a function leads behind its preamble
    [0x1000n, 0],
    [0x1001n, -1],
    [0x1020n, 1],
    [0x1024n, 1],
    [0x1034n, 2],
    [0x1035n, -1],
    // sized, without a site; not sized
    [0x1040n, -1],
    [0x1010n, -1],
    [0n, -1],
  ])('C-REC-1: %p is record %i', (address, expected) => {
    expect(locateRecord(records, address)).toBe(expected);
  });
});

describe('names of sites', () => {
  /** Three sites of a stripped file: an empty slot, one that names no code, and a call. */
  const sites = (parts?: readonly { readonly kind: string; readonly name: string }[]): Sites =>
    ({
      count: 3,
      state: (index: number) => ['zero', 'outside', 'call'][index],
      functionSymbol: (index: number) => index,
      module: () => null,
      ip: (index: number) => 0x100n + BigInt(index),
      program: {
        loadMap: parts && { parts },
        namesFunctions: false,
        arch: { target: { abiName: 'elfv2' } },
        symbolName: (index: number) => `f${index}`,
        functions: { placeOf: (index: number) => (index === 2 ? { value: 0xf0n } : null) },
      },
    }) as unknown as Sites;
  const core = { kind: 'core', name: 'core' };

  test('C-FILT-6: modules are those of an image, else the one that the file is', () => {
    expect(filterNames(sites([core, { kind: 'module', name: 'far' }]), 'other').modules).toEqual(['far']);
    expect(filterNames(sites(), 'ext').modules).toEqual(['ext']);
    expect(filterNames(sites(), null)).not.toHaveProperty('modules');
    expect(filterNames(sites([core]), 'other')).not.toHaveProperty('modules');
  });

  test('empty slots and what names no code match nothing; places count from the function', () => {
    const names = filterNames(sites(), 'ext');
    expect([0, 1, 2].map((index) => names.disabled(index))).toEqual([true, true, false]);
    expect([1, 2].map((index) => names.siteOffset(index))).toEqual([0n, 0x12n]);
    expect([names.name(2), names.address(2), names.module(2)]).toEqual(['f2', 0x102n, 'ext']);
  });

  test('a name as it was written is an alias; without one there is none', () => {
    expect(filterNames(sites(), null).aliases!(2)).toEqual([]);
    const written = filterNames(sites(), null, (symbol) => (symbol === 'f2' ? 'f()' : null));
    expect([1, 2].map((index) => written.aliases!(index))).toEqual([[], ['f()']]);
  });
});
