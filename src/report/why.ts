/** What `whyFunction` found, as JSON and as lines. */
import { hex } from '../errors.js';
import { mechanisms, type WhyFunction } from '../why/index.js';
import { demangledJson, type Json } from './json.js';

/** One function of one image. */
export function whyJson({ name, source, section, address, by }: WhyFunction): Json {
  return {
    name,
    ...demangledJson(name),
    ...(source === '' ? {} : { source }),
    section,
    address: address === null ? null : hex(address),
    by: Object.fromEntries(mechanisms.map((each) => [each, { ...by[each] }])),
  };
}

/**
 * What `why` prints of a function.
 * @param file  for the first line
 */
export function whyLines(file: string, { name, source, section, address, by }: WhyFunction): string[] {
  const whose = source === '' ? name : `${name} (${source})`;
  const place = section === null || address === null ? '' : `, ${section} ${hex(address)}`;
  return [
    `${file}: ${whose}${place}`,
    ...mechanisms.map((each) => `  ${each.padEnd(8)}${by[each].answer}: ${by[each].reason}`),
  ];
}
