/**
 * The kernels that are booted, and what they are booted with: one row for each. A row that is
 * added here is downloaded, booted and judged like the others.
 */

/** How qemu gets a vmlinux that was changed. */
export type VmlinuxForm =
  /** As the ELF file that it is. */
  | 'elf'
  /** As the flat image that kernels make of it with objcopy. */
  | 'image';

export interface Machine {
  /** As the command line names it: Debian's architecture and release. */
  readonly name: string;
  readonly architecture: string;
  readonly suite: string;
  /** Package that depends on the kernel of the day. */
  readonly metaPackage: string;
  /** Prefix of the GNU tools, the last dash included. */
  readonly tools: string;
  /** qemu with everything but kernel, initrd, command line and processors. */
  readonly qemu: readonly string[];
  readonly console: string;
  /** Further words of the kernel's command line. */
  readonly parameters: readonly string[];
  /** The package that holds a vmlinux with symbols: the kernel's, or that of debugging symbols. */
  readonly vmlinuxFrom: 'package' | 'dbg';
  readonly vmlinuxForm: VmlinuxForm;
}

type Board = Pick<Machine, 'tools' | 'qemu' | 'console' | 'parameters' | 'vmlinuxFrom' | 'vmlinuxForm'>;

const COMMON = ['-nographic', '-nodefaults', '-serial', 'stdio', '-no-reboot'];

const BOARDS: Readonly<Record<string, Board>> = {
  amd64: {
    tools: 'x86_64-linux-gnu-',
    qemu: ['qemu-system-x86_64', '-M', 'q35', '-m', '512M', ...COMMON],
    console: 'ttyS0',
    // The test gives the timer a moment, in which an emulated one may not come.
    parameters: ['no_timer_check'],
    vmlinuxFrom: 'dbg',
    vmlinuxForm: 'elf',
  },
  arm64: {
    tools: 'aarch64-linux-gnu-',
    qemu: ['qemu-system-aarch64', '-M', 'virt', '-cpu', 'cortex-a57', '-m', '512M', ...COMMON],
    console: 'ttyAMA0',
    parameters: [],
    vmlinuxFrom: 'dbg',
    vmlinuxForm: 'image',
  },
  ppc64el: {
    tools: 'powerpc64le-linux-gnu-',
    qemu: ['qemu-system-ppc64', '-M', 'pseries', '-m', '1G', ...COMMON],
    console: 'hvc0',
    parameters: [],
    vmlinuxFrom: 'package',
    vmlinuxForm: 'elf',
  },
  riscv64: {
    tools: 'riscv64-linux-gnu-',
    qemu: ['qemu-system-riscv64', '-M', 'virt', '-m', '512M', ...COMMON],
    console: 'ttyS0',
    parameters: [],
    vmlinuxFrom: 'dbg',
    vmlinuxForm: 'image',
  },
};

function machine(name: string, suite: string, flavour: string): Machine {
  const architecture = name.slice(0, name.indexOf('-'));
  return { name, architecture, suite, metaPackage: `linux-image-${flavour}`, ...BOARDS[architecture]! };
}

/** riscv64 is part of Debian since release 13. */
export const MACHINES: readonly Machine[] = [
  machine('amd64-12', 'bookworm', 'amd64'),
  machine('arm64-12', 'bookworm', 'arm64'),
  machine('ppc64el-12', 'bookworm', 'powerpc64le'),
  machine('amd64-13', 'trixie', 'amd64'),
  machine('arm64-13', 'trixie', 'arm64'),
  machine('ppc64el-13', 'trixie', 'powerpc64le'),
  machine('riscv64-13', 'trixie', 'riscv64'),
];

/** A module that is loaded, and what is untraced of it in part. */
export interface ModuleRow {
  readonly name: string;
  /** Patterns as `set_ftrace_filter` takes them, with `*` only; none: the module has no site. */
  readonly part: readonly string[];
  /** Prefixes of its functions: what the function tracer prints without a module. */
  readonly prefixes: readonly string[];
}

/**
 * In the order in which they load: a module comes after those that it needs. Small ones that need
 * no hardware, one without a site (crc16), and one with many (ext4). The patterns that name
 * functions of .init.text select what is gone when the module runs.
 */
export const MODULES: readonly ModuleRow[] = [
  { name: 'tun', part: ['tun_chr_*'], prefixes: ['tun_', '__tun_'] },
  { name: 'loop', part: ['lo_*'], prefixes: ['lo_', 'loop_', '__loop_'] },
  { name: 'minix', part: ['minix_get*', 'minix_f*'], prefixes: ['minix_'] },
  { name: 'cdrom', part: ['cdrom_*ioctl*', 'cdrom_*open*', '!cdrom_open'], prefixes: ['cdrom_'] },
  { name: 'isofs', part: ['isofs_get*', 'isofs_i*'], prefixes: ['isofs_'] },
  { name: 'crc16', part: [], prefixes: [] },
  { name: 'mbcache', part: ['mb_cache_entry_*'], prefixes: ['mb_cache_'] },
  { name: 'jbd2', part: ['jbd2_journal_*'], prefixes: ['jbd2_'] },
  { name: 'ext4', part: ['ext4_mb_*', 'ext4_init_p*', 'ext4_f*'], prefixes: ['ext4_', '__ext4_'] },
];

/**
 * What is untraced of a vmlinux: functions of several folders, some of which every file system
 * call passes, and with `*_init` functions of .init.text.
 */
export const VMLINUX_GLOBS: readonly string[] = ['vfs_*', 'tcp_*', '*_init'];

/** How a module's file was made. */
export type Variant = 'original' | 'part' | 'whole';

/**
 * What is loaded together: the originals, or every second one untraced wholly, the others in part.
 */
export type Phase = 'original' | 'mixed' | 'swapped';

/** The variant of a module in a phase; what has no site stays as it is. */
export function variantIn(phase: Phase, row: ModuleRow): Variant {
  if (phase === 'original' || row.part.length === 0) return 'original';
  return (MODULES.indexOf(row) % 2 === 0) === (phase === 'mixed') ? 'whole' : 'part';
}
