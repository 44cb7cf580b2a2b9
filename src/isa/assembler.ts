/**
 * Assembles what users write as text, for x86-64 and arm64. The sole importer of keystone-wasm;
 * PowerPC and RISC-V encode by their rows. Our own patches never pass through here.
 *
 * The engine (keystone-wasm 1.0.4, Keystone 0.9.2) is used with a short leash, because it answers
 * some texts with wrong bytes instead of an error. Measured, and handled before it sees the text:
 *
 *   x86-64  nop with an operand          becomes 0f 18 (a prefetch)    refused
 *   x86-64  endbr64, endbr32             unknown                       written as bytes
 *   x86-64  jmp short X                  refused, the engine picks it  the word is dropped
 *   x86-64  pushf, popf                  become the 16-bit forms       written pushfq, popfq
 *   arm64   bti, paciasp, xpaclri, …     unknown                       written as hint #n
 *   arm64   .inst                        yields nothing, silently      written as .word
 *   arm64   b, cbz, tbz, … out of reach  truncated, silently           numeric targets are checked
 *   arm64   adr to a number              wrong but at address 0        refused; labels are right
 *   arm64   adrp to a label              wrong but at address 0        refused; numbers are right
 *   arm64   ldr x1, [x1, #8]! and alike  yields nothing, silently      found, refused
 *   both    .text                        crashes the engine for good   only directives of data
 *   both    1:, 1b, 1f                   refused, but unclearly        refused
 *
 * Its errors name no line; the line is found here.
 */
import type * as KeystoneWasm from 'keystone-wasm';
import { reaches, type Reach } from '../bits.js';
import { ElftraceError, hex } from '../errors.js';
import type { Address } from '../units.js';

export type AssemblerMachine = 'x86-64' | 'arm64';

export interface Assembler {
  /**
   * Bytes of `text` at `address`. Lines are separated by line feeds, statements also by `;`;
   * comments start with `//`, on x86-64 also with `#`. x86-64 is written in Intel syntax. Throws
   * 'usage', naming the line.
   */
  assemble(text: string, address: Address): Uint8Array;
}

interface Statement {
  readonly line: number;
  /** Label in front of it, or ''. */
  readonly label: string;
  /** Empty for a lone label. */
  readonly text: string;
}

/** Directives that only store data; every other one is refused. */
const DIRECTIVES: ReadonlySet<string> = new Set(
  [
    ...['byte', 'short', '2byte', 'word', 'long', '4byte', 'quad', '8byte'],
    ...['ascii', 'asciz', 'string', 'space', 'zero', 'skip', 'fill', 'align', 'balign', 'p2align'],
  ].map((name) => `.${name}`),
);

/** Hints by name, with the number that Keystone does accept (Arm ARM, C6.2, HINT). */
const HINTS: Readonly<Record<string, number>> = {
  xpaclri: 7,
  pacia1716: 8,
  pacib1716: 10,
  autia1716: 12,
  autib1716: 14,
  esb: 16,
  csdb: 20,
  paciaz: 24,
  paciasp: 25,
  pacibz: 26,
  pacibsp: 27,
  autiaz: 28,
  autiasp: 29,
  autibz: 30,
  autibsp: 31,
  bti: 32,
  'bti c': 34,
  'bti j': 36,
  'bti jc': 38,
};

const MIB = 1024n * 1024n;
const reachOf = (half: bigint): Reach => ({ min: -half, max: half - 4n, alignBytes: 4 });

/** b.eq; the engine also takes the spelling without the dot. */
const CONDITIONAL = /^b\.?(eq|ne|cs|hs|cc|lo|mi|pl|vs|vc|hi|ls|ge|lt|gt|le|al|nv)$/;

/** Reach of an arm64 mnemonic whose last operand is a pc-relative target, or null. */
function branchReach(mnemonic: string): Reach | null {
  if (mnemonic === 'b' || mnemonic === 'bl') return reachOf(128n * MIB);
  if (mnemonic === 'tbz' || mnemonic === 'tbnz') return reachOf(MIB / 32n);
  if (mnemonic === 'cbz' || mnemonic === 'cbnz' || CONDITIONAL.test(mnemonic)) return reachOf(MIB);
  return null;
}

/** Value of an operand that is a plain number, or null. */
function numberOf(operand: string): bigint | null {
  const match = /^#?(-?)(0x[0-9a-f]+|\d+)$/i.exec(operand.trim());
  if (!match) return null;
  const value = BigInt(match[2]!);
  return match[1] === '-' ? -value : value;
}

function refuse(line: number, text: string, cause: string, error?: unknown): ElftraceError {
  return new ElftraceError(
    'usage',
    `assembly line ${line}: '${text}': ${cause}`,
    { what: `assembly line ${line}`, actual: text },
    error === undefined ? {} : { cause: error },
  );
}

/** Splits into statements; quotes are respected, comments go. */
function statementsOf(text: string, machine: AssemblerMachine): Statement[] {
  const out: Statement[] = [];
  text.split('\n').forEach((full, index) => {
    const line = index + 1;
    let rest = '';
    let quoted = false;
    const parts: string[] = [];
    for (let i = 0; i < full.length; i++) {
      const char = full[i]!;
      if (quoted) {
        rest += char;
        if (char === '\\' && i + 1 < full.length) rest += full[++i]!;
        else if (char === '"') quoted = false;
        continue;
      }
      if (char === '"') quoted = true;
      if ((char === '/' && full[i + 1] === '/') || (char === '#' && machine === 'x86-64')) break;
      if (char === ';') {
        parts.push(rest);
        rest = '';
      } else rest += char;
    }
    parts.push(rest);
    if (quoted) throw refuse(line, full.trim(), 'a quote is not closed');
    for (const part of parts) {
      let body = part.trim();
      for (;;) {
        const label = /^([A-Za-z_.$][\w.$]*|\d+)\s*:/.exec(body);
        if (!label) break;
        if (/^\d/.test(label[1]!)) {
          throw refuse(line, body, 'numeric local labels are not supported, use a name');
        }
        out.push({ line, label: label[1]!, text: '' });
        body = body.slice(label[0].length).trim();
      }
      if (body !== '') out.push({ line, label: '', text: body });
    }
  });
  return out;
}

/** What the engine is given for a statement, or a refusal. */
function rewrite(statement: Statement, machine: AssemblerMachine, address: Address): string {
  const { line, text } = statement;
  const match = /^(\S+)\s*([^]*)$/.exec(text)!;
  const mnemonic = match[1]!.toLowerCase();
  const operands = match[2]!.trim();
  if (/\b\d+[bf]\b/.test(operands) && !operands.includes('"') && !/0x/i.test(operands)) {
    throw refuse(line, text, 'numeric local labels are not supported, use a name');
  }
  if (mnemonic.startsWith('.')) {
    if (mnemonic === '.inst' && machine === 'arm64') return `.word ${operands}`;
    if (!DIRECTIVES.has(mnemonic)) throw refuse(line, text, 'only directives that store data are supported');
    return text;
  }
  if (/^[\w.$]+\s*=/.test(text)) throw refuse(line, text, 'symbol assignments are not supported');
  if (machine === 'x86-64') {
    if (mnemonic === 'endbr64') return '.byte 0xf3, 0x0f, 0x1e, 0xfa';
    if (mnemonic === 'endbr32') return '.byte 0xf3, 0x0f, 0x1e, 0xfb';
    if (mnemonic === 'pushf' || mnemonic === 'popf') return `${mnemonic}q`;
    if (mnemonic === 'nop' && operands !== '') {
      throw refuse(line, text, 'the engine encodes a nop with an operand wrongly, write its bytes with .byte');
    }
    if (/^j/.test(mnemonic)) return `${mnemonic} ${operands.replace(/^short\s+/i, '')}`;
    return text;
  }
  const hint = HINTS[operands === '' ? mnemonic : `${mnemonic} ${operands.toLowerCase()}`];
  if (hint !== undefined) return `hint #${hint}`;
  const last = operands.slice(operands.lastIndexOf(',') + 1);
  const target = numberOf(last);
  if (mnemonic === 'adr' && target !== null) {
    throw refuse(line, text, 'the engine encodes adr to a number wrongly, use a label');
  }
  if (mnemonic === 'adrp' && target === null) {
    throw refuse(line, text, 'the engine encodes adrp to a label wrongly, use an address');
  }
  const reach = branchReach(mnemonic);
  if (reach && target !== null) {
    // The statement's own place is not known yet: the first address is, and the text is short (see
    // LIMIT_BYTES). A number is an address; a negative one does not mean a distance.
    if (target < 0n || !reaches({ ...reach, min: reach.min + LIMIT_BYTES }, address, target)) {
      throw refuse(line, text, `the target ${hex(target)} is out of reach from ${hex(address)} or not 4-aligned`);
    }
  }
  return text;
}

/** Longest text, so that every label is in reach of the shortest branch (tbz: 32 KiB). */
const LIMIT_BYTES = 16_384n;

function build(engine: KeystoneWasm.Keystone, machine: AssemblerMachine, symbolMissing: number): Assembler {
  let broken = false;
  const encode = (text: string, address: Address): Uint8Array | Error => {
    try {
      return engine.asm(text, { address });
    } catch (cause) {
      // Anything but the engine's own message is a trap of its code; its memory cannot be trusted
      // any more.
      if (!(cause instanceof Error) || !cause.message.startsWith('Failed to assemble')) broken = true;
      return cause instanceof Error ? cause : new Error(String(cause));
    }
  };
  const explain = (cause: Error): string => {
    const message = cause.message.replace(/^Failed to assemble, error: /, '').replace(/ \(KS_ERR_\w+\)$/, '');
    return message.startsWith('Unknown error') ? 'an operand is out of range or of the wrong kind' : message;
  };
  return {
    assemble(text, address) {
      if (broken) throw new ElftraceError('internal', 'the assembler engine failed earlier and cannot be used again');
      const statements = statementsOf(text, machine);
      const sent = statements.map((each) => (each.label === '' ? rewrite(each, machine, address) : `${each.label}:`));
      if (statements.length === 0) return new Uint8Array(0);
      const result = encode(sent.join('\n'), BigInt.asUintN(64, address));
      if (!(result instanceof Error)) {
        if (BigInt(result.length) > LIMIT_BYTES) {
          throw new ElftraceError('usage', `assembly of ${result.length} bytes is longer than ${LIMIT_BYTES}`);
        }
        for (const [i, { line, label, text: written }] of statements.entries()) {
          if (label !== '' || sent[i]!.startsWith('.')) continue;
          const alone = encode(sent[i]!, BigInt.asUintN(64, address));
          // An error here is a label of the text; nothing at all is an instruction that was left
          // out.
          if (!(alone instanceof Error) && alone.length === 0) {
            throw refuse(line, written, 'the engine gives no bytes for it, the operands may be unpredictable');
          }
        }
        return result;
      }
      // Each statement alone: the first that fails for another reason than a label of this text is
      // to blame.
      const labels = new Set(statements.map((each) => each.label));
      for (const [i, statement] of statements.entries()) {
        if (broken) break;
        if (statement.label !== '') continue;
        const alone = encode(sent[i]!, BigInt.asUintN(64, address));
        if (!(alone instanceof Error)) continue;
        const names = statement.text.match(/[A-Za-z_.$][\w.$]*/g) ?? [];
        if (engine.errNo() === symbolMissing && names.slice(1).some((name) => labels.has(name))) continue;
        throw refuse(statement.line, statement.text, explain(alone), alone);
      }
      throw new ElftraceError('usage', `the assembly text is refused: ${explain(result)}`, {}, { cause: result });
    },
  };
}

const loaded = new Map<AssemblerMachine, Promise<Assembler>>();

/** The package is under the GPL and comes only with those who install it. */
async function importEngine(): Promise<typeof KeystoneWasm> {
  try {
    return await import('keystone-wasm');
  } catch (cause) {
    const isAbsent =
      cause instanceof Error &&
      'code' in cause &&
      (cause.code === 'ERR_MODULE_NOT_FOUND' || cause.code === 'MODULE_NOT_FOUND') &&
      cause.message.includes("'keystone-wasm'");
    if (!isAbsent) throw cause;
    throw new ElftraceError(
      'unsupported-form',
      "text is assembled by the optional package keystone-wasm 1.0.4, which is not installed: 'npm install keystone-wasm@1.0.4' (it contains Keystone, GPL-2.0)",
      { reason: 'optional-package', value: 'keystone-wasm' },
      { cause },
    );
  }
}

async function loadEngine(machine: AssemblerMachine): Promise<Assembler> {
  const { Keystone: Engine, Const, loadKeystone } = await importEngine();
  await loadKeystone();
  const engine =
    machine === 'arm64'
      ? new Engine(Const.KS_ARCH_ARM64, Const.KS_MODE_LITTLE_ENDIAN)
      : new Engine(Const.KS_ARCH_X86, Const.KS_MODE_64);
  return build(engine, machine, Const.KS_ERR_ASM_SYMBOL_MISSING);
}

/**
 * The assembler of a machine. Loads the engine on first use; assembling is synchronous.
 * @throws ElftraceError 'unsupported-form' with the reason 'optional-package' where keystone-wasm
 *   is not installed
 */
export function loadAssembler(machine: AssemblerMachine): Promise<Assembler> {
  let promise = loaded.get(machine);
  if (promise === undefined) {
    promise = loadEngine(machine);
    loaded.set(machine, promise);
  }
  return promise;
}
