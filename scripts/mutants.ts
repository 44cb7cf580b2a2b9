/**
 * The proof is itself proved (PV-5): breaks each instruction of the runtime's objects, trampolines,
 * stubs and sites, and looks whether the proof of a site that executes it is different.
 *
 *   node build/scripts/mutants.js [--write] [--list] [--same] [--draw left|found] [--share K/N]
 *     [--file FILE] [WORD...]
 *
 * WORDs choose images by their names (test/support/mutant-images.ts), for one object
 * `x86-64/modern`. `--write` puts the rows of the objects that were tried into docs/mutants.md.
 * `--list` prints each mutant that is left, `--keys` those of test/fixtures/mutants-left.txt.
 * `--share 3/10`: one tenth of the mutants. `--file` keeps what was found: it is read first, and
 * written behind each image, so that objects may be tried in several runs (with the WORD `none`,
 * nothing is tried again).
 * `--same`: no trials; asks the code of one image of each object which known mutants do the same
 * as what they stand for. One that a trial found, and that an argument fits, is an error, always.
 * `--draw left`: no trials; runs the images from drawn states, with the mutants that are left;
 * `--draw found` with a part of those that trials found, and says how many of them the runs tell
 * apart.
 */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { mutantImages } from '../test/support/mutant-images.js';
import { isDrawnSame, type MutantState, MutantTable } from '../test/support/mutant-table.js';
import { readRows, writeRows } from '../test/support/mutant-page.js';

const args = process.argv.slice(2);
const shareText = args.includes('--share') ? args[args.indexOf('--share') + 1]! : '0/1';
const [index, of] = shareText.split('/').map(Number) as [number, number];
const file = args.includes('--file') ? args[args.indexOf('--file') + 1]! : null;
const drawn = args.includes('--draw') ? args[args.indexOf('--draw') + 1]! : null;
const words = args.filter((word) => !word.startsWith('--') && ![shareText, file, drawn].includes(word));
/** Runs of an image from drawn states, and every which of the mutants that were found has them. */
const RUNS = 3000;
const FOUND = 20;

const isSame = args.includes('--same');
const asked = new Set<string>();
const table = new MutantTable({ index, of });
if (file !== null && existsSync(file)) table.take(JSON.parse(readFileSync(file, 'utf8')) as MutantState[]);
const found = [...table.states.values()].filter(({ standing }) => standing === 'found');
const chosen = new Set(drawn === 'found' ? found.filter((_, i) => i % FOUND === 0) : table.result().bare);
const names = new Set(mutantImages.map(({ name }) => name));
/** Whether a WORD chooses an image: the whole name of one no other. */
const isNamed = (name: string, word: string): boolean => (names.has(word) ? name === word : name.includes(word));
for (const image of mutantImages) {
  if (words.length > 0 && !words.some((word) => isNamed(image.name, word))) continue;
  const begin = process.cpuUsage().user;
  const [object] = image.name.split(' ') as [string];
  if (isSame && asked.has(object)) continue;
  if (isSame) {
    if (!table.ask(image, () => true)) continue;
    asked.add(object);
  } else if (drawn !== null) table.draw(image, (state) => chosen.has(state), RUNS);
  else table.add(image);
  if (file !== null) writeFileSync(file, JSON.stringify([...table.states.values()]));
  const left = table.left.get(image.name);
  console.log(
    `${image.name}: ${left ?? `${String(table.states.size)} mutants so far`}, ${((process.cpuUsage().user - begin) / 1e6).toFixed(1)} s`,
  );
}

if (drawn === 'found') {
  const asked = [...chosen].filter(
    (each) => each.drawn !== undefined && (each.drawn.difference !== null || isDrawnSame(each)),
  );
  const apart = asked.filter((each) => each.drawn!.difference !== null);
  console.log(
    `runs from drawn states tell ${String(apart.length)} of ${String(asked.length)} mutants apart that trials found`,
  );
}

const page = readRows();
const { rows, bare, unneeded, functions } = table.result();
if (args.includes('--list')) {
  for (const { tested, text, standing } of bare) {
    console.log(
      `${standing.padEnd(8)} ${tested.object} ${tested.symbol}+0x${tested.offset.toString(16)} ${tested.kind}: ${text}`,
    );
  }
}
for (const [object, row] of Object.entries(rows)) console.log(`${object}: ${JSON.stringify(row)}`);
// A part of the images, or of the mutants, need not need them all.
const isWhole = words.length === 0 && of === 1;
if (isWhole) for (const { name } of unneeded) console.log(`no mutant needs the argument '${name}'`);
console.log(`${String(bare.length)} mutants are proved, and have no argument`);
if (args.includes('--write')) writeRows(rows, functions);
if (args.includes('--keys')) console.log(table.bare().join('\n'));
const wrong = table.contradictions();
for (const { tested, text } of wrong) {
  console.log(
    `found, and an argument says that it is not: ${tested.object} ${tested.symbol}+${tested.offset} ${tested.kind}: ${text}`,
  );
}
// What the page says was found must be found: the rest of it is open work.
const lost = Object.entries(page).filter(([object, { found }]) => isWhole && (rows[object]?.found ?? 0) < found);
for (const [object] of lost) console.log(`${object}: fewer mutants are found than docs/mutants.md says`);
process.exit(lost.length > 0 || wrong.length > 0 || (isWhole && unneeded.length > 0) ? 1 : 0);
