/**
 * Pictures of pages, small enough to be kept: each dot is the mean of a square. Means of squares
 * hardly feel how a version of the browser smooths letters, and feel what is moved, missing or of
 * another colour. The browser itself unpacks and writes PNG.
 */
import type { Page } from 'playwright-core';

/** Side of a square. */
const SQUARE = 8;
/** Of 255, in one of the colours: as far apart dots may be. */
const NEAR = 20;

/** Script of the browser: the dots of a PNG in base64. */
const dots = `async (base64) => {
  const bytes = Uint8Array.from(atob(base64), (each) => each.charCodeAt(0));
  const image = await createImageBitmap(new Blob([bytes], { type: 'image/png' }));
  const canvas = new OffscreenCanvas(image.width, image.height);
  const context = canvas.getContext('2d');
  context.drawImage(image, 0, 0);
  return context.getImageData(0, 0, image.width, image.height);
}`;

/** A picture, its sides divided by SQUARE, as base64 of a PNG. */
export async function downscaled(page: Page, png: Uint8Array): Promise<string> {
  const base64 = Buffer.from(png).toString('base64');
  return page.evaluate(`(async () => {
    const { width, height, data } = await (${dots})(${JSON.stringify(base64)});
    const [columns, rows] = [Math.floor(width / ${SQUARE}), Math.floor(height / ${SQUARE})];
    const canvas = new OffscreenCanvas(columns, rows);
    const context = canvas.getContext('2d');
    const small = context.createImageData(columns, rows);
    for (let row = 0; row < rows; row++) for (let column = 0; column < columns; column++) {
      const sum = [0, 0, 0];
      for (let y = 0; y < ${SQUARE}; y++) for (let x = 0; x < ${SQUARE}; x++) {
        const at = ((row * ${SQUARE} + y) * width + column * ${SQUARE} + x) * 4;
        for (let each = 0; each < 3; each++) sum[each] += data[at + each];
      }
      const to = (row * columns + column) * 4;
      for (let each = 0; each < 3; each++) small.data[to + each] = Math.round(sum[each] / ${SQUARE * SQUARE});
      small.data[to + 3] = 255;
    }
    context.putImageData(small, 0, 0);
    const bytes = new Uint8Array(await (await canvas.convertToBlob({ type: 'image/png' })).arrayBuffer());
    let text = '';
    for (const each of bytes) text += String.fromCharCode(each);
    return btoa(text);
  })()`) as Promise<string>;
}

/** The share of dots that differ, and both sizes. Pictures of other sizes differ as a whole. */
export async function compareShots(
  page: Page,
  one: string,
  other: string,
): Promise<{ readonly different: number; readonly sizes: readonly [string, string] }> {
  return page.evaluate(`(async () => {
    const [a, b] = [await (${dots})(${JSON.stringify(one)}), await (${dots})(${JSON.stringify(other)})];
    const sizes = [a, b].map(({ width, height }) => width + 'x' + height);
    if (sizes[0] !== sizes[1]) return { different: 1, sizes };
    let different = 0;
    for (let at = 0; at < a.data.length; at += 4) {
      const isFar = [0, 1, 2].some((each) => Math.abs(a.data[at + each] - b.data[at + each]) > ${NEAR});
      if (isFar) different++;
    }
    return { different: different / (a.data.length / 4), sizes };
  })()`) as Promise<{ different: number; sizes: [string, string] }>;
}
