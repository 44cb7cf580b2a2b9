/** zlib data (RFC 1950) of compressed sections, through the platform's DecompressionStream. */
import { ElftraceError, malformed } from '../errors.js';
import { Deadline, defaultLimits, limitExceeded } from '../limits/index.js';
import type { UnpackLimits } from './compressed.js';

/**
 * @param size  bytes that must come out
 * @throws ElftraceError 'elf-malformed', 'limit-exceeded', 'timeout'
 */
export async function unpackZlib(
  packed: Uint8Array,
  size: number,
  what: string,
  limits: UnpackLimits = {},
): Promise<Uint8Array> {
  const most = limits.unpacked ?? defaultLimits.unpacked;
  const deadline = limits.deadline ?? Deadline.never;
  // Deflate makes at most 1,032 bytes of one.
  if (size > 1032 * packed.length) throw malformed(`${what}: ch_size`, 'more than the data can be', { value: size });
  if (size > most) throw limitExceeded('unpacked', what, most, { value: size });
  const whole = new Uint8Array(size);
  let at = 0;
  try {
    const stream = new Blob([packed as Uint8Array<ArrayBuffer>])
      .stream()
      .pipeThrough(new DecompressionStream('deflate'));
    const reader = stream.getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      deadline.check(`unpacking ${what}`);
      if (at + value.length > size) throw malformed(`${what}: ch_size`, 'more data come out', { value: size });
      whole.set(value, at);
      at += value.length;
    }
  } catch (cause) {
    if (cause instanceof ElftraceError) throw cause;
    throw malformed(what, 'damaged zlib data');
  }
  if (at !== size) throw malformed(`${what}: ch_size`, `${at} bytes come out`, { value: size });
  return whole;
}
