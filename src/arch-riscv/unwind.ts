/**
 * Where a function keeps its return address, read from its code. RISC-V has no back chain: compiled
 * code moves sp by a constant at a function's entry and stores ra where it likes; a frame pointer
 * (s0) is kept at -O0 only.
 *
 *   addi sp,sp,-32      frame of 32 bytes: CFA = sp + 32
 *   sd   ra,24(sp)      return address at CFA - 8
 *   sd   s0,16(sp)      frame pointer of the caller at CFA - 16
 *   addi s0,sp,32       from here on CFA = s0, whatever sp does
 *
 * (CFA, canonical frame address: sp as it was at the entry.) The instructions from the entry to the
 * place are followed in order of address; behind one that does not go on (`ret`, `j`) holds what
 * held at an earlier branch to there, else the whole frame. Good for code that compilers make;
 * hand-written code may mislead it, so what is found is for people.
 */
import type { FrameRule } from '../machine/emulation.js';
import { decodeAt, expand, instructionBytes, RA, SP, T0, ZERO } from './isa.js';

const S0 = 8;

/** What is known at an instruction. Offsets are from the CFA. */
interface State {
  /** CFA - sp; null where sp was moved by an unknown amount. */
  readonly frame: number | null;
  /** CFA - s0 where s0 is the frame pointer of this function. */
  readonly pointer: number | null;
  /** Where ra and the caller's s0 were saved; null: still in the register. */
  readonly link: number | null;
  readonly saved: number | null;
}

/** Constants that the code before has put into registers, for frames that no immediate reaches. */
type Constants = Map<number, number>;

/** True when `to` has saved a register, or set up a frame pointer, that `from` had not. */
function savesMore(from: State, to: State): boolean {
  return (['link', 'saved', 'pointer'] as const).some((each) => from[each] === null && to[each] !== null);
}

/** The rule at the end of `code`, which begins at a function's entry. */
export function frameRule(code: Uint8Array): FrameRule | null {
  let state: State = { frame: 0, pointer: null, link: null, saved: null };
  let whole = state;
  const constants: Constants = new Map();
  const at = new Map<number, State>();
  let offset = 0;
  while (offset + 2 <= code.length) {
    state = at.get(offset) ?? state;
    const found = decodeAt(code, offset);
    if (!found) {
      offset += instructionBytes(code[offset]! | (code[offset + 1]! << 8));
      continue;
    }
    const { row, operands } = expand(found);
    const { rd = -1, rs1 = -1, rs2 = -1, imm = 0, off = 0 } = operands;
    let goesOn = true;
    const before = state;
    // Whatever else is put into s0: it is no frame pointer any more.
    if (rd === S0) state = { ...state, pointer: null };
    switch (row.mnemonic) {
      case 'lui':
        constants.set(rd, operands['upper']!);
        break;
      case 'addi':
      case 'addiw':
        if (rd === SP && rs1 === SP && state.frame !== null) state = { ...state, frame: state.frame - imm };
        else if (rd === SP && rs1 === S0 && state.pointer !== null) state = { ...state, frame: state.pointer - imm };
        else if (rd === S0 && rs1 === SP && state.frame === imm) state = { ...state, pointer: 0 };
        else if (rs1 === ZERO) constants.set(rd, imm);
        else if (constants.has(rs1)) constants.set(rd, (constants.get(rs1)! + imm) | 0);
        else constants.delete(rd);
        break;
      case 'add':
        if (rd === SP) {
          const by = constants.get(rs1 === SP ? rs2 : rs1);
          state = { ...state, frame: state.frame === null || by === undefined ? null : state.frame - by };
        } else constants.delete(rd);
        break;
      case 'sub':
      case 'andi':
        if (rd === SP) state = { ...state, frame: null };
        break;
      case 'sd':
        if (rs1 !== SP || state.frame === null) break;
        if (rs2 === RA) state = { ...state, link: state.link ?? state.frame - imm };
        else if (rs2 === S0 && state.pointer === null) state = { ...state, saved: state.saved ?? state.frame - imm };
        break;
      case 'ld':
        if (rs1 === SP && rd === RA) state = { ...state, link: null };
        if (rs1 === SP && rd === S0) state = { ...state, saved: null, pointer: null };
        constants.delete(rd);
        break;
      case 'jal':
        if (rd === ZERO) {
          goesOn = false;
          if (!at.has(offset + off)) at.set(offset + off, state);
        }
        break;
      case 'jalr':
        // `jr t0` included: what saves registers for others (-msave-restore) is no function of its
        // own.
        goesOn = rd !== ZERO || rs1 === T0;
        break;
      default:
        if (row.flow === 'branch' && !at.has(offset + off)) at.set(offset + off, state);
    }
    // What a function saves at its entry, it has in its body; what it takes back, it takes back at
    // an end.
    const grew = before.frame !== null && (state.frame === null || state.frame > before.frame);
    if (grew || savesMore(before, state)) whole = state;
    if (!goesOn) state = whole;
    offset += row.mnemonic === found.row.mnemonic ? row.sizeBytes : found.row.sizeBytes;
  }
  state = at.get(offset) ?? state;
  if (state.pointer === null && state.frame === null) return null;
  return {
    cfa:
      state.pointer !== null
        ? { register: 'frame', offset: state.pointer }
        : { register: 'stack', offset: state.frame! },
    link: state.link === null ? null : -state.link,
    framePointer: state.saved === null ? null : -state.saved,
  };
}
