/**
 * Makes `import { test } from '@jest/globals'` work under jest-light-runner, which offers jest's
 * functions as globals only: the package itself throws outside jest's own runner. Loaded by
 * jest.config.js before any test file.
 */
import { register } from 'node:module';

const shim =
  'export const { describe, test, it, expect, beforeAll, afterAll, beforeEach, afterEach, jest } = globalThis;';
const hook = `export const resolve = (specifier, context, next) => specifier === '@jest/globals'
  ? { url: ${JSON.stringify(`data:text/javascript,${encodeURIComponent(shim)}`)}, shortCircuit: true }
  : next(specifier, context);`;
register(`data:text/javascript,${encodeURIComponent(hook)}`);
