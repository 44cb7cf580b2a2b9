/** Breakpoint path and jump path of every instruction of 50 random programs of csmith: see support/probe-csmith.ts. */
import { csmithTests } from './support/probe-csmith.js';

csmithTests([
  ['ppc64-elfv1', 3000],
  ['ppc64-elfv2-be', 4000],
  ['ppc64-elfv2-le', 5000],
]);
