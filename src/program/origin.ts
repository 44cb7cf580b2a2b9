/**
 * Whether an image is of a kernel or of user space, told by what only one of them has: notes and
 * sections that the kernel's build makes, the dynamic linker, thread-local storage, addresses.
 */
import { ET_REL, PT_DYNAMIC, PT_INTERP, PT_LOAD, PT_TLS, SHF_TLS } from '../elf/constants.js';
import type { Program } from './program.js';

export type OriginKind = 'kernel' | 'user';

export interface Origin {
  readonly kind: OriginKind;
  /** What tells so, as it goes on behind "for it …". */
  readonly reason: string;
}

/** NT_GNU_ABI_TAG of notes of GNU: the C library's start-up code brings it. */
const ABI_TAG = 1;

/** Sections that the kernel's headers and linker scripts name, and no compiler does. */
const kernelSections = [
  '__ksymtab',
  '__ksymtab_gpl',
  '__ksymtab_strings',
  '.export_symbol',
  '__param',
  '__bug_table',
  '__ex_table',
  '.init.text',
  '.altinstructions',
  '.data..percpu',
  '.smp_locks',
  '.discard.addressable',
];

function ofKernel({ image, isModule, loadMap }: Program): string | null {
  if (isModule) return 'is a kernel module';
  if (loadMap?.base === 'kernel') return 'was loaded as a kernel';
  if (image.notes().some(({ owner }) => owner === 'Linux')) return "has a note of the kernel's build (Linux)";
  const section = kernelSections.find((name) => image.section(name) !== undefined);
  return section === undefined ? null : `has the section ${section}, which kernels have`;
}

/** Of what no other mark was found in. */
function byAddress({ image, arch }: Program): Origin | null {
  if (image.header.type === ET_REL || arch.loader.kind === 'none') return null;
  const base = arch.loader.bases('kernel', {}).core;
  const loaded = image.segments.filter(({ type, memorySize }) => type === PT_LOAD && memorySize > 0n);
  if (loaded.length === 0) return null;
  const high = loaded.filter(({ address }) => address >= base).length;
  if (high === loaded.length) return { kind: 'kernel', reason: 'is linked to addresses of the kernel' };
  return high > 0 ? null : { kind: 'user', reason: 'is linked to addresses of user space' };
}

/**
 * Null where nothing tells: an object that is still to be linked may become part of either.
 * @throws ElftraceError 'malformed', 'truncated' of damaged notes
 */
export function originOf(program: Program): Origin | null {
  const { image, loadMap } = program;
  const user = (reason: string): Origin => ({ kind: 'user', reason });
  const segment = (wanted: number): boolean => image.segments.some(({ type }) => type === wanted);
  if (segment(PT_INTERP)) return user('names a dynamic linker (PT_INTERP)');
  const kernel = ofKernel(program);
  if (kernel !== null) return { kind: 'kernel', reason: kernel };
  if (loadMap?.base === 'user') return user('was loaded as a program');
  if (image.notes().some(({ owner, type }) => owner === 'GNU' && type === ABI_TAG)) {
    return user('has the note of the C library (ABI tag)');
  }
  if (segment(PT_TLS) || image.sections.some(({ flags }) => (flags & SHF_TLS) !== 0n)) {
    return user('has thread-local storage');
  }
  if (segment(PT_DYNAMIC)) return user('is for the dynamic linker (PT_DYNAMIC)');
  return byAddress(program);
}
