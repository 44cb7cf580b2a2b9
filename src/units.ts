/**
 * Units that cannot be mixed by accident: addresses are bigint, positions in a file are number.
 * Types only.
 */

/**
 * Virtual address, bytes. 32-bit targets keep the upper 32 bits zero. In a relocatable file: offset
 * in a section.
 */
export type Address = bigint;
/** Position in a Uint8Array, bytes. */
export type FileOffset = number;
export type RegisterName = string;
export type Endian = 'little' | 'big';
