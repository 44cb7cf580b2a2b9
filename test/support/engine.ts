/**
 * Tests have the engine that the command line makes of it: `run` executes code that uses more of
 * WebAssembly than Node 20 has by itself. Loaded by jest.config.js before any test file.
 */
import { extendWebAssembly } from '../../src/cli/compile-late.js';

extendWebAssembly();
