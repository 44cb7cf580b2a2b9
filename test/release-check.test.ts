/**
 * The release check: it accepts this repository, and nothing that lacks a licence, has another one,
 * or brings the optional package along.
 */
import { describe, expect, test } from '@jest/globals';
import {
  type Component,
  type Release,
  releaseProblems,
  type Sbom,
  sbomOf,
  thisRelease,
} from '../scripts/release-check.js';
import { describeWith } from './support/tools.js';

describeWith(['npm'], 'the SBOM of a release', () => {
  const release = thisRelease();
  const sbom = sbomOf('npm');
  const withComponent = (component: Component): Sbom => ({ ...sbom, components: [...sbom.components, component] });

  test('of this repository: all licences are known and permissive, the optional package is named and not brought along', () => {
    expect(releaseProblems(sbom, release)).toEqual([]);
    expect(sbom.components.length).toBeGreaterThan(10);
    expect(sbom.components.map(({ name }) => name)).not.toContain('keystone-wasm');
    expect(Object.keys(release.package.dependencies)).not.toContain('keystone-wasm');
  });

  test.each<[string, Sbom, Release, RegExp]>([
    ['no licence', withComponent({ name: 'x', version: '1.0.0' }), release, /^x@1\.0\.0: states no licence/],
    [
      'another licence',
      withComponent({ name: 'x', version: '1.0.0', licenses: [{ license: { id: 'GPL-3.0-only' } }] }),
      release,
      /^x@1\.0\.0: GPL-3\.0-only is not known as permissive$/,
    ],
    [
      'the optional package among the others',
      withComponent({ name: 'keystone-wasm', version: '1.0.4' }),
      release,
      /GPL-2\.0 is not permissive\n.*installed with elftrace$/,
    ],
    [
      'other bytes in a package that states nothing',
      sbom,
      { ...release, sha256: () => 'other' },
      /capstone\.wasm is other/,
    ],
    [
      'an optional package that is not named',
      sbom,
      { ...release, thirdParty: release.thirdParty.replaceAll('GPL-2.0', '') },
      /does not name it/,
    ],
    [
      'the engine in dist',
      sbom,
      { ...release, dist: [['chunk.js', 'var x={KS_MODE_64:8};']] },
      /bundled into dist\/chunk\.js/,
    ],
    [
      'another release',
      sbom,
      { ...release, package: { ...release.package, version: '9.9.9' } },
      /the SBOM is of version/,
    ],
  ])('%s is a problem', (_, made, of, message) => {
    expect(releaseProblems(made, of).join('\n')).toMatch(message);
  });
});

describe('package.json', () => {
  test('optional peers have one exact version', () => {
    const { peerDependencies, peerDependenciesMeta } = thisRelease().package;
    expect(peerDependencies).toEqual({ 'keystone-wasm': '1.0.4' });
    expect(peerDependenciesMeta).toEqual({ 'keystone-wasm': { optional: true } });
  });
});
