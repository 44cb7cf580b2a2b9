/**
 * Users of the graph tracer come and go while a function is on its way back (PV-3): who is gone
 * hears nothing of the return, nor does who came.
 */
import type { Program } from '../program/program.js';
import { GRAPH_USER_COUNT, OPS_WORDS, RING_HEADER_BYTES } from '../runtime/abi.js';
import type { ChangedUsers, GraphUser } from './graph-users.js';
import type { Random } from './random.js';
import type { TracerMemory } from './state-writer.js';

export const NO_CHANGE: ChangedUsers = { gone: new Set(), came: [] };

/**
 * Takes some users off the table, and puts others in free places.
 * @param users  those of the table
 */
export function changeUsers(
  program: Program,
  { ring, capacity, recordBytes, word, store }: TracerMemory,
  users: readonly GraphUser[],
  random: Random,
): ChangedUsers {
  const [table, stub] = ['elftrace_graph_users', 'elftrace_stub_text'].map((name) =>
    program.definedAt(program.symbols.find(name)),
  );
  if ((table ?? null) === null || (stub ?? null) === null) return NO_CHANGE;
  // Its object lies among records that no trial writes, behind those of tables that are filled.
  const ops = ring + BigInt(RING_HEADER_BYTES) + ((capacity * 7n) / 8n) * recordBytes;
  const gone = new Set<GraphUser>();
  const came: GraphUser[] = [];
  for (let i = 0; i < GRAPH_USER_COUNT; i++) {
    const user = users.find(({ bit }) => bit === 1n << BigInt(i));
    const place = table! + BigInt(i * word);
    if (user === undefined && random.below(2) === 0) {
      store(place, ops, word);
      came.push({ bit: 0n, ops, isRecorded: false, answer: 0n, hearsReturns: false, takes: () => false });
    } else if (user !== undefined && random.below(3) === 0) {
      store(place, 0n, word);
      gone.add(user);
    }
  }
  for (const name of ['func', 'directCall'] as const) store(ops + BigInt(OPS_WORDS[name] * word), stub!, word);
  return { gone, came };
}
