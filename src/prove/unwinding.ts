/**
 * Callbacks may walk the frames above them, as a kernel's do for traces of stacks: what the tracer
 * puts on the stack has to lead to the caller of the function (PV-1, 4), where the machine links
 * frames at all.
 */
import type { Abi } from '../machine/abi.js';
import type { ProcessModel } from '../machine/emulation.js';
import type { Begun } from './state.js';
import type { ProofWorld } from './world.js';

/** More frames than the tracer ever has above a callback. */
const FRAMES = 32;

/**
 * Whether the frames from the one that runs upwards lead to that of the function's caller. Always,
 * where nothing in memory alone says it.
 */
export function leadsUp(
  world: ProofWorld,
  frames: ProcessModel['frames'],
  { stackPointer }: Abi,
  { stackPointer: caller, registers }: Pick<Begun, 'stackPointer' | 'registers'>,
): boolean {
  if (frames.kind !== 'back-chain' && frames.kind !== 'frame-record') return true;
  const isChain = frames.kind === 'back-chain';
  const [from, to] = isChain ? [stackPointer, caller] : [frames.register, registers.get(frames.register)];
  for (let at = world.machine.register(from), n = 0; n < FRAMES; n++) {
    if (at === to) return true;
    const next = world.word(at);
    if (isChain && next <= at) return false;
    at = next;
  }
  return false;
}
