/** Machines whose dynamic programs the distribution's cross compilers make and qemu-user runs. */
export interface DynamicTarget {
  readonly name: string;
  readonly gcc: string;
  readonly qemu: string;
  /** The tree with the C library. */
  readonly root: string;
}
export const DYNAMIC_TARGETS: readonly DynamicTarget[] = [
  { name: 'riscv64', gcc: 'riscv64-linux-gnu-gcc', qemu: 'qemu-riscv64', root: '/usr/riscv64-linux-gnu' },
  { name: 'arm64', gcc: 'aarch64-linux-gnu-gcc', qemu: 'qemu-aarch64', root: '/usr/aarch64-linux-gnu' },
  { name: 'ppc64le', gcc: 'powerpc64le-linux-gnu-gcc', qemu: 'qemu-ppc64le', root: '/usr/powerpc64le-linux-gnu' },
  { name: 'x86-64', gcc: 'gcc', qemu: 'qemu-x86_64', root: '/' },
  { name: 'ppc32', gcc: 'powerpc-linux-gnu-gcc', qemu: 'qemu-ppc', root: '/usr/powerpc-linux-gnu' },
  { name: 'ppc64-elfv1', gcc: 'powerpc64-linux-gnu-gcc', qemu: 'qemu-ppc64', root: '/usr/powerpc64-linux-gnu' },
];
