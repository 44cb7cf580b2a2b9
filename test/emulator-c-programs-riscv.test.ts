/**
 * The collection of C programs under test/programs on RISC-V 64, compressed, uncompressed and with
 * bit manipulation, at three levels: what they print here must be what they print under qemu-user.
 * One executable per target and level holds them all.
 */
import { RISCV_TARGETS } from './support/c-programs.js';
import { describeCollection } from './support/program-tests.js';

describeCollection(RISCV_TARGETS, { inStep: 'rv64gc' });
