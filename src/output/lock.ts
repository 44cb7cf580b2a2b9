/**
 * One writer for a file at a time. The lock is a file beside the output that says who holds it; a
 * holder that died does not hold it any more.
 *
 * Making the lock is a link of a complete file to its name, which only one process can do. Taking
 * the lock of a dead holder over is the same trick once more: the lock's word (`nonce`) is part of
 * the name of a claim, so that one process alone may remove the lock, and it looks again once it
 * has the claim. A claim whose owner died is claimed in the same way.
 */
import * as fs from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { ElftraceError } from '../errors.js';

interface Holder {
  readonly pid: number;
  /** When the process began, in the kernel's ticks: numbers of processes are used again. */
  readonly began: string;
  readonly host: string;
  /** Which numbering of processes `pid` belongs to: a boot of the kernel and a PID namespace. */
  readonly numbering: string;
  readonly nonce: string;
}

export interface Lock {
  readonly release: () => void;
}

/** Longest name that leaves room for what stands around it: file systems allow 255 bytes. */
const LONGEST_NAME = 180;

/**
 * What temporary files and locks of an output begin with: hidden, and told from every other
 * output's.
 */
export function prefixOf(output: string): string {
  const name = basename(output);
  const short = Buffer.byteLength(name) <= LONGEST_NAME;
  return `.${short ? name : process.getBuiltinModule('node:crypto').createHash('sha256').update(name).digest('hex')}.elftrace-`;
}

function textOf(path: string): string | null {
  try {
    return fs.readFileSync(path, 'utf8');
  } catch {
    return null;
  }
}

/** Field 22 of /proc/PID/stat, counted behind the name, which may hold anything. */
function beginOf(pid: number): string {
  const stat = textOf(`/proc/${pid}/stat`);
  return stat === null ? '' : (stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19] ?? '');
}

function numbering(): string {
  let namespace = '';
  try {
    namespace = fs.readlinkSync('/proc/self/ns/pid');
  } catch {
    // Not Linux: the host alone tells.
  }
  return `${(textOf('/proc/sys/kernel/random/boot_id') ?? '').trim()} ${namespace}`;
}

const hostName = (): string => process.getBuiltinModule('node:os').hostname();

let known: Omit<Holder, 'nonce'> | null = null;

function ourselves(): Holder {
  known ??= { pid: process.pid, began: beginOf(process.pid), host: hostName(), numbering: numbering() };
  return { ...known, nonce: process.getBuiltinModule('node:crypto').randomBytes(8).toString('hex') };
}

function holderOf(path: string): Holder | null {
  const text = textOf(path);
  if (text === null) return null;
  try {
    const { pid, began, host, numbering, nonce } = JSON.parse(text) as Partial<Holder>;
    if (Number.isSafeInteger(pid) && typeof nonce === 'string' && /^[0-9a-f]{16}$/.test(nonce)) {
      return { pid: pid!, began: String(began), host: String(host), numbering: String(numbering), nonce };
    }
  } catch {
    // Not ours.
  }
  throw new ElftraceError('output-busy', `${path} is no lock of elftrace: remove it if nobody needs it`, {
    file: path,
  });
}

/**
 * Whether the holder is gone for certain. Processes of other hosts and containers cannot be asked.
 */
function isDead(holder: Holder, here: Holder): boolean {
  if (holder.host !== here.host) return false;
  const [boot, namespace] = holder.numbering.split(' ');
  const [ownBoot, ownNamespace] = here.numbering.split(' ');
  if (boot !== ownBoot) return true;
  if (namespace !== ownNamespace) return false;
  if (!exists(holder.pid)) return true;
  const began = beginOf(holder.pid);
  return holder.began !== '' && began !== '' && began !== holder.began;
}

function exists(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return !(error instanceof Error && 'code' in error && error.code === 'ESRCH');
  }
}

/** Whether a name behind `prefixOf` is of a file that a process was making when it died. */
export function isLeftOfLock(word: string): boolean {
  const pid = /\.(\d+)-[0-9a-f]{16}\.tmp$/.exec(word)?.[1];
  return pid !== undefined && !exists(Number(pid));
}

/** Makes the file with its contents in one step. False when the name is taken. */
function create(path: string, holder: Holder): boolean {
  const made = `${path}.${holder.pid}-${holder.nonce}.tmp`;
  try {
    fs.writeFileSync(made, JSON.stringify(holder), { flag: 'wx', mode: 0o600 });
    fs.linkSync(made, path);
    return true;
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'EEXIST') return false;
    throw error;
  } finally {
    fs.rmSync(made, { force: true });
  }
}

/**
 * Removes a file whose holder is dead, if it is still that holder's.
 * @param base  path that claims are named after
 */
function removeDead(path: string, dead: Holder, base: string, us: Holder): void {
  const claim = `${base}.claim-${dead.nonce}`;
  while (!create(claim, us)) {
    const other = holderOf(claim);
    if (other === null) return;
    if (!isDead(other, us)) throw busy(path, other);
    removeDead(claim, other, base, us);
  }
  if (holderOf(path)?.nonce === dead.nonce) fs.rmSync(path, { force: true });
  fs.rmSync(claim, { force: true });
}

function busy(path: string, { pid, host }: Holder): ElftraceError {
  const where = host === hostName() ? '' : ` on ${host}`;
  const text = `process ${pid}${where} is writing this output (lock ${path}); nothing was written`;
  return new ElftraceError('output-busy', text, { file: path });
}

/**
 * Takes the lock of an output, or says who has it.
 * @param output  a path behind all links
 * @throws ElftraceError 'output-busy'
 */
export function takeLock(output: string): Lock {
  const path = join(dirname(output), `${prefixOf(output)}lock`);
  const us = ourselves();
  while (!create(path, us)) {
    const other = holderOf(path);
    if (other === null) continue;
    if (!isDead(other, us)) throw busy(path, other);
    removeDead(path, other, path, us);
  }
  return {
    release: () => {
      fs.rmSync(path, { force: true });
    },
  };
}
