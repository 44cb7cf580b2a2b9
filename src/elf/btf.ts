/**
 * Which functions BTF describes: what fentry programs of BPF attach by. Reads names of functions
 * only. The format is that of the kernel's Documentation/bpf/btf.rst, sections 2 and 4.
 *
 * BTF of a module goes on where that of its kernel ends, in types and in strings, and cannot be
 * read without it, unless the module carries what it needs (`.BTF.base`).
 */
import { ByteView, cString } from '../bytes.js';
import { malformed } from '../errors.js';
import { ET_REL } from './constants.js';
import type { ElfImage, ElfSection } from './image.js';

const MAGIC = 0xeb9f;
const HEADER_BYTES = 24;
const KIND_FUNC = 12;
const MOST_KIND = 19;

/** Bytes behind the 12 that each type has: fixed ones, and ones for each member. */
const MORE_BYTES: readonly (readonly [fixed: number, each: number])[] = [
  [0, 0], // void
  [4, 0], // int
  [0, 0], // pointer
  [12, 0], // array
  [0, 12], // struct
  [0, 12], // union
  [0, 8], // enum
  [0, 0], // forward
  [0, 0], // typedef
  [0, 0], // volatile
  [0, 0], // const
  [0, 0], // restrict
  [0, 0], // func
  [0, 8], // function prototype
  [4, 0], // variable
  [0, 12], // data section
  [0, 0], // float
  [4, 0], // declaration tag
  [0, 0], // type tag
  [0, 12], // 64-bit enum
];

/** The functions of a BTF section, and where its strings end, for those that go on behind it. */
export interface Btf {
  readonly functions: ReadonlySet<string>;
  readonly stringsEnd: number;
  /** String at an offset, those of the base included; '' for none. */
  readonly string: (offset: number) => string;
}

/** `whole`: on its own; `split`: goes on behind that of the kernel. */
export type BtfKind = 'none' | 'whole' | 'split';

/**
 * Whether an image has BTF, and whether it can be read alone. A module's is split, unless the image
 * brings its base along.
 */
export function btfKind(image: ElfImage): BtfKind {
  if (image.section('.BTF') === undefined) return 'none';
  const isModule = image.header.type === ET_REL && image.section('.modinfo') !== undefined;
  return isModule && image.section('.BTF.base') === undefined ? 'split' : 'whole';
}

/**
 * Reads the BTF of an image.
 * @param base  that of the kernel, for a module
 * @returns null where the image has none
 * @throws ElftraceError 'elf-malformed', 'elf-truncated'
 */
export function readBtf(image: ElfImage, base: Btf | null = null): Btf | null {
  const section = image.section('.BTF');
  if (section === undefined) return null;
  const own = image.section('.BTF.base');
  return parse(image, section, own === undefined ? base : parse(image, own, null));
}

function parse(image: ElfImage, section: ElfSection, base: Btf | null): Btf {
  const { name } = section;
  const bytes = image.contents(section);
  const view = new ByteView(bytes, image.header.endian, name);
  if (view.u16(0) !== MAGIC) throw malformed(`${name}: magic`, 'not that of BTF', { value: view.u16(0) });
  const headerBytes = view.u32(4);
  if (headerBytes < HEADER_BYTES) throw malformed(`${name}: hdr_len`, 'too short', { value: headerBytes });
  const [types, typeBytes] = [headerBytes + view.u32(8), view.u32(12)];
  const [strings, stringBytes] = [headerBytes + view.u32(16), view.u32(20)];
  if (types + typeBytes > bytes.length || strings + stringBytes > bytes.length) {
    throw malformed(`${name}: header`, 'types or strings end behind the section');
  }
  const before = base?.stringsEnd ?? 0;
  const string = (offset: number): string => {
    if (offset < before) return base?.string(offset) ?? '';
    const at = offset - before;
    return at < stringBytes ? cString(bytes, strings + at, strings + stringBytes) : '';
  };
  const functions = new Set<string>();
  for (let at = types; at < types + typeBytes;) {
    const info = view.u32(at + 4);
    const kind = (info >>> 24) & 0x1f;
    const more = MORE_BYTES[kind];
    if (kind === 0 || kind > MOST_KIND || more === undefined) {
      throw malformed(`${name}: kind of a type`, 'not known', { value: kind });
    }
    if (kind === KIND_FUNC) functions.add(string(view.u32(at)));
    at += 12 + more[0] + more[1] * (info & 0xffff);
  }
  return { functions, stringsEnd: before + stringBytes, string };
}
