/**
 * `elftrace why FUNCTION IMAGE…`: by what a function can be traced, and where it cannot, why. BTF
 * of modules is read with that of the kernel among the images.
 */
import { comparedImage } from '../diff/index.js';
import { type Btf, btfKind, readBtf } from '../elf/btf.js';
import { SHN_UNDEF, STB_GLOBAL } from '../elf/constants.js';
import { DebugInfo, isBadDebugInfo } from '../elf/dwarf.js';
import type { ElfImage } from '../elf/image.js';
import { readElf } from '../elf/read.js';
import { ElftraceError } from '../errors.js';
import { jsonSchema } from '../report/json.js';
import { whyJson, whyLines } from '../report/why.js';
import { type KernelProbes, kernelProbes, type Mechanism, whyFunction, type WhyFunction } from '../why/index.js';
import { errorLine, exitCodeOf, exitCodes } from './exit.js';
import { expandPaths, type InputFile, looksLikeElf, readInputs } from './files.js';
import { commandDeadline, commandLimits } from './limits.js';
import { open, type OpenOptions } from './open.js';
import { progress } from './progress.js';
import { portions, unpackedAhead } from './system-unpack.js';
import { err, out } from './terminal.js';
import { worst } from './verify.js';

export interface WhyArguments extends OpenOptions {
  readonly function: string;
  readonly files: readonly string[];
  readonly by: readonly Mechanism[];
  /** Programs of the system may unpack. */
  readonly systemUnpack: boolean;
  readonly json: boolean;
}

/** What the images know of each other. */
interface Surroundings {
  /** Of the first linked image that has one. */
  btf: Btf | null;
  /** Of the first kernel. */
  kernel: KernelProbes | null;
  /** Files that define the function, and not as a weak one. */
  readonly strong: Set<string>;
}

function lookAround(image: ElfImage, file: string, name: string, around: Surroundings): void {
  const { symbols } = image;
  const index = symbols.find(name);
  if (index > 0 && symbols.sectionIndex[index] !== SHN_UNDEF && symbols.info[index]! >>> 4 === STB_GLOBAL) {
    around.strong.add(file);
  }
  around.kernel ??= kernelProbes(image);
  if (around.btf === null && btfKind(image) === 'whole' && image.segments.length > 0) around.btf = readBtf(image);
}

/** Debugging information costs seconds: it is read where a function has no symbol. */
async function inlinedIn(image: ElfImage): Promise<DebugInfo | null> {
  try {
    return await DebugInfo.read(image, { ...commandLimits(), deadline: commandDeadline() });
  } catch (error) {
    if (!isBadDebugInfo(error)) throw error;
    return null;
  }
}

async function answersOf(input: InputFile, args: WhyArguments, around: Surroundings): Promise<WhyFunction[]> {
  const { sites, image } = await open(input, args, 'read');
  if (!sites.program.namesFunctions) {
    throw new ElftraceError(
      'bad-reference',
      `${input.name} has no symbols of its functions: name some with --symbols`,
      {
        file: input.name,
        reason: 'no-symbols',
      },
    );
  }
  const compared = comparedImage(sites);
  const kind = btfKind(image);
  const options = {
    btf:
      kind === 'whole' ? readBtf(image) : kind === 'split' && around.btf !== null ? readBtf(image, around.btf) : null,
    kernel: around.kernel,
    isStrongElsewhere: () => [...around.strong].some((file) => file !== input.name),
  };
  const found = whyFunction(compared, args.function, options);
  if (found[0]?.by.ftrace.code !== 'no-symbol') return found;
  const debug = await inlinedIn(image);
  return debug === null ? found : whyFunction(compared, args.function, { ...options, debug });
}

/** Every ELF file of the arguments; what cannot be read is said, and the others go on. */
async function eachInput(
  args: WhyArguments,
  codes: number[],
  work: (input: InputFile) => Promise<void>,
): Promise<void> {
  const failed = (name: string, error: unknown): void => {
    if (error instanceof ElftraceError && error.code === 'timeout') throw error;
    err(errorLine(error, name));
    codes.push(exitCodeOf(error));
  };
  const each = async (path: string): Promise<void> => {
    for await (const input of readInputs(path)) {
      try {
        await work(input);
      } catch (error) {
        failed(input.name, error);
      }
    }
  };
  const all = portions(expandPaths(args.files, failed), 1, args.systemUnpack);
  for await (const portion of unpackedAhead(all, (paths) => paths)) {
    for (const path of portion) {
      await each(path).catch((error: unknown) => {
        failed(path, error);
      });
      progress(`why ${path}`);
    }
  }
}

export async function runWhy(args: WhyArguments): Promise<number> {
  const around: Surroundings = { btf: null, kernel: null, strong: new Set() };
  await eachInput(args, [], (input) => {
    // What cannot be read is said when it is asked.
    if (looksLikeElf(input.bytes)) lookAround(readElf(input.bytes), input.name, args.function, around);
    return Promise.resolve();
  }).catch((error: unknown) => {
    if (!(error instanceof ElftraceError)) throw error;
  });
  const codes: number[] = [];
  const absent: { readonly name: string; readonly found: readonly WhyFunction[] }[] = [];
  let isTraced = false;
  let hasAny = false;
  const say = (name: string, found: readonly WhyFunction[]): void => {
    if (args.json) out(JSON.stringify({ schema: jsonSchema, file: name, functions: found.map(whyJson) }));
    else for (const each of found) for (const line of whyLines(name, each)) out(line);
  };
  await eachInput(args, codes, async (input) => {
    const found = await answersOf(input, args, around);
    if (found.every(({ by }) => by.ftrace.code === 'no-symbol')) {
      absent.push({ name: input.name, found });
      return;
    }
    hasAny = true;
    isTraced ||= found.some(({ by }) => args.by.every((each) => by[each].answer === 'yes'));
    say(input.name, found);
  });
  // Of many files most do not have the function.
  if (!hasAny) for (const { name, found } of absent) say(name, found);
  if (codes.length > 0) return worst(codes);
  return isTraced ? exitCodes.ok : exitCodes.failed;
}
