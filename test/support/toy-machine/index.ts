/**
 * A machine that does not exist, put together as a folder `arch-*` is: what is not asked for here
 * stays borrowed or refused.
 */
import { arm64Abi } from '../../../src/arch-arm64/abi.js';
import type { Arch } from '../../../src/machine/arch.js';
import { toyConventions, toyOptions } from './conventions.js';
import { toyCall, toyShape } from './sites.js';

export * from './conventions.js';
export * from './sites.js';

const absent = 'the machine is made up';

export const toyMachine: Arch = {
  target: {
    id: 'toy',
    title: 'a made-up machine, big-endian',
    elfMachine: 0xfff1,
    abiName: 'sysv',
    wordBytes: 8,
    dataEndian: 'big',
    codeEndian: 'big',
    codeAlignBytes: 4,
    pageBytes: 4096,
  },
  // Function symbols name code, as on most machines; no call of this machine is executed.
  abi: arm64Abi,
  isa: {
    text: 'rows',
    minInstructionBytes: 4,
    maxInstructionBytes: 4,
    decode: (_code, _offset, address) => ({
      address,
      sizeBytes: 4,
      mnemonic: 'unknown',
      operands: {},
      flow: { kind: 'next' },
    }),
    format: ({ mnemonic }) => mnemonic,
  },
  relocations: new Map(),
  relocationRoles: {
    none: 0,
    word: 1,
    relative: 2,
    companions: [],
    neutralInModule: { type: 0, addend: 'kept' },
    takenInModules: [new Set([0, 1])],
    zeroInModules: false,
  },
  mcount: {
    symbols: ['_mcount'],
    callRelocations: new Map(),
    patchableIsPadding: false,
    emptySlots: [0n],
    maxSiteOffset: 'any',
    findCalls: () => [],
  },
  conventions: toyConventions,
  options: toyOptions,
  siteShapes: [toyShape],
  stubForms: [],
  outOfLine: null,
  branches: {
    call: toyCall,
    jump: toyCall,
    graph: toyCall,
    reaches: [{ name: 'toy call', reach: toyCall.reach }],
  },
  landingPads: null,
  sleds: null,
  trampolines: { kind: 'none', reason: absent },
  directCallers: { kind: 'none', reason: absent },
  livePatching: { kind: 'word' },
  patchTables: [],
  loader: { kind: 'none', reason: absent },
  probes: { kind: 'none', reason: absent },
  nativeTracing: { kind: 'none', reason: absent },
  emulation: { kind: 'none', reason: absent },
};
