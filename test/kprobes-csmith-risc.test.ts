/** Breakpoint path and jump path of every instruction of 50 random programs of csmith: see support/probe-csmith.ts. */
import { csmithTests } from './support/probe-csmith.js';

csmithTests([
  ['riscv64', 6000],
  ['arm64', 7000],
]);
