/** Builds the page from its data. */
import type { PageFile } from '../model.js';
import { type Data, readData } from './data.js';
import { diffSection } from './diff.js';
import { count, el } from './dom.js';
import { mapSection } from './map.js';
import { raceSection } from './races.js';
import { sitesSection } from './sites.js';
import { traceSection } from './trace.js';

function fileItem(file: PageFile): HTMLElement {
  const notes = [...(file.incomplete === '' ? [] : [file.incomplete]), ...file.remarks];
  const verdicts = Object.entries(file.verdicts).map(([name, sum]) => `${count(sum)} ${name}`).join(', '); // prettier-ignore
  const line = `${file.name}: ${file.target}, ${count(file.sites)} sites${verdicts === '' ? '' : `: ${verdicts}`}`;
  return el('li', {}, line, notes.length === 0 ? null : el('ul', {}, ...notes.map((each) => el('li', {}, each))));
}

function filesSection({ head: { files, version } }: Data): HTMLElement {
  const open = files.length <= 5;
  return el(
    'section',
    { id: 'files', 'aria-labelledby': 'files-title' },
    el('h2', { id: 'files-title' }, 'Files'),
    el(
      'details',
      { open },
      el('summary', {}, `${count(files.length)} ${files.length === 1 ? 'file' : 'files'}, read by elftrace ${version}`),
      el('ul', {}, ...files.map(fileItem)),
    ),
  );
}

/** Light, dark, or as the system has it. */
function themeChoice(): HTMLElement {
  const options = [['', 'as the system'], ['light', 'light'], ['dark', 'dark']] as const; // prettier-ignore
  const select = el('select', {}, ...options.map(([value, text]) => el('option', { value }, text)));
  select.addEventListener('change', () => {
    document.documentElement.dataset['theme'] = select.value;
  });
  return el('label', {}, 'Colours ', select);
}

function searchKey(event: KeyboardEvent): void {
  const { target } = event;
  const isTyping = target instanceof HTMLInputElement || target instanceof HTMLSelectElement;
  if (event.key !== '/' || isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
  document.getElementById('search')!.focus();
  event.preventDefault();
}

async function start(): Promise<void> {
  const data = await readData();
  const { trace, diff, files, races } = data.head;
  const map = files.length === 0 ? null : mapSection(data);
  const sites = map === null ? null : sitesSection(data, map.pick);
  const traced = trace === null ? null : traceSection(data, trace);
  const compared = diff === null ? null : diffSection(data, diff);
  const sections = [
    sites?.element ?? null,
    map?.element ?? null,
    traced?.element ?? null,
    compared?.element ?? null,
    races.length === 0 ? null : raceSection(data.head),
    files.length === 0 ? null : filesSection(data),
  ];
  const shown = sections.filter((each) => each !== null);
  const link = (section: HTMLElement): HTMLElement =>
    el('a', { href: `#${section.id}` }, section.querySelector('h2')!.textContent);
  const nav = el('nav', { 'aria-label': 'Parts of the page' }, ...shown.map(link), themeChoice());
  const main = document.getElementById('main')!;
  main.before(nav);
  main.replaceChildren(...shown);
  for (const each of [sites, traced, compared]) each?.mount();
  document.addEventListener('keydown', searchKey);
  document.documentElement.dataset['ready'] = 'yes';
}

start().catch((error: unknown) => {
  const loading = document.getElementById('loading');
  const text = `The page could not be shown: ${String(error)}`;
  if (loading === null) document.getElementById('main')!.prepend(el('p', { role: 'alert' }, text));
  else loading.textContent = text;
});
