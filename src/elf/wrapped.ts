/**
 * Kernels as they are booted: an ELF file inside of what a boot loader reads. Recognised by the
 * headers that Linux documents (Documentation/arch/x86/boot.rst, arch/arm64/booting.rst,
 * arch/riscv/boot-image-header.rst) and that its EFI stub, its PowerPC wrapper and U-Boot write.
 * What has no ELF file inside is named.
 */
import { ByteView } from '../bytes.js';
import { ElftraceError, malformed, truncated } from '../errors.js';
import { defaultLimits } from '../limits/index.js';
import { unpack, type UnpackLimits } from './compressed.js';
import { EM_PPC, EM_PPC64, ET_DYN, ET_EXEC } from './constants.js';
import { LZ4_LEGACY_MAGIC, unpackLz4Legacy } from './lz4.js';
import { isElf, readElf } from './read.js';

export interface UnwrappedKernel {
  /** What was around the ELF file, the outermost first: `bzImage`, `xz`. */
  readonly layers: readonly string[];
  /**
   * The ELF file, and what follows it in the payload (a relocatable x86 kernel has its relocations
   * there).
   */
  readonly bytes: Uint8Array;
}

/**
 * A compressed kernel in a wrapper in an image of U-Boot in a unified image: no real file is
 * deeper.
 */
const MOST_LAYERS = 6;

/** A recognised layer: what it is, and what is inside. */
interface Layer {
  readonly name: string;
  /** null: it holds no file of its own. */
  readonly payload: Uint8Array | null;
  /** Unpacked size that stands behind the payload. */
  readonly promised?: number | null;
  /** What can be done, where it has no payload. */
  readonly advice?: string;
}

type Recognise = (bytes: Uint8Array) => Layer | null;

const has = (bytes: Uint8Array, at: number, magic: string | readonly number[]): boolean =>
  [...magic].every((each, i) => bytes[at + i] === (typeof each === 'string' ? each.charCodeAt(0) : each));

function part(bytes: Uint8Array, what: string, at: number, size: number): Uint8Array {
  if (at + size > bytes.length) throw truncated(`${what}: payload`, at, size, bytes.length);
  return bytes.subarray(at, at + size);
}

/** Formats that Linux's build appends the unpacked size to; gzip data end with it anyway. */
function sized(name: string, data: Uint8Array): Layer {
  if (compressionOf(data) === 'gzip' || compressionOf(data) === null) return { name, payload: data };
  if (data.length < 4) throw truncated(`${name}: payload`, 0, 4, data.length);
  const promised = new ByteView(data, 'little', name).u32(data.length - 4);
  return { name, payload: data.subarray(0, data.length - 4), promised };
}

/** The setup header of x86: `HdrS`, payload_offset and payload_length since protocol 2.08. */
function bzImage(bytes: Uint8Array): Layer | null {
  if (!has(bytes, 0x202, 'HdrS') || !has(bytes, 0x1fe, [0x55, 0xaa])) return null;
  const view = new ByteView(bytes, 'little', 'bzImage');
  if (view.u16(0x206) < 0x208) {
    return { name: 'bzImage', payload: null, advice: 'its boot protocol is older than 2.08 and does not say where' };
  }
  const setup = ((bytes[0x1f1] === 0 ? 4 : bytes[0x1f1]!) + 1) * 512;
  return sized('bzImage', part(bytes, 'bzImage', setup + view.u32(0x248), view.u32(0x24c)));
}

/**
 * The decompressor of the EFI stub: `MZ`, `zimg`, offset and size of the payload, the name of its
 * compression.
 */
function efiZboot(bytes: Uint8Array): Layer | null {
  if (!has(bytes, 0, 'MZ') || !has(bytes, 4, 'zimg')) return null;
  const view = new ByteView(bytes, 'little', 'EFI zboot');
  // The size that stands behind the payload is not counted.
  return { name: 'EFI zboot', payload: part(bytes, 'EFI zboot', view.u32(8), view.u32(12)) };
}

/** A PE file with sections `.linux` and `.initrd`, as ukify makes them. */
function unifiedImage(bytes: Uint8Array): Layer | null {
  if (!has(bytes, 0, 'MZ') || bytes.length < 0x40) return null;
  const view = new ByteView(bytes, 'little', 'PE file');
  const header = view.u32(0x3c);
  if (header + 24 > bytes.length || !has(bytes, header, 'PE\0\0')) return null;
  const table = header + 24 + view.u16(header + 20);
  const count = view.u16(header + 6);
  for (let i = 0; i < count && table + (i + 1) * 40 <= bytes.length; i++) {
    const at = table + i * 40;
    if (!has(bytes, at, '.linux\0')) continue;
    const size = Math.min(view.u32(at + 8), view.u32(at + 16));
    return { name: 'unified kernel image', payload: part(bytes, 'unified kernel image', view.u32(at + 20), size) };
  }
  return null;
}

/** Flat images of code, by the magic in their headers. */
function flatImage(bytes: Uint8Array): Layer | null {
  const advice = 'it is the memory of the kernel, without sections and symbols: give the vmlinux it was made of';
  const named = (name: string): Layer => ({ name, payload: null, advice });
  if (has(bytes, 0x38, 'ARM\x64')) return named('arm64 Image');
  if (has(bytes, 0x30, 'RISCV\0\0\0') && has(bytes, 0x38, 'RSC\x05')) return named('RISC-V Image');
  if (has(bytes, 0x24, [0x18, 0x28, 0x6f, 0x01])) return named('ARM zImage');
  if (has(bytes, 0, 'MZ') && has(bytes, 0x38, [0xcd, 0x23, 0x82, 0x81])) return named('EFI kernel image');
  return null;
}

/** The wrapper of PowerPC: an ELF file that boots and unpacks what is in a section of this name. */
function powerPcWrapper(bytes: Uint8Array): Layer | null {
  if (!isElf(bytes)) return null;
  const little = bytes[5] === 1;
  const type = bytes.length < 18 ? 0 : little ? bytes[16]! : bytes[17]!;
  if (type !== ET_EXEC && type !== ET_DYN) return null;
  // Others are read once, by the reader that opens them.
  const machine = bytes.length < 20 ? 0 : little ? bytes[18]! | (bytes[19]! << 8) : (bytes[18]! << 8) | bytes[19]!;
  if (machine !== EM_PPC && machine !== EM_PPC64) return null;
  let image;
  try {
    image = readElf(bytes);
  } catch (error) {
    // The reader that opens it says what is wrong.
    if (error instanceof ElftraceError) return null;
    throw error;
  }
  const section = image.section('.kernel:vmlinux.strip');
  return section ? { name: 'zImage', payload: image.contents(section) } : null;
}

/** Compression of a legacy U-Boot image, ih_comp. */
function uBootImage(bytes: Uint8Array): Layer | null {
  if (has(bytes, 0, [0xd0, 0x0d, 0xfe, 0xed])) {
    return {
      name: 'device tree or FIT image',
      payload: null,
      advice: 'take the kernel out of it with dumpimage of u-boot-tools',
    };
  }
  if (!has(bytes, 0, [0x27, 0x05, 0x19, 0x56]) || bytes.length < 64) return null;
  const view = new ByteView(bytes, 'big', 'uImage');
  return { name: 'uImage', payload: part(bytes, 'uImage', 64, view.u32(12)) };
}

const recognisers: readonly Recognise[] = [bzImage, efiZboot, unifiedImage, flatImage, powerPcWrapper, uBootImage];

const compressions: readonly (readonly [name: string, magic: readonly number[]])[] = [
  ['gzip', [0x1f, 0x8b]],
  ['xz', [0xfd, 0x37, 0x7a, 0x58, 0x5a, 0]],
  ['zstd', [0x28, 0xb5, 0x2f, 0xfd]],
  ['lz4', LZ4_LEGACY_MAGIC],
  // Of the tool today; kernels cannot unpack it.
  ['lz4 frame', [0x04, 0x22, 0x4d, 0x18]],
  ['bzip2', [0x42, 0x5a, 0x68]],
  ['lzma', [0x5d, 0, 0]],
  ['lzo', [0x89, 0x4c, 0x5a, 0x4f, 0, 0x0d, 0x0a, 0x1a, 0x0a]],
];

/** By its first bytes; null: none that is known. */
function compressionOf(bytes: Uint8Array): string | null {
  return compressions.find(([, magic]) => has(bytes, 0, magic))?.[0] ?? null;
}

const unsupported = (message: string, reason: string, layers: readonly string[]): ElftraceError =>
  new ElftraceError('unsupported-form', message, { reason, actual: layers.join(', ') });

async function unpacked(bytes: Uint8Array, layers: readonly string[], limits: UnpackLimits): Promise<Uint8Array> {
  const form = layers.at(-1)!;
  const plain = async (data: Uint8Array): Promise<Uint8Array> => (await unpack(data, limits)).bytes;
  switch (form) {
    case 'lz4':
      return unpackLz4Legacy(bytes, limits.unpacked ?? defaultLimits.unpacked);
    case 'xz': {
      const { withoutBranchFilter } = await import('./xz-filters.js');
      const filtered = withoutBranchFilter(bytes);
      if (filtered === null) return plain(bytes);
      const out = await plain(filtered.bytes);
      filtered.restore(out);
      return out;
    }
    case 'gzip':
    case 'zstd':
      return plain(bytes);
    default:
      throw unsupported(
        `${layers.join(', ')}: ${form} is not unpacked here; take the vmlinux out with scripts/extract-vmlinux of the kernel`,
        'wrapped-compression',
        layers,
      );
  }
}

/**
 * The ELF file inside of a kernel as it is booted; compressed ELF files that `unpack` has no form
 * for too.
 * @param bytes  unpacked, if they were compressed as a whole
 * @returns null when nothing of that kind is recognised: an ELF file itself, or something else
 * @throws ElftraceError 'unsupported-form' with the reason 'wrapped-flat' (no ELF file inside),
 *   'wrapped-payload' (nothing known
 *         inside), 'wrapped-compression' (not unpacked here) and all layers in `actual`;
 *         'elf-truncated', 'elf-malformed' where headers or data are damaged; 'limit-exceeded' and
 *         'timeout' as `unpack`
 */
export async function unwrapKernel(bytes: Uint8Array, limits: UnpackLimits = {}): Promise<UnwrappedKernel | null> {
  const layers: string[] = [];
  let inside = bytes;
  while (layers.length < MOST_LAYERS) {
    let layer: Layer | null = null;
    for (const recognise of recognisers) layer ??= recognise(inside);
    if (layer !== null) {
      layers.push(layer.name);
      if (layer.payload === null) {
        throw unsupported(`${layers.join(', ')}: no ELF file is inside; ${layer.advice ?? ''}`, 'wrapped-flat', layers);
      }
      inside = layer.payload;
    }
    const form = isElf(inside) ? null : compressionOf(inside);
    if (form !== null) {
      layers.push(form);
      inside = await unpacked(inside, layers, limits);
      const promised = layer?.promised ?? null;
      if (promised !== null && promised !== inside.length) {
        throw malformed(layers.join(', '), `${inside.length} bytes came out, ${promised} stand behind the payload`);
      }
    } else if (layer === null) break;
  }
  if (layers.length === 0) return null;
  if (!isElf(inside)) {
    throw unsupported(`${layers.join(', ')}: what is inside is no ELF file`, 'wrapped-payload', layers);
  }
  return { layers, bytes: inside };
}
