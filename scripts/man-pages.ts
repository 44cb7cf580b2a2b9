/**
 * Manual pages, one for each verb, from what `help --json` says of it and from the paragraphs about
 * it in `docs/elftrace.1`. `scripts/bundle.ts` writes them to `dist/man`, with the main page beside
 * them.
 */
import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = join(dirname(fileURLToPath(import.meta.url)), '..', '..');
const folder = join(root, 'dist', 'man');
/** Longer lines are no style, says mandoc. */
const COLUMNS = 79;

interface Option {
  readonly name: string;
  readonly aliases: readonly string[];
  readonly type: 'boolean' | 'number' | 'string';
  readonly several: boolean;
  readonly choices: readonly string[] | null;
  readonly default: unknown;
  readonly special: boolean;
  readonly text: string;
}

interface Verb {
  readonly name: string;
  readonly also: readonly string[];
  readonly usage: string;
  readonly text: string;
  readonly options: readonly Option[];
  readonly examples: readonly { readonly command: string; readonly text: string }[];
}

/** Text for roff: dashes are minus signs, and no line begins with a control character. */
const roff = (text: string): string =>
  text
    .replaceAll('\\', '\\e')
    .replaceAll('-', '\\-')
    .replace(/^(?=[.'])/gm, '\\&');

/** What `help --json` prints. */
function verbs(): readonly Verb[] {
  const cli = join(root, 'dist', 'cli.cjs');
  const { status, stdout, stderr } = spawnSync(process.execPath, [cli, 'help', '--json'], { encoding: 'utf8' });
  if (status !== 0) throw new Error(stderr);
  return (JSON.parse(stdout) as { verbs: readonly Verb[] }).verbs;
}

/** Paragraphs of the main page whose tags begin with the verb. */
function paragraphsOf(verb: Verb, main: string): string {
  const section = /^\.SH VERBS\n([^]*?)^\.SH /m.exec(main)?.[1] ?? '';
  const names = [verb.name, ...verb.also];
  let isOwn = false;
  const kept: string[] = [];
  for (const block of section.split(/^(?=\.TP\n)/m)) {
    const word = /^\.TP\n\.\w+ "?([\w\\-]+)/.exec(block)?.[1] ?? '';
    // A tag that is an option goes with the verb in front of it.
    if (!word.startsWith('\\-')) isOwn = names.includes(word);
    if (isOwn) kept.push(block);
  }
  return kept.join('').trimEnd();
}

function optionLines(option: Option): string[] {
  const dashed = (name: string): string => (name.length === 1 ? `\\-${name}` : `\\-\\-${roff(name)}`);
  const isNegative = option.type === 'boolean' && option.default === true;
  const names = [option.name, ...option.aliases]
    .sort((a, b) => a.length - b.length)
    .map((name) => (isNegative && name.length > 1 ? `\\-\\-no\\-${roff(name)}` : dashed(name)));
  const value =
    option.choices === null ? (option.type === 'number' ? 'N' : 'VALUE') : option.choices.map(roff).join('|');
  const tag = `.B "${names.join(', ')}"${option.type === 'boolean' ? '' : ` \\fI${value}\\fR`}`;
  const notes = [
    ...(option.several ? ['May be given several times.'] : []),
    ...(typeof option.default === 'string' || typeof option.default === 'number'
      ? [`Default: ${roff(String(option.default))}.`]
      : []),
  ];
  const text = option.text === '' ? '' : `${roff(option.text[0]!.toUpperCase() + option.text.slice(1))}.`;
  return ['.TP', tag, ...[text, ...notes].filter((each) => each !== '')];
}

/** The page of a verb. @param others  names of all */
function manPage(verb: Verb, others: readonly string[], main: string, version: string): string {
  const date = /^\.TH \S+ 1 "([^"]*)"/m.exec(main)?.[1] ?? '';
  const words = verb.usage.split(' ').slice(1);
  const synopsis = words.map((word) =>
    roff(
      word
        .replace(/^[<[]|[>\]]$/g, '')
        .replace('..', ' ...')
        .toUpperCase(),
    ),
  );
  const prose = paragraphsOf(verb, main);
  const plain = verb.options.filter(({ special }) => !special);
  const special = verb.options.filter((each) => each.special);
  return [
    `.\\" Written by scripts/man-pages.ts from src/cli/main.ts and docs/elftrace.1.`,
    `.TH ELFTRACE\\-${verb.name.toUpperCase()} 1 "${date}" "elftrace ${version}" "User Commands"`,
    '.SH NAME',
    `elftrace\\-${verb.name} \\- ${roff(verb.text)}`,
    '.SH SYNOPSIS',
    `.B elftrace ${[verb.name, ...verb.also].join('|')}`,
    `.RI [ options ] " ${synopsis.join(' ')}"`,
    '.SH DESCRIPTION',
    `${roff(verb.text[0]!.toUpperCase() + verb.text.slice(1))}.`,
    ...(prose === '' ? [] : [prose]),
    '.SH OPTIONS',
    ...plain.flatMap(optionLines),
    ...(special.length === 0 ? [] : ['.SS Of single machines, and limits', ...special.flatMap(optionLines)]),
    '.SH EXIT STATUS',
    'As of',
    '.BR elftrace (1).',
    '.SH EXAMPLES',
    ...verb.examples.flatMap(({ command, text }) => [
      '.TP',
      `.B ${roff(command)}`,
      `${roff(text[0]!.toUpperCase() + text.slice(1))}.`,
    ]),
    '.SH SEE ALSO',
    ['elftrace', ...others.filter((name) => name !== verb.name).map((name) => `elftrace\\-${name}`)]
      .map((name, i, all) => `.BR ${name} (1)${i === all.length - 1 ? '' : ' ,'}`)
      .join('\n'),
    '',
  ].join('\n');
}

/** All pages by file name. */
function manPages(): ReadonlyMap<string, string> {
  const main = readFileSync(join(root, 'docs', 'elftrace.1'), 'utf8');
  const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string };
  const all = verbs();
  const names = all.map(({ name }) => name);
  const pages = all.map((verb) => [`elftrace-${verb.name}.1`, wrapped(manPage(verb, names, main, version))] as const);
  return new Map([['elftrace.1', wrapped(main)], ...pages]);
}

/**
 * Lines of text, broken at blanks; requests and what stands between .nf and .fi stay as they are.
 */
function wrapped(page: string): string {
  let isFilled = true;
  const lines: string[] = [];
  for (const line of page.split('\n')) {
    if (line === '.nf' || line === '.fi') isFilled = line === '.fi';
    let rest = line;
    // Other letters than ASCII's are read as `\\[u2026]`.
    const columns = COLUMNS - 8 * (line.match(/[^ -~]/g) ?? []).length;
    while (isFilled && rest.length > columns && !rest.startsWith('.')) {
      const cut = rest.lastIndexOf(' ', columns);
      if (cut <= 0) break;
      lines.push(rest.slice(0, cut));
      rest = rest.slice(cut + 1).replace(/^(?=[.'])/, '\\&');
    }
    lines.push(rest);
  }
  return lines.join('\n');
}

/** Writes all pages. Needs `dist/cli.cjs`. */
export function writeManPages(): void {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  for (const [name, text] of manPages()) writeFileSync(join(folder, name), text);
}
