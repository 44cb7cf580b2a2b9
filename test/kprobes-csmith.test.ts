/**
 * Breakpoint path and jump path of every instruction of 6 random programs of csmith per target:
 * see support/probe-csmith.ts.
 */
import { csmithTests } from './support/probe-csmith.js';

csmithTests('x86-64', 'ppc32');
