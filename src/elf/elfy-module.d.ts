/** The package `elfy` 1.0.0 has no types; this is the part that `elfy.ts` uses. Numbers are doubles, names come from its tables. */
declare module 'elfy' {
  namespace elfy {
    interface ElfyFlags {
      readonly [name: string]: true;
    }
    interface ElfyProgram {
      readonly type: string | undefined;
      readonly offset: number;
      readonly vaddr: number;
      readonly paddr: number;
      readonly filesz: number;
      readonly memsz: number;
      readonly flags: ElfyFlags;
      readonly align: number;
      readonly data: Uint8Array;
    }
    interface ElfySection {
      readonly name: string;
      readonly type: string | number;
      readonly flags: ElfyFlags;
      readonly addr: number;
      readonly off: number;
      readonly size: number;
      readonly link: number;
      readonly info: number;
      readonly addralign: number;
      readonly entsize: number;
      readonly data: Uint8Array;
    }
    interface ElfyFile {
      readonly class: '32' | '64';
      readonly endian: 'lsb' | 'msb';
      readonly version: number;
      readonly osabi: string | undefined;
      readonly abiversion: string | undefined;
      readonly type: string | undefined;
      readonly machine: string | undefined;
      readonly entry: number;
      readonly phoff: number;
      readonly shoff: number;
      readonly flags: number;
      readonly ehsize: number;
      readonly phentsize: number;
      readonly phnum: number;
      readonly shentsize: number;
      readonly shnum: number;
      readonly shstrndx: number;
      readonly body: { readonly programs: readonly ElfyProgram[]; readonly sections: readonly ElfySection[] };
    }
    type ElfyTable = Readonly<Record<number, string>>;
  }
  const elfy: {
    /** Needs a Buffer (readUInt32LE and the like); throws Error or TypeError for what it cannot read. */
    parse(buffer: Uint8Array): elfy.ElfyFile;
    readonly constants: {
      readonly type: elfy.ElfyTable;
      readonly machine: elfy.ElfyTable;
      readonly entryType: elfy.ElfyTable;
      readonly entryFlags: elfy.ElfyTable;
      readonly sectType: elfy.ElfyTable;
      readonly sectFlags: elfy.ElfyTable;
    };
  };
  export = elfy;
}
