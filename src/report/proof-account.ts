/**
 * The account of a site that `prove` found different, as lines of text: from its JSON form, so that
 * the command line and the page say the same.
 */

export interface AccountStep {
  readonly address: string;
  /** Function and offset. */
  readonly place: string;
  /** Its bytes in hexadecimal. */
  readonly code: string;
  readonly text: string;
}

export type AccountRow =
  | {
      readonly original: AccountStep | null;
      readonly patched: AccountStep | null;
      readonly writes: 'original' | 'patched' | null;
    }
  | { readonly skipped: number };

export interface AccountText {
  readonly seed: number;
  readonly entry: string;
  /** What the trial began with, in a sentence; earlier versions wrote none. */
  readonly begins?: string;
  readonly phase: 'enter' | 'return';
  /** What differs, in a sentence. */
  readonly says: string;
  readonly rule: { readonly id: string; readonly says: string };
  readonly registers: readonly {
    readonly name: string;
    readonly original: string;
    readonly patched: string;
    /** What the values are, where that is known. */
    readonly originalIs?: string;
    readonly patchedIs?: string;
  }[];
  /** What is said of the row that is marked. */
  readonly mark?: string;
  readonly rows: readonly AccountRow[];
}

/** Most letters of an instruction on either side. */
const COLUMN = 52;

const functionOf = (place: string): string => place.replace(/\+0x[0-9a-f]+$/, '');

/** A side of a row: address and instruction. */
function cell(step: AccountStep | null): string {
  if (step === null) return '';
  const text = `${step.address}  ${step.text}`;
  return text.length > COLUMN ? `${text.slice(0, COLUMN - 1)}…` : text;
}

/** The function that a way comes into. */
function heading(step: AccountStep | null): string {
  if (step === null) return '';
  const name = functionOf(step.place);
  return name === '' ? '(no function)' : `${name.slice(0, COLUMN - 1)}:`;
}

/** The ways, line by line; the function is named where a way comes into another one. */
function wayLines(rows: readonly AccountRow[]): string[] {
  const lefts = rows.flatMap((row) => ('skipped' in row ? [] : [cell(row.original), heading(row.original)]));
  const width = Math.max('original'.length, ...lefts.map(({ length }) => length));
  const lines = [`   ${'original'.padEnd(width)} | patched`];
  const now = { original: '', patched: '' };
  for (const row of rows) {
    if ('skipped' in row) {
      lines.push(`   ${''.padEnd(width)} |   … ${row.skipped} instructions …`);
      continue;
    }
    const [left, right] = (['original', 'patched'] as const).map((side) => {
      const name = functionOf(row[side]?.place ?? '');
      if (row[side] === null || name === now[side]) return '';
      now[side] = name;
      return heading(row[side]);
    }) as [string, string];
    if (left + right !== '') lines.push(`   ${left.padEnd(width)} | ${right}`.trimEnd());
    const mark = row.writes === null ? ' ' : '>';
    lines.push(` ${mark} ${cell(row.original).padEnd(width)} | ${cell(row.patched)}`.trimEnd());
  }
  return lines;
}

/** The account in lines, without an indent. */
export function accountLines(account: AccountText): string[] {
  const { seed, entry, begins, phase, says, rule, registers, mark, rows } = account;
  const where = phase === 'enter' ? 'behind the site' : 'where the function returns';
  const width = Math.max(8, ...registers.map(({ original }) => original.length));
  const name = Math.max(8, ...registers.map((each) => each.name.length));
  const isMarked = rows.some((row) => 'writes' in row && row.writes !== null);
  return [
    `${where}: ${says}`,
    `rule ${rule.id}: ${rule.says}`,
    ...(registers.length === 0 ? [] : ['registers that must be equal there, and are not (original | patched):']),
    ...registers.flatMap((each) => {
      const { originalIs, patchedIs } = each;
      const notes = [
        ...(originalIs === undefined ? [] : [`${each.original} is ${originalIs}`]),
        ...(patchedIs === undefined ? [] : [`${each.patched} is ${patchedIs}`]),
      ];
      const line = `   ${each.name.padEnd(name)} ${each.original.padEnd(width)} | ${each.patched}`;
      return [line, ...notes.map((note) => `   ${''.padEnd(name)} (${note})`)];
    }),
    begins ?? `the trial begins at ${entry}, its registers and memory follow from the number ${seed}`,
    `executed${isMarked ? `; > ${mark ?? 'wrote what differs'}` : ''}:`,
    ...wayLines(rows),
  ];
}

type Fields = Readonly<Record<string, unknown>>;

const isFields = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
const hasTexts = (value: Fields, ...names: readonly string[]): boolean =>
  names.every((name) => typeof value[name] === 'string');
const isStep = (value: unknown): boolean =>
  value === null || (isFields(value) && hasTexts(value, 'address', 'place', 'code', 'text'));

/** Whether a value that was read is an account in this form: files may say anything. */
export function isAccountText(value: unknown): value is AccountText {
  if (!isFields(value) || !hasTexts(value, 'entry', 'says') || !Number.isSafeInteger(value['seed'])) return false;
  const { phase, rule, registers, rows } = value;
  const isText = (each: unknown): boolean => each === undefined || typeof each === 'string';
  if (!isText(value['begins']) || !isText(value['mark'])) return false;
  if (phase !== 'enter' && phase !== 'return') return false;
  if (!isFields(rule) || !hasTexts(rule, 'id', 'says')) return false;
  if (!Array.isArray(registers) || !Array.isArray(rows)) return false;
  return (
    registers.every(
      (each) =>
        isFields(each) &&
        hasTexts(each, 'name', 'original', 'patched') &&
        isText(each['originalIs']) &&
        isText(each['patchedIs']),
    ) &&
    rows.every(
      (row) =>
        isFields(row) &&
        (Number.isSafeInteger(row['skipped']) ||
          (isStep(row['original']) &&
            isStep(row['patched']) &&
            [null, 'original', 'patched'].includes(row['writes'] as null | string))),
    )
  );
}
