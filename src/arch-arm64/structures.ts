/**
 * Structure loads and stores of Advanced SIMD: one to four registers whose elements alternate in
 * memory, whole or one element of each, with the address register moved on or not.
 *
 * A load touches its last byte first, so that one that ends in what is not mapped changes nothing.
 *
 * Source: Arm Architecture Reference Manual for A-profile, C3.2.11 and C7.2 (LD1 to ST4).
 */
import { elementAt, fillVector, readElement, writeElement } from './elements.js';
import type { ElementBits } from './elements.js';
import { Lanes } from './vectors.js';
import type { VectorSlots } from './vectors.js';
import type { BlockBuilder, Operand, Slot } from '../machine/ir.js';

/** What the semantics need of the instruction being lifted. */
interface Place {
  readonly b: BlockBuilder;
  base(number: number): Slot;
  advance(number: number, amount: bigint): void;
  source(number: number): Operand;
  sourceOrStack(number: number): Slot;
  targetOrStack(number: number): Slot;
}
interface Fields {
  n(name: string): number;
}
type Count = 1 | 2 | 3 | 4;
/** Emits the accesses; how many bytes they are. */
type Access = (x: Place, f: Fields, base: Slot) => number;
type StructureLift = (x: Place, f: Fields) => undefined;

const COUNTS = [1, 2, 3, 4] as const;
const ELEMENTS = [['b', 8], ['h', 16], ['s', 32], ['d', 64]] as const; // prettier-ignore
const LOADS = { 8: 'ld8u', 16: 'ld16u', 32: 'ld32u', 64: 'ld64' } as const;
const STORES = { 8: 'st8', 16: 'st16', 32: 'st32', 64: 'st64' } as const;

/** The three rows of a structure. */
function forms(name: string, access: Access): [string, StructureLift][] {
  return [
    [name, (x, f) => void access(x, f, x.base(f.n('base')))],
    [
      `${name}-post`,
      (x, f) => {
        x.advance(f.n('base'), BigInt(access(x, f, x.base(f.n('base')))));
      },
    ],
    [
      `${name}-postreg`,
      (x, f) => {
        access(x, f, x.base(f.n('base')));
        x.b.to(x.targetOrStack(f.n('base')), 'add', x.sourceOrStack(f.n('base')), x.source(f.n('xm')));
      },
    ],
  ];
}

/** The accesses of the rows, over the registers. */
class Structures {
  constructor(
    private readonly slots: VectorSlots,
    /** For what was read of a structure. */
    private readonly read: readonly Slot[],
  ) {}

  /** The register of a list that begins with the field's. */
  private register(f: Fields, name: string, count: Count, index: number): Slot {
    return this.slots.registers[(f.n(count === 1 ? name : `${name}_${count}`) + index) % 32]!;
  }

  /** In little-endian order these are the bytes, whatever the elements are. */
  plain(isStore: boolean, count: Count): Access {
    return (x, f, base) => {
      const { b } = x;
      const bytes = f.n('q') === 1 ? 16 : 8;
      if (!isStore && count > 1) b.load('ld8u', b.temp(), base, BigInt(bytes * count - 1));
      for (let i = 0; i < count; i++) {
        const [vector, at] = [this.register(f, 'vt', count, i), BigInt(bytes * i)];
        if (isStore) b.store(bytes === 16 ? 'stv128' : 'stv64', vector, base, at);
        else b.load(bytes === 16 ? 'ldv128' : 'ldv64', vector, base, at);
      }
      return bytes * count;
    };
  }

  /** d := bytes of several vectors. */
  private gather(lanes: Lanes, d: Slot, vectors: readonly Slot[], bytes: readonly (readonly [number, number])[]): void {
    vectors.forEach((vector, i) => {
      const part = i === 0 ? d : lanes.second;
      lanes.pick(
        part,
        vector,
        bytes.map(([number, byte]) => (number === i ? byte : 0xff)),
      );
      if (i > 0) lanes.b.to(d, 'or128', d, part);
    });
  }

  alternatingLoad(count: Count): Access {
    return (x, f, base) => {
      const { b } = x;
      const lanes = new Lanes(b);
      const [bytes, unit] = [f.n('q') === 1 ? 16 : 8, 1 << f.n('size')];
      const read = this.read.slice(0, count);
      read.forEach((slot, i) => {
        b.load(bytes === 16 ? 'ldv128' : 'ldv64', slot, base, BigInt(bytes * i));
      });
      for (let register = 0; register < count; register++) {
        const from = Array.from({ length: bytes }, (_, i) => {
          const at = (Math.floor(i / unit) * count + register) * unit + (i % unit);
          return [Math.floor(at / bytes), at % bytes] as const;
        });
        this.gather(lanes, lanes.first, read, from);
        b.to(this.register(f, 'vt', count, register), 'mov128', lanes.first);
      }
      return bytes * count;
    };
  }

  alternatingStore(count: Count): Access {
    return (x, f, base) => {
      const { b } = x;
      const lanes = new Lanes(b);
      const [bytes, unit] = [f.n('q') === 1 ? 16 : 8, 1 << f.n('size')];
      const registers = Array.from({ length: count }, (_, i) => this.register(f, 'vt', count, i));
      for (let part = 0; part < count; part++) {
        const from = Array.from({ length: bytes }, (_, i) => {
          const element = Math.floor((part * bytes + i) / unit);
          return [element % count, Math.floor(element / count) * unit + (i % unit)] as const;
        });
        this.gather(lanes, lanes.first, registers, from);
        b.store(bytes === 16 ? 'stv128' : 'stv64', lanes.first, base, BigInt(part * bytes));
      }
      return bytes * count;
    };
  }

  private loadElements(x: Place, base: Slot, count: Count, bits: ElementBits): Slot[] {
    const values = Array.from({ length: count }, () => x.b.temp());
    values.forEach((value, i) => {
      x.b.load(LOADS[bits], value, base, BigInt((i * bits) / 8));
    });
    return values;
  }

  single(isStore: boolean, count: Count, bits: ElementBits): Access {
    return (x, f, base) => {
      const element = elementAt(bits, f.n('lane'));
      const registers = Array.from({ length: count }, (_, i) => this.register(f, 've', count, i));
      if (isStore) {
        registers.forEach((register, i) => {
          x.b.store(STORES[bits], readElement(x, register, element), base, BigInt((i * bits) / 8));
        });
      } else {
        this.loadElements(x, base, count, bits).forEach((value, i) => {
          writeElement(x, registers[i]!, element, value);
        });
      }
      return (count * bits) / 8;
    };
  }

  replicating(count: Count): Access {
    return (x, f, base) => {
      const bits = ([8, 16, 32, 64] as const)[f.n('size')]!;
      this.loadElements(x, base, count, bits).forEach((value, i) => {
        fillVector(x, f.n('q') === 1, this.register(f, 'vt', count, i), bits, value);
      });
      return (count * bits) / 8;
    };
  }
}

type Form = '' | '-post' | '-postreg';
type Whole = '1-1' | '1-2' | '1-3' | '1-4' | '2-2' | '3-3' | '4-4';
/** Names of the rows. */
export type StructureRow =
  | `${'ld' | 'st'}${Whole}${Form}`
  | `${'ld' | 'st'}${Count}-${(typeof ELEMENTS)[number][0]}${Form}`
  | `ld${Count}r${Form}`;

/** Semantics of the rows, by name. */
export function structureSemantics(
  slots: VectorSlots,
  read: readonly Slot[],
): Readonly<Record<StructureRow, StructureLift>> {
  const structures = new Structures(slots, read);
  return Object.fromEntries(
    COUNTS.flatMap((count) => [
      ...forms(`ld1-${count}`, structures.plain(false, count)),
      ...forms(`st1-${count}`, structures.plain(true, count)),
      ...(count === 1 ? [] : forms(`ld${count}-${count}`, structures.alternatingLoad(count))),
      ...(count === 1 ? [] : forms(`st${count}-${count}`, structures.alternatingStore(count))),
      ...ELEMENTS.flatMap(([letter, bits]) => [
        ...forms(`ld${count}-${letter}`, structures.single(false, count, bits)),
        ...forms(`st${count}-${letter}`, structures.single(true, count, bits)),
      ]),
      ...forms(`ld${count}r`, structures.replicating(count)),
    ]),
  ) as Record<StructureRow, StructureLift>;
}
