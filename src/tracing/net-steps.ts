/**
 * The steps of a plan from what a session did to its copy of an image. They are the session's own
 * stores, less what nothing remains of: sites that no ops has taken, and rooms of a core that came
 * to rest.
 */
import type { Arch } from '../machine/arch.js';
import type { ElfImage } from '../elf/image.js';
import { type ReplacedCode, settleKeptRelocations } from '../patch/kept-relocations.js';
import type { Step } from '../patch/plan.js';
import { trampolineSection } from '../program/program.js';
import { settleIdleSites } from './idle-sites.js';
import { dataSection } from './inject.js';
import type { Session } from './session.js';

export interface NetSteps {
  readonly steps: readonly Step[];
  /** Sites that became nops as in a kernel that starts (C-INIT-2). */
  readonly initialised: readonly number[];
}

/**
 * The image that a file gets. Where no ops is registered any more, what the core wrote into its own
 * room for earlier ones goes too: the file is the image with its sites off and nothing else (F-3).
 * In a machine it stays: a thread may still be on its way through it.
 */
function atRest(session: Session, image: ElfImage): Uint8Array {
  const bytes = session.bytes();
  const { list, graph, direct } = session.core.state;
  if (list.length > 0 || direct.size > 0 || graph.users.some((user) => user !== null)) return bytes;
  for (const name of [dataSection, trampolineSection]) {
    const room = image.section(name);
    if (room !== undefined) bytes.set(image.contents(room), room.offset);
  }
  return bytes;
}

/**
 * @param image     as it was when the session was opened
 * @param replaced  code that breakpoints or jumps of probes stand for
 */
export function netSteps(session: Session, image: ElfImage, arch: Arch, replaced: readonly ReplacedCode[]): NetSteps {
  const { ledger } = session;
  const after = atRest(session, image);
  const initialised = settleIdleSites(session, after);
  for (const { at, bytes, reason } of settleKeptRelocations(
    image,
    arch,
    after,
    ledger.changed(image, after),
    replaced,
  )) {
    ledger.note(at, bytes.length, { rule: 'K-REL-2', site: -1, reason });
    after.set(bytes, at);
  }
  return { steps: ledger.steps(image, after), initialised };
}
