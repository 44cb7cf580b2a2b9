/**
 * What entries offer (F-11), by names for tests of the core: the rows of the machines' conventions.
 */
import type { Capabilities } from '../../src/machine/conventions.js';
import { conventionRow } from './conventions.js';

const row = (target: string, name: string): Capabilities => conventionRow(target, name).capabilities;

export const profiles = {
  'x86-64': row('x86-64', 'modern'),
  'x86-64 2014': row('x86-64', 'y2014'),
  'ppc32 2008': row('ppc32', 'pg'),
  ppc32: row('ppc32', 'regs'),
  'ppc64-elfv1': row('ppc64-elfv1', 'pg'),
  'ppc64-elfv2-be': row('ppc64-elfv2-be', 'regs'),
  'ppc64-elfv2-le': row('ppc64-elfv2-le', 'regs'),
  'ppc callops': row('ppc32', 'callops'),
  'ppc ool-ops': row('ppc64-elfv1', 'ool-ops'),
  riscv64: row('riscv64', 'g2'),
  'riscv64 merged': row('riscv64', 'g2-merged'),
  'riscv64 plain': row('riscv64', 'g2-plain'),
  'riscv64 g1': row('riscv64', 'g1'),
  'riscv64 g3c': row('riscv64', 'g3c'),
  'arm64 mcount': row('arm64', 'pg'),
  'arm64 regs': row('arm64', 'regs'),
  'arm64 args': row('arm64', 'args'),
  arm64: row('arm64', 'callops'),
} as const satisfies Record<string, Capabilities>;

export type ProfileName = keyof typeof profiles;
