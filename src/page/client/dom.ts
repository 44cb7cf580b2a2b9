/** Elements, made without markup: every text of the data is a text node or an attribute. */

type Child = Node | string | null;
type Properties = Readonly<Record<string, string | number | boolean>>;

function fill<E extends Element>(element: E, properties: Properties, children: readonly Child[]): E {
  for (const [name, value] of Object.entries(properties)) {
    if (value !== false) element.setAttribute(name, value === true ? '' : String(value));
  }
  for (const child of children) if (child !== null) element.append(child);
  return element;
}

export function el<K extends keyof HTMLElementTagNameMap>(
  name: K,
  properties: Properties = {},
  ...children: readonly Child[]
): HTMLElementTagNameMap[K] {
  return fill(document.createElement(name), properties, children);
}

export function svg<K extends keyof SVGElementTagNameMap>(
  name: K,
  properties: Properties = {},
  ...children: readonly Child[]
): SVGElementTagNameMap[K] {
  return fill(document.createElementNS('http://www.w3.org/2000/svg', name), properties, children);
}

export function button(text: string, press: () => void, properties: Properties = {}): HTMLButtonElement {
  const made = el('button', { type: 'button', ...properties }, text);
  made.addEventListener('click', press);
  return made;
}

/** A select with its label; the value of the first option is ''. */
export function choice(
  label: string,
  first: string,
  options: readonly string[],
  changed: (value: string) => void,
): { readonly label: HTMLLabelElement; readonly select: HTMLSelectElement } {
  const select = el('select', {}, el('option', { value: '' }, first), ...options.map((each) => el('option', {}, each)));
  select.addEventListener('change', () => {
    changed(select.value);
  });
  return { label: el('label', {}, label, select), select };
}

/** Pixels across that a drawing may take: as many as its box has, within what can be read. */
export const drawingWidth = Math.min(2200, Math.max(340, document.documentElement.clientWidth - 42));

/** `1,234` */
export const count = (value: number): string => String(value).replace(/\B(?=(\d{3})+$)/g, ',');
