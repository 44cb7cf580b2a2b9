/** What `run --can` says of the code of a program and its libraries: lines for people, and JSON. */
import type { SystemCall } from '../guest/index.js';
import { hex, hexBytes } from '../errors.js';
import type { ScannedFile, ScanReport } from '../running/can.js';
import { jsonSchema, type Json } from './json.js';
import type { Address } from '../units.js';

interface CallRow {
  readonly name: string;
  readonly number: number | null;
  /** `absent`: Linux has no such call either. */
  readonly class: SystemCall['class'] | 'absent' | 'unknown';
  readonly conditions: readonly string[];
  readonly count: number;
  readonly address: Address;
}

/** The calls of a file that are not served in full. */
function callRows({ result }: ScannedFile, calls: readonly SystemCall[]): CallRow[] {
  const known = new Map(calls.map((each) => [each.number, each]));
  return result.calls.flatMap(({ number, count, address }): CallRow[] => {
    const call = number === null ? undefined : known.get(number);
    const kind = call?.class ?? (number === null ? 'unknown' : 'absent');
    if (kind === 'served') return [];
    return [{ name: call?.name ?? '', number, class: kind, conditions: call?.conditions ?? [], count, address }];
  });
}

/** True when nothing that was found stands against a run. */
export function canAll({ files, missing, calls }: ScanReport): boolean {
  const stands = (row: CallRow): boolean => row.class === 'refused' || row.class === 'unknown';
  return (
    missing.length === 0 &&
    files.every((file) => file.result.instructions.length === 0 && !callRows(file, calls).some(stands))
  );
}

const times = (count: number): string => (count === 1 ? 'once' : `${count} times`);

function placeText(file: ScannedFile, address: Address): string {
  const name = file.nameOf(address);
  return name === '' ? hex(address) : `${hex(address)} (${name})`;
}

function callLine(file: ScannedFile, row: CallRow): string {
  const at = `${times(row.count)}, first at ${placeText(file, row.address)}`;
  switch (row.class) {
    case 'unknown':
      return `  system calls whose number is not in the code: ${at}`;
    case 'absent':
      return `  system call ${String(row.number)}, which Linux does not have: ${at}`;
    case 'refused':
      return `  system call ${row.name} (${String(row.number)}) is not served: ${at}`;
    default:
      return `  system call ${row.name} (${String(row.number)}), ${times(row.count)}; otherwise than Linux: ${row.conditions.join('; ')}`;
  }
}

/** A file a paragraph, what is not served first. */
export function canLines(report: ScanReport): string[] {
  const out: string[] = [];
  for (const file of report.files) {
    const rows = callRows(file, report.calls);
    const { total, tables } = file.result;
    const others = tables === 0 ? '' : `, ${tables} places taken for tables`;
    out.push(`${file.name}: ${total} instructions looked at${others}`);
    for (const { mnemonic, count, address, bytes } of file.result.instructions) {
      const what =
        mnemonic === null ? `no known instruction (${hexBytes(bytes)})` : `instruction ${mnemonic} is not executed`;
      out.push(`  ${what}: ${times(count)}, first at ${placeText(file, address)}`);
    }
    const rank = ({ class: kind }: CallRow): number => ['refused', 'unknown', 'absent', 'half'].indexOf(kind);
    for (const row of rows.sort((a, b) => rank(a) - rank(b))) out.push(callLine(file, row));
  }
  for (const name of report.missing) out.push(`${name}: not found, not looked at`);
  out.push(canAll(report) ? 'all is served' : 'not all is served');
  return out;
}

export function canJson(report: ScanReport): Json {
  const functionOf = (file: ScannedFile, address: Address): { address: string; function: string } => ({
    address: hex(address),
    function: file.nameOf(address),
  });
  return {
    schema: jsonSchema,
    served: canAll(report),
    files: report.files.map((file) => ({
      file: file.name,
      total: file.result.total,
      tables: file.result.tables,
      instructions: file.result.instructions.map(({ mnemonic, count, address, bytes }) => ({
        mnemonic,
        bytes: hexBytes(bytes),
        count,
        ...functionOf(file, address),
      })),
      calls: callRows(file, report.calls).map(({ name, number, class: kind, conditions, count, address }) => ({
        name,
        number,
        class: kind,
        conditions: [...conditions],
        count,
        ...functionOf(file, address),
      })),
    })),
    missing: [...report.missing],
  };
}
