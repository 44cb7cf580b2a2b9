/** What the pages name is there: links, paths of the tree, npm scripts. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, test } from '@jest/globals';
import { root } from './support/pipeline.js';

const FOLDERS = ['src', 'test', 'scripts', 'bench', 'docs', 'schemas', 'samples', 'share', '.ci'];
/** Files and folders of the tree, by their paths from the root. */
const tree = [
  ...readdirSync(root),
  ...FOLDERS.flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' }).map((name) => join(folder, name)),
  ),
];
const pages = tree.filter((path) => /^(?:docs\/.*|samples\/)?[^/]*\.md$/.test(path));
const textOf = (page: string): string => readFileSync(join(root, page), 'utf8');
const { scripts } = JSON.parse(textOf('package.json')) as { scripts: Record<string, string> };
/** Rooms of src, whose files the pages name without it. */
const ROOMS = readdirSync(join(root, 'src'), { withFileTypes: true }).flatMap((entry) =>
  entry.isDirectory() ? [entry.name] : [],
);

/** Whether a path of the tree is there; `*` and `arch-x` stand for any name. */
function exists(path: string): boolean {
  const pattern = path
    .replace(/\barch-x\//, 'arch-*/')
    .replace(/\/$/, '')
    .replaceAll(/[.+]/g, '\\$&')
    .replaceAll('*', '[^/]*');
  const isWhole = FOLDERS.some((folder) => path.startsWith(`${folder}/`));
  const asked = new RegExp(`^${isWhole ? '' : '(?:src|scripts)/'}${pattern}(?:\\.ts)?$`);
  return tree.some((each) => asked.test(each));
}

/** Paths in backticks that begin with a folder of the tree or a room. */
function pathsOf(text: string): string[] {
  const firsts = new Set([...FOLDERS, ...ROOMS, 'arch-x', 'arch-*', 'boot']);
  return [...text.matchAll(/`((?:\.?[\w*-]+\/)+[\w.*+-]*)`/g)]
    .map(([, path = '']) => path)
    .filter((path) => firsts.has(path.split('/')[0] ?? ''));
}

/** The name by which a heading is linked to. */
const anchorOf = (heading: string): string =>
  heading
    .toLowerCase()
    .replace(/[^\w\- ]/g, '')
    .replaceAll(' ', '-');

test('links lead to pages and headings that are there', () => {
  expect(pages).toEqual(expect.arrayContaining(['README.md', 'CONTRIBUTING.md', 'CHANGELOG.md', 'docs/glossary.md']));
  const broken = pages.flatMap((page) =>
    [...textOf(page).matchAll(/\[[^\]]*\]\((?!https?:)([^)#\s]*)(?:#([^)\s]*))?\)/g)].flatMap(
      ([link, path = '', anchor]) => {
        const target = path === '' ? page : join(dirname(page), path);
        if (!existsSync(join(root, target))) return [`${page}: ${link}`];
        if (anchor === undefined) return [];
        const headings = [...textOf(target).matchAll(/^#+ (.*)$/gm)].map(([, heading = '']) => anchorOf(heading));
        return headings.includes(anchor) ? [] : [`${page}: ${link}`];
      },
    ),
  );
  expect(broken).toEqual([]);
});

test('paths of the tree that pages name are there', () => {
  expect(pathsOf('`src/elf/read.ts`, `sites/verdicts.ts`, `arch-x/isa.ts`, `a/b`, `elf/`')).toEqual([
    'src/elf/read.ts',
    'sites/verdicts.ts',
    'arch-x/isa.ts',
    'elf/',
  ]);
  expect([exists('sites/verdicts.ts'), exists('arch-x/isa.ts'), exists('sites/nowhere.ts')]).toEqual([
    true,
    true,
    false,
  ]);
  const named = pages.flatMap((page) => pathsOf(textOf(page)).map((path) => ({ page, path })));
  expect(named.length).toBeGreaterThan(100);
  expect(named.filter(({ path }) => !exists(path)).map(({ page, path }) => `${page}: ${path}`)).toEqual([]);
});

test('npm scripts that pages name are there', () => {
  const named = pages.flatMap((page) =>
    [...textOf(page).matchAll(/npm run (?:-s )?([\w:-]+)/g)].map(([, script = '']) => ({ page, script })),
  );
  expect(named.length).toBeGreaterThan(10);
  expect(named.filter(({ script }) => scripts[script] === undefined)).toEqual([]);
});

test('the words of the glossary are thirty, and each is explained once', () => {
  const words = [...textOf('docs/glossary.md').matchAll(/^\* \*\*([^*]+)\*\*/gm)].map(([, word]) => word);
  expect(new Set(words).size).toBe(words.length);
  expect(words.length).toBe(30);
});

test('the design has each room of src, on a page at most', () => {
  const sections = textOf('docs/design.md').split(/^## /m).slice(1);
  const headings = sections.map((section) => section.split('\n', 1)[0] ?? '').join('\n');
  const machines = /^arch-/;
  expect(ROOMS.filter((room) => !machines.test(room) && !headings.includes(`\`${room}/\``))).toEqual([]);
  expect(sections.filter((section) => section.split('\n').length > 86).map((section) => section.slice(0, 40))).toEqual(
    [],
  );
});
