/** Inputs of the benchmarks, made here and seeded: no file of anybody else's is measured. */

import { encodeLoadMap, type LoadedPart, type LoadMap, loadMapSection } from '../src/program/load-map.js';

/** Small deterministic generator (mulberry32). */
export function seeded(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

interface Section {
  readonly name: string;
  readonly type: number;
  readonly flags: number;
  readonly address?: bigint;
  readonly bytes: Uint8Array;
  readonly link?: number;
  readonly info?: number;
  readonly align: number;
  readonly entry?: number;
}

/** Where sections lie in a file, one behind the other, and where they end. */
function layOut(sections: readonly Section[], begin: number): { readonly offsets: number[]; readonly end: number } {
  let at = begin;
  const offsets = sections.map((each) => {
    at = Math.ceil(at / each.align) * each.align;
    const offset = at;
    at += each.bytes.length;
    return offset;
  });
  return { offsets, end: at };
}

/** Names one behind the other, each with a 0, and where each begins. */
function stringTable(names: readonly string[]): { readonly text: string; readonly offsets: number[] } {
  const offsets: number[] = [];
  let text = '';
  for (const name of names) {
    offsets.push(text.length);
    text += `${name}\0`;
  }
  return { text, offsets };
}

/**
 * A 64-bit ELF file of the given sections; section i of the list is number i + 1, names come last.
 * `loaded`: numbers of sections that have a segment.
 */
function elf64(
  type: number,
  machine: number,
  sections: readonly Section[],
  loaded: readonly number[] = [],
  little = true,
): Uint8Array {
  const names = ['', ...sections.map((each) => each.name), '.shstrtab'];
  const { text: nameText, offsets: nameOffsets } = stringTable(names);
  const all: Section[] = [
    ...sections,
    { name: '.shstrtab', type: 3, flags: 0, bytes: new TextEncoder().encode(nameText), align: 1 },
  ];
  const { offsets, end } = layOut(all, 64 + 56 * loaded.length);
  const shoff = Math.ceil(end / 8) * 8;
  const out = new Uint8Array(shoff + 64 * (all.length + 1));
  const view = new DataView(out.buffer);
  out.set([0x7f, 0x45, 0x4c, 0x46, 2, little ? 1 : 2, 1, 0]);
  view.setUint16(16, type, little);
  view.setUint16(18, machine, little);
  view.setUint32(20, 1, little);
  view.setBigUint64(32, loaded.length > 0 ? 64n : 0n, little);
  view.setBigUint64(40, BigInt(shoff), little);
  view.setUint16(52, 64, little);
  view.setUint16(54, 56, little);
  view.setUint16(56, loaded.length, little);
  view.setUint16(58, 64, little);
  view.setUint16(60, all.length + 1, little);
  view.setUint16(62, all.length, little);
  loaded.forEach((number, i) => {
    const section = all[number - 1]!;
    const header = 64 + 56 * i;
    view.setUint32(header, 1, little);
    view.setUint32(header + 4, 4 | ((section.flags & 1) << 1) | ((section.flags & 4) >> 2), little);
    view.setBigUint64(header + 8, BigInt(offsets[number - 1]!), little);
    view.setBigUint64(header + 16, section.address!, little);
    view.setBigUint64(header + 24, section.address!, little);
    view.setBigUint64(header + 32, BigInt(section.bytes.length), little);
    view.setBigUint64(header + 40, BigInt(section.bytes.length), little);
    view.setBigUint64(header + 48, 0x1000n, little);
  });
  all.forEach((each, i) => {
    out.set(each.bytes, offsets[i]!);
    const header = shoff + 64 * (i + 1);
    view.setUint32(header, nameOffsets[i + 1]!, little);
    view.setUint32(header + 4, each.type, little);
    view.setBigUint64(header + 8, BigInt(each.flags), little);
    view.setBigUint64(header + 16, each.address ?? 0n, little);
    view.setBigUint64(header + 24, BigInt(offsets[i]!), little);
    view.setBigUint64(header + 32, BigInt(each.bytes.length), little);
    view.setUint32(header + 40, each.link ?? 0, little);
    view.setUint32(header + 44, each.info ?? 0, little);
    view.setBigUint64(header + 48, BigInt(each.align), little);
    view.setBigUint64(header + 56, BigInt(each.entry ?? 0), little);
  });
  return out;
}

interface Symbols {
  readonly table: Uint8Array;
  readonly strings: Uint8Array;
}

/**
 * FUNC symbols f0, f1, … after a section symbol and one named symbol; the first `extra` come before
 * them.
 */
function symbolsOf(
  starts: readonly number[],
  size: number,
  section: number,
  base: bigint,
  extra: readonly { name: string; value: bigint; section: number; info: number }[],
  little = true,
): Symbols {
  const count = 1 + extra.length + starts.length;
  const table = new Uint8Array(24 * count);
  const view = new DataView(table.buffer);
  let text = '\0';
  const put = (row: number, name: string, info: number, home: number, value: bigint, bytes: number): void => {
    view.setUint32(row * 24, name === '' ? 0 : text.length, little);
    if (name !== '') text += `${name}\0`;
    view.setUint8(row * 24 + 4, info);
    view.setUint16(row * 24 + 6, home, little);
    view.setBigUint64(row * 24 + 8, value, little);
    view.setBigUint64(row * 24 + 16, BigInt(bytes), little);
  };
  extra.forEach((each, i) => {
    put(1 + i, each.name, each.info, each.section, each.value, 0);
  });
  const parts: string[] = [];
  starts.forEach((start, i) => {
    put(1 + extra.length + i, `f${i}`, 0x12, section, base + BigInt(start), size);
    if (text.length > 1 << 16) {
      parts.push(text);
      text = '';
    }
  });
  // Names were cut into parts only to keep string building linear: put their offsets right again.
  let shift = 0;
  const cuts = parts.map((part) => part.length);
  if (cuts.length > 0) {
    let row = 1 + extra.length;
    let part = 0;
    let last = -1;
    for (let i = 0; i < starts.length; i++, row++) {
      const local = view.getUint32(row * 24, little);
      if (local < last) {
        shift += cuts[part++]!;
      }
      last = local;
      view.setUint32(row * 24, local + shift, little);
    }
  }
  return { table, strings: new TextEncoder().encode(parts.join('') + text) };
}

/**
 * A relocatable x86-64 object with `count` functions, each `call __fentry__` and some filler, and
 * its `__mcount_loc`.
 */
export function x86Object(count: number, seed = 1): Uint8Array {
  const random = seeded(seed);
  const starts: number[] = [];
  let at = 0;
  for (let i = 0; i < count; i++) {
    starts.push(at);
    at += 16 + 16 * Math.floor(random() * 6);
  }
  const text = new Uint8Array(at).fill(0x90);
  const textRela = new Uint8Array(24 * count);
  const tableRela = new Uint8Array(24 * count);
  const textView = new DataView(textRela.buffer);
  const tableView = new DataView(tableRela.buffer);
  starts.forEach((start, i) => {
    text.set([0xe8, 0, 0, 0, 0], start);
    text[start + 15] = 0xc3;
    textView.setBigUint64(24 * i, BigInt(start + 1), true);
    textView.setBigUint64(24 * i + 8, (2n << 32n) | 4n, true);
    textView.setBigInt64(24 * i + 16, -4n, true);
    tableView.setBigUint64(24 * i, BigInt(8 * i), true);
    tableView.setBigUint64(24 * i + 8, (1n << 32n) | 1n, true);
    tableView.setBigInt64(24 * i + 16, BigInt(start), true);
  });
  const symbols = symbolsOf(starts, 16, 1, 0n, [
    { name: '', value: 0n, section: 1, info: 3 },
    { name: '__fentry__', value: 0n, section: 0, info: 0x10 },
  ]);
  return elf64(1, 62, [
    { name: '.text', type: 1, flags: 6, bytes: text, align: 16 },
    { name: '.rela.text', type: 4, flags: 0x40, bytes: textRela, align: 8, entry: 24, link: 5, info: 1 },
    { name: '__mcount_loc', type: 1, flags: 2, bytes: new Uint8Array(8 * count), align: 1 },
    { name: '.rela__mcount_loc', type: 4, flags: 0x40, bytes: tableRela, align: 8, entry: 24, link: 5, info: 3 },
    { name: '.symtab', type: 2, flags: 0, bytes: symbols.table, align: 8, entry: 24, link: 6, info: 2 },
    { name: '.strtab', type: 3, flags: 0, bytes: symbols.strings, align: 1 },
  ]);
}

/**
 * A linked x86-64 image of about `size` bytes with `count` sites and a sorted table, as a kernel
 * has it.
 */
export function x86Image(size: number, count: number, seed = 2): Uint8Array {
  const random = seeded(seed);
  const base = 0xffffffff81000000n;
  const spacing = Math.floor((size - count * 60) / count) & ~15;
  const text = new Uint8Array(spacing * count + 64);
  const words = new Uint32Array(text.buffer);
  for (let i = 0; i < words.length; i++) words[i] = Math.floor(random() * 4294967296);
  const fentry = spacing * count;
  text.set([0xc3], fentry);
  const table = new Uint8Array(8 * count);
  const tableView = new DataView(table.buffer);
  const textView = new DataView(text.buffer);
  const starts: number[] = [];
  for (let i = 0; i < count; i++) {
    const start = spacing * i;
    starts.push(start);
    text[start] = 0xe8;
    textView.setInt32(start + 1, fentry - (start + 5), true);
    tableView.setBigUint64(8 * i, base + BigInt(start), true);
  }
  const tableAddress = base + BigInt(Math.ceil(text.length / 4096) * 4096);
  const symbols = symbolsOf(starts, spacing, 1, base, [
    { name: '__fentry__', value: base + BigInt(fentry), section: 1, info: 0x12 },
    { name: '__start_mcount_loc', value: tableAddress, section: 2, info: 0x10 },
    { name: '__stop_mcount_loc', value: tableAddress + BigInt(table.length), section: 2, info: 0x10 },
  ]);
  const sections: Section[] = [
    { name: '.text', type: 1, flags: 6, address: base, bytes: text, align: 4096 },
    { name: '.init.data', type: 1, flags: 3, address: tableAddress, bytes: table, align: 4096 },
    { name: '.symtab', type: 2, flags: 0, bytes: symbols.table, align: 8, entry: 24, link: 4, info: 1 },
    { name: '.strtab', type: 3, flags: 0, bytes: symbols.strings, align: 1 },
  ];
  return elf64(2, 62, sections, [1, 2]);
}

/**
 * A linked arm64 image with `count` patchable sites and nothing else: plain sites, no relocation,
 * no stub.
 */
export function arm64Image(count: number): Uint8Array {
  const base = 0x400000n;
  const text = new Uint8Array(16 * count);
  const words = new DataView(text.buffer);
  const table = new Uint8Array(8 * count);
  const tableView = new DataView(table.buffer);
  const starts: number[] = [];
  for (let i = 0; i < count; i++) {
    const start = 16 * i;
    starts.push(start);
    words.setUint32(start, 0xd503201f, true);
    words.setUint32(start + 4, 0xd503201f, true);
    words.setUint32(start + 8, 0xd65f03c0, true);
    words.setUint32(start + 12, 0xd65f03c0, true);
    tableView.setBigUint64(8 * i, base + BigInt(start), true);
  }
  const symbols = symbolsOf(starts, 16, 1, base, []);
  const sections: Section[] = [
    { name: '.text', type: 1, flags: 6, address: base, bytes: text, align: 16 },
    {
      name: '__patchable_function_entries',
      type: 1,
      flags: 3,
      address: base + BigInt(text.length),
      bytes: table,
      align: 8,
    },
    { name: '.symtab', type: 2, flags: 0, bytes: symbols.table, align: 8, entry: 24, link: 4, info: 1 },
    { name: '.strtab', type: 3, flags: 0, bytes: symbols.strings, align: 1 },
  ];
  return elf64(2, 183, sections, [1, 2]);
}

/**
 * A linked PPC64 ELFv2 image whose `-mprofile-kernel` calls all go through linker stubs to
 * `_mcount`.
 */
export function ppc64StubImage(count: number): Uint8Array {
  const base = 0x10000000n;
  const toc = 0x20008000n;
  const perStub = 1000;
  const bodies: number[] = [];
  const stubs: number[] = [];
  let at = 0;
  for (let i = 0; i < count; i++) {
    if (i % perStub === 0) {
      stubs.push(at);
      at += 16;
    }
    bodies.push(at);
    at += 16;
  }
  const text = new Uint8Array(at);
  const view = new DataView(text.buffer);
  // plt_branch: ld r12,off(r2); mtctr r12; bctr, the target in .branch_lt at toc + off
  for (const stub of stubs) {
    view.setUint32(stub, 0xe9828000, true);
    view.setUint32(stub + 4, 0x7d8903a6, true);
    view.setUint32(stub + 8, 0x4e800420, true);
    view.setUint32(stub + 12, 0x60000000, true);
  }
  const table = new Uint8Array(8 * count);
  const tableView = new DataView(table.buffer);
  bodies.forEach((body, i) => {
    const stub = stubs[Math.floor(i / perStub)]!;
    view.setUint32(body, 0x7c0802a6, true);
    view.setUint32(body + 4, (0x48000001 | ((stub - (body + 4)) & 0x03fffffc)) >>> 0, true);
    view.setUint32(body + 8, 0x4e800020, true);
    view.setUint32(body + 12, 0x60000000, true);
    tableView.setBigUint64(8 * i, base + BigInt(body + 4), true);
  });
  const mcount = 0x14000000n;
  const far = new Uint8Array(4);
  new DataView(far.buffer).setUint32(0, 0x4e800020, true);
  const branches = new Uint8Array(8);
  new DataView(branches.buffer).setBigUint64(0, mcount, true);
  const symbols = symbolsOf(bodies, 16, 1, base, [
    { name: '_mcount', value: mcount, section: 2, info: 0x12 },
    { name: '.TOC.', value: toc, section: 3, info: 0x10 },
  ]);
  const image = elf64(2, 21, [
    { name: '.text', type: 1, flags: 6, address: base, bytes: text, align: 16 },
    { name: '.far', type: 1, flags: 6, address: mcount, bytes: far, align: 16 },
    { name: '.branch_lt', type: 1, flags: 3, address: toc - 0x8000n, bytes: branches, align: 8 },
    { name: '__mcount_loc', type: 1, flags: 2, address: 0x21000000n, bytes: table, align: 8 },
    { name: '.symtab', type: 2, flags: 0, bytes: symbols.table, align: 8, entry: 24, link: 6, info: 1 },
    { name: '.strtab', type: 3, flags: 0, bytes: symbols.strings, align: 1 },
  ]);
  new DataView(image.buffer).setUint32(48, 2, true);
  return image;
}

/** A module of ELFv1, behind its functions a stub of 2008, which finds its target by its TOC. */
function ppc64ModuleText(
  base: bigint,
  sites: number,
  core: { readonly text: bigint; readonly toc: bigint },
): { readonly text: Uint8Array; readonly toc: bigint; readonly stub: number } {
  const stub = 32 * sites;
  const text = new Uint8Array(stub + 48);
  const view = new DataView(text.buffer);
  const words = (at: number, list: readonly number[]): void => {
    list.forEach((word, k) => {
      view.setUint32(at + 4 * k, word);
    });
  };
  for (let at = 0; at < stub; at += 32) {
    // mflr r0; std r0,16(r1); stdu r1,-112(r1); bl stub; ld r2,40(r1); addi r1,r1,112; blr; nop
    const call = (0x4800_0001 | ((stub - at - 12) & 0x03ff_fffc)) >>> 0;
    words(at, [0x7c08_02a6, 0xf801_0010, 0xf821_ff91, call, 0xe841_0028, 0x3821_0070, 0x4e80_0020, 0x6000_0000]);
  }
  // The TOC pointer is 0x8000 behind a table of its own, which follows the code.
  const toc = base + BigInt((stub + 48 + 0xff) & ~0xff) + 0x8000n;
  const offset = Number(base + BigInt(stub) - toc);
  const ha = ((offset + 0x8000) >> 16) & 0xffff;
  const find = [(0x3d82_0000 | ha) >>> 0, (0x398c_0000 | (offset & 0xffff)) >>> 0];
  words(stub, [...find, 0xf841_0028, 0xe96c_0020, 0xe84c_0028, 0x7d69_03a6, 0x4e80_0420, 0]);
  view.setBigUint64(stub + 32, core.text);
  view.setBigUint64(stub + 40, core.toc);
  return { text, toc, stub };
}

const ELFV1_MAP: Omit<LoadMap, 'parts'> = {
  schema: 1,
  tool: 'bench',
  target: 'ppc64-elfv1',
  base: 'user',
  options: {},
  registers: {},
  original: null,
};

/** Symbols of the functions; each names the section that it is in. */
function loadedSymbols(starts: readonly number[], moduleBase: bigint, core: bigint, sitesPerModule: number): Symbols {
  const mcount = { name: '_mcount', value: core, section: 1, info: 0x12 };
  const symbols = symbolsOf(starts, 32, 2, moduleBase, [mcount], false);
  const view = new DataView(symbols.table.buffer);
  for (let i = 0; i < starts.length; i++) view.setUint16(24 * (2 + i) + 6, 2 + Math.floor(i / sitesPerModule));
  return symbols;
}

/**
 * A big-endian ELFv1 image as `load` makes it: a core with `_mcount` and modules out of its reach,
 * each with a TOC of its own and a stub of 2008, which finds its target through the TOC; the word
 * behind each call restores it. One section of code a module, a load map.
 */
export function ppc64LoadedImage(modules: number, sitesPerModule: number): Uint8Array {
  const core = 0x1000_0000n;
  const coreToc = 0x1001_8000n;
  const moduleBase = 0x2000_0000n;
  const spacing = BigInt(Math.ceil((sitesPerModule * 32 + 0x1_0000) / 0x1_0000) * 0x1_0000);
  const coreText = new Uint8Array(16);
  new DataView(coreText.buffer).setUint32(0, 0x4e80_0020);
  const table = new Uint8Array(8 * modules * sitesPerModule);
  const tableView = new DataView(table.buffer);
  const starts: number[] = [];
  const sections: Section[] = [{ name: '.text', type: 1, flags: 6, address: core, bytes: coreText, align: 16 }];
  const parts: LoadedPart[] = [];
  const none = { first: 0, count: 0 };
  const common = { sha256: '0'.repeat(64), symbols: { locals: none, globals: none }, entryStubs: [] };
  parts.push({
    ...common,
    kind: 'core',
    name: 'core',
    toc: coreToc,
    sections: { first: 1, count: 1 },
    ranges: [{ start: core, end: core + 16n }],
    stubs: [],
    uses: [],
  });
  for (let m = 0; m < modules; m++) {
    const base = moduleBase + BigInt(m) * spacing;
    const { text, toc, stub } = ppc64ModuleText(base, sitesPerModule, { text: core, toc: coreToc });
    for (let i = 0; i < sitesPerModule; i++) {
      const at = 32 * i;
      tableView.setBigUint64(8 * (m * sitesPerModule + i), base + BigInt(at + 12));
      starts.push(Number(base - moduleBase) + at);
    }
    sections.push({ name: '.text', type: 1, flags: 6, address: base, bytes: text, align: 16 });
    parts.push({
      ...common,
      kind: 'module',
      name: `module${m}`,
      toc,
      sections: { first: 2 + m, count: 1 },
      ranges: [{ start: base, end: base + BigInt(text.length) }],
      stubs: [{ address: base + BigInt(stub), sizeBytes: 48, count: 1 }],
      uses: ['core'],
    });
  }
  const symbols = loadedSymbols(starts, moduleBase, core, sitesPerModule);
  const map: LoadMap = { ...ELFV1_MAP, parts };
  const strings = sections.length + 3;
  sections.push(
    { name: '__mcount_loc', type: 1, flags: 2, address: 0x8000_0000n, bytes: table, align: 8 },
    { name: '.symtab', type: 2, flags: 0, bytes: symbols.table, align: 8, entry: 24, link: strings, info: 1 },
    { name: '.strtab', type: 3, flags: 0, bytes: symbols.strings, align: 1 },
    { name: loadMapSection, type: 7, flags: 0, bytes: encodeLoadMap(map, 'big'), align: 4 },
  );
  const image = elf64(2, 21, sections, [], false);
  new DataView(image.buffer).setUint32(48, 1);
  return image;
}
