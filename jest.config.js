// Tests run on tsc's output (what ships is what is tested) in jest-light-runner: jest's own runner
// evaluates modules in a `vm` context, where bigint and Math.imul run 40 to 140 times slower and
// WebAssembly memories fail instanceof. scripts/jest.js starts node with --single-threaded-gc:
// machines of the emulator come and go by the thousand, each collection of them is a short one, and
// the threads that help with it take up to a third of the CPU time from the other workers. And with
// --interrupt-budget, where V8 has it: code that has run three times as much as otherwise is
// compiled, since most code of a test runs once more at most (an eighth less of CPU time).
export default {
  testEnvironment: 'node',
  runner: 'jest-light-runner',
  rootDir: 'build/test',
  testMatch: ['<rootDir>/**/*.test.js'],
  transform: {},
  testSequencer: '<rootDir>/../../jest.sequencer.js',
  reporters: ['default', '<rootDir>/../../jest.reporter.js'],
  globalSetup: '<rootDir>/support/scratch-root.js',
  setupFiles: ['<rootDir>/support/jest-globals.js', '<rootDir>/support/engine.js'],
};
