/**
 * Breakpoint path and jump path of every instruction of 6 random programs of csmith per target:
 * see support/probe-csmith.ts.
 */
import { csmithTests } from './support/probe-csmith.js';

csmithTests('ppc64-elfv1', 'ppc64-elfv2-be');
