/**
 * Prose of the documents in lines of at most 100 columns: `node scripts/wrap-docs.js` names longer
 * ones and fails, `--write` wraps the paragraphs that have one. Rows of tables, code and output
 * stay as they are, and so do pages that a script makes.
 */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const COLUMNS = 100;
const MADE = new Set(['docs/verdicts.md', 'docs/syscalls.md']);

function documents() {
  const below = (folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' }).map((name) => `${folder}/${name}`);
  const names = [...readdirSync(root), ...below('docs'), ...below('share')];
  return names.filter((name) => name.endsWith('.md') && !MADE.has(name)).sort();
}

const columns = (line) => [...line].length;
/** What begins no paragraph, or ends one. */
const isOther = (line) => /^\s*(?:$|#|\||<|```|~~~|---|===|\[\^?[^\]]+\]:)/.test(line);
const BULLET = /^(\s*)((?:[-*+]|\d+[.)])\s+|(?:>\s?)+)?/;
const isBullet = (line) => /^\s*(?:[-*+]|\d+[.)])\s|^\s*>/.test(line);
/** Words; spans of code and links are one. */
const WORDS = /(?:`[^`]*`|!?\[[^\]]*\]\([^)]*\)|[^\s`[]|[`[])+/g;
/** A word that would be markup at the beginning of a line. */
const isMarkup = (word) => /^(?:[-*+]|#+|>.*|\|.*|\d+[.)]|=+)$/.test(word);

function wrapped(lines) {
  const [, indent, bullet = ''] = BULLET.exec(lines[0]);
  const first = indent + bullet;
  const isQuote = bullet.includes('>');
  const rest = isQuote ? first : ' '.repeat(first.length);
  const text = lines.map((line, i) =>
    i === 0 ? line.slice(first.length) : isQuote ? line.replace(/^\s*>\s?/, '') : line,
  );
  const words = text.join(' ').match(WORDS) ?? [];
  const out = [];
  let line = [];
  const start = () => (out.length === 0 ? first : rest);
  for (const word of words) {
    const fits = columns(start() + [...line, word].join(' ')) <= COLUMNS;
    if (fits || line.length === 0) {
      line.push(word);
      continue;
    }
    // What would be markup at the beginning of a line takes the word in front of it along.
    const next = isMarkup(word) && line.length > 1 ? [line.pop(), word] : [word];
    out.push(start() + line.join(' '));
    line = next;
  }
  return [...out, start() + line.join(' ')];
}

/** The text with paragraphs wrapped that have a line too long, and the numbers of such lines. */
function looked(text) {
  const lines = text.split('\n');
  const out = [];
  const long = [];
  let fence = null;
  for (let at = 0; at < lines.length; at++) {
    const line = lines[at];
    const mark = /^\s*(```|~~~)/.exec(line)?.[1];
    if (fence !== null || mark !== undefined) {
      out.push(line);
      if (fence === null) fence = mark;
      else if (mark === fence) fence = null;
      continue;
    }
    if (isOther(line)) {
      out.push(line);
      continue;
    }
    let end = at + 1;
    while (end < lines.length && !isOther(lines[end]) && !isBullet(lines[end])) end++;
    const paragraph = lines.slice(at, end);
    const tooLong = paragraph.flatMap((each, i) => (columns(each) > COLUMNS ? [at + i + 1] : []));
    const isHard = paragraph.some((each) => / {2}$|\\$/.test(each));
    long.push(...tooLong);
    out.push(...(tooLong.length > 0 && !isHard ? wrapped(paragraph) : paragraph));
    at = end - 1;
  }
  return { text: out.join('\n'), long };
}

let count = 0;
for (const name of documents()) {
  const path = join(root, name);
  const before = readFileSync(path, 'utf8');
  const { text, long } = looked(before);
  if (process.argv.includes('--write')) {
    if (text !== before) writeFileSync(path, text);
  } else for (const line of long) console.error(`${name}:${line}: more than ${COLUMNS} columns`);
  if (!process.argv.includes('--write')) count += long.length;
}
if (count > 0) {
  console.error(`${count} lines of prose are too long: node scripts/wrap-docs.js --write`);
  process.exitCode = 1;
}
