// Tests run on tsc's output (what ships is what is tested) in jest-light-runner: jest's own runner evaluates modules in
// a `vm` context, where bigint and Math.imul run 40 to 140 times slower and WebAssembly memories fail instanceof.
export default {
  testEnvironment: 'node',
  runner: 'jest-light-runner',
  rootDir: 'build/test',
  testMatch: ['<rootDir>/**/*.test.js'],
  transform: {},
  setupFiles: ['<rootDir>/support/jest-globals.js'],
};
