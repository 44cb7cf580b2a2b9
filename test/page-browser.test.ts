/**
 * Pages in a browser: 60,000 sites, search and choice by keys, no violation that axe knows, light
 * and dark, paper, races step by step, and hostile names that stay text. What is seen is held
 * against small pictures in test/fixtures/pages, which ELFTRACE_WRITE_PAGES=1 writes anew.
 */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { type Browser, chromium, type Page } from 'playwright-core';
import { warmElftrace as elftrace } from './support/cli.js';
import { isLong, isWhole, repeats } from './support/long.js';
import { compareShots, downscaled } from './support/page-shots.js';
import { builtSamples, root } from './support/pipeline.js';
import { describeWith, run, tool } from './support/tools.js';

const SHELL = 'chromium-headless-shell';
const SITES = 60_000;
const folder = mkdtempSync(join(tmpdir(), 'page-browser-'));
const at = (name: string): string => join(folder, name);
const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

let browser: Browser | null = null;
afterAll(async () => {
  await browser?.close();
  rmSync(folder, { recursive: true, force: true });
});

/** What a page said or asked for: nothing, if all is well. */
const said: string[] = [];

/** @param pinned  with the fonts that Debian's fontconfig brings along, whatever else there is */
async function opened(name: string, colorScheme: 'light' | 'dark' = 'light', pinned = false): Promise<Page> {
  browser ??= await chromium.launch({ executablePath: tool(SHELL)! });
  const page = await browser.newPage({ viewport: { width: 1280, height: 900 }, colorScheme, bypassCSP: pinned });
  page.on('console', (message) => said.push(message.text()));
  page.on('pageerror', (error) => said.push(String(error)));
  page.on('request', (request) => {
    if (request.url() !== pathToFileURL(at(name)).href) said.push(request.url());
  });
  await page.goto(pathToFileURL(at(name)).href);
  await page.waitForSelector('html[data-ready]');
  if (pinned) {
    const mono = 'code,pre,.mono,.mono *,svg text{font-family:"DejaVu Sans Mono"!important}';
    await page.addStyleTag({ content: `*{font-family:"DejaVu Sans"!important}${mono}` });
  }
  return page;
}

/** An object with functions of these names, each with a site. */
function objectOf(name: string, functions: Iterable<string>): string {
  const lines = ['.text'];
  let number = 0;
  for (const each of functions) {
    lines.push(`.globl "${each}"`, `.type "${each}",@function`, `"${each}":`, `.Ls${number}: call __fentry__`, 'ret');
    lines.push(`.size "${each}",.-"${each}"`, '.section __mcount_loc,"a"', `.quad .Ls${number++}`, '.text');
  }
  writeFileSync(at(`${name}.s`), `${lines.join('\n')}\n`);
  run('gcc', ['-c', '-o', at(`${name}.o`), at(`${name}.s`)]);
  return at(`${name}.o`);
}

function html(name: string, ...args: string[]): void {
  // Names in the page are those of the arguments: the folder is another one each time.
  const { status, stderr } = elftrace(['html', ...args, '-o', at(name)], { cwd: folder });
  expect([status, stderr]).toEqual([0, '']);
}

const violations = async (page: Page): Promise<string[]> => {
  await page.evaluate(axe);
  const found = (await page.evaluate('axe.run()')) as { violations: { id: string; nodes: { html: string }[] }[] };
  return found.violations.map(({ id, nodes }) => `${id}: ${nodes[0]!.html.slice(0, 200)}`);
};

const HOSTILE = [
  '<img src=x onerror=top.pwned=1>',
  '</script><script>top.pwned=1</script>',
  'javascript:top.pwned=1//',
  '\u202etxet',
];

describeWith([SHELL, 'gcc'], 'in a browser', () => {
  beforeAll(() => {
    const names = Array.from({ length: SITES }, (_, i) => `drivers_net_ethernet_rx_${(i * 7919) % SITES}_complete`);
    html('many.html', objectOf('many', names));
    html('hostile.html', objectOf('hostile', HOSTILE), '--title', HOSTILE[0]!);
    const parts = ['core.o', 'far-one.ko', 'far-two.ko'].map((each) => join(builtSamples, 'ppc64-elfv2-le', each));
    const made = (...args: string[]): string => elftrace(args, { cwd: folder }).stdout;
    made('load', ...parts, '-o', 'image');
    made('patch', '--enable', '--tracer', 'function_graph', 'image', '-o', 'traced');
    made('run', '--trace', 't.ndjson', 'traced');
    writeFileSync(at('proof.ndjson'), made('prove', '--json', 'traced'));
    writeFileSync(at('races.json'), made('race', '--demo', 'H2', '--json'));
    html('traced.html', 'traced', '--trace', 't.ndjson', '--diff', 'image', '--prove', 'proof.ndjson');
    html('races.html', '--race', 'races.json', '--title', 'Races');
  });

  test('60,000 sites: at most 3 MB and 100 bytes a site, interactive within 2 s, only the rows in sight exist', async () => {
    expect(statSync(at('many.html')).size).toBeLessThan(3_000_000 + 100 * SITES);
    // The best of eight, for tests beside this one take the processors.
    const times: number[] = [];
    for (let i = 0; i < 8 && !times.some((each) => each < 2000); i++) {
      const page = await opened('many.html');
      await page.fill('#search', '_59999_');
      await page.waitForFunction("document.querySelector('#found').textContent.startsWith('1 of 60,000')");
      times.push(Number(await page.evaluate('performance.now()')));
      await page.close();
    }
    expect(Math.min(...times)).toBeLessThan(2000);
    const page = await opened('many.html');
    await page.focus('.grid');
    await page.keyboard.press('End');
    await page.waitForSelector(`.grid .row[aria-rowindex="${SITES + 1}"][aria-selected=true]`);
    expect(await page.locator('.grid .row').count()).toBeLessThan(80);
    expect(await page.getAttribute('.grid', 'aria-rowcount')).toBe(String(SITES + 1));
    await page.close();
  });

  test('PV-4: the account of a site is shown as prove prints it', async () => {
    const program = join(builtSamples, 'arm64', 'program-patchable-2');
    elftrace(['patch', program, '--enable', '-o', 'wrong'], { cwd: folder });
    const bytes = readFileSync(at('wrong'));
    // mov x9, x30 of a site becomes mov x10, x30.
    bytes[bytes.indexOf(Buffer.from([0xe9, 0x03, 0x1e, 0xaa]))] = 0xea;
    writeFileSync(at('wrong'), bytes);
    writeFileSync(at('wrong.ndjson'), elftrace(['prove', '--json', 'wrong', program], { cwd: folder }).stdout);
    const printed = elftrace(['prove', 'wrong', program], { cwd: folder }).stdout.split('\n');
    html('wrong.html', 'wrong', '--prove', 'wrong.ndjson');
    const page = await opened('wrong.html');
    await page.click('text=different >> nth=-1');
    const shown = (await page.textContent('#account'))!.split('\n');
    const first = printed.findIndex((line) => line.trim() === shown[0]);
    expect(first).toBeGreaterThan(0);
    expect(shown).toEqual(printed.slice(first, first + shown.length).map((line) => line.slice(2)));
    expect(await violations(page)).toEqual([]);
    await page.close();
  });

  test('keys alone: search, choose, read, and back; heads sort', async () => {
    const page = await opened('traced.html');
    await page.keyboard.press('/');
    await page.keyboard.type('FAR_');
    expect(await page.textContent('#found')).toBe('6 of 26 rows');
    await page.keyboard.press('Enter');
    await page.keyboard.press('ArrowDown');
    const active = (): Promise<string | null> => page.textContent('.grid .row[aria-selected=true] [role=gridcell]');
    expect(await active()).toBe('far_one_peer+0xc');
    await page.keyboard.press('Enter');
    expect(await page.evaluate('document.activeElement.textContent')).toBe('far_one_peer+0xc');
    const way = await page.locator('.way .kind').allTextContents();
    expect([way[0], way.includes('stub'), way.at(-1)]).toEqual(['site', true, 'tracer']);
    await page.keyboard.press('Escape');
    expect(await page.evaluate('document.activeElement.className')).toBe('grid');
    const names = (): Promise<string[]> => page.locator('#sites .body .row').evaluateAll((rows: { firstElementChild: { textContent: string }; style: { transform: string } }[]) => rows.map((row) => [Number(/\d+/.exec(row.style.transform)![0]), row.firstElementChild.textContent] as const).sort((a, b) => a[0] - b[0]).map(([, name]) => name));
    await page.focus('#sites [role=columnheader] button');
    await page.keyboard.press('Space');
    expect(await names()).toEqual((await names()).slice().sort());
    expect(await page.getAttribute('#sites [role=columnheader]', 'aria-sort')).toBe('ascending');
    await page.keyboard.press('Space');
    expect((await names())[0]).toBe('far_two_init+0xc');
    await page.close();
  }); // prettier-ignore

  test.each(repeats(['dark', 'light'] as const))('%s: axe finds nothing; the map, the trace and the differences are drawn', async (scheme) => {
    const page = await opened('traced.html', scheme);
    await page.fill('#search', 'one');
    await page.press('#search', 'Enter');
    expect(await violations(page)).toEqual([]);
    expect(await page.textContent('#proof')).toContain('26 sites: ');
    expect(await page.textContent('.detail')).toMatch(/Proof(?:proved|inconclusive): /);
    expect(await page.locator('#map .arc').count()).toBeGreaterThan(2);
    expect(await page.textContent('#map .reach + text')).toContain('bl, 24 bits: -32 MiB to +32 MiB');
    expect(await page.locator('#trace svg').first().locator('.slice').count()).toBe(90);
    await page.getByRole('button', { name: 'Zoom in' }).press('Enter');
    expect(await page.locator('#trace svg').first().locator('.slice').count()).toBeLessThan(90);
    expect(await page.locator('#diff .body .row').count()).toBeGreaterThan(10);
    const colour = (await page.evaluate('getComputedStyle(document.body).backgroundColor')) as string;
    expect(colour).toBe(scheme === 'light' ? 'rgb(255, 255, 255)' : 'rgb(21, 24, 28)');
    await page.close();
  }); // prettier-ignore

  test('paper: the rows of a filter are printed, as far as the page says', async () => {
    const page = await opened('many.html');
    await page.evaluate("window.dispatchEvent(new Event('beforeprint'))");
    expect(await page.locator('.print tbody tr').count()).toBe(2000);
    expect(await page.textContent('.print p')).toContain('58000 further rows');
    await page.emulateMedia({ media: 'print' });
    expect([await page.isVisible('.print'), await page.isVisible('.grid')]).toEqual([true, false]);
    await page.close();
  });

  test.each(['light', 'dark'] as const)('paper is white where the screen is %s', async (scheme) => {
    const page = await opened('traced.html', scheme);
    await page.emulateMedia({ media: 'print' });
    expect(await page.evaluate('getComputedStyle(document.body).backgroundColor')).toBe('rgb(255, 255, 255)');
    await page.close();
  });

  test('races: buttons, keys and clicks walk through a schedule; axe finds nothing; paper has all of it', async () => {
    const page = await opened('races.html');
    const { races } = JSON.parse(readFileSync(at('races.json'), 'utf8')) as { races: { verdict: string }[] };
    expect(await page.locator('.race').count()).toBe(races.length);
    expect(await page.locator('#sites, #map, #files').count()).toBe(0);
    const race = page.locator(`#race-${races.findIndex(({ verdict }) => verdict === 'violated')}`);
    expect(await race.locator('h3').textContent()).toMatch(/^H2 .*: violated$/);
    const told = (): Promise<string | null> => race.locator('[role=status]').textContent();
    const events = await race.locator('.event').count();
    expect(await told()).toMatch(new RegExp(`^Event ${events} of ${events}: `));
    await race.getByRole('button', { name: 'First' }).click();
    expect(await told()).toMatch(new RegExp(`^Event 1 of ${events}: `));
    expect([await race.locator('.event.now').count(), await race.locator('.event.later').count()]).toEqual([1, events - 1]);
    expect(await race.locator('.state').textContent()).toContain('has not begun');
    await race.getByRole('button', { name: 'Previous' }).click();
    expect(await told()).toMatch(/^Event 1 of /);
    await race.getByRole('button', { name: 'Next' }).click();
    expect(await told()).toMatch(/^Event 2 of /);
    await race.locator('.draw').focus();
    await page.keyboard.press('ArrowDown');
    expect(await told()).toMatch(/^Event 3 of /);
    await page.keyboard.press('End');
    expect(await race.locator('.event.later').count()).toBe(0);
    await race.locator('.event').nth(1).click();
    expect(await told()).toMatch(/^Event 2 of /);
    expect(await violations(page)).toEqual([]);
    expect(await race.locator('.print tbody tr').count()).toBe(events);
    await page.emulateMedia({ media: 'print' });
    expect([await race.locator('.print').isVisible(), await race.locator('button').first().isVisible()]).toEqual([true, false]);
    await page.close();
  }); // prettier-ignore

  const pictures = [
    ['traced-light', 'traced.html', 'light', 'screen'],
    ['traced-dark', 'traced.html', 'dark', 'screen'],
    ['traced-paper', 'traced.html', 'dark', 'print'],
    ['races-light', 'races.html', 'light', 'screen'],
    ['races-dark', 'races.html', 'dark', 'screen'],
    ['races-paper', 'races.html', 'light', 'print'],
  ] as const;
  // Both pages, on both media, in both schemes.
  test.each(pictures.filter(([name]) => isWhole || (isLong ? /traced-light|traced-paper|races-dark/ : /traced-light/).test(name)))('%s looks as its picture', async (name, file, scheme, media) => {
    const page = await opened(file, scheme, true);
    if (file === 'traced.html') {
      await page.fill('#search', 'one');
      await page.press('#search', 'Enter');
    }
    await page.evaluate("window.dispatchEvent(new Event('beforeprint'))");
    await page.emulateMedia({ media });
    const shot = async (): Promise<string> => downscaled(page, await page.screenshot({ fullPage: true, animations: 'disabled' }));
    const reference = join(root, 'test/fixtures/pages', `${name}.png`);
    const seen = await shot();
    if (process.env['ELFTRACE_WRITE_PAGES'] === '1') {
      mkdirSync(join(root, 'test/fixtures/pages'), { recursive: true });
      writeFileSync(reference, Buffer.from(seen, 'base64'));
    }
    writeFileSync(at(`${name}.png`), Buffer.from(seen, 'base64'));
    const known = readFileSync(reference).toString('base64');
    const { different, sizes } = await compareShots(page, seen, known);
    expect([name, sizes[0], different < 0.01]).toEqual([name, sizes[1], true]);
    // The comparison sees what is not drawn, and the other colours.
    await page.evaluate("for (const each of document.querySelectorAll('svg')) each.style.visibility = 'hidden'");
    expect((await compareShots(page, await shot(), known)).different).toBeGreaterThan(0.01);
    await page.close();
  }); // prettier-ignore

  test('hostile names are text, in every place; no page has said or asked for anything', async () => {
    const page = await opened('hostile.html');
    const names = await page.locator('.grid .body .row').evaluateAll((rows: { firstElementChild: { textContent: string } }[]) => rows.map((row) => row.firstElementChild.textContent));
    expect(names).toEqual([...HOSTILE.slice(0, 3), '\\u202etxet']);
    for (let i = 0; i < HOSTILE.length; i++) await page.locator('.grid .body .row').nth(i).click();
    expect(await page.textContent('h1')).toBe(HOSTILE[0]);
    await page.evaluate("window.dispatchEvent(new Event('beforeprint'))");
    expect(await page.evaluate('window.pwned === undefined && document.querySelector("img") === null')).toBe(true);
    // The policy holds: a script of another source does not run, however it came in.
    expect(await violations(page)).toEqual([]);
    await page.close();
    expect(said).toEqual([]);
  }); // prettier-ignore

  test('the policy holds: neither handlers of attributes nor other scripts run', async () => {
    const page = await opened('traced.html');
    await page.evaluate(`
      const script = document.createElement('script');
      try { script.textContent = 'window.pwned = 1'; document.body.append(script); } catch {}
      try { document.body.setAttribute('onclick', 'window.pwned = 1'); document.body.click(); } catch {}
    `);
    expect(await page.evaluate('window.pwned === undefined')).toBe(true);
    said.length = 0;
    await page.close();
  });
});
