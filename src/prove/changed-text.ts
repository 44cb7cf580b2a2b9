/**
 * Ways that read text which the patch changed (PV-1). A trial's registers may lead anywhere: where
 * an instruction between the entry and the place of comparison reads bytes of a site through one of
 * them, the patched image has other bytes there, as it should.
 */
import type { Pair } from './compare.js';

/**
 * Whether the original reads, as data, bytes of its text that are others in the patched image.
 * @param run  a trial, from its beginning
 */
export function readsChangedText({ original, patched }: Pick<Pair, 'original' | 'patched'>, run: () => void): boolean {
  let found = false;
  const off = original.layout.text.map(({ start, end }) =>
    original.machine.watch({ address: start, size: Number(end - start), access: 'read' }, (_, { address, size }) => {
      const [before, after] = [original, patched].map(({ layout }) => layout.bytes(address, size));
      if (Buffer.compare(before!, after!) !== 0) found = true;
      return 'continue';
    }),
  );
  try {
    run();
  } finally {
    for (const each of off) each();
  }
  return found;
}
