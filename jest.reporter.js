/**
 * Says what the tests are at: every 15 seconds the files that are done and those that run, with
 * their times. At the end it writes the times of all files and of each test of a second and more to
 * build/test-times.json, for `npm run test:slow`.
 */
import { writeFileSync } from 'node:fs';
import { basename } from 'node:path';

const EVERY_MS = 15_000;
const seconds = (ms) => `${(ms / 1000).toFixed(ms < 10_000 ? 1 : 0)} s`;
const nameOf = (path) => basename(path, '.test.js');

export default class Progress {
  running = new Map();
  done = 0;
  total = 0;
  begin = performance.now();

  onRunStart({ numTotalTestSuites }) {
    this.total = numTotalTestSuites;
    this.timer = setInterval(() => this.say(), EVERY_MS);
    this.timer.unref();
  }

  onTestFileStart({ path }) {
    this.running.set(path, performance.now());
  }

  onTestFileResult({ path }) {
    this.running.delete(path);
    this.done++;
  }

  say() {
    const now = performance.now();
    const running = [...this.running].map(([path, begin]) => `${nameOf(path)} (${seconds(now - begin)})`);
    const files = `${this.done} of ${this.total} files`;
    process.stderr.write(`-- ${seconds(now - this.begin)}: ${files}; running: ${running.join(', ')}\n`);
  }

  onRunComplete(_, { testResults }) {
    clearInterval(this.timer);
    const files = testResults.map(({ testFilePath, testResults: tests }) => ({
      name: nameOf(testFilePath),
      ms: Math.round(tests.reduce((sum, { duration }) => sum + (duration ?? 0), 0)),
      tests: tests.length,
      slow: tests
        .filter(({ duration }) => (duration ?? 0) >= 1000)
        .map(({ fullName, duration }) => ({ name: fullName, ms: Math.round(duration) })),
    }));
    // A run of one file is no picture of all.
    if (files.length < 100) return;
    const path = new URL('build/test-times.json', import.meta.url);
    writeFileSync(
      path,
      `${JSON.stringify(
        files.sort((a, b) => b.ms - a.ms),
        null,
        1,
      )}\n`,
    );
  }
}
