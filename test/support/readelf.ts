/** What GNU readelf says about a file, parsed: the expectation that our reader is held against. */
import { run } from './tools.js';

export interface ReadelfSection {
  readonly index: number;
  readonly name: string;
  readonly address: bigint;
  readonly offset: number;
  readonly size: number;
  readonly entrySize: number;
  readonly flags: string;
  readonly link: number;
  readonly info: number;
  readonly align: number;
}

export interface ReadelfSymbol {
  readonly value: bigint;
  readonly size: bigint;
  readonly type: string;
  readonly binding: string;
  /** Section number, or UND, ABS, COM. */
  readonly section: string;
  readonly name: string;
}

export interface ReadelfRelocation {
  readonly offset: bigint;
  readonly info: bigint;
  readonly addend: bigint | null;
}

function text(file: string, ...options: readonly string[]): string {
  return run('readelf', ['-W', ...options, file]).toString('latin1');
}

export function readelfHeader(file: string): ReadonlyMap<string, string> {
  const fields = new Map<string, string>();
  for (const line of text(file, '-h').split('\n')) {
    const match = /^ {2}([^:]+):\s+(.*)$/.exec(line);
    if (match) fields.set(match[1]!, match[2]!);
  }
  return fields;
}

export function readelfSections(file: string): readonly ReadelfSection[] {
  const sections: ReadelfSection[] = [];
  const row =
    /^ {2}\[\s*(\d+)\] (.*?)\s+(\S+)\s+([0-9a-f]{8,16}) ([0-9a-f]{6,}) ([0-9a-f]{6,}) ([0-9a-f]{2,})\s+([A-Za-z]*)\s+(\d+)\s+(\d+)\s+(\d+)$/;
  for (const line of text(file, '-S').split('\n')) {
    const match = row.exec(line);
    if (!match) continue;
    sections.push({
      index: Number(match[1]),
      name: match[2]!,
      address: BigInt(`0x${match[4]!}`),
      offset: parseInt(match[5]!, 16),
      size: parseInt(match[6]!, 16),
      entrySize: parseInt(match[7]!, 16),
      flags: match[8]!,
      link: Number(match[9]),
      info: Number(match[10]),
      align: Number(match[11]),
    });
  }
  return sections;
}

/**
 * Symbol tables by the name of their section (`.symtab`, `.dynsym`), or `dynamic` for one found
 * without sections.
 */
export function readelfSymbols(
  file: string,
  ...options: readonly string[]
): ReadonlyMap<string, readonly ReadelfSymbol[]> {
  const tables = new Map<string, ReadelfSymbol[]>();
  let rows: ReadelfSymbol[] = [];
  for (const line of text(file, '-s', ...options).split('\n')) {
    const head = /^Symbol table '([^']+)'/.exec(line);
    if (head !== null || line.startsWith('Symbol table for image')) {
      rows = [];
      tables.set(head?.[1] ?? 'dynamic', rows);
      continue;
    }
    // Num: Value Size Type Bind Vis [extra] Ndx Name; the extra of st_other stands in front of or
    // behind Ndx.
    const match =
      /^\s*\d+: ([0-9a-f]+)\s+(0x[0-9a-f]+|\d+) (\S+)\s+(\S+)\s+\S+\s+(?:\[[^\]]*\]\s+)?(\S+)(?: \[[^\]]*\])?(?: (.*))?$/.exec(
        line,
      );
    if (!match) continue;
    rows.push({
      value: BigInt(`0x${match[1]!}`),
      size: BigInt(match[2]!),
      type: match[3]!,
      binding: match[4]!,
      section: match[5]!,
      name: (match[6] ?? '').replace(/^ *\[[^\]]*\] */, '').replace(/@.*$/, ''),
    });
  }
  return tables;
}

/**
 * Rows of every relocation table in the order printed; keyed by file offset of the table. RELR
 * tables give addresses only.
 */
export function readelfRelocations(file: string): ReadonlyMap<number, readonly ReadelfRelocation[]> {
  const tables = new Map<number, ReadelfRelocation[]>();
  let rows: ReadelfRelocation[] = [];
  let packed = false;
  for (const line of text(file, '-r').split('\n')) {
    const head = /^(?:Relocation section '.*'|'.*' relocation section) at offset 0x([0-9a-f]+) /.exec(line);
    if (head) {
      rows = [];
      packed = /: ?\d+ offsets|contains \d+ entr\S+ which|relr/.test(line);
      tables.set(parseInt(head[1]!, 16), rows);
      continue;
    }
    const match = /^([0-9a-f]{8,16}) {1,2}([0-9a-f]{8,16}) (.*)$/.exec(line);
    if (match) {
      // "R_X type, symbol value and name + addend", "- addend", or the addend alone.
      const tail = / ([+-]) ([0-9a-f]+)$/.exec(line) ?? /^(?:\S+\s+\S+\s+\S+)\s+()(-?[0-9a-f]+)$/.exec(line);
      const sign = tail !== null && (tail[1] === '-' || tail[2]!.startsWith('-')) ? -1n : 1n;
      rows.push({
        offset: BigInt(`0x${match[1]!}`),
        info: BigInt(`0x${match[2]!}`),
        addend: tail === null ? null : sign * BigInt(`0x${tail[2]!.replace('-', '')}`),
      });
    } else if (packed && /^\s*[0-9a-f]{8,16}\s*$/.test(line)) {
      rows.push({ offset: BigInt(`0x${line.trim()}`), info: 0n, addend: null });
    }
  }
  return tables;
}
