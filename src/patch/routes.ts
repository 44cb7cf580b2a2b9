/**
 * Ways from a site to an entry: a direct branch where it reaches, else the stubs that the loader
 * left in the site's part for that entry. Owns no encoding: whether a branch reaches is the shape's
 * business, what a stub leads to is read from its bytes.
 */
import type { SiteReading } from '../machine/sites.js';
import { hex } from '../errors.js';
import type { EntryPoint } from '../program/entry-points.js';
import type { Program } from '../program/program.js';
import type { Address } from '../units.js';
import type { SiteDecision } from './decisions.js';

/**
 * What a site may become so that it calls `entry`, best first: a direct branch, then the stubs of
 * its part from near to far, those of init text for init text. A stub is only named after its bytes
 * were read and found to lead to the entry (T-PPC-16). When there is no way the list holds the
 * reason.
 */
export function waysTo(
  program: Program,
  entry: EntryPoint,
  ip: Address,
  reading: SiteReading,
): readonly SiteDecision[] {
  const direct: SiteDecision = { kind: 'call', target: entry.address };
  if (program.relocatable) return [direct];
  const { reach } = program.arch.branches.call;
  const distance = entry.address - ip;
  const part = program.partOf(ip);
  const decisions: SiteDecision[] = [];
  // Code that is freed after the start has stubs of its own, and others may not use them.
  const isInit = (address: Address): boolean => program.image.sectionAt(address)?.name.startsWith('.init.') === true;
  const init = isInit(ip);
  const foreign = (address: Address): number => (isInit(address) === init ? 0 : 1);
  const stubs = (part?.entryStubs ?? [])
    .filter((stub) => stub.symbol === entry.symbol)
    .sort((a, b) => foreign(a.address) - foreign(b.address) || Number(abs(a.address - ip) - abs(b.address - ip)));
  let refusal: SiteDecision | null = null;
  for (const { address } of stubs) {
    const read = program.stub(address);
    const toc = program.tocAt(entry.identity);
    const otherToc = read !== null && read.targetToc !== null && read.targetToc !== toc;
    if (read === null || read.target !== entry.identity || otherToc) {
      const leads =
        read === null
          ? 'is no stub'
          : `leads to ${hex(read.target)}${otherToc ? ' with another TOC than its own' : ''}`;
      const reason = `the stub at ${hex(address)} ${leads}, expected ${entry.symbol} at ${hex(entry.identity)}`;
      refusal = { refused: 'not-applicable', code: 'stub-wrong-target', reason };
      continue;
    }
    decisions.push({ kind: 'call', target: address });
  }
  if (distance >= reach.min && distance <= reach.max) decisions.unshift(direct);
  if (decisions.length > 0) return decisions;
  if (refusal !== null) return [refusal];
  const far = `${entry.symbol} is ${hex(abs(distance))} bytes away, ${reading.shape.name} reaches ${hex(reach.max)}`;
  // T-PPC-16, T-PPC-23: a record that was never given its module knows no stub; a module may have
  // none.
  if (part === undefined) {
    return [
      { refused: 'not-applicable', code: 'no-module', reason: `${far}, and the site belongs to no known module` },
    ];
  }
  return [{ refused: 'not-applicable', code: 'no-stub', reason: `${far}, and ${part.name} has no stub to it` }];
}

function abs(value: bigint): bigint {
  return value < 0n ? -value : value;
}
