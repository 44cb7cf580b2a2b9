/**
 * The frame of pages: one file that loads nothing, whose policy lets run only the script and apply
 * only the style that it came with. Foreign text (names of symbols, files, sections) comes in
 * through `escapeHtml`, or as data that the script shows as text.
 */
import { sha256 } from '../sha256.js';
import { visible } from '../visible.js';

const entities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

/** Foreign text for contents and attributes in quotes; what would hide or reorder text is shown. */
export const escapeHtml = (text: string): string => visible(text).replace(/[&<>"']/g, (each) => entities[each]!);

export interface HtmlFrame {
  /** Plain text. */
  readonly title: string;
  readonly style: string;
  /** HTML of ours, with every foreign text escaped. */
  readonly body: string;
  /** A classic script of ours; none: the page runs nothing. */
  readonly script?: string;
}

/** `'sha256-…'`, as a policy names a script or style. */
function source(text: string): string {
  const digest = sha256(new TextEncoder().encode(text));
  const bytes = digest.match(/../g)!.map((each) => String.fromCharCode(parseInt(each, 16)));
  return `'sha256-${btoa(bytes.join(''))}'`;
}

/**
 * A whole page. Neither style nor script may hold the end tag of its element.
 * @throws RangeError where one does: a fault of the caller
 */
export function htmlFrame({ title, style, body, script }: HtmlFrame): string {
  if (/<\/style/i.test(style) || /<\/script|<!--/i.test(script ?? '')) throw new RangeError('an end tag inside');
  const policy = [
    "default-src 'none'",
    `style-src ${source(style)}`,
    `script-src ${script === undefined ? "'none'" : source(script)}`,
    "base-uri 'none'",
    "form-action 'none'",
    "require-trusted-types-for 'script'",
  ].join('; ');
  return `<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="viewport" content="width=device-width,initial-scale=1"><meta name="referrer" content="no-referrer">
<title>${escapeHtml(title)}</title><style>${style}</style></head><body>
${body}${script === undefined ? '' : `\n<script>${script}</script>`}
</body></html>
`;
}
