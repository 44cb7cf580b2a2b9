/** Options of a machine that decide the bytes of sites. */
import { conventionNamed } from '../machine/conventions.js';
import { chosen, chosenBeside } from '../machine/options.js';
import type { WritableState } from '../machine/sites.js';
import type { Address } from '../units.js';
import type { OpenedImage } from './open.js';
import type { PatchRequest } from './request.js';

/** The name of the convention that an option of the machine asks for. */
export const conventionAsked = ({ arch }: OpenedImage, { machine }: PatchRequest): string | undefined =>
  chosen(arch.options, 'convention', machine);

/** The same as the form of a site, on machines whose shapes have one for each convention. */
export function formAsked(opened: OpenedImage, request: PatchRequest): { readonly form?: string } {
  const form = conventionAsked(opened, request);
  if (form === undefined || conventionNamed(opened.arch.conventions, form)?.idle.named !== true) return {};
  return { form };
}

/**
 * What `--init` or `--nop` makes of a site.
 * @param idle  the ops that an initialised site names; null: it names none
 */
export function stateWithout(opened: OpenedImage, request: PatchRequest, idle: Address | null): WritableState {
  if (request.to === 'init') {
    return { kind: 'init', ...formAsked(opened, request), ...(idle === null ? {} : { literal: idle }) };
  }
  const form = chosenBeside(opened.arch.options, 'nop-form', request.machine);
  return { kind: 'nop', ...(form === undefined ? {} : { form }) };
}
