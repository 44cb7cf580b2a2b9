/**
 * The page of what `verify` finds, `docs/verdicts.md`, from the pages of the rules. Prints it, or
 * writes it.
 *
 *   node build/scripts/verdicts-page.js [--write]
 */
import { writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { rulePages, verdictsPage } from '../src/report/rule-pages.js';
import { verdictSeverity } from '../src/sites/verdicts.js';

const page = verdictsPage(rulePages(verdictSeverity));
const path = join(dirname(fileURLToPath(import.meta.url)), '..', '..', 'docs', 'verdicts.md');
if (process.argv.includes('--write')) writeFileSync(path, page);
else process.stdout.write(page);
