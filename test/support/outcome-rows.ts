/**
 * The outcome table C-OUT-1 as the specification has it, by hand: what is attached to a record,
 * what happens, and what the record and its text are then. With the reasons why a row cannot occur
 * on a target.
 */
import { type ProfileName, profiles } from './profiles.js';

/** Kinds of ops of the table; R with T is a trampoline of an ops that saves registers. */
export type Kind = 'S' | "S'" | 'R' | 'T' | "T'" | 'TR' | 'D';

export interface Row {
  readonly row: number;
  readonly attached: readonly Kind[];
  readonly action: `+${Kind}` | `-${Kind}` | 'modify';
  readonly count: number;
  readonly flags: readonly ('REGS' | 'TRAMP' | 'DIRECT')[];
  /** What the site's text becomes, one after the other, the first being what it is before. */
  readonly text: readonly string[];
}

const DIRECT = ['DIRECT', 'TRAMP', 'REGS'] as const;

export const rows: readonly Row[] = [
  { row: 1, attached: [], action: '+S', count: 1, flags: [], text: ['nop', 'caller'] },
  { row: 2, attached: [], action: '+R', count: 1, flags: ['REGS'], text: ['nop', 'regs'] },
  { row: 3, attached: [], action: '+T', count: 1, flags: ['TRAMP'], text: ['nop', 'T'] },
  { row: 4, attached: [], action: '+TR', count: 1, flags: ['TRAMP', 'REGS'], text: ['nop', 'TR'] },
  { row: 5, attached: [], action: '+D', count: 1, flags: DIRECT, text: ['nop', 'direct'] },
  { row: 6, attached: ['S'], action: "+S'", count: 2, flags: [], text: ['caller'] },
  { row: 7, attached: ['S'], action: '+R', count: 2, flags: ['REGS'], text: ['caller', 'regs'] },
  { row: 8, attached: ['T'], action: '+S', count: 2, flags: [], text: ['T', 'caller'] },
  { row: 9, attached: ['T'], action: '+R', count: 2, flags: ['REGS'], text: ['T', 'regs'] },
  { row: 10, attached: ['T'], action: "+T'", count: 2, flags: [], text: ['T', 'caller'] },
  { row: 11, attached: ['D'], action: '+S', count: 2, flags: ['DIRECT', 'REGS'], text: ['direct', 'regs'] },
  { row: 11, attached: ['D'], action: '+R', count: 2, flags: ['DIRECT', 'REGS'], text: ['direct', 'regs'] },
  { row: 11, attached: ['D'], action: '+T', count: 2, flags: ['DIRECT', 'REGS'], text: ['direct', 'regs'] },
  { row: 12, attached: ['S'], action: '+D', count: 2, flags: ['DIRECT', 'REGS'], text: ['caller', 'regs'] },
  { row: 12, attached: ['R'], action: '+D', count: 2, flags: ['DIRECT', 'REGS'], text: ['regs'] },
  { row: 12, attached: ['T'], action: '+D', count: 2, flags: ['DIRECT', 'REGS'], text: ['T', 'regs'] },
  { row: 13, attached: ['S', 'R'], action: '-R', count: 1, flags: [], text: ['regs', 'caller'] },
  { row: 14, attached: ['S', 'R'], action: '-S', count: 1, flags: ['REGS'], text: ['regs'] },
  { row: 15, attached: ['T', 'S'], action: '-S', count: 1, flags: ['TRAMP'], text: ['caller', 'T'] },
  { row: 16, attached: ['T', 'S'], action: '-T', count: 1, flags: [], text: ['caller'] },
  { row: 17, attached: ['T', "T'"], action: "-T'", count: 1, flags: ['TRAMP'], text: ['caller', 'T'] },
  { row: 18, attached: ['D', 'S'], action: '-S', count: 1, flags: DIRECT, text: ['regs', 'direct'] },
  { row: 19, attached: ['D', 'S'], action: '-D', count: 1, flags: [], text: ['regs', 'caller'] },
  { row: 20, attached: ['S'], action: '-S', count: 0, flags: [], text: ['caller', 'nop'] },
  { row: 20, attached: ['R'], action: '-R', count: 0, flags: [], text: ['regs', 'nop'] },
  { row: 20, attached: ['T'], action: '-T', count: 0, flags: [], text: ['T', 'nop'] },
  { row: 20, attached: ['D'], action: '-D', count: 0, flags: [], text: ['direct', 'nop'] },
  { row: 21, attached: ['D'], action: 'modify', count: 1, flags: DIRECT, text: ['direct', 'regs', 'new'] },
  { row: 22, attached: ['D', 'S'], action: 'modify', count: 2, flags: ['DIRECT', 'REGS'], text: ['regs'] },
];

/** Why a row cannot occur with a profile; null when it can. */
export function inapplicable({ attached, action }: Row, name: ProfileName): string | null {
  const profile = profiles[name];
  const kinds = [...attached, action.slice(1)];
  if (kinds.some((kind) => kind === 'R' || kind === 'TR') && profile.regs === 'none') {
    return 'EINVAL: no entry saves registers';
  }
  if ((attached.includes('D') || action === '+D') && profile.direct === 'none')
    return 'ENODEV: no slot for a direct caller';
  if (kinds.some((kind) => kind.startsWith('T')) && !profile.trampolines) {
    return profile.callOps ? 'per-callsite ops instead of trampolines' : 'no private trampolines on this machine';
  }
  return null;
}

/** The row's text where there is no entry for registers, or only one entry. */
export function expectedText({ text: texts }: Row, name: ProfileName): string[] {
  const here = texts.map((each) => (each === 'regs' && profiles[name].regs !== 'separate' ? 'caller' : each));
  return here.filter((each, index) => index === 0 || each !== here[index - 1]);
}

export function expectedFlags({ flags, attached, action }: Row, name: ProfileName): string[] {
  const { regs } = profiles[name];
  // Where direct ops need no register entry they do not ask for registers either.
  const asks = [...attached, action.slice(1)].includes('R');
  return flags.filter((flag) => flag !== 'REGS' || regs === 'separate' || (regs === 'same' && asks)).sort();
}

/** `D,S -S`: names a row together with its number. */
export const titleOf = ({ row, attached, action }: Row): string => `${row}: ${attached.join(',') || '-'} ${action}`;

/**
 * The table of rows and targets as text: `yes`, or the number of the reason below it.
 * @param cell  what stands there: null for a row that occurs, else why not
 */
export function tableOf(columns: readonly string[], cell: (row: Row, column: string) => string | null): string {
  const reasons = new Map<string, number>();
  const lines = [`${'row'.padEnd(14)} | ${columns.join(' | ')}`];
  for (const row of rows) {
    const cells = columns.map((column) => {
      const why = cell(row, column);
      if (why === null) return 'yes'.padEnd(column.length);
      if (!reasons.has(why)) reasons.set(why, reasons.size + 1);
      return `no (${reasons.get(why)!})`.padEnd(column.length);
    });
    lines.push(`${titleOf(row).padEnd(14)} | ${cells.join(' | ')}`);
  }
  for (const [why, index] of reasons) lines.push(`(${index}) ${why}`);
  return lines.join('\n');
}
