/**
 * Users of the graph tracer (C-FG-5): which of them take a call, and their callbacks, in whose
 * place the proof answers where it made the users itself (PV-3).
 */
import type { Abi } from '../machine/abi.js';
import type { ProofModel } from '../machine/proof.js';
import type { Program } from '../program/program.js';
import { GRAPH_USER_COUNT, OPS_WORDS } from '../runtime/abi.js';
import type { Address, RegisterName } from '../units.js';
import { mix, Random } from './random.js';
import { isAligned } from './state.js';
import type { ProofWorld } from './world.js';

/** A function that takes all sites that its hashes match. */
export interface GraphUser {
  readonly bit: bigint;
  /** Its object. */
  readonly ops: Address;
  /** It has no callbacks: its calls are recorded. */
  readonly isRecorded: boolean;
  /** What its callback answers; null: the proof does not know. */
  readonly answer: bigint | null;
  /** It has a callback for returns. */
  readonly hearsReturns: boolean;
  readonly takes: (ip: Address) => boolean;
}

/** Users that come and go while a function is on its way back. */
export interface ChangedUsers {
  readonly gone: ReadonlySet<GraphUser>;
  readonly came: readonly GraphUser[];
}

/** Whether a user wants to hear of the return of a call. */
export const wantsCall = ({ takes, answer }: GraphUser, ip: Address): boolean => takes(ip) && answer !== 0n;

export function wordReader({ reader, image }: Program): (address: Address) => bigint {
  return (address) => {
    const value = image.wordBytes === 8 ? reader.u64(address) : BigInt(reader.u32(address));
    return value === null || value < 0n ? 0n : value;
  };
}

/** Users of the graph tracer, as the image lists them. */
export function graphUsers(program: Program, users: Address): GraphUser[] {
  const word = wordReader(program);
  const size = BigInt(program.image.wordBytes);
  const sitesOf = (hash: Address): ReadonlySet<Address> =>
    new Set(Array.from({ length: Number(word(hash)) }, (_, i) => word(hash + BigInt(1 + i) * size)));
  return Array.from({ length: GRAPH_USER_COUNT }, (_, i) => {
    const ops = word(users + BigInt(i) * size);
    if (ops === 0n) return null;
    const field = (name: keyof typeof OPS_WORDS): bigint => word(ops + BigInt(OPS_WORDS[name]) * size);
    const [filter, notrace] = [field('filter'), field('notrace')];
    const [taken, left] = [filter === 0n ? null : sitesOf(filter), notrace === 0n ? null : sitesOf(notrace)];
    return {
      bit: 1n << BigInt(i),
      ops,
      isRecorded: field('func') === 0n && field('directCall') === 0n,
      answer: null,
      hearsReturns: field('directCall') !== 0n,
      takes: (ip: Address) => (taken?.has(ip) ?? true) && left?.has(ip) !== true,
    };
  }).filter((each) => each !== null);
}

/** A callback was called. */
interface Seen {
  readonly user: GraphUser;
  readonly arguments: readonly bigint[];
  /** What the thread's block said of callbacks that run. */
  readonly active: bigint;
  /** The stack pointer was as the ABI wants it at a function's entry. */
  readonly isAligned: boolean;
  /** The frames above lead to the function's caller. */
  readonly leadsUp: boolean;
}

/** A call of which users are told. */
export interface UserCall {
  readonly ip: Address;
  readonly parents: readonly Address[];
  /** Its entry on the graph tracer's stack. */
  readonly entry: Address;
  readonly active: { readonly enter: bigint; readonly return: bigint };
  readonly isAsked: boolean;
}

/** Calls of users' callbacks in a trial. */
export class UserCalls {
  private users: readonly GraphUser[] = [];
  private gone: ReadonlySet<GraphUser> = new Set();
  private seen: Seen[] = [];
  private random = new Random(1);
  private isHooked = false;

  /** @param text  of the function that all callbacks are: one that does nothing */
  constructor(
    private readonly text: Address,
    private readonly abi: Abi,
    private readonly proof: ProofModel,
  ) {}

  /**
   * @param active   what the thread's block says of callbacks that run
   * @param leadsUp  whether the frames above a callback lead to the function's caller
   */
  begin(
    world: ProofWorld,
    users: readonly GraphUser[],
    { active, leadsUp, seed }: { active: () => bigint; leadsUp: () => boolean; seed: number },
  ): void {
    this.users = users.filter(({ answer }) => answer !== null);
    this.gone = new Set();
    this.seen = [];
    this.random = new Random(mix(3, seed));
    this.active = active;
    this.leadsUp = leadsUp;
    this.watch(world);
  }

  /** Users come and go before the function returns. */
  change(world: ProofWorld, { gone, came }: ChangedUsers): void {
    this.gone = gone;
    this.users = [...this.users, ...came];
    this.watch(world);
  }

  private watch(world: ProofWorld): void {
    if (this.isHooked || this.users.length === 0) return;
    this.isHooked = true;
    world.machine.hook(this.text, () => {
      this.serve(world);
      return 'continue';
    });
  }

  private active = (): bigint => 0n;
  private leadsUp = (): boolean => true;

  /** Answers in the place of a callback, which leaves anything in what calls may change. */
  private serve(world: ProofWorld): void {
    const { machine } = world;
    const { abi, proof } = this;
    const told = abi.argumentRegisters.slice(0, 4).map((name) => machine.register(name));
    const user = this.users.find(({ ops }) => ops === told[2]);
    if (user === undefined) return;
    const pointer = machine.register(abi.stackPointer);
    this.seen.push({
      user,
      arguments: told,
      active: this.active(),
      isAligned: isAligned(pointer, proof),
      leadsUp: this.leadsUp(),
    });
    const back = abi.linkRegister === null ? world.word(pointer) : null;
    if (back === null) machine.setRegister('pc', machine.register(abi.linkRegister!));
    else {
      machine.setRegister('pc', back);
      machine.setRegister(abi.stackPointer, pointer + BigInt(machine.lifter.addressBits / 8));
    }
    // Not all entries save the static chain.
    const free = [...abi.argumentRegisters, ...proof.results].filter((name) => proof.volatile.includes(name));
    for (const name of free) this.set(world, name, this.random.leftover());
    this.set(world, proof.results[0]!, user.answer!);
  }

  private hears(user: GraphUser): boolean {
    return user.hearsReturns && !this.gone.has(user);
  }

  private set({ machine }: ProofWorld, name: RegisterName, value: bigint): void {
    machine.setRegister(name, BigInt.asUintN(machine.lifter.addressBits, value));
  }

  /**
   * What is wrong with the calls of callbacks, in a sentence; null: nothing is.
   * @param call  with where the function may be said to return to, and what the thread's block says
   *   of other callbacks around the call and the return
   */
  wrong({ ip, parents, entry, active: around, isAsked }: UserCall, phase: 'enter' | 'return'): string | null {
    const asked = isAsked ? this.users.filter(({ takes }) => takes(ip)) : [];
    const told = phase === 'enter' ? [] : asked.filter((each) => this.hears(each) && wantsCall(each, ip));
    const wanted = [...asked, ...told];
    for (const [i, { user, arguments: found, active, isAligned: isRightStack, leadsUp }] of this.seen.entries()) {
      if (wanted[i] !== user) return `a user of the graph tracer was asked that should not be`;
      const isRight = found[0] === ip && parents.includes(found[1]!) && found[3] === entry;
      if (!isRight) return 'a user of the graph tracer was told another call';
      if (!isRightStack) return 'a user of the graph tracer was called with a stack that is not aligned';
      if (!leadsUp)
        return "a user of the graph tracer was called with frames that do not lead to the function's caller";
      if (active !== (around[i < asked.length ? 'enter' : 'return'] | GRAPH_RUNS))
        return 'a callback of the graph tracer runs, and its thread does not say so';
    }
    return this.seen.length === wanted.length ? null : 'a user of the graph tracer was not asked';
  }
}

/** Bit of a thread's `active`: a callback of the graph tracer runs. */
const GRAPH_RUNS = 2n;
