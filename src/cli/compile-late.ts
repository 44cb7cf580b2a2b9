/**
 * When V8 compiles what runs, and what it is told of it. Owns the settings of the engine that the
 * command line changes.
 *
 * V8 compiles a function with optimisation, in a thread beside, when it has executed so many bytes
 * of bytecode three times. Much that a short command executes is compiled for nothing: a twelfth of
 * the CPU time of programs that run for half a second, a fifth of that of 300 small modules. Loops
 * over one large file win at once, so other commands leave the setting alone.
 */
/** V8's own number in Node 20. */
const USUAL = 67_584;

/** Small files at first: each function runs a little for each of them. */
const LATE_FOR_FEW = 2_000_000;
/**
 * Thousands of small files. With several threads each compiles for itself and has a part of them.
 */
export const LATE_FOR_MANY = 450_000;
/** From so many milliseconds on files are many. */
const FEW_MS = 400;

/** The emulator, whose hot code is WebAssembly: what is left is code that makes it. */
export const LATE_FOR_PROGRAMS = 800_000;

const version = Number.parseInt(process.versions.v8, 10);
/**
 * Nothing is changed where the start of Node says something else, nor from V8 12 (Node 22) on: that
 * counts calls in place of bytes, has a compiler between, and complains of options that are gone.
 */
const isOurs = version <= 11 && !process.execArgv.some((argument) => argument.startsWith('--interrupt-budget'));

const setFlag = (flag: string): void => {
  process.getBuiltinModule('node:v8').setFlagsFromString(flag);
};

let currentBudget = USUAL;
let isExtended = false;

/** Compiles later than usual, until `compileAsUsual`. */
export function compileLate(budget: number): void {
  if (!isOurs) return;
  setFlag(`--interrupt-budget=${budget}`);
  currentBudget = budget;
}

export function compileAsUsual(): void {
  compileLate(USUAL);
}

/**
 * Compiles late while files of a command are worked on in turn.
 * @returns to be called after each
 */
export function compileLateForFiles(files: number): () => void {
  if (files < 2) return () => undefined;
  const begin = performance.now();
  let isEarly = true;
  compileLate(LATE_FOR_FEW);
  return () => {
    if (!isEarly || performance.now() - begin <= FEW_MS) return;
    compileLate(LATE_FOR_MANY);
    isEarly = false;
  };
}

/**
 * What the emulator's code makes use of where the engine has it, of WebAssembly: which branches are
 * rarely taken, so that V8 keeps registers for the others (programs of floating point take 5 to 8 %
 * less; from V8 14, Node 26, on it does so by itself), and multiplying and adding in one rounding
 * (`emulator/fused.ts`; from V8 12, Node 22, on).
 */
export function extendWebAssembly(): void {
  isExtended = true;
  if (version <= 13) setFlag('--experimental-wasm-branch-hinting');
  if (version <= 11) setFlag('--experimental-wasm-relaxed-simd');
}

/**
 * Takes back what was set here: V8 makes code only for the options that it has at the time, and the
 * next start begins without these.
 */
export function engineAsUsual(): void {
  compileAsUsual();
  if (version <= 13) setFlag('--no-experimental-wasm-branch-hinting');
  if (version <= 11) setFlag('--no-experimental-wasm-relaxed-simd');
}

/** Performs something with the options that V8 had at first: it takes code for no others. */
export function withUsualEngine<T>(act: () => T): T {
  const budget = currentBudget;
  if (budget === USUAL && !isExtended) return act();
  engineAsUsual();
  try {
    return act();
  } finally {
    compileLate(budget);
    if (isExtended) extendWebAssembly();
  }
}
