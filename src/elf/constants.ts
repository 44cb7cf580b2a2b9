/** ELF numbers by their standard names (gABI 4.1 and the psABI supplements). */

export const ELFCLASS32 = 1;
export const ELFCLASS64 = 2;
export const ELFDATA2LSB = 1;
export const ELFDATA2MSB = 2;
export const EV_CURRENT = 1;

export const ET_NONE = 0;
export const ET_REL = 1;
export const ET_EXEC = 2;
export const ET_DYN = 3;
export const ET_CORE = 4;

export const EM_SPARC = 2;
export const EM_386 = 3;
export const EM_68K = 4;
export const EM_MIPS = 8;
export const EM_PARISC = 15;
export const EM_PPC = 20;
export const EM_PPC64 = 21;
export const EM_S390 = 22;
export const EM_ARM = 40;
export const EM_SH = 42;
export const EM_SPARCV9 = 43;
export const EM_IA_64 = 50;
export const EM_X86_64 = 62;
export const EM_AARCH64 = 183;
export const EM_RISCV = 243;
export const EM_LOONGARCH = 258;

export const SHN_UNDEF = 0;
export const SHN_LORESERVE = 0xff00;
export const SHN_ABS = 0xfff1;
export const SHN_XINDEX = 0xffff;
/** Reserved indices as `SymbolTable.sectionIndex` holds them. */
export const SHN_ABS_RESOLVED = 0xffff_fff1;
export const SHN_COMMON_RESOLVED = 0xffff_fff2;
/** Symbols that a kernel's livepatch core resolves. */
export const SHN_LIVEPATCH_RESOLVED = 0xffff_ff20;
/** First value of the reserved range in `SymbolTable.sectionIndex`. */
export const SHN_LORESERVE_RESOLVED = 0xffff_ff00;

export const SHT_NULL = 0;
export const SHT_PROGBITS = 1;
export const SHT_SYMTAB = 2;
export const SHT_STRTAB = 3;
export const SHT_RELA = 4;
export const SHT_HASH = 5;
export const SHT_DYNAMIC = 6;
export const SHT_NOTE = 7;
export const SHT_NOBITS = 8;
export const SHT_REL = 9;
export const SHT_DYNSYM = 11;
export const SHT_INIT_ARRAY = 14;
export const SHT_FINI_ARRAY = 15;
export const SHT_GROUP = 17;
export const SHT_SYMTAB_SHNDX = 18;
export const SHT_PREINIT_ARRAY = 16;
export const SHT_RELR = 19;
export const SHT_GNU_HASH = 0x6fff_fff6;
/** Packed relocation forms that are recognised and not read. */
export const SHT_CREL = 0x4000_0014;
export const SHT_ANDROID_REL = 0x6000_0001;
export const SHT_ANDROID_RELA = 0x6000_0002;
export const SHT_ANDROID_RELR = 0x6fff_ff00;

export const SHF_WRITE = 0x1n;
export const SHF_ALLOC = 0x2n;
export const SHF_EXECINSTR = 0x4n;
export const SHF_MERGE = 0x10n;
export const SHF_STRINGS = 0x20n;
export const SHF_INFO_LINK = 0x40n;
export const SHF_LINK_ORDER = 0x80n;
export const SHF_EXCLUDE = 0x8000_0000n;
export const SHF_GROUP = 0x200n;
export const SHF_TLS = 0x400n;
export const SHF_COMPRESSED = 0x800n;
/** Relocations that a kernel's livepatch core writes. */
export const SHF_RELA_LIVEPATCH = 0x10_0000n;

/**
 * `RelocationTable.type` of RELR rows: the machine's RELATIVE type, whichever number that is. The
 * ELF room knows no machine; 0xffff_ffff is no relocation type of any psABI.
 */
export const RELR_RELATIVE = 0xffff_ffff;

export const GRP_COMDAT = 1;

export const STB_LOCAL = 0;
export const STB_GLOBAL = 1;
export const STB_WEAK = 2;
export const STT_NOTYPE = 0;
export const STT_OBJECT = 1;
export const STT_FUNC = 2;
export const STT_SECTION = 3;
export const STT_FILE = 4;
export const STT_COMMON = 5;
export const STT_TLS = 6;
export const STV_HIDDEN = 2;
export const STT_GNU_IFUNC = 10;

export const PT_NULL = 0;
export const PT_LOAD = 1;
export const PT_DYNAMIC = 2;
export const PT_INTERP = 3;
export const PT_NOTE = 4;
export const PT_PHDR = 6;
export const PT_TLS = 7;
export const PT_GNU_EH_FRAME = 0x6474_e550;
export const PT_GNU_STACK = 0x6474_e551;
export const PT_GNU_RELRO = 0x6474_e552;
export const PT_GNU_PROPERTY = 0x6474_e553;
export const PN_XNUM = 0xffff;
export const PF_X = 1;
export const PF_W = 2;
export const PF_R = 4;

export const DT_NULL = 0n;
export const DT_NEEDED = 1n;
export const DT_PLTRELSZ = 2n;
export const DT_HASH = 4n;
export const DT_STRTAB = 5n;
export const DT_SYMTAB = 6n;
export const DT_RELA = 7n;
export const DT_RELASZ = 8n;
export const DT_RELAENT = 9n;
export const DT_STRSZ = 10n;
export const DT_RPATH = 15n;
export const DT_RUNPATH = 29n;
export const DT_SYMENT = 11n;
export const DT_REL = 17n;
export const DT_RELSZ = 18n;
export const DT_RELENT = 19n;
export const DT_PLTREL = 20n;
export const DT_JMPREL = 23n;
export const DT_RELRSZ = 35n;
export const DT_RELR = 36n;
export const DT_RELRENT = 37n;
export const DT_GNU_HASH = 0x6fff_fef5n;

/**
 * e_flags of PPC64: the ABI version in the two lowest bits; 0 on a big-endian object means ELFv1.
 */
export const EF_PPC64_ABI = 3;
/** e_flags of RISC-V: compressed instructions. */
export const EF_RISCV_RVC = 1;
