/**
 * The state that `fxsave` and `xsave` store, and `fxrstor` and `xrstor` load. The area of `xsave`:
 *
 *   0    512 bytes as of `fxsave`: x87 (component 0), XMM registers and MXCSR (component 1)
 *   512  header: XSTATE_BV, a bit for each component that is not in its initial state; XCOMP_BV 0
 *   576  upper halves of the YMM registers (component 2)
 *
 * A program says in edx:eax which components it means. Of those that XSTATE_BV does not name
 * `xrstor` makes the initial state.
 *
 * Source: Intel SDM volume 1, 10.5.1 and chapter 13; volume 2, FXSAVE, FXRSTOR, XSAVE, XRSTOR,
 * XGETBV.
 */
import type { Helper, HelperResult, HelperState } from '../machine/ir.js';
import type { Address } from '../units.js';
import {
  ARGUMENT, FCW, FCW_INITIAL, FDP, FIP, FOP, FPR, FSW, FTW, MXCSR, MXCSR_INITIAL, ONES, PENDING, RAX, RCX, RDX,
  setMxcsr, x87Number, X87_EXCEPTIONS, XMM, YMM,
} from './state.js'; // prettier-ignore

/** Bytes of what `fxsave` stores, and of the part that it writes: the rest is the program's. */
const FXSAVE = { bytes: 512, written: 416 } as const;
/** Components that there are, and where those of `xsave` lie. */
export const XSAVE = { components: 7n, header: 512, upper: 576, upperBytes: 256, bytes: 832 } as const;
const COMPONENT = { x87: 1n, sse: 2n, avx: 4n } as const;
const PROTECTION = { kind: 'trap', trap: 'protection' } as const satisfies HelperResult;
const NEXT = { kind: 'next' } as const satisfies HelperResult;

/** Why so many bytes at a multiple of `align` cannot be accessed so; null: they can. */
function refusalOf(
  { memory }: HelperState,
  at: Address,
  bytes: number,
  align: bigint,
  access: 'read' | 'write',
): HelperResult | null {
  if (at % align !== 0n) return PROTECTION;
  const address = memory.check(at, bytes, access);
  return address === null ? null : { kind: 'fault', address, access };
}

const viewOf = (bytes: Uint8Array): DataView => new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);

/** @param isLong  addresses of 64 bits */
function putX87(state: HelperState, view: DataView, isLong: boolean): void {
  view.setUint16(0, Number(state.get(FCW) ^ FCW_INITIAL), true);
  view.setUint16(2, Number(state.get(FSW)), true);
  view.setUint16(4, Number(state.get(FTW)), true);
  view.setUint16(6, Number(state.get(FOP)), true);
  const pointer = isLong ? ONES : 0xffff_ffffn;
  view.setBigUint64(8, state.get(FIP) & pointer, true);
  view.setBigUint64(16, state.get(FDP) & pointer, true);
  FPR.forEach((_, i) => {
    const slot = FPR[x87Number(state, i)]!;
    view.setBigUint64(32 + 16 * i, state.get(slot), true);
    view.setBigUint64(40 + 16 * i, state.get(slot, 1) & 0xffffn, true);
  });
}

function takeX87(state: HelperState, view: DataView, isLong: boolean): void {
  const control = (BigInt(view.getUint16(0, true)) & 0x1f3fn) | 0x40n;
  const status = BigInt(view.getUint16(2, true)) & ~PENDING;
  state.set(FCW, control ^ FCW_INITIAL);
  state.set(FSW, (status & ~control & X87_EXCEPTIONS) === 0n ? status : status | PENDING);
  state.set(FTW, BigInt(view.getUint8(4)));
  state.set(FOP, BigInt(view.getUint16(6, true) & 0x7ff));
  const pointer = isLong ? ONES : 0xffff_ffffn;
  state.set(FIP, view.getBigUint64(8, true) & pointer);
  state.set(FDP, view.getBigUint64(16, true) & pointer);
  FPR.forEach((_, i) => {
    const slot = FPR[x87Number(state, i)]!;
    state.set(slot, view.getBigUint64(32 + 16 * i, true));
    state.set(slot, view.getBigUint64(40 + 16 * i, true) & 0xffffn, 1);
  });
}

function putMxcsr(state: HelperState, view: DataView): void {
  view.setUint32(24, Number(state.get(MXCSR) ^ MXCSR_INITIAL), true);
  view.setUint32(28, 0xffff, true);
}

function putVectors(state: HelperState, view: DataView, slots: readonly number[], at: number): void {
  slots.forEach((slot, i) => {
    view.setBigUint64(at + 16 * i, state.get(slot), true);
    view.setBigUint64(at + 8 + 16 * i, state.get(slot, 1), true);
  });
}

function takeVectors(state: HelperState, view: DataView, slots: readonly number[], at: number): void {
  slots.forEach((slot, i) => {
    state.set(slot, view.getBigUint64(at + 16 * i, true));
    state.set(slot, view.getBigUint64(at + 8 + 16 * i, true), 1);
  });
}

/** What a component is at the start: as of an area in which it is not. */
function initialView(): DataView {
  const view = viewOf(new Uint8Array(XSAVE.bytes));
  view.setUint16(0, Number(FCW_INITIAL), true);
  view.setUint32(24, Number(MXCSR_INITIAL), true);
  return view;
}

const isZero = (state: HelperState, slots: readonly number[]): boolean =>
  slots.every((slot) => state.get(slot) === 0n && state.get(slot, 1) === 0n);

/** The components that are not in their initial state. */
function inUse(state: HelperState): bigint {
  const isInitial = [FCW, FSW, FTW, FOP, FIP, FDP].every((slot) => state.get(slot) === 0n) && isZero(state, FPR);
  return (
    (isInitial ? 0n : COMPONENT.x87) |
    (isZero(state, XMM) && state.get(MXCSR) === 0n ? 0n : COMPONENT.sse) |
    (isZero(state, YMM) ? 0n : COMPONENT.avx)
  );
}

/** The components that edx:eax asks for. */
const asked = (state: HelperState): bigint => state.get(RAX) & XSAVE.components;

const sizeOf = (components: bigint): number => ((components & COMPONENT.avx) !== 0n ? XSAVE.bytes : XSAVE.upper);

/**
 * What `xsave64` stores of these components.
 * @returns what became of it: memory may not be there, or not at a multiple of 64
 */
export function xsave(state: HelperState, at: Address, components: bigint, isLong: boolean): HelperResult {
  const size = sizeOf(components);
  const refusal = refusalOf(state, at, size, 64n, 'write');
  if (refusal) return refusal;
  const bytes = state.memory.read(at, size)!;
  const view = viewOf(bytes);
  if ((components & COMPONENT.x87) !== 0n) putX87(state, view, isLong);
  if ((components & COMPONENT.sse) !== 0n) putVectors(state, view, XMM, 160);
  if ((components & (COMPONENT.sse | COMPONENT.avx)) !== 0n) putMxcsr(state, view);
  if ((components & COMPONENT.avx) !== 0n) putVectors(state, view, YMM, XSAVE.upper);
  const before = view.getBigUint64(XSAVE.header, true);
  view.setBigUint64(XSAVE.header, (before & ~components) | (inUse(state) & components), true);
  // Two pieces: what lies between them is the program's.
  state.memory.write(at, bytes.subarray(0, FXSAVE.written));
  state.memory.write(at + BigInt(XSAVE.header), bytes.subarray(XSAVE.header));
  return NEXT;
}

/** What `xrstor64` loads of these components; changes nothing where it fails. */
export function xrstor(state: HelperState, at: Address, components: bigint, isLong: boolean): HelperResult {
  const size = sizeOf(components);
  const refusal = refusalOf(state, at, size, 64n, 'read');
  if (refusal) return refusal;
  const view = viewOf(state.memory.read(at, size)!);
  const present = view.getBigUint64(XSAVE.header, true);
  const isCompact = view.getBigUint64(XSAVE.header + 8, true) !== 0n;
  if ((present & ~XSAVE.components) !== 0n || isCompact || view.getBigUint64(XSAVE.header + 16, true) !== 0n) {
    return PROTECTION;
  }
  const mxcsr = BigInt(view.getUint32(24, true));
  const hasMxcsr = (components & (COMPONENT.sse | COMPONENT.avx)) !== 0n;
  if (hasMxcsr && mxcsr > 0xffffn) return PROTECTION;
  const from = (component: bigint): DataView => ((present & component) !== 0n ? view : initialView());
  if ((components & COMPONENT.x87) !== 0n) takeX87(state, from(COMPONENT.x87), isLong);
  if ((components & COMPONENT.sse) !== 0n) takeVectors(state, from(COMPONENT.sse), XMM, 160);
  if ((components & COMPONENT.avx) !== 0n) takeVectors(state, from(COMPONENT.avx), YMM, XSAVE.upper);
  if (hasMxcsr) setMxcsr(state, mxcsr);
  return NEXT;
}

/** What `fxsave` stores. */
export function fxsave(state: HelperState, at: Address, isLong: boolean): HelperResult {
  const refusal = refusalOf(state, at, FXSAVE.bytes, 16n, 'write');
  if (refusal) return refusal;
  const bytes = state.memory.read(at, FXSAVE.written)!;
  const view = viewOf(bytes);
  putX87(state, view, isLong);
  putMxcsr(state, view);
  putVectors(state, view, XMM, 160);
  state.memory.write(at, bytes);
  return NEXT;
}

/** What `fxrstor` loads. */
export function fxrstor(state: HelperState, at: Address, isLong: boolean): HelperResult {
  const refusal = refusalOf(state, at, FXSAVE.bytes, 16n, 'read');
  if (refusal) return refusal;
  const view = viewOf(state.memory.read(at, FXSAVE.written)!);
  const mxcsr = BigInt(view.getUint32(24, true));
  if (mxcsr > 0xffffn) return PROTECTION;
  takeX87(state, view, isLong);
  setMxcsr(state, mxcsr);
  takeVectors(state, view, XMM, 160);
  return NEXT;
}

/** The state that a program begins with. */
export function clearExtended(state: HelperState): void {
  takeX87(state, initialView(), true);
  takeVectors(state, initialView(), XMM, 160);
  takeVectors(state, initialView(), YMM, XSAVE.upper);
  setMxcsr(state, MXCSR_INITIAL);
}

/** Argument of the first four: 1 with an operand of 64 bits. */
export const EXTENDED_HELPERS: Readonly<Record<string, Helper>> = {
  fxsave: (state, argument) => fxsave(state, state.get(ARGUMENT), argument === 1),
  fxrstor: (state, argument) => fxrstor(state, state.get(ARGUMENT), argument === 1),
  xsave: (state, argument) => xsave(state, state.get(ARGUMENT), asked(state), argument === 1),
  xrstor: (state, argument) => xrstor(state, state.get(ARGUMENT), asked(state), argument === 1),
  xgetbv: (state) => {
    if ((state.get(RCX) & 0xffff_ffffn) !== 0n) return PROTECTION;
    state.set(RAX, XSAVE.components);
    state.set(RDX, 0n);
    return NEXT;
  },
};
