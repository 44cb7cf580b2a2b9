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

type Operands = ReturnType<typeof expand>['operands'];

/** Constants that the code before has put into registers, for frames that no immediate reaches. */
type Constants = Map<number, number>;

/** True when `to` has saved a register, or set up a frame pointer, that `from` had not. */
function savesMore(from: State, to: State): boolean {
  return (['link', 'saved', 'pointer'] as const).some((each) => from[each] === null && to[each] !== null);
}

/** The rule at the end of `code`, which begins at a function's entry. */
export function frameRule(code: Uint8Array): FrameRule | null {
  const walk = new FrameWalk();
  let offset = 0;
  while (offset + 2 <= code.length) {
    const found = decodeAt(code, offset);
    if (!found) {
      walk.arrive(offset);
      offset += instructionBytes(code[offset]! | (code[offset + 1]! << 8));
      continue;
    }
    const expanded = expand(found);
    walk.step(expanded, offset);
    const { row } = expanded;
    offset += row.mnemonic === found.row.mnemonic ? row.sizeBytes : found.row.sizeBytes;
  }
  const { frame, pointer, link, saved } = walk.arrive(offset);
  if (pointer === null && frame === null) return null;
  return {
    cfa: pointer !== null ? { register: 'frame', offset: pointer } : { register: 'stack', offset: frame! },
    link: link === null ? null : -link,
    framePointer: saved === null ? null : -saved,
  };
}

/** What is known of the frame on the way through a function, instruction by instruction. */
class FrameWalk {
  private state: State = { frame: 0, pointer: null, link: null, saved: null };
  /** In the body of the function. */
  private whole = this.state;
  private readonly constants: Constants = new Map();
  /** Where branches lead to. */
  private readonly at = new Map<number, State>();

  /** The state in front of the instruction at an offset. */
  arrive(offset: number): State {
    this.state = this.at.get(offset) ?? this.state;
    return this.state;
  }

  step({ row, operands }: ReturnType<typeof expand>, offset: number): void {
    const before = this.arrive(offset);
    // Whatever else is put into s0: it is no frame pointer any more.
    if (operands['rd'] === S0) this.change({ pointer: null });
    const goesOn = this.branch(row, operands, offset);
    this.move(row.mnemonic, operands);
    // What a function saves at its entry, it has in its body; what it takes back, it takes back at
    // an end.
    const { state } = this;
    const grew = before.frame !== null && (state.frame === null || state.frame > before.frame);
    if (grew || savesMore(before, state)) this.whole = state;
    if (!goesOn) this.state = this.whole;
  }

  private change(changed: Partial<State>): void {
    this.state = { ...this.state, ...changed };
  }

  /** Notes where a branch leads; false: nothing goes on behind it. */
  private branch(
    row: { readonly mnemonic: string; readonly flow: string },
    operands: Operands,
    offset: number,
  ): boolean {
    const { rd = -1, rs1 = -1, off = 0 } = operands;
    const leads = row.mnemonic === 'jal' ? rd === ZERO : row.flow === 'branch';
    if (leads && !this.at.has(offset + off)) this.at.set(offset + off, this.state);
    if (row.mnemonic === 'jal') return rd !== ZERO;
    // `jr t0` included: what saves registers for others (-msave-restore) is no function of its own.
    return row.mnemonic !== 'jalr' || rd !== ZERO || rs1 === T0;
  }

  /** What an instruction does to sp, s0 and the constants, and what it saves. */
  private move(mnemonic: string, operands: Operands): void {
    const { state, constants } = this;
    const { rd = -1, rs1 = -1, rs2 = -1, imm = 0 } = operands;
    switch (mnemonic) {
      case 'lui':
        constants.set(rd, operands['upper']!);
        break;
      case 'addi':
      case 'addiw':
        this.addConstant(rd, rs1, imm);
        break;
      case 'add':
        if (rd === SP) {
          const by = constants.get(rs1 === SP ? rs2 : rs1);
          this.change({ frame: state.frame === null || by === undefined ? null : state.frame - by });
        } else constants.delete(rd);
        break;
      case 'sub':
      case 'andi':
        if (rd === SP) this.change({ frame: null });
        break;
      case 'sd':
        if (rs1 !== SP || state.frame === null) break;
        if (rs2 === RA) this.change({ link: state.link ?? state.frame - imm });
        else if (rs2 === S0 && state.pointer === null) this.change({ saved: state.saved ?? state.frame - imm });
        break;
      case 'ld':
        if (rs1 === SP && rd === RA) this.change({ link: null });
        if (rs1 === SP && rd === S0) this.change({ saved: null, pointer: null });
        constants.delete(rd);
        break;
      default:
    }
  }

  private addConstant(rd: number, rs1: number, imm: number): void {
    const { state, constants } = this;
    if (rd === SP && rs1 === SP && state.frame !== null) this.change({ frame: state.frame - imm });
    else if (rd === SP && rs1 === S0 && state.pointer !== null) this.change({ frame: state.pointer - imm });
    else if (rd === S0 && rs1 === SP && state.frame === imm) this.change({ pointer: 0 });
    else if (rs1 === ZERO) constants.set(rd, imm);
    else if (constants.has(rs1)) constants.set(rd, (constants.get(rs1)! + imm) | 0);
    else constants.delete(rd);
  }
}
