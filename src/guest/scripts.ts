/**
 * Scripts: a file that begins with `#!` is executed by the program which its first line names, with
 * the file as an argument. That program may be a script in turn.
 *
 *   #!/bin/sh -e         executed as ./name with the arguments a, b:   /bin/sh -e ./name a b
 *
 * Source: Linux, execve(2); what lines mean by experiment.
 */
import type { Errno } from './errno.js';
import type { FileSystem } from './files.js';
import { textOf } from '../bytes.js';

/** Bytes of the first line that are looked at; scripts one behind the other. */
const LINE_BYTES = 255;
const SCRIPTS_MOST = 5;
/** Most bytes of a program, a script or a loader. */
const PROGRAM_MOST = 0x2000_0000;

const [NUL, TAB, NEWLINE, SPACE] = [0, 9, 10, 32];

/** A file that may be executed, and where it is in the tree: `/proc/self/exe` leads there. */
export interface ExecutableFile {
  readonly path: string;
  readonly bytes: Uint8Array;
}

/** What the first line of a script names. */
interface ScriptLine {
  readonly interpreter: string;
  /** All that stands behind the interpreter; null: nothing. */
  readonly argument: string | null;
}

/** A file of the tree that may be executed; `path`: where it is there. */
export function executableFile(files: FileSystem, path: string): ExecutableFile | Errno {
  const status = files.status(path, true);
  if (typeof status === 'string') return status;
  if (status.kind !== 'file' || (status.permissions & 0o100) === 0) return 'EACCES';
  if (status.sizeBytes > PROGRAM_MOST) return 'ENOMEM';
  const file = files.open(path);
  if (typeof file === 'string') return file;
  try {
    return { path, bytes: file.read(0, PROGRAM_MOST) };
  } finally {
    file.close();
  }
}

export const isScript = (bytes: Uint8Array): boolean => bytes[0] === 0x23 && bytes[1] === 0x21;

/**
 * The first line of a script. Spaces and tabs part its words; a zero ends it, as does the end of
 * what is looked at, but not within the name of the interpreter. Of a file that ends before its
 * line does the name may be empty, which is the current directory.
 */
function scriptLine(bytes: Uint8Array): ScriptLine | 'ENOEXEC' {
  const line = bytes.subarray(2, LINE_BYTES);
  const isCut = bytes.length > LINE_BYTES && !line.includes(NEWLINE) && !line.includes(NUL);
  const ends = [NEWLINE, NUL].map((end) => line.indexOf(end)).filter((at) => at >= 0);
  const end = Math.min(line.length, ...ends);
  const isBlank = (at: number): boolean => line[at] === SPACE || line[at] === TAB;
  const skip = (from: number, blank: boolean): number => {
    let at = from;
    while (at < end && isBlank(at) === blank) at++;
    return at;
  };
  const start = skip(0, true);
  const behind = skip(start, false);
  if ((start === end && line[end] === NEWLINE) || (isCut && behind === end)) return 'ENOEXEC';
  const argument = skip(behind, true);
  let last = end;
  while (last > argument && isBlank(last - 1)) last--;
  const text = (from: number, to: number): string => textOf(line.subarray(from, to));
  return { interpreter: text(start, behind), argument: argument < last ? text(argument, last) : null };
}

/**
 * The program that is executed in place of a file, through the interpreters of scripts.
 * @param name  how the file was called: what its interpreter is given
 * @param args  with the name that the caller gave first, which interpreters do not see
 * @param open  a file that may be executed, by its name
 */
export function throughScripts(
  first: ExecutableFile,
  name: string,
  args: readonly string[],
  open: (name: string) => ExecutableFile | Errno,
): { readonly file: ExecutableFile; readonly args: readonly string[] } | Errno {
  let [file, called, given] = [first, name, args];
  for (let scripts = 0; isScript(file.bytes); scripts++) {
    if (scripts === SCRIPTS_MOST) return 'ELOOP';
    const line = scriptLine(file.bytes);
    if (typeof line === 'string') return line;
    const { interpreter, argument } = line;
    given = [interpreter, ...(argument === null ? [] : [argument]), called, ...given.slice(1)];
    called = interpreter;
    const found = open(interpreter);
    if (typeof found === 'string') return found;
    file = found;
  }
  return { file, args: given };
}
