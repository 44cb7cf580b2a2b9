/** What functions and threads are called where people read it. */
import { demangle } from '../demangle/index.js';
import { visibleJson } from '../visible.js';
import type { NativeFunction } from './objects.js';
import type { TraceThread } from './trace.js';

/** JSON of text that comes from files. Applied to the text alone: events are many. */
export const foreign = (value: unknown): string => visibleJson(JSON.stringify(value));

export const baseOf = (path: string): string => path.slice(path.lastIndexOf('/') + 1);

/** The name as it was written, where the symbol is one of C++ or Rust. */
export const titleOf = ({ name }: NativeFunction): string => demangle(name) ?? name;

/** The same with the library that it is in, as kernels name the module of a function. */
export function titleInObject(called: NativeFunction): string {
  return called.isProgram ? titleOf(called) : `${titleOf(called)} [${baseOf(called.object)}]`;
}

export const threadTitle = ({ header }: TraceThread): string =>
  header.threadName === '' ? `thread ${header.thread}` : header.threadName;

/** What is made once for each function, by its index. */
export function perFunction<T>(make: (called: NativeFunction) => T): (called: NativeFunction) => T {
  const made: (T | undefined)[] = [];
  return (called) => (made[called.index] ??= make(called));
}
