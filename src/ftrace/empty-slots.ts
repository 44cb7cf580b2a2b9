import { ElftraceError } from '../errors.js';
import type { TableStep } from './plan.js';
import type { Sites } from './sites.js';

export function planEmptySlots(sites: Sites, drop: ReadonlyMap<number, Uint8Array>): TableStep[] {
  if (drop.size === 0) return [];
  throw new ElftraceError('unsupported-form', `tables of linked files: ${sites.count}`);
}
