/**
 * Lines of the documents have at most 100 columns: `node scripts/wrap-docs.js` names longer ones
 * and fails. `--write` wraps paragraphs that have one. Rows of tables, code and output are for
 * people to shorten, and pages that a script makes for the script.
 */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const COLUMNS = 100;
const MADE = new Set(['docs/verdicts.md', 'docs/syscalls.md']);
const isWriting = process.argv.includes('--write');

function documents() {
  const below = (folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' }).map((name) => `${folder}/${name}`);
  const names = [...readdirSync(root), ...below('docs'), ...below('share')];
  return names.filter((name) => name.endsWith('.md') && !(isWriting && MADE.has(name))).sort();
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

/** The text with paragraphs wrapped that have a line too long. */
function looked(text) {
  const lines = text.split('\n');
  const out = [];
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
    const isLong = paragraph.some((each) => columns(each) > COLUMNS);
    const isHard = paragraph.some((each) => / {2}$|\\$/.test(each));
    out.push(...(isLong && !isHard ? wrapped(paragraph) : paragraph));
    at = end - 1;
  }
  return out.join('\n');
}

let count = 0;
for (const name of documents()) {
  const path = join(root, name);
  const before = readFileSync(path, 'utf8');
  const text = isWriting ? looked(before) : before;
  if (text !== before) writeFileSync(path, text);
  for (const [at, line] of text.split('\n').entries()) {
    if (columns(line) <= COLUMNS) continue;
    console.error(`${name}:${at + 1}: ${columns(line)} columns, at most ${COLUMNS}`);
    count++;
  }
}
if (count > 0) {
  console.error(`${count} lines are too long: node scripts/wrap-docs.js --write wraps those of paragraphs`);
  process.exitCode = 1;
}
